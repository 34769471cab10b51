/** The types of arrays' elements: their names, sizes, and the arrays that hold them. */

import { ProtocolError } from "./errors.js";
import { readHalves, writeHalves } from "./float16.js";
import { shown } from "./text.js";

const MAX_AXES = 32;
const MAX_AXIS = 2 ** 31 - 1;
const MAX_TEXT_BYTES = 2 ** 20;
const NUMBER_SIZES = { b: [1], i: [1, 2, 4, 8], u: [1, 2, 4, 8], f: [2, 4, 8, 16], c: [8, 16] };
const WIRE =
  /^([<>|])(?:([biufc])([1-9][0-9]?)|([SU])(0|[1-9][0-9]{0,6})|[mM]8(\[([1-9][0-9]{0,9})?(?:Y|M|W|D|h|m|s|ms|us|ns|ps|fs|as)\])?)$/;

/**
 * One type of elements.
 *
 * @typedef {object} DType
 * @property {string} name As "float32"; as on the wire where NumPy has no such name.
 * @property {string} wire As NumPy's `dtype.str`: "<f4".
 * @property {string} kind "b", "i", "u", "f" or one of NumPy's others.
 * @property {number} size Bytes of an element.
 * @property {Function | null} array The typed array that holds such elements; null if
 *   only their bytes can be held.
 */

/** @type {Map<string, DType>} By either name. */
const known = new Map();

function define(name, wire, array) {
  const dtype = Object.freeze({ name, wire, kind: wire[1], size: Number(wire[2]), array });
  known.set(name, dtype).set(wire, dtype);
}

define("bool", "|b1", Uint8Array);
define("int8", "|i1", Int8Array);
define("int16", "<i2", Int16Array);
define("int32", "<i4", Int32Array);
define("int64", "<i8", BigInt64Array);
define("uint8", "|u1", Uint8Array);
define("uint16", "<u2", Uint16Array);
define("uint32", "<u4", Uint32Array);
define("uint64", "<u8", BigUint64Array);
define("float16", "<f2", Float32Array);
define("float32", "<f4", Float32Array);
define("float64", "<f8", Float64Array);

/** Find a type by either of its names; undefined if unknown. */
export function dtypeNamed(name) {
  return known.get(name) ?? (typeof name === "string" ? odd(name) : undefined);
}

/** Find the type that a message names. */
export function readDtype(name) {
  const dtype = typeof name === "string" && known.get(name);
  // On the wire each type has one name.
  if (dtype && dtype.wire === name) return dtype;
  const found = !dtype && typeof name === "string" ? odd(name) : undefined;
  if (!found) throw new ProtocolError(`a dtype is unknown: ${shown(name)}`);
  return found;
}

function odd(wire) {
  const match = WIRE.exec(wire);
  if (!match) return undefined;
  const [, order, number, bytes, text, length, , step] = match;
  let size = 8;
  let kind = wire[1];
  if (number) {
    size = Number(bytes);
    if (!NUMBER_SIZES[number].includes(size) || (size === 1) !== (order === "|")) return undefined;
  } else if (text) {
    size = Number(length) * (text === "U" ? 4 : 1);
    if ((text === "S") !== (order === "|") || size > MAX_TEXT_BYTES) return undefined;
  } else if (order === "|" || (step && (step === "1" || Number(step) > MAX_AXIS))) {
    return undefined;
  }
  return { name: wire, wire, kind, size, array: null };
}

/**
 * Read a shape.
 *
 * @returns {number} How many elements it has.
 */
export function countOf(sizes, itemSize) {
  if (!Array.isArray(sizes) || sizes.length > MAX_AXES) {
    throw new ProtocolError(`a shape is no list of at most ${MAX_AXES} sizes: ${shown(sizes)}`);
  }
  let count = 1;
  let reach = itemSize;
  for (const size of sizes) {
    if (!Number.isInteger(size) || size < 0 || size > MAX_AXIS) {
      throw new ProtocolError(`a shape has an invalid size: ${shown(sizes)}`);
    }
    count *= size;
    reach *= Math.max(size, 1);
  }
  if (!itemSize || reach >= 2 ** 63) throw new ProtocolError(`a shape is impossible: ${shown(sizes)}`);
  return count;
}

/** Decode bytes as elements: over the same memory if possible. */
export function elementsOf(dtype, bytes) {
  if (dtype.name === "float16") return readHalves(bytes);
  if (dtype.array === null || dtype.array === Uint8Array) return checked(dtype, bytes);
  const { buffer, byteOffset, byteLength } = bytes;
  if (byteOffset % dtype.size === 0) {
    return new dtype.array(buffer, byteOffset, byteLength / dtype.size);
  }
  return new dtype.array(buffer.slice(byteOffset, byteOffset + byteLength));
}

function checked(dtype, bytes) {
  if (dtype.kind === "b" && bytes.some((byte) => byte > 1)) {
    throw new ProtocolError("a boolean is neither true (1) nor false (0)");
  }
  if (dtype.kind === "U") checkCharacters(dtype, bytes);
  return bytes;
}

function checkCharacters(dtype, bytes) {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  for (let at = 0; at < bytes.byteLength; at += 4) {
    if (view.getUint32(at, dtype.wire[0] === "<") > 0x10ffff) {
      throw new ProtocolError("a text holds characters that there are not");
    }
  }
}

/** Encode elements as bytes, as on the wire. */
export function bytesOf(dtype, elements) {
  if (dtype.name === "float16") return writeHalves(elements);
  if (dtype.kind === "b") return Uint8Array.from(elements, (each) => (each ? 1 : 0));
  return new Uint8Array(elements.buffer, elements.byteOffset, elements.byteLength);
}

/** Whether NumPy casts one type of numbers to another without loss. */
export function canCast(from, to) {
  if (from.wire === to.wire || from.kind === "b") return true;
  if (!"iuf".includes(from.kind) || !"iuf".includes(to.kind)) return false;
  if (from.kind === to.kind) return from.size <= to.size;
  if (from.kind === "f") return false;
  if (to.kind === "f") return to.size > from.size || to.size === 8;
  return from.kind === "u" && from.size < to.size;
}
