/** Which control an element of a space gets, and how its text becomes a value. No DOM. */

import { InputError } from "./input_error.js";

/** Up to this many values, a list to choose from; beyond it, a field for a number. */
export const MAX_CHOICES = 32;
/** Up to this many elements, an array gets a control for each; beyond it, JSON. */
export const MAX_CONTROLS = 64;

const INTEGER = /^[+-]?[0-9]{1,20}$/;
const SPECIAL = { inf: Infinity, "-inf": -Infinity, nan: NaN };

/**
 * The limits of one number.
 *
 * @typedef {object} Limits
 * @property {number | bigint} low Perhaps -Infinity.
 * @property {number | bigint} high Perhaps Infinity.
 * @property {boolean} isInteger
 * @property {boolean} isFlag Whether its values are false and true.
 */

/** Read a number of a description: "inf", and decimal strings beyond 2^53. */
export function numberOf(data) {
  if (typeof data !== "string") return Number(data);
  return Object.hasOwn(SPECIAL, data) ? SPECIAL[data] : narrow(BigInt(data));
}

/** The shape of an array space; a Discrete has none. */
export function shapeOf(space) {
  if (space.type === "MultiBinary") return Array.isArray(space.n) ? space.n : [Number(space.n)];
  if (space.type === "MultiDiscrete") return space.shape ?? [space.nvec.length];
  return space.shape ?? [];
}

/**
 * The limits of each element of an array space, or of the one number of a Discrete.
 *
 * @returns {Limits[] | null} null if there are more than `MAX_CONTROLS`.
 */
export function limitsOf(space) {
  const size = shapeOf(space).reduce((product, each) => product * each, 1);
  if (size > MAX_CONTROLS) return null;
  return Array.from({ length: size }, (_, i) => LIMITS[space.type](space, i));
}

const LIMITS = {
  Discrete: ({ n, start = 0 }) => integers(numberOf(start), numberOf(n)),
  MultiDiscrete: ({ nvec, start = 0 }, i) => integers(numberOf(at(start, i)), numberOf(at(nvec, i))),
  MultiBinary: () => ({ low: 0, high: 1, isInteger: true, isFlag: true }),
  Box: ({ low, high, dtype = "float32" }, i) => ({
    low: numberOf(at(low, i)),
    high: numberOf(at(high, i)),
    isInteger: /^[<>]?(u?int|[iu])/.test(dtype),
    isFlag: dtype === "bool",
  }),
};

function at(data, i) {
  return Array.isArray(data) ? data[i] : data;
}

function integers(start, count) {
  const high = narrow(BigInt(start) + BigInt(count) - 1n);
  return { low: start, high, isInteger: true, isFlag: false };
}

function narrow(integer) {
  const number = Number(integer);
  return Number.isSafeInteger(number) ? number : integer;
}

/** How many values an integer can have; Infinity for other numbers. */
export function countOf({ low, high, isInteger }) {
  return isInteger ? Number(high) - Number(low) + 1 : Infinity;
}

/**
 * Select the control of a number.
 *
 * @param {Limits} limits
 * @param {boolean} [isChoice] Whether the values are names rather than amounts.
 * @returns {"switch" | "select" | "slider" | "number"}
 */
export function controlOf(limits, isChoice = false) {
  if (limits.isFlag) return "switch";
  if (isChoice) return countOf(limits) <= MAX_CHOICES ? "select" : "number";
  const [low, high] = [Number(limits.low), Number(limits.high)];
  // A slider over all floats, or all integers of 64 bits, selects nothing that is meant.
  return high > low && high - low <= 1e6 ? "slider" : "number";
}

/** The number of some limits that is nearest to zero. */
export function startOf({ low, high }) {
  if (low > 0) return low;
  return high < 0 ? high : 0;
}

/**
 * Read the text of a number.
 *
 * @param {string} text
 * @param {Limits} limits
 * @param {string} name Of the control, for the error.
 * @returns {number | bigint} A bigint if it is an integer beyond 2^53.
 * @throws {InputError} It is no such number, or beyond the limits.
 */
export function readNumber(text, limits, name) {
  const trimmed = text.trim();
  const { low, high, isInteger } = limits;
  let value;
  if (isInteger) value = INTEGER.test(trimmed) ? narrow(BigInt(trimmed.replace(/^\+/, ""))) : undefined;
  else value = trimmed === "" ? undefined : Number(trimmed);
  if (value === undefined || Number.isNaN(value) || value < low || value > high || !isBounded(value)) {
    throw new InputError(name, text, expectedOf(limits));
  }
  return value;
}

// JSON has no infinities.
function isBounded(value) {
  return typeof value === "bigint" || Number.isFinite(value);
}

function expectedOf({ low, high, isInteger }) {
  const kind = isInteger ? "an integer" : "a number";
  const [below, above] = [low === -Infinity, high === Infinity];
  if (below && above) return kind;
  if (below) return `${kind} up to ${high}`;
  return above ? `${kind} from ${low} on` : `${kind} from ${low} to ${high}`;
}

/**
 * Check an element of a Text space, by code points.
 *
 * @throws {InputError} It has too few or too many characters, or one that is not in the set.
 */
export function readText(text, { min_length = 1, max_length, charset }, name) {
  const characters = Array.from(text);
  const [least, most] = [numberOf(min_length), numberOf(max_length)];
  if (characters.length < least || characters.length > most) {
    throw new InputError(name, text, `${least} to ${most} characters; it has ${characters.length}`);
  }
  const known = new Set(charset);
  const other = characters.find((each) => !known.has(each));
  if (other !== undefined) {
    throw new InputError(name, text, `characters of ${JSON.stringify(charset)}, without ${JSON.stringify(other)}`);
  }
  return text;
}

/** Put a flat list into nested lists of a shape; a shape without axes gives the one item. */
export function nest(flat, shape) {
  if (shape.length === 0) return flat[0];
  const [count, ...inner] = shape;
  const size = inner.reduce((product, each) => product * each, 1);
  return Array.from({ length: count }, (_, i) => nest(flat.slice(i * size, (i + 1) * size), inner));
}

/** The items of nested lists, in C order. */
export function flatten(nested) {
  return Array.isArray(nested) ? nested.flat(Infinity) : [nested];
}

/** The place of an element within an array, as `[1][0]`; nothing without axes. */
export function placeOf(index, shape) {
  let place = "";
  let rest = index;
  for (const size of [...shape].reverse()) {
    place = `[${rest % size}]${place}`;
    rest = Math.floor(rest / size);
  }
  return place;
}

/** An element of a space to begin with: near zero, short and empty. */
export function initialOf(space) {
  switch (space.type) {
    case "Text":
      return (Array.from(space.charset)[0] ?? "").repeat(Math.min(numberOf(space.min_length ?? 1), 10_000));
    case "Dict":
      return Object.fromEntries(space.spaces.map(([key, inner]) => [String(key), initialOf(inner)]));
    case "Tuple":
      return space.spaces.map(initialOf);
    case "OneOf":
      return [0, initialOf(space.spaces[0])];
    case "Sequence":
      return [];
    case "Opaque":
      return space.base ? initialOf(space.base) : null;
    case "Graph":
      return { nodes: [initialOf(space.node_space)], edges: null, edge_links: null };
    default:
      return arrayOf(space);
  }
}

/** Whether a space is, or has in it, one whose elements only the server knows. */
export function isOpaque(space) {
  if (typeof space !== "object" || space === null) return false;
  return space.type === "Opaque" || Object.values(space).some(isOpaque);
}

function arrayOf(space) {
  const shape = shapeOf(space);
  const limits = limitsOf(space);
  if (limits) return nest(limits.map((each) => (each.isFlag ? flagOf(space, 0) : startOf(each))), shape);
  const size = shape.reduce((product, each) => product * each, 1);
  return nest(Array.from({ length: size }, (_, i) => startOf(LIMITS[space.type](space, i))), shape);
}

/** A flag as an element of its space: booleans in a Box, 0 and 1 in a MultiBinary. */
export function flagOf(space, isOn) {
  if (space.type === "Box") return Boolean(isOn);
  return isOn ? 1 : 0;
}
