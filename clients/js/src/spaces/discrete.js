/** `Discrete`, `MultiDiscrete` and `MultiBinary`: integers to choose from. */

import { NdArray, array } from "../arrays.js";
import { canCast, dtypeNamed } from "../dtypes.js";
import { narrow } from "../json.js";
import { Scalar } from "../scalars.js";
import { scalarAt } from "../numpy_scalars.js";
import { rowsOf, stacked } from "./box.js";
import { below } from "./draws.js";
import { elementsIn, fromLists } from "./elements.js";
import { Fields, nativeOf } from "./fields.js";
import { arrayData, numberData } from "./numbers.js";
import { Space } from "./space.js";

/** The integers from `start` on, of which there are `n`. */
export class Discrete extends Space {
  /** @param {object} description As `{n: 3, start: 0}`. */
  constructor(description) {
    super();
    const fields = description instanceof Fields ? description : new Fields(description);
    this.dtype = fields.dtype("iu", "int64");
    const native = nativeOf(this.dtype).name;
    this.n = fields.integer("n", native);
    this.start = fields.integer("start", native, 0);
    if (this.n < 1) fields.refuse("n", "an integer from 1 on");
  }

  contains(value) {
    const integer = integerIn(value, nativeOf(this.dtype));
    if (integer === undefined) return false;
    const past = BigInt(integer) - BigInt(this.start);
    return past >= 0n && past < BigInt(this.n);
  }

  sample(random = Math.random) {
    return narrow(BigInt(this.start) + BigInt(below(this.n, random)));
  }

  toJSON() {
    const { n, start, dtype } = this;
    return { type: "Discrete", n: numberData(n), start: numberData(start), dtype };
  }

  fromPlain(plain) {
    return plain;
  }

  stack(items) {
    return stacked(items, [], nativeOf(this.dtype).name);
  }

  unstack(batch) {
    return rowsOf(batch);
  }
}

/** Convert a value to an integer of a dtype; undefined if it is not one. */
function integerIn(value, dtype) {
  if (typeof value === "bigint") return value;
  if (typeof value === "boolean") return Number(value);
  if (typeof value === "number") return Number.isInteger(value) ? value : undefined;
  if (value instanceof Scalar) {
    const own = dtypeNamed(value.dtype);
    return "iu".includes(own.kind) && canCast(own, dtype) ? scalarAt(own, value.bytes) : undefined;
  }
  if (!(value instanceof NdArray) || value.shape.length) return undefined;
  const own = dtypeNamed(value.dtype);
  return own && "iu".includes(own.kind) && canCast(own, dtype) ? value.element(0) : undefined;
}

/** Arrays of integers, each one of as many as its count. */
export class MultiDiscrete extends Space {
  /** @param {object} description As `{nvec: [5, 2]}`. */
  constructor(description) {
    super();
    const fields = description instanceof Fields ? description : new Fields(description);
    this.dtype = fields.dtype("iu", "int64");
    const nvec = fields.get("nvec");
    const size = dtypeNamed(this.dtype).size;
    this.shape = fields.shape("shape", size, Array.isArray(nvec) ? [nvec.length] : undefined);
    this.nvec = fields.array("nvec", this.shape, this.dtype);
    this.start = fields.array("start", this.shape, this.dtype, 0);
    if (this.nvec.some((count) => count < 1)) fields.refuse("nvec", "integers from 1 on");
  }

  contains(value) {
    const elements = elementsIn(value, this.shape, this.dtype);
    if (!elements) return false;
    for (let i = 0; i < elements.length; i++) {
      const past = BigInt(elements[i]) - BigInt(this.start[i]);
      if (past < 0n || past >= BigInt(this.nvec[i])) return false;
    }
    return true;
  }

  sample(random = Math.random) {
    const drawn = Array.from(this.nvec, (n, i) => BigInt(this.start[i]) + BigInt(below(n, random)));
    return array(drawn, { shape: this.shape, dtype: nativeOf(this.dtype).name });
  }

  toJSON() {
    const native = nativeOf(this.dtype).name;
    return {
      type: "MultiDiscrete",
      dtype: this.dtype,
      shape: this.shape,
      nvec: arrayData(this.nvec, native),
      start: arrayData(this.start, native),
    };
  }

  fromPlain(plain) {
    return fromLists(plain, this.shape, this.dtype);
  }

  stack(items) {
    return stacked(items, this.shape, nativeOf(this.dtype).name);
  }

  unstack(batch) {
    return rowsOf(batch);
  }
}

/** Arrays of zeros and ones. */
export class MultiBinary extends Space {
  /** @param {object} description As `{n: 4}` or `{n: [2, 3]}`. */
  constructor(description) {
    super();
    const fields = description instanceof Fields ? description : new Fields(description);
    const n = fields.get("n");
    this.shape = Array.isArray(n) ? fields.shape("n", 1) : [this.#length(fields)];
    this.n = Array.isArray(n) ? this.shape : this.shape[0];
    this.dtype = "int8";
  }

  #length(fields) {
    const n = fields.integer("n", "int64");
    if (n < 1) fields.refuse("n", "an integer from 1 on, or a list of such");
    fields.take("n", Number(n));
    return n;
  }

  contains(value) {
    const given = value instanceof NdArray && value.dtype !== "object" ? value.dtype : "float64";
    const elements = elementsIn(value, this.shape, given);
    return !!elements && Array.from(elements).every((each) => each == 0 || each == 1);
  }

  sample(random = Math.random) {
    const size = this.shape.reduce((product, each) => product * each, 1);
    const drawn = Int8Array.from({ length: size }, () => below(2, random));
    return array(drawn, { shape: this.shape });
  }

  toJSON() {
    return { type: "MultiBinary", n: this.n };
  }

  fromPlain(plain) {
    return fromLists(plain, this.shape, this.dtype);
  }

  stack(items) {
    return stacked(items, this.shape, this.dtype);
  }

  unstack(batch) {
    return rowsOf(batch);
  }
}
