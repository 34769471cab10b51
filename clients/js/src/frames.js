/**
 * Frames: the messages of a stream.
 *
 *     0      4 size of the body
 *     4      4 size of the head, a multiple of 8
 *     8      2 an answer's status; in a request 1 if all earlier answers have arrived
 *     10     1 a request's operation; 0 in an answer
 *     11     1 form of the body; in a request, plus 16 times the form for the answer
 *     12     4 number
 *     16       the head: JSON, padded with blanks; then the body
 */

import { ProtocolError } from "./errors.js";
import { parse } from "./json.js";
import { stringify } from "./json_writer.js";
import { readUtf8, writeText } from "./text.js";

export const HEADER_SIZE = 16;
export const MAX_HEAD = 64 * 1024;

/** Forms of bodies. */
export const Form = Object.freeze({ NONE: 0, JSON: 1, TYPED: 2, BINARY: 3 });

/** Operations of requests. */
export const Op = Object.freeze({
  ...{ ANSWER: 0, RESET: 1, STEP: 2, RENDER: 3, ROLLOUT: 18 },
  ...{ ACT: 19, UPDATES: 20, REALTIME: 21, SET_REALTIME: 22, PAUSE: 23, RESUME: 24, TRACE: 25 },
});

const EMPTY = new Uint8Array(0);

/**
 * Write a frame.
 *
 * @param {object} frame
 * @returns {Uint8Array}
 */
export function encodeFrame(frame) {
  const { status = 0, operation, form, answerForm = 0, number, head = null, body = EMPTY } = frame;
  const words = head === null ? EMPTY : writeText(stringify(head));
  const size = words.length + (-words.length & 7);
  const bytes = new Uint8Array(HEADER_SIZE + size + body.length);
  const view = new DataView(bytes.buffer);
  view.setUint32(0, body.length, true);
  view.setUint32(4, size, true);
  view.setUint16(8, status, true);
  bytes[10] = operation;
  bytes[11] = form | (answerForm << 4);
  view.setUint32(12, number, true);
  bytes.fill(0x20, HEADER_SIZE, HEADER_SIZE + size).set(words, HEADER_SIZE);
  bytes.set(body, HEADER_SIZE + size);
  return bytes;
}

/**
 * Decode a frame, which must be the whole message.
 *
 * @param {Uint8Array} bytes
 * @throws {ProtocolError} The message is malformed.
 */
export function decodeFrame(bytes) {
  if (bytes.length < HEADER_SIZE) throw new ProtocolError(`a message has only ${bytes.length} bytes`);
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const size = view.getUint32(4, true);
  if (size > MAX_HEAD || size % 8) throw new ProtocolError(`a head of ${size} bytes is announced`);
  const start = HEADER_SIZE + size;
  if (start + view.getUint32(0, true) !== bytes.length) {
    throw new ProtocolError(`a message of ${bytes.length} bytes announces others`);
  }
  return {
    status: view.getUint16(8, true),
    operation: bytes[10],
    form: bytes[11] & 15,
    answerForm: bytes[11] >> 4,
    number: view.getUint32(12, true),
    head: size ? headOf(bytes.subarray(HEADER_SIZE, start)) : null,
    body: bytes.subarray(start),
  };
}

function headOf(bytes) {
  const head = parse(readUtf8(bytes));
  if (typeof head !== "object" || head === null || Array.isArray(head)) {
    throw new ProtocolError("the head of a message is no object");
  }
  return head;
}
