/** `NdArray`: an array of any number of axes, flat in C order, over a typed array. */

import { bytesOf, countOf, dtypeNamed } from "./dtypes.js";
import { roundToHalf } from "./float16.js";
import { arrayText } from "./printing.js";

const TYPED = new Map([
  [Int8Array, "int8"],
  [Uint8Array, "uint8"],
  [Uint8ClampedArray, "uint8"],
  [Int16Array, "int16"],
  [Uint16Array, "uint16"],
  [Int32Array, "int32"],
  [Uint32Array, "uint32"],
  [BigInt64Array, "int64"],
  [BigUint64Array, "uint64"],
  [Float32Array, "float32"],
  [Float64Array, "float64"],
]);

/**
 * An array as NumPy has it.
 *
 * `data` holds the elements in C order: a typed array of the dtype, over the memory that
 * was received; for bool a Uint8Array of 0 and 1, for float16 a Float32Array; an Array
 * for the dtype "object"; for dtypes that JavaScript has no array of, such as "<U3" or
 * ">f4", a Uint8Array of their bytes.
 */
export class NdArray {
  /**
   * @param {ArrayLike<unknown>} data
   * @param {number[]} shape
   * @param {string} dtype
   */
  constructor(data, shape, dtype) {
    this.data = data;
    this.shape = shape;
    this.dtype = dtype;
  }

  /** How many elements there are. */
  get size() {
    return this.shape.reduce((product, size) => product * size, 1);
  }

  /** How many rows the first axis has. */
  get length() {
    return this.shape.length ? this.shape[0] : 0;
  }

  /** The element at these indices, one for each axis; undefined outside the array. */
  get(...indices) {
    if (indices.length !== this.shape.length) {
      throw new RangeError(`${indices.length} indices for ${this.shape.length} axes`);
    }
    let at = 0;
    for (const [axis, index] of indices.entries()) {
      if (!(index >= 0 && index < this.shape[axis])) return undefined;
      at = at * this.shape[axis] + index;
    }
    return this.element(at);
  }

  /** A row of the first axis, over the same memory; an element of a one-dimensional array. */
  row(index) {
    if (!(index >= 0 && index < this.length)) return undefined;
    const shape = this.shape.slice(1);
    if (!shape.length) return this.element(index);
    const items = this.data.length / this.length;
    const part = "subarray" in this.data ? "subarray" : "slice";
    return new NdArray(this.data[part](index * items, (index + 1) * items), shape, this.dtype);
  }

  *[Symbol.iterator]() {
    for (let index = 0; index < this.length; index++) yield this.row(index);
  }

  /** The element at a position in C order: a number, BigInt, boolean or string. */
  element(at) {
    if (this.dtype === "bool") return this.data[at] !== 0;
    const dtype = dtypeNamed(this.dtype);
    if (!dtype || dtype.array) return this.data[at];
    return elementAt(dtype, this.data.subarray(at * dtype.size, (at + 1) * dtype.size));
  }

  /** Nested arrays of the elements; the element itself for an array without axes. */
  toArray() {
    if (!this.shape.length) return this.element(0);
    return Array.from(this, (row) => (row instanceof NdArray ? row.toArray() : row));
  }

  /** Nested arrays for `JSON.stringify`, with BigInts as decimal strings. */
  toJSON() {
    return withoutBigInts(this.toArray());
  }

  toString() {
    return arrayText(this);
  }
}

function withoutBigInts(value) {
  if (Array.isArray(value)) return value.map(withoutBigInts);
  return typeof value === "bigint" ? value.toString() : value;
}

/** Decode one element of a dtype without typed arrays; its bytes for unknown kinds. */
export function elementAt(dtype, bytes) {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const little = dtype.wire[0] !== ">";
  if (dtype.kind === "S") return trimmed(bytes);
  if (dtype.kind === "U") return characters(view, little).replace(/\0+$/, "");
  if (dtype.wire === ">f4") return view.getFloat32(0);
  if (dtype.wire === ">f8") return view.getFloat64(0);
  if (dtype.kind === "i") return view[`get${dtype.size === 8 ? "BigInt64" : `Int${dtype.size * 8}`}`](0);
  if (dtype.kind === "u") return view[`get${dtype.size === 8 ? "BigUint64" : `Uint${dtype.size * 8}`}`](0);
  return bytes;
}

/** Decode a string of UTF-32. */
export function characters(view, little) {
  let text = "";
  for (let at = 0; at < view.byteLength; at += 4) {
    text += String.fromCodePoint(view.getUint32(at, little));
  }
  return text;
}

function trimmed(bytes) {
  let end = bytes.length;
  while (end && !bytes[end - 1]) end--;
  return bytes.subarray(0, end);
}

/**
 * Make an array of nested or flat elements, to be sent as exactly that.
 *
 * @param {ArrayLike<unknown>} elements Nested arrays, or anything flat.
 * @param {object} [how]
 * @param {number[]} [how.shape] Else that of the nesting.
 * @param {string} [how.dtype] Else that of a typed array, or "float64".
 */
export function array(elements, { shape, dtype } = {}) {
  const name = dtype ?? TYPED.get(elements?.constructor) ?? "float64";
  const sizes = shape ?? shapeOf(elements);
  if (name === "object") return new NdArray(flat(elements, sizes), sizes, name);
  const type = dtypeNamed(name);
  if (!type) throw new TypeError(`${name} is no dtype`);
  const count = countOf(sizes, type.size);
  const data = type.array ? typed(type, flat(elements, sizes)) : elements;
  const length = type.array ? count : count * type.size;
  if (data.length !== length) {
    throw new RangeError(`${data.length} elements do not fill the shape [${sizes}]`);
  }
  return new NdArray(data, [...sizes], type.name);
}

function typed(type, elements) {
  if (type.kind === "b") return Uint8Array.from(elements, (each) => (each ? 1 : 0));
  if (type.name === "float16" && !(elements instanceof Float32Array)) {
    return Float32Array.from(elements, roundToHalf);
  }
  if (elements.constructor === type.array) return elements;
  if (type.size === 8 && type.kind !== "f") return type.array.from(elements, BigInt);
  return type.array.from(elements, Number);
}

function shapeOf(elements) {
  const sizes = [];
  for (let each = elements; isList(each); each = each[0]) sizes.push(each.length);
  return sizes;
}

function flat(elements, sizes) {
  if (!isList(elements)) return [elements];
  if (!isList(elements[0]) || sizes.length < 2) return elements;
  if (elements.some((row) => row.length !== sizes[1])) {
    throw new RangeError("the rows of an array are not of the same length");
  }
  return elements.flatMap((row) => Array.from(flat(row, sizes.slice(1))));
}

function isList(value) {
  return Array.isArray(value) || ArrayBuffer.isView(value);
}

/** Encode an array as bytes, as on the wire. */
export function arrayBytes(value) {
  const dtype = dtypeNamed(value.dtype);
  if (!dtype) throw new TypeError(`${value.dtype} is no dtype`);
  const count = countOf(value.shape, dtype.size);
  const bytes = bytesOf(dtype, value.data);
  if (bytes.length !== count * dtype.size) {
    throw new RangeError(`the data of an array do not fill its shape [${value.shape}]`);
  }
  return bytes;
}

/** The dtype of a typed array; undefined for all else. */
export function dtypeOfTyped(value) {
  return TYPED.get(value?.constructor);
}
