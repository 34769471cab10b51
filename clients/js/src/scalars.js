/** Values that JavaScript has no type for, but the wire distinguishes. */

import { writeHex } from "./text.js";

const word = new DataView(new ArrayBuffer(8));

/**
 * A float, where a bare number could be taken for an integer, or has bits to keep.
 *
 * A number that is an integer is sent as an integer; `float(1)` is sent as 1.0.
 */
export class Float {
  /** @param {number} value */
  constructor(value, bits = bitsOf(value)) {
    this.value = value;
    this.bits = bits;
    Object.freeze(this);
  }

  valueOf() {
    return this.value;
  }
}

function bitsOf(value) {
  word.setFloat64(0, value);
  return word.getBigUint64(0);
}

/** Make a float of a number, or of its 64 bits. */
export function float(value) {
  if (typeof value !== "bigint") return new Float(Number(value));
  word.setBigUint64(0, value);
  return new Float(word.getFloat64(0), BigInt.asUintN(64, value));
}

/** Make an integer of a number, BigInt or decimal string: it goes as one in any case. */
export function int(value) {
  return BigInt(value);
}

/** A tuple: an array that goes as Python's tuple. */
export class Tuple extends Array {
  static get [Symbol.species]() {
    return Array;
  }
}

/** Make a tuple of items. */
export function tuple(items = []) {
  const made = new Tuple();
  for (const item of items) made.push(item);
  return made;
}

/** Make a dict with keys of any kind, in this order, of an iterable of pairs. */
export function dict(pairs = []) {
  return new Map(pairs);
}

/**
 * A NumPy scalar with its exact dtype.
 *
 * Scalars arrive as a number, BigInt, boolean or string if JavaScript has such a type. A
 * `Scalar` represents the others (complex numbers, dates, long doubles).
 */
export class Scalar {
  /**
   * @param {string} dtype As "float32", or as NumPy writes it in `dtype.str`.
   * @param {Uint8Array} bytes As they are on the wire.
   */
  constructor(dtype, bytes) {
    this.dtype = dtype;
    this.bytes = bytes;
  }

  toString() {
    return `Scalar(${this.dtype}, ${writeHex(this.bytes)})`;
  }
}

/** Python's complex number. */
export class Complex {
  /**
   * @param {number} re
   * @param {number} im
   */
  constructor(re, im) {
    this.re = re;
    this.im = im;
  }

  toString() {
    return `Complex(${this.re}, ${this.im})`;
  }
}

/** What stands for a value of an info that cannot be sent. */
export class Unsent {
  /**
   * @param {string} repr The beginning of what Python prints for the value.
   * @param {string} type The name of its class.
   */
  constructor(repr, type) {
    this.repr = repr;
    this.type = type;
  }

  toString() {
    return this.repr;
  }
}

/** An element of a Graph space; edges and their links may be null. */
export class GraphInstance {
  constructor(nodes, edges = null, edgeLinks = null) {
    this.nodes = nodes;
    this.edges = edges;
    this.edgeLinks = edgeLinks;
  }
}

/** A vector's behaviour at the end of an episode. */
export class AutoresetMode {
  static NEXT_STEP = new AutoresetMode("NextStep", "next_step");
  static SAME_STEP = new AutoresetMode("SameStep", "same_step");
  static DISABLED = new AutoresetMode("Disabled", "disabled");

  constructor(value, option) {
    this.value = value;
    this.option = option;
    Object.freeze(this);
  }

  /** Find a mode by its value on the wire; undefined if unknown. */
  static of(value) {
    const modes = [this.NEXT_STEP, this.SAME_STEP, this.DISABLED];
    return modes.find((mode) => mode.value === value);
  }

  toString() {
    return this.option;
  }
}
