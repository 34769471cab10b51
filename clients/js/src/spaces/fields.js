/** The fields of a description, which is not trusted. */

import { countOf, dtypeNamed } from "../dtypes.js";
import { ProtocolError } from "../errors.js";
import { roundToHalf } from "../float16.js";
import { narrow } from "../json.js";
import { shown } from "../text.js";

/** How many spaces may be nested in one another. */
const MAX_DEPTH = 32;
/** Bytes that the arrays of all spaces of a description may have together. */
const MAX_BYTES = 2 ** 29;
const DECIMAL = /^-?[0-9]{1,20}$/;
const SPECIAL = { inf: Infinity, "-inf": -Infinity, nan: NaN };
const NAMES = /^(bool|u?int(8|16|32|64)|float(16|32|64))$/;
const SWAPPED = /^>([iu][248]|f[248])$/;
const KINDS = { b: "bool", i: "int", u: "uint", f: "float" };

/** The fields of one space, and where in the description it is. */
export class Fields {
  constructor(value, path = "", depth = 1, budget = { left: MAX_BYTES }) {
    this.value = value;
    this.path = path;
    this.depth = depth;
    this.budget = budget;
    const isObject = typeof value === "object" && value !== null && !Array.isArray(value);
    if (!isObject) this.refuse("", 'an object with a "type"');
    if (depth > MAX_DEPTH) this.refuse("", `nested at most ${MAX_DEPTH} levels deep`);
  }

  /** Go to a space within this one. */
  inner(field, value = this.get(field)) {
    return new Fields(value, this.at(field), this.depth + 1, this.budget);
  }

  get(field, missing) {
    const value = Object.hasOwn(this.value, field) ? this.value[field] : undefined;
    return value === undefined ? missing : value;
  }

  at(field) {
    return this.path && field ? `${this.path}.${field}` : this.path || field;
  }

  refuse(field, expected, value = field ? this.get(field) : this.value) {
    const received = value === undefined ? "missing" : shown(value);
    const where = this.at(field) || "the whole";
    throw new ProtocolError(`a description of a space does not fit: ${where} is ${received}, but must be ${expected}`);
  }

  list(field) {
    const value = this.get(field);
    return Array.isArray(value) ? value : this.refuse(field, "a list");
  }

  text(field, missing) {
    const value = this.get(field, missing);
    return typeof value === "string" ? value : this.refuse(field, "a string");
  }

  flag(field, missing) {
    const value = this.get(field, missing);
    return typeof value === "boolean" ? value : this.refuse(field, "true or false");
  }

  /** An integer that a dtype holds: a number up to 2^53, else a BigInt. */
  integer(field, dtype, missing) {
    const number = integerOf(this.get(field, missing), dtypeNamed(dtype));
    return number === undefined ? this.refuse(field, `an integer that is ${dtype}`) : number;
  }

  dtype(kinds, missing) {
    const name = this.get("dtype", missing);
    const known = typeof name === "string" && (NAMES.test(name) || SWAPPED.test(name));
    const dtype = known ? dtypeNamed(name) : undefined;
    if (!dtype || !kinds.includes(dtype.kind)) {
      this.refuse("dtype", `one of ${Array.from(kinds, (kind) => KINDS[kind]).join(", ")}`);
    }
    return dtype.name;
  }

  shape(field, itemSize, missing) {
    const sizes = this.get(field, missing);
    try {
      this.take(field, countOf(sizes, itemSize) * itemSize);
    } catch {
      this.refuse(field, "a list of sizes, each an integer from 0 on, of at most 2^29 bytes together");
    }
    return [...sizes];
  }

  take(field, bytes) {
    this.budget.left -= bytes;
    if (this.budget.left < 0) this.refuse(field, `of a space that takes at most ${MAX_BYTES} bytes`);
  }

  /** A typed array: of one number for all its elements, or of a flat list of them. */
  array(field, shape, dtypeName, missing) {
    const dtype = nativeOf(dtypeName);
    const value = this.get(field, missing);
    const count = shape.reduce((product, size) => product * size, 1);
    if (Array.isArray(value) && value.length !== count) {
      this.refuse(field, `one number, or a flat list of ${count}`);
    }
    const made = new dtype.array(count);
    if (Array.isArray(value)) value.forEach((each, i) => (made[i] = this.element(field, each, dtype)));
    else made.fill(this.element(field, value, dtype));
    return made;
  }

  element(field, value, dtype) {
    const element = READERS[dtype.kind](value, dtype);
    if (element === undefined) this.refuse(field, `of numbers that are ${dtype.name}`, value);
    return dtype.size === 8 && dtype.kind !== "f" ? BigInt(element) : element;
  }
}

/** The dtype of this machine's own byte order. */
export function nativeOf(name) {
  return dtypeNamed(name[0] === ">" ? `<${name.slice(1)}` : name);
}

const READERS = { b: flagOf, i: integerOf, u: integerOf, f: floatOf };

function flagOf(value) {
  return value === true || value === 1 ? 1 : value === false || value === 0 ? 0 : undefined;
}

function integerOf(value, dtype) {
  let integer;
  if (typeof value === "string" && DECIMAL.test(value)) integer = BigInt(value);
  else if (typeof value === "bigint" || Number.isSafeInteger(value) || Math.abs(value) === 2 ** 53) {
    integer = BigInt(value);
  } else return undefined;
  const bits = BigInt(dtype.size * 8);
  const high = dtype.kind === "u" ? 2n ** bits : 2n ** (bits - 1n);
  const low = dtype.kind === "u" ? 0n : -high;
  return integer >= low && integer < high ? narrow(integer) : undefined;
}

function floatOf(value, dtype) {
  if (typeof value === "string") return Object.hasOwn(SPECIAL, value) ? SPECIAL[value] : undefined;
  if (typeof value !== "number" && typeof value !== "bigint") return undefined;
  const number = Number(value);
  const kept = dtype.size === 8 ? number : dtype.size === 4 ? Math.fround(number) : roundToHalf(number);
  return Number.isFinite(kept) ? kept : undefined;
}
