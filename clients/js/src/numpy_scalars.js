/** NumPy's scalars: how they are decoded, and how they are made to be sent. */

import { array, arrayBytes, characters, elementAt } from "./arrays.js";
import { dtypeNamed, elementsOf } from "./dtypes.js";
import { ProtocolError } from "./errors.js";
import { narrow } from "./json.js";
import { Scalar } from "./scalars.js";

/**
 * Convert a scalar to a number, BigInt, boolean, string or bytes if these represent it
 * exactly, otherwise to a `Scalar`.
 */
export function scalarAt(dtype, bytes) {
  if (dtype.array !== null) {
    const value = elementsOf(dtype, bytes.slice())[0];
    if (dtype.kind === "b") return value !== 0;
    return typeof value === "bigint" ? narrow(value) : value;
  }
  if (dtype.kind === "S") return bytes.slice();
  if (dtype.kind === "U") return textOf(dtype, bytes);
  const value = elementAt(dtype, bytes);
  if (value === bytes) return new Scalar(dtype.name, bytes.slice());
  return typeof value === "bigint" ? narrow(value) : value;
}

function textOf(dtype, bytes) {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  try {
    return characters(view, dtype.wire[0] === "<");
  } catch {
    throw new ProtocolError("a text holds characters that there are not");
  }
}

/**
 * Make a NumPy scalar to be sent exactly.
 *
 * @param {number | bigint | boolean | string | Uint8Array} value Bytes are used as they
 *   are on the wire.
 * @param {string} dtype As "int64" or "<f4".
 */
export function scalar(value, dtype) {
  const type = dtypeNamed(dtype);
  if (!type) throw new TypeError(`${dtype} is no dtype`);
  const bytes = value instanceof Uint8Array ? value : bytesOf(value, type);
  if (bytes.length !== type.size) {
    throw new RangeError(`a ${dtype} has ${type.size} bytes: ${bytes.length} were given`);
  }
  return new Scalar(type.name, bytes);
}

function bytesOf(value, type) {
  if (type.array) return arrayBytes(array([value], { dtype: type.name })).slice();
  if (type.kind !== "U") throw new TypeError(`give the bytes of a ${type.name}`);
  const points = Array.from(String(value), (each) => each.codePointAt(0));
  const bytes = new Uint8Array(type.size);
  const view = new DataView(bytes.buffer);
  points.forEach((point, i) => view.setUint32(4 * i, point, type.wire[0] === "<"));
  return bytes;
}
