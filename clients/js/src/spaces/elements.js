/** Elements that are arrays: convert a caller's values to them. */

import { NdArray, array, dtypeOfTyped } from "../arrays.js";
import { canCast, dtypeNamed } from "../dtypes.js";
import { roundToHalf } from "../float16.js";
import { Float, Tuple } from "../scalars.js";
import { nativeOf } from "./fields.js";

/**
 * See a value as an array of a space's dtype and shape.
 *
 * @returns {ArrayLike<number | bigint> | undefined} Its elements in C order; undefined if
 *   it is of another shape, or of a dtype that is not cast without loss.
 */
export function elementsIn(value, shape, dtypeName) {
  const given = arrayOf(value);
  if (!given || given.shape.length !== shape.length) return undefined;
  if (!given.shape.every((size, axis) => size === shape[axis])) return undefined;
  const dtype = nativeOf(dtypeName);
  if (given.dtype !== "object") {
    const from = dtypeNamed(given.dtype);
    if (!from?.array && !/^>[iuf][248]$/.test(given.dtype)) return undefined;
    if (!canCast(nativeOf(from.wire), dtype)) return undefined;
    return from.array ? given.data : Array.from({ length: given.size }, (_, i) => given.element(i));
  }
  const elements = given.data.map((each) => castElement(each, dtype));
  return elements.includes(undefined) ? undefined : elements;
}

function arrayOf(value) {
  if (value instanceof NdArray) return value;
  const typed = dtypeOfTyped(value);
  if (typed) return new NdArray(value, [value.length], typed);
  try {
    // Numbers have no dtype of their own, so they are cast.
    return array(Array.isArray(value) ? listed(value) : value, { dtype: "object" });
  } catch {
    return undefined;
  }
}

function listed(value) {
  return value instanceof Tuple ? Array.from(value, (each) => each) : value;
}

function castElement(element, dtype) {
  const number = element instanceof Float ? element.value : element;
  if (typeof number === "boolean") return Number(number);
  if (dtype.kind === "f") {
    if (typeof number !== "number" && typeof number !== "bigint") return undefined;
    const wide = Number(number);
    return dtype.size === 8 ? wide : dtype.size === 4 ? Math.fround(wide) : roundToHalf(wide);
  }
  const isInteger = typeof number === "bigint" || Number.isInteger(number);
  return isInteger && !(element instanceof Float) ? number : undefined;
}

/** Make an element of a shape and dtype of the nested lists of plain JSON. */
export function fromLists(plain, shape, dtypeName) {
  const dtype = nativeOf(dtypeName);
  const elements = flattened(plain, shape.length).map((each) => numberOf(each, dtype));
  return array(elements, { shape, dtype: dtype.name });
}

function flattened(plain, axes) {
  if (!axes) return [plain];
  return axes === 1 ? plain : plain.flatMap((row) => flattened(row, axes - 1));
}

function numberOf(plain, dtype) {
  if (dtype.kind !== "f") return plain;
  if (plain === null) return NaN;
  return Math.abs(plain) === 1e100 ? plain * Infinity : plain;
}
