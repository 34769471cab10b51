/** Decode typed JSON: a value that JSON does not have is an object with a `$t`. */

import { NdArray } from "./arrays.js";
import { countOf, elementsOf, readDtype } from "./dtypes.js";
import { ProtocolError } from "./errors.js";
import { objectOf, parse } from "./json.js";
import { Keys, checkKey } from "./keys.js";
import { scalarAt } from "./numpy_scalars.js";
import { Complex, GraphInstance, Tuple, Unsent, float } from "./scalars.js";
import { readBase64, readText, shown } from "./text.js";
import { Members, TREE_DEPTH, checkDepth, readDecimal, readMode, readSpace } from "./trees.js";

const BITS = /^[0-9a-f]{16}$/;
const SPECIAL = { nan: NaN, inf: Infinity, "-inf": -Infinity };

const TAGS = {
  int: ["v", (v) => readDecimal(v)],
  float: ["v", (v) => readSpecial(v)],
  complex: ["v", (v) => new Complex(...pairOf(v, "number"))],
  str: ["v", (v) => readText(readBase64(v))],
  bytes: ["v", (v) => readBase64(v)],
  tuple: ["v", (v, depth) => Tuple.from(items(v, depth))],
  dict: ["v", readDict],
  nd: ["d s v", readArray],
  ns: ["d v", (d, v) => readScalar(d, v)],
  oa: ["s v", readObjects],
  graph: ["nodes edges edge_links", readGraph],
  autoreset: ["v", (v) => readMode(v)],
  space: ["v", (v) => readSpace(v)],
  unsent: ["v", (v) => new Unsent(...pairOf(v, "string"))],
};

/**
 * Decode a value in typed JSON.
 *
 * @param {string} text
 * @throws {ProtocolError} The tree is malformed.
 */
export function decodeTyped(text) {
  return readTree(parse(text, { maxDepth: TREE_DEPTH, object: (members) => new Members(members) }), 1);
}

/** Make the value that a tree so many levels deep stands for. */
export function readTree(tree, depth) {
  if (Array.isArray(tree)) return items(tree, depth);
  if (!(tree instanceof Members)) return tree;
  const tag = tree.get("$t");
  if (tag === undefined) {
    checkDepth(depth);
    return objectOf(new Map(Array.from(tree, ([key, each]) => [key, readTree(each, depth + 1)])));
  }
  if (typeof tag !== "string" || !Object.hasOwn(TAGS, tag)) {
    throw new ProtocolError(`a $t is unknown: ${shown(tag)}`);
  }
  const [names, read] = TAGS[tag];
  const fields = names.split(" ");
  if (tree.size !== fields.length + 1 || !fields.every((field) => tree.has(field))) {
    throw new ProtocolError(`a "${tag}" has not the fields that it must have: ${shown(tree)}`);
  }
  return read(...fields.map((field) => tree.get(field)), depth);
}

function items(trees, depth) {
  if (!Array.isArray(trees)) throw new ProtocolError(`this is no list: ${shown(trees)}`);
  checkDepth(depth);
  return trees.map((tree) => readTree(tree, depth + 1));
}

function readSpecial(text) {
  if (typeof text === "string" && Object.hasOwn(SPECIAL, text)) return SPECIAL[text];
  if (typeof text !== "string" || !BITS.test(text)) throw new ProtocolError(`this is no float: ${shown(text)}`);
  return float(BigInt(`0x${text}`)).value;
}

function pairOf(trees, kind) {
  const pair = Array.isArray(trees) ? trees.map((tree) => readTree(tree, 1)) : [];
  if (pair.length !== 2 || pair.some((each) => typeof each !== kind)) {
    throw new ProtocolError(`this is no pair of the type ${kind}: ${shown(trees)}`);
  }
  return pair;
}

function readDict(pairs, depth) {
  if (!Array.isArray(pairs)) throw new ProtocolError(`this is no list: ${shown(pairs)}`);
  checkDepth(depth);
  const keys = new Keys();
  const values = pairs.map((pair) => {
    if (!Array.isArray(pair) || pair.length !== 2) {
      throw new ProtocolError(`this is no pair of a key and a value: ${shown(pair)}`);
    }
    keys.add(readKey(pair[0], depth + 1));
    return readTree(pair[1], depth + 1);
  });
  return dictOf(keys, values);
}

/** Read the key of a dict. */
export function readKey(tree, depth) {
  checkKey(tree);
  return readTree(tree, depth);
}

/** Make a dict: a plain object where that keeps everything, else a Map. */
export function dictOf(keys, values) {
  const members = new Map(keys.all.map((key, i) => [key, values[i]]));
  return keys.areStrings ? objectOf(members) : members;
}

function readArray(name, sizes, text) {
  const dtype = readDtype(name);
  const count = countOf(sizes, dtype.size);
  return new NdArray(elementsOf(dtype, sized(text, count * dtype.size)), [...sizes], dtype.name);
}

function readScalar(name, text) {
  const dtype = readDtype(name);
  return scalarAt(dtype, sized(text, dtype.size));
}

function sized(text, size) {
  const bytes = readBase64(text);
  if (bytes.length !== size) {
    throw new ProtocolError(`a value needs ${size} bytes, but has ${bytes.length}`);
  }
  return bytes;
}

function readObjects(sizes, trees, depth) {
  if (!Array.isArray(trees) || trees.length !== countOf(sizes, 8)) {
    throw new ProtocolError("an array of objects has not the items of its shape");
  }
  return new NdArray(items(trees, depth), [...sizes], "object");
}

function readGraph(nodes, edges, links, depth) {
  return new GraphInstance(...items([nodes, edges, links], depth));
}
