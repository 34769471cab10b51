/**
 * `Dict`, `Tuple`, `OneOf`, `Sequence` and `Graph`, which are spaces of spaces, and
 * `spaceOf`, which makes each space of its description. They need each other.
 */

import { narrow, objectOf } from "../json.js";
import { Tuple } from "../scalars.js";
import { Box } from "./box.js";
import { Discrete, MultiBinary, MultiDiscrete } from "./discrete.js";
import { below, geometric } from "./draws.js";
import { Fields } from "./fields.js";
import { drawGraph, graphFromPlain, isGraph } from "./graphs.js";
import { Opaque } from "./opaque.js";
import { Space } from "./space.js";
import { Text } from "./text.js";

/** Objects with a value of a space of its own under each key. */
export class DictSpace extends Space {
  /** @param {object} description As `{spaces: [["go", {type: "Discrete", n: 2}]]}`. */
  constructor(description) {
    super();
    const fields = description instanceof Fields ? description : new Fields(description);
    /** @type {Map<string | number, Space>} In their order. */
    this.spaces = new Map();
    fields.list("spaces").forEach((pair, i) => this.#add(fields, pair, `spaces[${i}]`));
    this.sortKeys = fields.flag("sort_keys", true);
  }

  #add(fields, pair, at) {
    if (!Array.isArray(pair) || pair.length !== 2) fields.refuse(at, "a pair: [key, space]", pair);
    const [key, description] = pair;
    if (typeof key !== "string" && !(Math.abs(key) <= 2 ** 53 && Number.isInteger(key))) {
      fields.refuse(`${at}[0]`, "a string, or an integer up to 2^53", key);
    }
    if (this.spaces.has(key)) fields.refuse(`${at}[0]`, "a key not used before", key);
    this.spaces.set(key, spaceOf(fields.inner(`${at}[1]`, description ?? null)));
  }

  #members(value) {
    if (value instanceof Map) {
      return new Map(Array.from(value, ([key, each]) => [typeof key === "bigint" ? narrow(key) : key, each]));
    }
    const isObject = Object.prototype.toString.call(value) === "[object Object]";
    return isObject ? new Map(Object.entries(value)) : undefined;
  }

  #made(valueOf) {
    const members = new Map(Array.from(this.spaces, ([key, space]) => [key, valueOf(space, key)]));
    return [...members.keys()].every((key) => typeof key === "string") ? objectOf(members) : members;
  }

  contains(value) {
    const members = this.#members(value);
    if (!members || members.size !== this.spaces.size) return false;
    return Array.from(this.spaces).every(
      ([key, space]) => members.has(key) && space.contains(members.get(key)),
    );
  }

  sample(random = Math.random) {
    return this.#made((space) => space.sample(random));
  }

  toJSON() {
    const spaces = Array.from(this.spaces, ([key, space]) => [key, space.toJSON()]);
    return { type: "Dict", spaces, ...(this.sortKeys ? {} : { sort_keys: false }) };
  }

  fromPlain(plain) {
    const members = this.#members(plain) ?? new Map();
    return this.#made((space, key) => space.fromPlain(members.get(String(key))));
  }

  stack(items) {
    const members = items.map((item) => this.#members(item));
    return this.#made((space, key) => space.stack(members.map((each) => each.get(key))));
  }

  unstack(batch) {
    const members = this.#members(batch);
    const keys = [...this.spaces.keys()];
    const columns = keys.map((key) => this.spaces.get(key).unstack(members?.get(key)));
    return rows(columns)?.map((row) => new Map(keys.map((key, i) => [key, row[i]])));
  }
}

/** Tuples with an item of a space of its own in each place. */
export class TupleSpace extends Space {
  /** @param {object} description As `{spaces: [{type: "Discrete", n: 2}]}`. */
  constructor(description) {
    super();
    this.spaces = membersOf(description);
  }

  contains(value) {
    if (!Array.isArray(value) || value.length !== this.spaces.length) return false;
    return this.spaces.every((space, i) => space.contains(value[i]));
  }

  sample(random = Math.random) {
    return Tuple.from(this.spaces, (space) => space.sample(random));
  }

  toJSON() {
    return { type: "Tuple", spaces: this.spaces.map((space) => space.toJSON()) };
  }

  fromPlain(plain) {
    return Tuple.from(this.spaces, (space, i) => space.fromPlain(plain[i]));
  }

  stack(items) {
    return Tuple.from(this.spaces, (space, i) => space.stack(items.map((item) => item[i])));
  }

  unstack(batch) {
    if (!Array.isArray(batch) || batch.length !== this.spaces.length) return undefined;
    return rows(this.spaces.map((space, i) => space.unstack(batch[i])));
  }
}

/** Pairs of the number of one of several spaces, and an element of that. */
export class OneOf extends Space {
  /** @param {object} description As `{spaces: [{type: "Discrete", n: 2}]}`. */
  constructor(description) {
    super();
    this.spaces = membersOf(description);
  }

  contains(value) {
    if (!Array.isArray(value) || value.length !== 2) return false;
    const index = typeof value[0] === "bigint" ? Number(value[0]) : value[0];
    return Number.isInteger(index) && (this.spaces[index]?.contains(value[1]) ?? false);
  }

  sample(random = Math.random) {
    const index = below(this.spaces.length, random);
    return Tuple.from([index, this.spaces[index].sample(random)]);
  }

  toJSON() {
    return { type: "OneOf", spaces: this.spaces.map((space) => space.toJSON()) };
  }

  fromPlain(plain) {
    return Tuple.from([plain[0], this.spaces[plain[0]].fromPlain(plain[1])]);
  }
}

/** Tuples of any length of elements of one space; or one batch of them, if stacked. */
export class Sequence extends Space {
  /** @param {object} description As `{space: {type: "Discrete", n: 2}, stack: false}`. */
  constructor(description) {
    super();
    const fields = description instanceof Fields ? description : new Fields(description);
    this.stacked = fields.flag("stack", false);
    this.space = spaceOf(fields.inner("space", fields.get("space", null)));
  }

  contains(value) {
    const items = this.stacked ? this.space.unstack(value) : Array.isArray(value) && [...value];
    return !!items && items.every((item) => this.space.contains(item));
  }

  sample(random = Math.random) {
    const items = Array.from({ length: geometric(random) }, () => this.space.sample(random));
    return this.stacked ? this.space.stack(items) : Tuple.from(items);
  }

  toJSON() {
    return { type: "Sequence", space: this.space.toJSON(), stack: this.stacked };
  }

  fromPlain(plain) {
    const items = plain.map((each) => this.space.fromPlain(each));
    return this.stacked ? this.space.stack(items) : Tuple.from(items);
  }
}

/** Graphs whose nodes, and edges if they have any, are elements of a space each. */
export class Graph extends Space {
  /** @param {object} description As `{node_space: {type: "Discrete", n: 2}, edge_space: null}`. */
  constructor(description) {
    super();
    const fields = description instanceof Fields ? description : new Fields(description);
    this.nodeSpace = spaceOf(fields.inner("node_space", fields.get("node_space", null)));
    const edges = fields.get("edge_space", null);
    this.edgeSpace = edges === null ? null : spaceOf(fields.inner("edge_space", edges));
  }

  contains(value) {
    return isGraph(value, this.nodeSpace, this.edgeSpace);
  }

  sample(random = Math.random) {
    return drawGraph(this.nodeSpace, this.edgeSpace, random);
  }

  toJSON() {
    const edge_space = this.edgeSpace?.toJSON() ?? null;
    return { type: "Graph", node_space: this.nodeSpace.toJSON(), edge_space };
  }

  fromPlain(plain) {
    return graphFromPlain(plain, this.nodeSpace, this.edgeSpace);
  }
}

const KINDS = {
  Box,
  Discrete,
  MultiBinary,
  MultiDiscrete,
  Text,
  Dict: DictSpace,
  Tuple: TupleSpace,
  OneOf,
  Sequence,
  Graph,
  Opaque,
};

/**
 * Make the space of a description.
 *
 * @param {object} description From a server: an object with a `type`.
 * @returns {Space}
 * @throws {ProtocolError} The description does not fit.
 */
export function spaceOf(description) {
  const fields = description instanceof Fields ? description : new Fields(description);
  const type = fields.get("type");
  if (typeof type !== "string" || !Object.hasOwn(KINDS, type)) {
    fields.refuse("type", `one of ${Object.keys(KINDS).join(", ")}`);
  }
  return new KINDS[type](fields, spaceOf);
}

function membersOf(description) {
  const fields = description instanceof Fields ? description : new Fields(description);
  return fields.list("spaces").map((each, i) => spaceOf(fields.inner(`spaces[${i}]`, each ?? null)));
}

function rows(columns) {
  const length = columns[0]?.length ?? 0;
  if (columns.some((column) => column?.length !== length)) return undefined;
  return Array.from({ length }, (_, i) => Tuple.from(columns, (column) => column[i]));
}
