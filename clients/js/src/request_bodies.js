/** The bodies of requests: plain JSON if that represents all, otherwise the binary form. */

import { padded, split } from "./binary_writer.js";
import { Form } from "./frames.js";
import { stringify } from "./json_writer.js";
import { isPlain } from "./plain.js";
import { writeText } from "./text.js";

const MAX_NUMBERS = 255;
const MAX_NUMBERED = 16 * 1024;
const EMPTY = new Uint8Array(0);

/**
 * A body, the same to the byte however often it is sent.
 *
 * @typedef {object} Body
 * @property {number} form
 * @property {(numbers: Map<string, number>) => Uint8Array} onStream Called with the numbers
 *   of the signatures that were sent on the stream.
 * @property {() => Uint8Array} byRest
 */

/** A body of nothing. */
export const NOTHING = Object.freeze({
  form: Form.NONE,
  onStream: () => EMPTY,
  byRest: () => EMPTY,
});

/** Make the body of an object: exact values stay exact, the server casts all others. */
export function bodyOf(members) {
  return isPlain(members) ? new JsonBody(members) : new BinaryBody(members);
}

class JsonBody {
  form = Form.JSON;

  constructor(members) {
    this.bytes = writeText(stringify(members));
  }

  onStream() {
    return this.bytes;
  }

  byRest() {
    return this.bytes;
  }
}

/** A body in the binary form. */
export class BinaryBody {
  form = Form.BINARY;

  constructor(members) {
    const { signature, leaves } = split(members);
    this.signature = signature;
    this.leaves = leaves;
  }

  onStream(numbers) {
    const { signature } = this;
    const number = numbers.get(signature);
    if (number !== undefined) return this.#joined(0, number, EMPTY);
    const words = padded(signature);
    const next = numbers.size + 1;
    if (next > MAX_NUMBERS || words.length > MAX_NUMBERED) return this.#joined(words.length, 0, words);
    numbers.set(signature, next);
    return this.#joined(words.length, next, words);
  }

  byRest() {
    const words = padded(this.signature);
    return this.#joined(words.length, 0, words);
  }

  #joined(size, number, words) {
    const bytes = new Uint8Array(8 + size + this.leaves.length);
    const view = new DataView(bytes.buffer);
    view.setUint32(0, size, true);
    view.setUint32(4, number, true);
    bytes.set(words, 8);
    bytes.set(this.leaves, 8 + size);
    return bytes;
  }
}
