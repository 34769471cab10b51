/** The common part of both lossless decoders: depth, integers, spaces, modes. */

import { ProtocolError } from "./errors.js";
import { MAX_DIGITS, narrow } from "./json.js";
import { AutoresetMode } from "./scalars.js";
import { spaceOf } from "./spaces/index.js";
import { shown } from "./text.js";

/** How deep lists, tuples, dicts and the like may be nested in a value. */
export const MAX_LEVELS = 64;

/** Maximum depth of its JSON: a level of a value has up to three there. */
export const TREE_DEPTH = 256;

const DECIMAL = /^-?[0-9]+$/;

/** A JSON object while a value is made of it. */
export class Members extends Map {
  // An error prints it in this form.
  toJSON() {
    return Object.fromEntries(this);
  }
}

/** Refuse a list, tuple, dict or the like that is too deep. */
export function checkDepth(depth) {
  if (depth > MAX_LEVELS) {
    throw new ProtocolError(`a value is nested deeper than ${MAX_LEVELS} levels`);
  }
}

/** Read an integer of many digits. */
export function readDecimal(text) {
  if (
    typeof text !== "string" ||
    !DECIMAL.test(text) ||
    text.replace("-", "").length > MAX_DIGITS
  ) {
    throw new ProtocolError(`this is no integer of at most ${MAX_DIGITS} digits: ${shown(text)}`);
  }
  return narrow(BigInt(text));
}

/** Make the space of a description in a message. */
export function readSpace(tree) {
  return spaceOf(plainTree(tree));
}

function plainTree(tree) {
  if (Array.isArray(tree)) return tree.map(plainTree);
  if (!(tree instanceof Members)) return tree;
  return Object.fromEntries(Array.from(tree, ([key, each]) => [key, plainTree(each)]));
}

/** Find the mode of autoreset that a message names. */
export function readMode(name) {
  const mode = AutoresetMode.of(name);
  if (!mode) throw new ProtocolError(`this is no mode of autoreset: ${shown(name)}`);
  return mode;
}
