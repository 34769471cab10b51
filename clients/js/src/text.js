/** Bytes as text and back: UTF-8 with lone surrogates, base64, hex. */

import { ProtocolError } from "./errors.js";

const strict = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });
const encoder = new TextEncoder();
const LONE = /[\uD800-\uDBFF](?![\uDC00-\uDFFF])|(?<![\uD800-\uDBFF])[\uDC00-\uDFFF]/;
const PAIRS = 0x8000;

/** Whether a string has no lone surrogates. */
export function isUnicode(text) {
  return !LONE.test(text);
}

/** Read UTF-8 without lone surrogates. */
export function readUtf8(bytes) {
  try {
    return strict.decode(bytes);
  } catch {
    throw new ProtocolError("the received text is not UTF-8");
  }
}

/** Write UTF-8; lone surrogates become three bytes each. */
export function writeText(text) {
  if (isUnicode(text)) return encoder.encode(text);
  const parts = [];
  for (const character of text) {
    const code = character.codePointAt(0);
    if (code >= 0xd800 && code < 0xe000) {
      parts.push(0xe0 | (code >> 12), 0x80 | ((code >> 6) & 63), 0x80 | (code & 63));
    } else {
      parts.push(...encoder.encode(character));
    }
  }
  return Uint8Array.from(parts);
}

/** Read UTF-8 that may have lone surrogates. */
export function readText(bytes) {
  try {
    return strict.decode(bytes);
  } catch {
    return readSurrogates(bytes);
  }
}

function readSurrogates(bytes) {
  let text = "";
  let from = 0;
  for (let at = 0; at + 2 < bytes.length; at++) {
    if (bytes[at] !== 0xed || bytes[at + 1] < 0xa0) continue;
    if (bytes[at + 1] > 0xbf || (bytes[at + 2] & 0xc0) !== 0x80) continue;
    const code = 0xd000 | ((bytes[at + 1] & 63) << 6) | (bytes[at + 2] & 63);
    text += readUtf8(bytes.subarray(from, at)) + String.fromCharCode(code);
    from = at + 3;
    at += 2;
  }
  return text + readUtf8(bytes.subarray(from));
}

/** Write bytes as base64. */
export function writeBase64(bytes) {
  let characters = "";
  for (let at = 0; at < bytes.length; at += PAIRS) {
    characters += String.fromCharCode(...bytes.subarray(at, at + PAIRS));
  }
  return btoa(characters);
}

/** Read base64 that is written in the one way in which these bytes can be. */
export function readBase64(text) {
  let bytes;
  try {
    if (typeof text !== "string") throw new TypeError();
    bytes = Uint8Array.from(atob(text), (character) => character.charCodeAt(0));
  } catch {
    throw new ProtocolError("bytes are not in base64");
  }
  if (writeBase64(bytes) !== text) {
    throw new ProtocolError("base64 is not as it is written, without further bits");
  }
  return bytes;
}

/** Write bytes as lower-case hex. */
export function writeHex(bytes) {
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
}

/** Show a value in an error, shortened. */
export function shown(value) {
  let text;
  try {
    text = JSON.stringify(value, (_, each) =>
      typeof each === "bigint" ? each.toString() : each,
    );
  } catch {
    text = undefined;
  }
  text ??= String(value);
  return text.length > 80 ? `${text.slice(0, 79)}…` : text;
}
