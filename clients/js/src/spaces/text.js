/** `Text`: strings of some characters. */

import { below } from "./draws.js";
import { Fields } from "./fields.js";
import { Space } from "./space.js";

const ALPHANUMERIC = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

/** Strings of a length between two, of characters (code points) of a set. */
export class Text extends Space {
  /** @param {object} description As `{max_length: 8, charset: "ab"}`. */
  constructor(description) {
    super();
    const fields = description instanceof Fields ? description : new Fields(description);
    this.minLength = fields.integer("min_length", "int64", 1);
    this.maxLength = fields.integer("max_length", "int64");
    this.charset = fields.text("charset", ALPHANUMERIC);
    this.characters = Array.from(this.charset);
    if (this.minLength < 0) fields.refuse("min_length", "an integer from 0 on");
    if (this.minLength > this.maxLength) fields.refuse("min_length", "no larger than max_length");
  }

  contains(value) {
    if (typeof value !== "string") return false;
    const characters = Array.from(value);
    const { length } = characters;
    if (length < this.minLength || length > this.maxLength) return false;
    const known = new Set(this.characters);
    return characters.every((each) => known.has(each));
  }

  sample(random = Math.random) {
    const room = BigInt(this.maxLength) - BigInt(this.minLength) + 1n;
    const length = Number(this.minLength) + Number(below(room, random));
    const draw = () => this.characters[below(this.characters.length, random)];
    return Array.from({ length }, draw).join("");
  }

  toJSON() {
    const [min_length, max_length] = [this.minLength, this.maxLength];
    return { type: "Text", min_length, max_length, charset: this.charset };
  }

  fromPlain(plain) {
    return plain;
  }
}
