/** The driver's checks of each case of the vectors. */

import { ProtocolError, decodeBinary, decodeTyped, encodeBinary, encodeTyped, spaceOf } from "../src/index.js";
import { errorOf } from "../src/answers.js";
import { Deadline } from "../src/deadlines.js";
import { decodeFrame, encodeFrame } from "../src/frames.js";
import { parse } from "../src/json.js";
import { stringify } from "../src/json_writer.js";
import { acceptOf } from "../src/node_upgrade.js";
import { plainTree } from "../src/plain.js";
import { Tries } from "../src/retries.js";
import { Announced } from "../src/signatures.js";
import { readUtf8, writeText } from "../src/text.js";
import { MessageReader, encodeMessage } from "../src/websocket_frames.js";
import { build, hex, matches, sameJson, shown, unhex } from "./models.mjs";
import { playTranscript } from "./playing.mjs";

const SAMPLES = 20;
const MAX_MESSAGE = 2 ** 28;
const URL_OF_ERRORS = "http://127.0.0.1:5000/v1/envs/";

/** A problem, unless two texts are the same. */
function differing(expected, actual) {
  return expected === actual ? null : `expected ${cut(expected)}, actual ${cut(actual)}`;
}

function cut(text) {
  return String(text).slice(0, 300);
}

function unlike(model, value) {
  return matches(model, value) ? null : `expected ${cut(JSON.stringify(model))}, actual ${cut(shown(value))}`;
}

function refused(decode) {
  try {
    return `expected a refusal, actual ${cut(shown(decode()))}`;
  } catch (error) {
    return error instanceof ProtocolError ? null : `expected a ProtocolError, actual ${error}`;
  }
}

/** JSON as a text that shows all: its members' order, and its numbers' bits. */
function canonical(text) {
  return text
    .replace(/"(?:[^"\\]|\\.)*"/g, (quoted) => JSON.stringify(JSON.parse(quoted)))
    .replace(/("(?:[^"\\]|\\.)*")|(-?[0-9][0-9.eE+-]*)/g, (_, quoted, number) => quoted ?? canonicalNumber(number));
}

function canonicalNumber(text) {
  return /[.eE]/.test(text) ? `float(${Object.is(Number(text), -0) ? "-0" : Number(text)})` : text;
}

const CHECKS = {
  "values.json": ({ value, typed, binary, decode_only: decodeOnly }) => {
    const checks = [];
    if (typed !== null) checks.push(() => unlike(value, decodeTyped(typed)));
    if (binary !== null) checks.push(() => unlike(value, decodeBinary(unhex(binary))));
    if (decodeOnly) return checks;
    if (typed !== null) checks.push(() => differing(canonical(typed), canonical(encodeTyped(build(value)))));
    if (binary !== null) checks.push(() => differing(binary, hex(encodeBinary(build(value)))));
    return checks;
  },

  "numbers.json": ({ text, value, refused: isRefused }) =>
    isRefused
      ? [() => refused(() => parse(text))]
      : [() => unlike(value, parse(text)), () => unlike(value, parse(stringify(build(value))))],

  "spaces.json": ({ space, samples = SAMPLES, refused: isRefused }) =>
    isRefused
      ? [() => refused(() => spaceOf(space))]
      : [() => describedAs(space), () => samplesOf(spaceOf(space), samples)],

  "elements.json": ({ space: data, value, plain, member }) => {
    const space = spaceOf(data);
    const checks = [() => differing(member, space.contains(build(value)))];
    if ((plain ?? null) === null) return checks;
    // Numbers are compared after the space has cast them.
    checks.push(() => unlike(value, space.fromPlain(parse(plain))));
    checks.push(() => unlike(value, space.fromPlain(parse(stringify(plainTree(build(value)))))));
    return checks;
  },

  "frames.json": ({ hex: raw, frame, refused: isRefused }) => {
    if (isRefused) return [() => refused(() => decodeFrame(unhex(raw)))];
    const { answer_form: answerForm, body, ...rest } = frame;
    return [
      () => sameFrame(frame, decodeFrame(unhex(raw))),
      () => differing(raw, hex(encodeFrame({ ...rest, answerForm, body: unhex(body) }))),
    ];
  },

  "signatures.json": ({ messages }) => {
    const announced = new Announced();
    return messages.map(({ body, value, refused: isRefused }) => {
      const read = () => announced.read(unhex(body));
      return isRefused ? () => refused(read) : () => unlike(value, read());
    });
  },

  "malformed.json": ({ form, text, hex: raw }) => {
    const bytes = raw === undefined ? writeText(text) : unhex(raw);
    return [() => refused(() => (form === "typed" ? decodeTyped(readUtf8(bytes)) : decodeBinary(bytes)))];
  },

  "errors.json": ({ status, headers, body, expected, creates, retried, traceback = null }) => {
    const answer = { status, headers: new Headers(headers), body: writeText(body) };
    return [
      () => compareError(expected, errorOf(answer, URL_OF_ERRORS)),
      () => differing(traceback, errorOf(answer, URL_OF_ERRORS).traceback),
      async () => differing(retried, await isRetried(answer, creates)),
    ];
  },

  "websocket.json": (vector) => {
    if (vector.accept !== undefined) return [() => differing(vector.accept, acceptOf(vector.key))];
    if (vector.refused) return [() => refused(() => messagesOf(unhex(vector.from_server)))];
    if (vector.from_server !== undefined) {
      return [() => differing(listed(vector.messages), listed(messagesOf(unhex(vector.from_server))))];
    }
    return [() => websocketFrame(vector)];
  },

  "transcripts.json": (vector, url) =>
    url === undefined ? [] : ["rest", "stream"].map((transport) => () => playTranscript(vector, url, transport)),
};

export const FILES = Object.keys(CHECKS).sort();

/** The checks of a case, each a function that returns a problem or null. */
export function checksOf(name, vector, url) {
  return CHECKS[name](vector, url);
}

function describedAs(data) {
  const actual = JSON.parse(stringify(spaceOf(data).toJSON()));
  return sameJson(data, actual) ? null : `expected ${cut(JSON.stringify(data))}, actual ${cut(JSON.stringify(actual))}`;
}

function samplesOf(space, count) {
  const random = seeded(1);
  for (let i = 0; i < count; i++) {
    const sample = space.sample(random);
    if (!space.contains(sample)) return `expected an element, actual ${cut(shown(sample))}`;
  }
  return null;
}

/** A generator of numbers from 0 to 1: mulberry32. */
function seeded(state) {
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}

function sameFrame(expected, { answerForm, body, head, ...rest }) {
  const actual = { ...rest, head: JSON.parse(stringify(head)), answer_form: answerForm, body: hex(body) };
  return sameJson(expected, actual) ? null : `expected ${JSON.stringify(expected)}, actual ${JSON.stringify(actual)}`;
}

function compareError(expected, error) {
  const { kind, status, code } = error;
  const message = kind === "api" ? error.message : null;
  return sameJson(expected, { kind, status, code, message })
    ? null
    : `expected ${JSON.stringify(expected)}, actual ${JSON.stringify({ kind, status, code, message })}`;
}

async function isRetried(answer, creates) {
  const deadline = new Deadline(Infinity);
  deadline.sleep = async () => {};
  try {
    return await new Tries(deadline, true, creates).again(answer);
  } finally {
    deadline.done();
  }
}

function messagesOf(raw) {
  const messages = [];
  const reader = new MessageReader(MAX_MESSAGE, (opcode, payload) => messages.push({ opcode, payload: hex(payload) }));
  reader.feed(raw);
  return messages;
}

function listed(messages) {
  return JSON.stringify(messages.map(({ opcode, payload }) => [opcode, payload]));
}

function websocketFrame({ mask, fin, opcode, payload, payload_repeat: repeat, hex: whole, hex_prefix: prefix }) {
  const body = payload === undefined ? new Uint8Array(repeat.count).fill(repeat.byte) : unhex(payload);
  if (mask !== null) {
    const written = hex(encodeMessage(opcode, body, unhex(mask), fin));
    return whole === undefined ? differing(prefix, written.slice(0, prefix.length)) : differing(whole, written);
  }
  let raw = whole ?? prefix;
  if (whole === undefined) raw = prefix.slice(0, body.length < 65536 ? 8 : 20) + hex(body);
  if (!fin) raw += "8000";
  return differing(listed([{ opcode, payload: hex(body) }]), listed(messagesOf(unhex(raw))));
}
