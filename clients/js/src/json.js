/**
 * JSON without loss: `JSON.parse` rounds 2^53+1, and accepts duplicate keys.
 *
 * Integers beyond 2^53 are read as BigInt. Objects are read as plain objects, or as a
 * `Map` if a plain object would not keep the order of the members.
 */

import { ProtocolError } from "./errors.js";

/** How deep arrays and objects may be nested. */
export const MAX_DEPTH = 128;

/** Decimal digits that an integer may have. */
export const MAX_DIGITS = 4300;

const NUMBER = /-?(?:0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?/y;
const BLANKS = /[ \t\n\r]*/y;
// eslint-disable-next-line no-control-regex
const PLAIN = /[^"\\\u0000-\u001f]*/y;
const HEX = /[0-9a-fA-F]{4}/y;
const INDEX = /^(?:0|[1-9][0-9]{0,9})$/;
const ESCAPES = { b: "\b", f: "\f", n: "\n", r: "\r", t: "\t", '"': '"', "\\": "\\", "/": "/" };
const WORDS = { t: ["true", true], f: ["false", false], n: ["null", null] };
const EXACT = 2n ** 53n;

/**
 * Read JSON.
 *
 * @param {string} text
 * @param {object} [how]
 * @param {number} [how.maxDepth]
 * @param {(members: Map<string, unknown>) => unknown} [how.object] Converts an object's
 *   members to a value.
 * @throws {ProtocolError} The text is not JSON, or an object has a duplicate key.
 */
export function parse(text, { maxDepth = MAX_DEPTH, object = objectOf } = {}) {
  return new Reader(text, maxDepth, object).whole();
}

/** Make a plain object of members, or leave them a Map if it could not keep their order. */
export function objectOf(members) {
  let last = -1;
  let plain = 0;
  for (const key of members.keys()) {
    // JavaScript sorts such keys first in objects, by number.
    if (INDEX.test(key)) {
      if (plain || Number(key) <= last) return members;
      last = Number(key);
    } else {
      plain++;
    }
  }
  const made = {};
  for (const [key, value] of members) setMember(made, key, value);
  return made;
}

/** Set a member of a plain object, with any name. */
export function setMember(object, key, value) {
  if (key === "__proto__") {
    const own = { value, writable: true, enumerable: true, configurable: true };
    Object.defineProperty(object, key, own);
  } else {
    object[key] = value;
  }
}

/** Make a number of an integer, if it is no larger than 2^53, else leave it. */
export function narrow(integer) {
  return integer <= EXACT && integer >= -EXACT ? Number(integer) : integer;
}

class Reader {
  constructor(text, maxDepth, object) {
    this.text = text;
    this.at = 0;
    this.maxDepth = maxDepth;
    this.object = object;
  }

  whole() {
    this.blanks();
    const value = this.value(1);
    this.blanks();
    if (this.at !== this.text.length) this.refuse("something follows it");
    return value;
  }

  value(depth) {
    const first = this.text[this.at];
    if (first === "{") return this.members(depth);
    if (first === "[") return this.items(depth);
    if (first === '"') return this.string();
    const word = WORDS[first];
    if (word === undefined) return this.number();
    if (!this.text.startsWith(word[0], this.at)) this.refuse("this is not a JSON literal");
    this.at += word[0].length;
    return word[1];
  }

  members(depth) {
    const members = new Map();
    let more = this.open(depth, "}");
    while (more) {
      if (this.text[this.at] !== '"') this.refuse("a key is no string");
      const key = this.string();
      if (members.has(key)) this.refuse(`the key ${JSON.stringify(key)} is there twice`);
      this.blanks();
      if (this.text[this.at++] !== ":") this.refuse("a colon is missing");
      this.blanks();
      members.set(key, this.value(depth + 1));
      more = this.next("}");
    }
    return this.object(members);
  }

  items(depth) {
    const items = [];
    let more = this.open(depth, "]");
    while (more) {
      items.push(this.value(depth + 1));
      more = this.next("]");
    }
    return items;
  }

  open(depth, end) {
    if (depth > this.maxDepth) this.refuse(`it is deeper than ${this.maxDepth} levels`);
    this.at++;
    this.blanks();
    if (this.text[this.at] !== end) return true;
    this.at++;
    return false;
  }

  next(end) {
    this.blanks();
    const mark = this.text[this.at++];
    if (mark === end) return false;
    if (mark !== ",") this.refuse("a comma is missing");
    this.blanks();
    return true;
  }

  string() {
    let text = "";
    this.at++;
    for (;;) {
      text += this.match(PLAIN)[0];
      const mark = this.text[this.at++];
      if (mark === '"') return text;
      if (mark !== "\\") this.refuse("a string does not end, or has a control character");
      text += this.escaped(this.text[this.at++]);
    }
  }

  escaped(letter) {
    if (letter !== "u") {
      return ESCAPES[letter] ?? this.refuse("an escape is unknown");
    }
    const digits = this.match(HEX) ?? this.refuse("an escape needs four hex digits");
    return String.fromCharCode(parseInt(digits[0], 16));
  }

  number() {
    const match = this.match(NUMBER);
    if (!match) this.refuse("that begins no value");
    const [text, fraction, exponent] = match;
    const number = Number(text);
    if (fraction || exponent) {
      if (!Number.isFinite(number)) this.refuse("a number is beyond all floats");
      return number;
    }
    if (Number.isSafeInteger(number)) return number || 0;
    if (text.length > MAX_DIGITS) this.refuse(`an integer has over ${MAX_DIGITS} digits`);
    return narrow(BigInt(text));
  }

  blanks() {
    this.match(BLANKS);
  }

  match(pattern) {
    pattern.lastIndex = this.at;
    const match = pattern.exec(this.text);
    if (match) this.at += match[0].length;
    return match;
  }

  refuse(why) {
    throw new ProtocolError(`this is not JSON, ${why} (at character ${this.at})`);
  }
}
