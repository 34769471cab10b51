/** The body of an answer while it arrives. */

import { ProtocolError } from "./errors.js";

/** Collects the parts of a body, and refuses more of it than there may be. */
export class ArrivingBody {
  #parts = [];
  #size = 0;

  /**
   * @param {number} limit Bytes that it may have.
   * @param {string} url The URL of its request.
   * @param {number} status Of the answer.
   */
  constructor(limit, url, status) {
    Object.assign(this, { limit, url, status });
  }

  /** Check the announced number of bytes, NaN if unknown. */
  expect(announced) {
    if (announced > this.limit) {
      const { limit, url, status } = this;
      throw new ProtocolError(`the answer of ${url} has more than ${limit} bytes`, { url, status });
    }
  }

  /** @param {Uint8Array} part */
  add(part) {
    this.#parts.push(part);
    this.#size += part.length;
    this.expect(this.#size);
  }

  /** @returns {Uint8Array} */
  whole() {
    if (this.#parts.length === 1) return this.#parts[0];
    const bytes = new Uint8Array(this.#size);
    let at = 0;
    for (const part of this.#parts) {
      bytes.set(part, at);
      at += part.length;
    }
    return bytes;
  }
}
