/** Numbers and arrays in descriptions of spaces, such that any JSON reader keeps them. */

import { dtypeNamed } from "../dtypes.js";
import { shortest } from "../shortest_decimals.js";

const word = new DataView(new ArrayBuffer(8));

/** Write a number that JSON cannot carry safely as a string. */
export function numberData(number) {
  if (typeof number === "bigint") return number.toString();
  if (Number.isFinite(number)) return number;
  return Number.isNaN(number) ? "nan" : number > 0 ? "inf" : "-inf";
}

/** Write elements as one number, if they have the same bits, or as a list. */
export function arrayData(elements, dtypeName) {
  const dtype = dtypeNamed(dtypeName);
  const list = Array.from(elements, (each) => elementData(each, dtype));
  const first = elements[0];
  const isUniform = list.length > 0 && elements.every((each) => sameBits(each, first));
  return isUniform ? list[0] : list;
}

function sameBits(one, other) {
  if (typeof one === "bigint" || one !== one || other !== other) return bitsOf(one) === bitsOf(other);
  return Object.is(one, other);
}

function bitsOf(number) {
  if (typeof number === "bigint") return number;
  word.setFloat64(0, number);
  return word.getBigUint64(0);
}

function elementData(element, dtype) {
  if (dtype.kind === "b") return element !== 0;
  if (dtype.kind !== "f") return numberData(typeof element === "bigint" ? narrowed(element) : element);
  return numberData(shortest(element, dtype));
}

function narrowed(integer) {
  return integer <= 2n ** 53n && integer >= -(2n ** 53n) ? Number(integer) : integer;
}
