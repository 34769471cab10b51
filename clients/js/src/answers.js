/** Answers: decode a value, or make an error. */

import { decodeBinary } from "./binary_reader.js";
import { ApiError, GymHttpError, ProtocolError } from "./errors.js";
import { parse } from "./json.js";
import { readUtf8 } from "./text.js";
import { decodeTyped } from "./typed_reader.js";

export const BINARY = "application/vnd.gym-http.binary";
export const TYPED = "application/vnd.gym-http.typed+json";
export const JSON_TYPE = "application/json";

/**
 * Make the error that an answer contains.
 *
 * @param {{ status: number, headers: Headers, body: Uint8Array }} answer
 * @param {string} url Where the request went.
 */
export function errorOf(answer, url) {
  const { status } = answer;
  const problem = problemIn(answer.body);
  if (problem && status >= 400) return apiError(problem, status, url);
  const where = answer.headers.get("location");
  const why = where ? `leads to ${where}` : "gives no reason";
  const words = `the answer of ${url}, with status ${status}, ${why}: is it a gym_http_server?`;
  return new ProtocolError(words, { status, url });
}

/** Make the error of a problem in JSON. */
export function apiError(problem, status, url) {
  const code = typeof problem.code === "string" ? problem.code : null;
  return new ApiError(problem.message, { status, code, url, body: problem });
}

/** Parse a problem; undefined if it is malformed. */
export function problemIn(body) {
  try {
    const reply = parse(readUtf8(body));
    return typeof reply?.message === "string" ? reply : undefined;
  } catch {
    return undefined;
  }
}

/** Read the JSON of an answer; null if it is empty. */
export function jsonOf(answer, url) {
  if (answer.status < 200 || answer.status > 299) throw errorOf(answer, url);
  if (!answer.body.length) return null;
  return within(answer, url, () => parse(readUtf8(answer.body)));
}

/** Read the value of an answer in typed JSON. */
export function typedOf(answer, url) {
  if (answer.status !== 200) throw errorOf(answer, url);
  return within(answer, url, () => decodeTyped(readUtf8(answer.body)));
}

/** Read the value of an answer in the binary form. */
export function valueOf(answer, url) {
  if (answer.status !== 200) throw errorOf(answer, url);
  const type = answer.headers.get("content-type");
  if (type !== BINARY) {
    const words = `the answer of ${url} is ${type ?? "of no type"}, not ${BINARY}: is it a gym_http_server?`;
    throw new ProtocolError(words, { status: answer.status, url });
  }
  return within(answer, url, () => decodeBinary(answer.body));
}

function within({ status }, url, read) {
  try {
    return read();
  } catch (error) {
    if (!(error instanceof GymHttpError)) throw error;
    const words = `the answer of ${url} cannot be read: ${error.message}`;
    throw new ProtocolError(words, { status, url, cause: error });
  }
}
