/** The keys of received dicts: which are allowed, and each only once. */

import { ProtocolError } from "./errors.js";
import { Tuple } from "./scalars.js";
import { shown } from "./text.js";
import { Members } from "./trees.js";

const TAGS = new Set(["int", "float", "str", "bytes", "ns"]);

/** The keys of one dict, in their order. */
export class Keys {
  #words = new Set();

  constructor() {
    /** @type {unknown[]} */
    this.all = [];
    this.areStrings = true;
  }

  /** Add a key, which must be new. */
  add(key) {
    const word = wordOf(key);
    if (this.#words.has(word)) throw new ProtocolError(`a dict has the key ${shown(key)} twice`);
    this.#words.add(word);
    this.all.push(key);
    this.areStrings &&= typeof key === "string";
  }
}

/** Refuse a tree that stands for no key, before anything is made of it. */
export function checkKey(tree) {
  if (!mayBeKey(tree)) throw new ProtocolError(`a dict has an invalid key: ${shown(tree)}`);
}

function mayBeKey(tree) {
  if (Array.isArray(tree)) return false;
  if (!(tree instanceof Members)) return true;
  const tag = tree.get("$t");
  if (tag !== "tuple") return TAGS.has(tag);
  const items = tree.get("v");
  return Array.isArray(items) && items.every(mayBeKey);
}

/** A string that two keys share if they are equal in Python, where true equals 1. */
function wordOf(key) {
  if (typeof key === "boolean") return `n${Number(key)}`;
  if (typeof key === "number" || typeof key === "bigint") return `n${key}`;
  if (key instanceof Tuple) return `(${key.map((each) => JSON.stringify(wordOf(each)))})`;
  if (ArrayBuffer.isView(key)) return `b${Array.from(key)}`;
  return typeof key === "string" ? `s${key}` : `o${String(key)}`;
}
