/** `Box`: arrays of numbers between bounds. */

import { NdArray, array } from "../arrays.js";
import { dtypeNamed } from "../dtypes.js";
import { below, exponential, normal } from "./draws.js";
import { elementsIn, fromLists } from "./elements.js";
import { Fields, nativeOf } from "./fields.js";
import { arrayData } from "./numbers.js";
import { Space } from "./space.js";

/** Arrays of a shape and dtype, each element between a low and a high bound. */
export class Box extends Space {
  /** @param {object} description As `{low: -1, high: 1, shape: [2]}`. */
  constructor(description) {
    super();
    const fields = description instanceof Fields ? description : new Fields(description);
    this.dtype = fields.dtype("biuf", "float32");
    this.shape = fields.shape("shape", dtypeNamed(this.dtype).size);
    this.low = fields.array("low", this.shape, this.dtype);
    this.high = fields.array("high", this.shape, this.dtype);
    if (this.low.some((low, i) => low > this.high[i])) fields.refuse("low", "nowhere above high");
    this.boundedBelow = this.#flags(fields, "bounded_below", (i) => this.low[i] > -Infinity);
    this.boundedAbove = this.#flags(fields, "bounded_above", (i) => this.high[i] < Infinity);
  }

  #flags(fields, field, isBounded) {
    if ((fields.get(field) ?? null) !== null) return fields.array(field, this.shape, "bool");
    return Uint8Array.from(this.low, (_, i) => (isBounded(i) ? 1 : 0));
  }

  contains(value) {
    const elements = elementsIn(value, this.shape, this.dtype);
    if (!elements) return false;
    for (let i = 0; i < elements.length; i++) {
      if (!(elements[i] >= this.low[i] && elements[i] <= this.high[i])) return false;
    }
    return true;
  }

  sample(random = Math.random) {
    const dtype = nativeOf(this.dtype);
    const draw = dtype.kind === "f" ? (i) => this.#float(i, random) : (i) => this.#integer(i, random);
    const drawn = Array.from(this.low, (_, i) => draw(i));
    return array(drawn, { shape: this.shape, dtype: dtype.name });
  }

  #float(i, random) {
    const [low, high] = [this.low[i], this.high[i]];
    if (this.boundedBelow[i] && this.boundedAbove[i]) {
      // Not high - low, which may be beyond all floats; and rounding stays inside.
      const part = random();
      return Math.min(high, Math.max(low, low * (1 - part) + high * part));
    }
    if (this.boundedBelow[i]) return low + exponential(random);
    return this.boundedAbove[i] ? high - exponential(random) : normal(random);
  }

  #integer(i, random) {
    const [low, high] = [BigInt(this.low[i]), BigInt(this.high[i])];
    return low + BigInt(below(high - low + 1n, random));
  }

  toJSON() {
    return {
      type: "Box",
      dtype: this.dtype,
      shape: this.shape,
      low: arrayData(this.low, nativeOf(this.dtype).name),
      high: arrayData(this.high, nativeOf(this.dtype).name),
      bounded_below: arrayData(this.boundedBelow, "bool"),
      bounded_above: arrayData(this.boundedAbove, "bool"),
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

/** Put arrays of one shape and dtype into one with an axis more. */
export function stacked(items, shape, dtype) {
  const elements = items.flatMap((item) => (item instanceof NdArray ? Array.from(item.data) : [item]));
  return array(elements, { shape: [items.length, ...shape], dtype });
}

/** The rows of an array; undefined for other values. */
export function rowsOf(batch) {
  return batch instanceof NdArray && batch.shape.length ? [...batch] : undefined;
}
