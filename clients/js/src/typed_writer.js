/** Values in typed JSON, written. */

import { NdArray, arrayBytes, dtypeOfTyped } from "./arrays.js";
import { dtypeNamed } from "./dtypes.js";
import { setMember } from "./json.js";
import { membersOf, stringify } from "./json_writer.js";
import { AutoresetMode, Complex, Float, GraphInstance, Scalar, Tuple, Unsent, float } from "./scalars.js";
import { Space } from "./spaces/space.js";
import { isUnicode, writeBase64, writeText } from "./text.js";

const EXACT = 2n ** 53n;
const NAN_BITS = 0x7ff8000000000000n;

/** Write a value in typed JSON. */
export function encodeTyped(value) {
  return stringify(typedTree(value));
}

/** Make the tree that stands for a value. */
export function typedTree(value) {
  switch (typeof value) {
    case "undefined":
      return null;
    case "boolean":
      return value;
    case "number":
      return Number.isSafeInteger(value) && !Object.is(value, -0) ? value : floatTree(float(value));
    case "bigint":
      return value >= -EXACT && value <= EXACT ? value : { $t: "int", v: value.toString() };
    case "string":
      return isUnicode(value) ? value : { $t: "str", v: writeBase64(writeText(value)) };
    case "object":
      return value === null ? null : objectTree(value);
    default:
      throw new TypeError(`a ${typeof value} cannot be sent`);
  }
}

function floatTree(number) {
  const { value, bits } = number;
  if (Number.isFinite(value)) return number;
  if (!Number.isNaN(value)) return { $t: "float", v: value > 0 ? "inf" : "-inf" };
  return { $t: "float", v: bits === NAN_BITS ? "nan" : bits.toString(16).padStart(16, "0") };
}

function objectTree(value) {
  if (value instanceof Float) return floatTree(value);
  if (value instanceof Complex) {
    return { $t: "complex", v: [value.re, value.im].map((part) => floatTree(float(part))) };
  }
  if (value instanceof Unsent) return { $t: "unsent", v: [value.repr, value.type].map(typedTree) };
  if (value instanceof Tuple) return { $t: "tuple", v: value.map(typedTree) };
  if (Array.isArray(value)) return value.map(typedTree);
  if (value instanceof NdArray) return arrayTree(value);
  if (value instanceof Uint8Array) return { $t: "bytes", v: writeBase64(value) };
  if (ArrayBuffer.isView(value)) return arrayTree(new NdArray(value, [value.length], dtypeOfTyped(value)));
  if (value instanceof Scalar) {
    return { $t: "ns", d: dtypeNamed(value.dtype).wire, v: writeBase64(value.bytes) };
  }
  if (value instanceof GraphInstance) {
    const parts = [value.nodes, value.edges, value.edgeLinks].map(typedTree);
    return { $t: "graph", nodes: parts[0], edges: parts[1], edge_links: parts[2] };
  }
  if (value instanceof AutoresetMode) return { $t: "autoreset", v: value.value };
  if (value instanceof Space) return { $t: "space", v: value.toJSON() };
  return dictTree(value);
}

function arrayTree(value) {
  if (value.dtype === "object") return { $t: "oa", s: value.shape, v: Array.from(value.data, typedTree) };
  const bytes = arrayBytes(value);
  return { $t: "nd", d: dtypeNamed(value.dtype).wire, s: value.shape, v: writeBase64(bytes) };
}

function dictTree(value) {
  const members = membersOf(value);
  const kept = members.filter(([, item]) => item !== undefined);
  if (!kept.every(([key]) => typeof key === "string" && key !== "$t" && isUnicode(key))) {
    return { $t: "dict", v: kept.map((pair) => pair.map(typedTree)) };
  }
  if (value instanceof Map) return new Map(kept.map(([key, item]) => [key, typedTree(item)]));
  const tree = {};
  for (const [key, item] of kept) setMember(tree, key, typedTree(item));
  return tree;
}
