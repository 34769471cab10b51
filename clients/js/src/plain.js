/** Plain JSON, of which the server makes an element of the action space. */

import { NdArray, dtypeOfTyped } from "./arrays.js";
import { dtypeNamed } from "./dtypes.js";
import { objectOf } from "./json.js";
import { membersOf } from "./json_writer.js";
import { Float, GraphInstance, Scalar } from "./scalars.js";
import { scalarAt } from "./numpy_scalars.js";
import { shortest } from "./shortest_decimals.js";
import { isUnicode } from "./text.js";

/** Whether plain JSON represents a value exactly. */
export function isPlain(value) {
  switch (typeof value) {
    case "number":
      return Number.isFinite(value);
    case "string":
      return isUnicode(value);
    case "boolean":
    case "bigint":
    case "undefined":
      return true;
    case "object":
      return isPlainObject(value);
    default:
      return false;
  }
}

function isPlainObject(value) {
  if (value === null) return true;
  const { constructor } = value;
  if (constructor === Array) return value.every(isPlain);
  return constructor === Object && Object.values(value).every(isPlain);
}

/**
 * Convert a value to a plain tree: arrays to nested lists, tuples to lists.
 *
 * @throws {TypeError} Plain JSON cannot represent it.
 */
export function plainTree(value) {
  if (typeof value !== "object" || value === null) return value ?? null;
  if (value instanceof Float) return value;
  if (value instanceof NdArray) return arrayTree(value);
  if (ArrayBuffer.isView(value)) return arrayTree(new NdArray(value, [value.length], dtypeOfTyped(value)));
  if (value instanceof Scalar) {
    return floatOf(scalarAt(dtypeNamed(value.dtype), value.bytes), dtypeNamed(value.dtype));
  }
  if (Array.isArray(value)) return Array.from(value, plainTree);
  if (value instanceof GraphInstance) {
    const [nodes, edges, edge_links] = [value.nodes, value.edges, value.edgeLinks].map(plainTree);
    return { nodes, edges, edge_links };
  }
  const members = membersOf(value);
  return objectOf(new Map(members.map(([key, each]) => [String(key), plainTree(each)])));
}

function arrayTree(value) {
  const dtype = dtypeNamed(value.dtype);
  if (!dtype) return nested(value.toArray(), (each) => plainTree(each));
  return nested(value.toArray(), (each) => floatOf(each, dtype));
}

function nested(value, leaf) {
  return Array.isArray(value) ? value.map((each) => nested(each, leaf)) : leaf(value);
}

function floatOf(number, dtype) {
  return dtype.kind === "f" ? new Float(shortest(number, dtype)) : number;
}
