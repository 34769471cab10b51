/** The model form of the conformance kit: values built of it, and held against it. */

import {
  AutoresetMode,
  Complex,
  Float,
  GraphInstance,
  NdArray,
  Scalar,
  Space,
  Unsent,
  array,
  dict,
  encodeBinary,
  float,
  int,
  scalar,
  spaceOf,
  tuple,
} from "../src/index.js";
import { dtypeNamed } from "../src/dtypes.js";
import { scalarAt } from "../src/numpy_scalars.js";
import { readText, writeText } from "../src/text.js";

/** The bytes of hex. */
export function unhex(text) {
  return Uint8Array.from(text.match(/../g) ?? [], (pair) => parseInt(pair, 16));
}

/** The hex of bytes. */
export function hex(bytes) {
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString("hex");
}

/** The one member of a model. */
function only(model) {
  return Object.entries(model)[0];
}

/** The bytes of an array's or scalar's model, as on the wire. */
function wireBytes({ dtype, items, bytes }) {
  if (bytes !== undefined) return unhex(bytes);
  const { kind, size } = dtypeNamed(dtype);
  return Uint8Array.from(items.flatMap((item) => itemBytes(item, kind, size)));
}

function itemBytes(item, kind, size) {
  if (kind === "b") return [item ? 1 : 0];
  const bits = kind === "f" ? BigInt(`0x${item}`) : BigInt.asUintN(size * 8, BigInt(item));
  return Array.from({ length: size }, (_, i) => Number((bits >> BigInt(8 * i)) & 255n));
}

/** Make an array of a model, out of its bytes. */
function arrayOf({ dtype, shape, items, bytes }) {
  const type = dtypeNamed(dtype);
  const raw = wireBytes({ dtype, items, bytes });
  if (!type.array) return array(raw, { shape, dtype });
  if (type.kind === "b" || type.name === "uint8") return array(raw, { shape, dtype: type.name });
  if (type.name === "float16") {
    const words = Uint32Array.from(new Uint16Array(raw.buffer), widened);
    return new NdArray(new Float32Array(words.buffer), shape, "float16");
  }
  return array(new type.array(raw.buffer), { shape, dtype: type.name });
}

/** The bits of the float32 that a float16 is, by the definition of both. */
function widened(bits) {
  const [sign, exponent, fraction] = [bits >> 15 ? -1 : 1, (bits >> 10) & 31, bits & 1023];
  if (exponent === 31) return ((bits >> 15) * 2 ** 31 + 0x7f800000 + fraction * 2 ** 13) >>> 0;
  const value = exponent ? (1 + fraction / 1024) * 2 ** (exponent - 15) : fraction * 2 ** -24;
  return new Uint32Array(Float32Array.of(sign * value).buffer)[0];
}

const BUILDERS = {
  none: () => null,
  bool: (value) => value,
  int: (text) => int(text),
  float: (bits) => float(BigInt(`0x${bits}`)),
  str: (text) => text,
  wtf8: (text) => readText(unhex(text)),
  bytes: (text) => unhex(text),
  list: (items) => items.map(build),
  tuple: (items) => tuple(items.map(build)),
  dict: (pairs) => dict(pairs.map((pair) => pair.map(build))),
  nd: arrayOf,
  ns: (model) => scalar(wireBytes(model), model.dtype),
  oa: ({ shape, items }) => new NdArray(items.map(build), shape, "object"),
  graph: ({ nodes, edges, edge_links }) => new GraphInstance(build(nodes), build(edges), build(edge_links)),
  space: (data) => spaceOf(data),
  autoreset: (value) => AutoresetMode.of(value),
  complex: (parts) => new Complex(...parts.map((bits) => float(BigInt(`0x${bits}`)).value)),
  unsent: ({ repr, type }) => new Unsent(repr, type),
};

/** Make the native value of a model, such that it is encoded exactly. */
export function build(model) {
  const [kind, content] = only(model);
  return BUILDERS[kind](content);
}

const MATCHERS = {
  none: (_, value) => value === null,
  bool: (flag, value) => value === flag,
  int: (text, value) => isInteger(value) && BigInt(value) === BigInt(text),
  float: (bits, value) => typeof value === "number" && sameFloat(value, float(BigInt(`0x${bits}`)).value),
  str: (text, value) => value === text,
  wtf8: (text, value) => typeof value === "string" && hex(writeText(value)) === text,
  bytes: (text, value) => value instanceof Uint8Array && hex(value) === text,
  list: (items, value) => value?.constructor === Array && allMatch(items, value),
  tuple: (items, value) => Array.isArray(value) && value.constructor !== Array && allMatch(items, value),
  dict: matchesDict,
  nd: matchesArray,
  ns: matchesScalar,
  oa: ({ shape, items }, value) =>
    value instanceof NdArray && value.dtype === "object" && sameShape(shape, value) && allMatch(items, value.data),
  graph: ({ nodes, edges, edge_links }, value) =>
    value instanceof GraphInstance &&
    allMatch([nodes, edges, edge_links], [value.nodes, value.edges, value.edgeLinks]),
  space: (data, value) => value instanceof Space && sameJson(data, JSON.parse(JSON.stringify(value))),
  autoreset: (name, value) => value instanceof AutoresetMode && value.value === name,
  complex: ([re, im], value) =>
    value instanceof Complex && MATCHERS.float(re, value.re) && MATCHERS.float(im, value.im),
  unsent: ({ repr, type }, value) => value instanceof Unsent && value.repr === repr && value.type === type,
};

/** Whether a decoded value equals a model. */
export function matches(model, value) {
  const [kind, content] = only(model);
  return MATCHERS[kind](content, value);
}

function isInteger(value) {
  return typeof value === "bigint" || Number.isInteger(value);
}

function sameFloat(one, other) {
  return Object.is(one, other);
}

function allMatch(models, values) {
  return models.length === values.length && models.every((model, i) => matches(model, values[i]));
}

function matchesDict(pairs, value) {
  const members = value instanceof Map ? [...value] : value?.constructor === Object && Object.entries(value);
  if (!members || members.length !== pairs.length) return false;
  return pairs.every((pair, i) => allMatch(pair, members[i]));
}

function sameShape(shape, value) {
  return JSON.stringify(shape) === JSON.stringify(value.shape);
}

// Written again, an array shows all of its bits.
function matchesArray(model, value) {
  if (!(value instanceof NdArray) || dtypeNamed(value.dtype)?.wire !== model.dtype) return false;
  const bytes = encodeBinary(value);
  const size = new DataView(bytes.buffer).getUint32(0, true);
  const expected = hex(wireBytes(model));
  return sameShape(model.shape, value) && hex(bytes.subarray(8 + size)).startsWith(expected);
}

function matchesScalar(model, value) {
  const raw = wireBytes(model);
  if (value instanceof Scalar) return value.dtype === model.dtype && hex(value.bytes) === hex(raw);
  const known = scalarAt(dtypeNamed(model.dtype), raw);
  if (value instanceof Uint8Array) return known instanceof Uint8Array && hex(known) === hex(value);
  if (typeof known === "number" && /[iu]/.test(model.dtype[1])) {
    return isInteger(value) && String(value) === (model.items?.[0] ?? String(known));
  }
  return typeof value === typeof known && Object.is(known, value);
}

/** Whether two trees of `JSON.parse` are the same, their members in any order. */
export function sameJson(one, other) {
  if (Array.isArray(one)) {
    return Array.isArray(other) && one.length === other.length && one.every((each, i) => sameJson(each, other[i]));
  }
  if (typeof one !== "object" || one === null || typeof other !== "object" || other === null) {
    return Object.is(one, other);
  }
  const keys = Object.keys(one);
  return keys.length === Object.keys(other).length && keys.every((key) => sameJson(one[key], other[key]));
}

/** The language's name of a value's type. */
export function kindOf(value) {
  if (value === null) return "null";
  if (typeof value !== "object") return typeof value;
  if (value instanceof NdArray) return `NdArray of ${value.data.constructor.name}`;
  return value.constructor.name;
}

/** The model of a value: of a decoded answer in plain JSON, or of a sample. */
export function shown(value) {
  if (value instanceof Float) return `float ${value.value}`;
  if (typeof value === "bigint") return `${value}n`;
  if (value instanceof NdArray) return `${value} ${Array.from(value.data)}`;
  try {
    return JSON.stringify(value, (_, each) => (typeof each === "bigint" ? `${each}n` : each)) ?? String(value);
  } catch {
    return String(value);
  }
}
