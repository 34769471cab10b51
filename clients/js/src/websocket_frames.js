/** WebSocket (RFC 6455) without I/O: a client's frames written, a server's read. */

import { ProtocolError } from "./errors.js";

export const Opcode = Object.freeze({ CONTINUATION: 0, TEXT: 1, BINARY: 2, CLOSE: 8, PING: 9, PONG: 10 });

const MAX_CONTROL = 125;
const FIN = 0x80;
const MASKED = 0x80;

/**
 * Write a frame.
 *
 * @param {number} opcode
 * @param {Uint8Array} payload
 * @param {Uint8Array | null} mask Four random bytes, which a client's frames need.
 * @returns {Uint8Array}
 */
export function encodeMessage(opcode, payload, mask, fin = true) {
  const { length } = payload;
  const extra = length < 126 ? 0 : length < 65536 ? 2 : 8;
  const start = 2 + extra + (mask ? 4 : 0);
  const bytes = new Uint8Array(start + length);
  bytes[0] = (fin ? FIN : 0) | opcode;
  bytes[1] = (mask ? MASKED : 0) | (extra === 0 ? length : extra === 2 ? 126 : 127);
  const view = new DataView(bytes.buffer);
  if (extra === 2) view.setUint16(2, length);
  if (extra === 8) view.setBigUint64(2, BigInt(length));
  if (!mask) {
    bytes.set(payload, start);
    return bytes;
  }
  bytes.set(mask, start - 4);
  for (let i = 0; i < length; i++) bytes[start + i] = payload[i] ^ mask[i & 3];
  return bytes;
}

/** Parses the bytes of one connection into messages. */
export class MessageReader {
  #head = new Uint8Array(10);
  #headSize = 0;
  #payload = null;
  #filled = 0;
  #first = 0;
  #parts = [];
  #partsSize = 0;
  #opcode = 0;

  /**
   * @param {number} maxMessage Bytes that a message may have.
   * @param {(opcode: number, payload: Uint8Array) => void} onMessage
   */
  constructor(maxMessage, onMessage) {
    this.maxMessage = maxMessage;
    this.onMessage = onMessage;
    this.closed = false;
  }

  /**
   * Parse bytes. Payloads begin at new memory, so that typed arrays can view their numbers
   * in place.
   *
   * @throws {ProtocolError} They violate the protocol.
   */
  feed(bytes) {
    let at = 0;
    while (at < bytes.length && !this.closed) {
      at = this.#payload === null ? this.#takeHead(bytes, at) : this.#takePayload(bytes, at);
    }
  }

  #takeHead(bytes, at) {
    this.#head[this.#headSize++] = bytes[at];
    if (this.#headSize < 2) return at + 1;
    const short = this.#head[1] & 127;
    if (this.#head[1] & MASKED) throw new ProtocolError("a frame of the server is masked");
    const size = short < 126 ? 2 : short === 126 ? 4 : 10;
    if (this.#headSize < size) return at + 1;
    this.#begin(short < 126 ? short : this.#length(size));
    return at + 1;
  }

  #length(size) {
    const view = new DataView(this.#head.buffer);
    const length = size === 4 ? view.getUint16(2) : view.getUint32(2) * 2 ** 32 + view.getUint32(6);
    if (length < (size === 4 ? 126 : 65536)) throw new ProtocolError("a length is not the shortest");
    return length;
  }

  #begin(length) {
    this.#first = this.#head[0];
    this.#headSize = 0;
    this.#check(length);
    this.#payload = new Uint8Array(length);
    this.#filled = 0;
    if (!length) this.#end();
  }

  #check(length) {
    const opcode = this.#first & 15;
    if (this.#first & 0x70) throw new ProtocolError("a reserved bit is set");
    if (opcode >= 8) {
      if (opcode > 10) throw new ProtocolError(`opcode ${opcode} is unknown`);
      if (length > MAX_CONTROL || !(this.#first & FIN)) {
        throw new ProtocolError("a control frame is too long or in fragments");
      }
      return;
    }
    if (opcode > 2) throw new ProtocolError(`opcode ${opcode} is unknown`);
    if (Boolean(opcode) === Boolean(this.#opcode)) {
      throw new ProtocolError("a message begins within another, or goes on without one");
    }
    if (this.#partsSize + length > this.maxMessage) {
      throw new ProtocolError(`a message has more than ${this.maxMessage} bytes`);
    }
  }

  #takePayload(bytes, at) {
    const part = bytes.subarray(at, at + this.#payload.length - this.#filled);
    this.#payload.set(part, this.#filled);
    this.#filled += part.length;
    if (this.#filled === this.#payload.length) this.#end();
    return at + part.length;
  }

  #end() {
    const payload = this.#payload;
    const opcode = this.#first & 15;
    this.#payload = null;
    if (opcode >= 8) {
      this.closed = opcode === Opcode.CLOSE;
      if (this.closed) closeOf(payload);
      this.onMessage(opcode, payload);
    } else if (this.#first & FIN && opcode) {
      this.#whole(opcode, payload);
    } else {
      this.#fragment(opcode, payload);
    }
  }

  #fragment(opcode, payload) {
    this.#parts.push(payload);
    this.#partsSize += payload.length;
    this.#opcode ||= opcode;
    if (!(this.#first & FIN)) return;
    const whole = new Uint8Array(this.#partsSize);
    let at = 0;
    for (const part of this.#parts) {
      whole.set(part, at);
      at += part.length;
    }
    const of = this.#opcode;
    [this.#parts, this.#partsSize, this.#opcode] = [[], 0, 0];
    this.#whole(of, whole);
  }

  #whole(opcode, payload) {
    if (opcode === Opcode.TEXT) readReason(payload);
    this.onMessage(opcode, payload);
  }
}

/** Parse the payload of a close frame: its status, 1005 if missing, and its reason. */
export function closeOf(payload) {
  if (!payload.length) return { code: 1005, reason: "" };
  const code = payload.length > 1 ? payload[0] * 256 + payload[1] : 0;
  const known = code >= 1000 && code <= 1014 && ![1004, 1005, 1006].includes(code);
  if (!known && !(code >= 3000 && code < 5000)) throw new ProtocolError(`a close has the status ${code}`);
  return { code, reason: readReason(payload.subarray(2)) };
}

const utf8 = new TextDecoder("utf-8", { fatal: true });

function readReason(bytes) {
  try {
    return utf8.decode(bytes);
  } catch {
    throw new ProtocolError("a text is no UTF-8");
  }
}
