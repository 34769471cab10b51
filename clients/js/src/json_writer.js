/** Numbers and trees as JSON text that reads back to the same bits. */

import { Float } from "./scalars.js";
import { isUnicode } from "./text.js";

const DIGITS = /^-?[0-9]+$/;

/**
 * Write JSON: integers without a point, `Float`s with a point or an exponent, BigInt in
 * full.
 *
 * @throws {TypeError} JSON cannot represent a part of it.
 */
export function stringify(tree) {
  switch (typeof tree) {
    case "string":
      return quoted(tree);
    case "number":
      return Number.isSafeInteger(tree) && !Object.is(tree, -0)
        ? String(tree)
        : floatText(tree);
    case "bigint":
      return tree.toString();
    case "boolean":
      return tree ? "true" : "false";
    case "object":
      return objectText(tree);
    default:
      throw new TypeError(`JSON cannot represent a ${typeof tree}`);
  }
}

/** Write a float: its shortest decimal, with a point or an exponent. */
export function floatText(number) {
  if (!Number.isFinite(number)) throw new TypeError(`JSON cannot represent ${number}`);
  const text = Object.is(number, -0) ? "-0" : String(number);
  return DIGITS.test(text) ? `${text}.0` : text;
}

/**
 * Return the members of an object or a Map, as pairs.
 *
 * @throws {TypeError} It has its content elsewhere, as a Set or a Date does.
 */
export function membersOf(value) {
  if (value instanceof Map) return [...value];
  const members = Object.entries(value);
  const kind = Object.getPrototypeOf(value)?.constructor?.name;
  if (!members.length && kind !== undefined && kind !== "Object") {
    throw new TypeError(`a ${kind} cannot be sent: expected an object with members, or an array`);
  }
  return members;
}

function objectText(tree) {
  if (tree === null) return "null";
  if (tree instanceof Float) return floatText(tree.value);
  if (Array.isArray(tree)) return `[${tree.map(stringify).join(",")}]`;
  const members = membersOf(tree);
  const parts = [];
  for (const [key, value] of members) {
    if (value !== undefined) parts.push(`${quoted(String(key))}:${stringify(value)}`);
  }
  return `{${parts.join(",")}}`;
}

function quoted(text) {
  if (!isUnicode(text)) throw new TypeError("JSON cannot represent lone surrogates");
  return JSON.stringify(text);
}
