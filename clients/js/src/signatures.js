/**
 * Signatures by number: each is sent once on a stream.
 *
 *     size  number
 *     n     0       a signature of n bytes follows
 *     n     m       it follows, and is called m from now on
 *     0     m       it is the one called m
 */

import { compileReader } from "./binary_reader.js";
import { ProtocolError } from "./errors.js";

const MAX_NUMBERS = 255;
const MAX_BYTES = 16 * 1024;

/** The signatures that the other side of one stream has sent. */
export class Announced {
  #readers = new Map();

  /** Read a value in the binary form. */
  read(bytes) {
    if (bytes.length < 8) throw new ProtocolError(`a value has ${bytes.length} bytes, but 8 at least`);
    const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
    const size = view.getUint32(0, true);
    const number = view.getUint32(4, true);
    if (size % 8 || 8 + size > bytes.length) {
      throw new ProtocolError(`a value has a signature of an impossible size: ${size}`);
    }
    const read = size ? this.#announced(bytes.subarray(8, 8 + size), number) : this.#readers.get(number);
    if (!read) throw new ProtocolError(`signature ${number} was not sent on this stream`);
    return read(bytes, 8 + size);
  }

  #announced(signature, number) {
    const read = compileReader(signature);
    if (!number) return read;
    if (number > MAX_NUMBERS || this.#readers.has(number)) {
      throw new ProtocolError(`a signature is called ${number}, which is taken or over ${MAX_NUMBERS}`);
    }
    if (signature.length > MAX_BYTES) {
      throw new ProtocolError(`a signature of ${signature.length} bytes has a number; the limit is ${MAX_BYTES}`);
    }
    this.#readers.set(number, read);
    return read;
  }
}
