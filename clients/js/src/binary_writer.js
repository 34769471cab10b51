/** Values in the binary form, written. */

import { NdArray, arrayBytes, dtypeOfTyped } from "./arrays.js";
import { countOf, dtypeNamed } from "./dtypes.js";
import { membersOf, stringify } from "./json_writer.js";
import { AutoresetMode, Complex, Float, GraphInstance, Scalar, Tuple, Unsent } from "./scalars.js";
import { Space } from "./spaces/space.js";
import { writeText } from "./text.js";
import { MAX_LEVELS } from "./trees.js";
import { typedTree } from "./typed_writer.js";

const LOWEST = -(2n ** 63n);
const HIGHEST = 2n ** 63n - 1n;

/** Leaves, one after the other, each padded to a multiple of 8 bytes. */
class Leaves {
  constructor() {
    this.bytes = new Uint8Array(64);
    this.view = new DataView(this.bytes.buffer);
    this.at = 0;
  }

  /** Reserve room for a leaf; return its start. */
  room(size) {
    const start = this.at;
    this.at += size + (-size & 7);
    if (this.at > this.bytes.length) {
      const larger = new Uint8Array(2 * this.at);
      larger.set(this.bytes.subarray(0, start));
      this.bytes = larger;
      this.view = new DataView(larger.buffer);
    }
    return start;
  }

  add(bytes) {
    const start = this.room(bytes.length);
    this.bytes.set(bytes, start);
  }

  addVarying(bytes) {
    const start = this.room(8);
    this.view.setUint32(start, bytes.length, true);
    this.add(bytes);
  }

  done() {
    return this.bytes.subarray(0, this.at);
  }
}

/**
 * Encode a value in two parts, for a caller that sends a signature once.
 *
 * @returns {{ signature: string, leaves: Uint8Array }} The signature is not padded.
 * @throws {TypeError} A part of the value cannot be sent.
 */
export function split(value) {
  const leaves = new Leaves();
  const signature = sign(value, leaves, 1);
  return { signature, leaves: leaves.done() };
}

/** Encode a signature as bytes, padded with blanks. */
export function padded(signature) {
  const text = writeText(signature);
  const bytes = new Uint8Array(text.length + (-text.length & 7)).fill(0x20);
  bytes.set(text);
  return bytes;
}

/** Write a value in the binary form. */
export function encodeBinary(value) {
  const { signature, leaves } = split(value);
  const head = padded(signature);
  const bytes = new Uint8Array(8 + head.length + leaves.length);
  new DataView(bytes.buffer).setUint32(0, head.length, true);
  bytes.set(head, 8);
  bytes.set(leaves, 8 + head.length);
  return bytes;
}

function sign(value, leaves, depth) {
  switch (typeof value) {
    case "undefined":
      return '"none"';
    case "boolean":
      leaves.add([value ? 1 : 0]);
      return '"bool"';
    case "number":
      return signNumber(value, leaves);
    case "bigint":
      return signInteger(value, leaves);
    case "string":
      leaves.addVarying(writeText(value));
      return '"str"';
    case "object":
      return value === null ? '"none"' : signObject(value, leaves, depth);
    default:
      throw new TypeError(`a ${typeof value} cannot be sent`);
  }
}

function signNumber(value, leaves) {
  if (Number.isSafeInteger(value) && !Object.is(value, -0)) {
    const start = leaves.room(8);
    leaves.view.setInt32(start + 4, Math.floor(value / 2 ** 32), true);
    leaves.view.setUint32(start, value >>> 0, true);
    return '"int"';
  }
  const start = leaves.room(8);
  leaves.view.setFloat64(start, value, true);
  return '"float"';
}

function signInteger(value, leaves) {
  if (value < LOWEST || value > HIGHEST) {
    leaves.addVarying(writeText(value.toString()));
    return '"bigint"';
  }
  const start = leaves.room(8);
  leaves.view.setBigInt64(start, value, true);
  return '"int"';
}

function signObject(value, leaves, depth) {
  if (value instanceof NdArray) return signArray(value, leaves, depth);
  if (value instanceof Float) {
    const start = leaves.room(8);
    leaves.view.setBigUint64(start, value.bits, true);
    return '"float"';
  }
  if (value instanceof Complex) {
    const start = leaves.room(16);
    leaves.view.setFloat64(start, value.re, true);
    leaves.view.setFloat64(start + 8, value.im, true);
    return '"complex"';
  }
  if (value instanceof Unsent) {
    leaves.addVarying(writeText(value.repr));
    leaves.addVarying(writeText(value.type));
    return '"unsent"';
  }
  if (value instanceof Scalar) {
    leaves.add(value.bytes);
    return `{"ns":${JSON.stringify(dtypeNamed(value.dtype).wire)}}`;
  }
  if (value instanceof Uint8Array) {
    leaves.addVarying(value);
    return '"bytes"';
  }
  if (ArrayBuffer.isView(value)) return signTyped(value, leaves, depth);
  if (value instanceof AutoresetMode) return `{"autoreset":"${value.value}"}`;
  if (value instanceof Space) return `{"space":${stringify(value.toJSON())}}`;
  return signContainer(value, leaves, depth);
}

function signArray(value, leaves, depth) {
  const shape = JSON.stringify(value.shape);
  if (value.dtype === "object") {
    if (value.data.length !== countOf(value.shape, 8)) throw new RangeError("an array does not fill its shape");
    return `{"oa":[${shape},[${signItems(value.data, leaves, depth)}]]}`;
  }
  leaves.add(arrayBytes(value));
  return `{"nd":["${dtypeNamed(value.dtype).wire}",${shape}]}`;
}

function signTyped(value, leaves, depth) {
  const dtype = dtypeOfTyped(value);
  if (!dtype) throw new TypeError(`a ${value.constructor.name} cannot be sent`);
  return signArray(new NdArray(value, [value.length], dtype), leaves, depth);
}

function signContainer(value, leaves, depth) {
  if (value instanceof Tuple) return `{"tuple":[${signItems(value, leaves, depth)}]}`;
  if (Array.isArray(value)) return `{"list":[${signItems(value, leaves, depth)}]}`;
  if (value instanceof GraphInstance) {
    return `{"graph":[${signItems([value.nodes, value.edges, value.edgeLinks], leaves, depth)}]}`;
  }
  const members = membersOf(value);
  const parts = members
    .filter(([, item]) => item !== undefined)
    .map(([key, item]) => `[${stringify(typedTree(key))},${sign(item, leaves, depth + 1)}]`);
  checkLevels(depth);
  return `{"dict":[${parts}]}`;
}

function signItems(items, leaves, depth) {
  checkLevels(depth);
  return Array.from(items, (item) => sign(item, leaves, depth + 1)).join(",");
}

function checkLevels(depth) {
  if (depth > MAX_LEVELS) throw new TypeError(`a value is nested deeper than ${MAX_LEVELS} levels`);
}
