/**
 * Values in the binary form, read.
 *
 *     0      4 size of the signature, blanks at its end included
 *     4      4 zero
 *     8      a signature: JSON, and blanks
 *            b the leaves, in the order of the signature
 *
 * A signature is compiled once into functions that read its leaves.
 */

import { NdArray } from "./arrays.js";
import { countOf, elementsOf, readDtype } from "./dtypes.js";
import { ProtocolError } from "./errors.js";
import { MAX_DIGITS, narrow, objectOf, parse } from "./json.js";
import { Keys } from "./keys.js";
import { scalarAt } from "./numpy_scalars.js";
import { Complex, GraphInstance, Tuple, Unsent } from "./scalars.js";
import { readText, readUtf8, shown } from "./text.js";
import { Members, TREE_DEPTH, checkDepth, readDecimal, readMode, readSpace } from "./trees.js";
import { dictOf, readKey } from "./typed_reader.js";

const MAX_SIGNATURE_BYTES = 2 ** 20;
const MAX_REMEMBERED = 256;
const MAX_REMEMBERED_BYTES = 4096;

/** Where a value is being read. */
class Cursor {
  constructor(bytes, start) {
    this.bytes = bytes;
    this.view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
    this.at = start;
  }

  /** Skip a leaf; return its start. */
  take(size) {
    const start = this.at;
    const end = start + size;
    const next = end + (-size & 7);
    if (!(next <= this.bytes.length)) {
      throw new ProtocolError(`a value needs ${size} bytes at byte ${start}, but ends before`);
    }
    for (let at = end; at < next; at++) {
      if (this.bytes[at]) throw new ProtocolError(`a value has padding at byte ${at} that is not zero`);
    }
    this.at = next;
    return start;
  }

  leaf(size) {
    const start = this.take(size);
    return this.bytes.subarray(start, start + size);
  }

  varying() {
    const start = this.take(8);
    return this.leaf(this.view.getUint32(start, true) + this.view.getUint32(start + 4, true) * 2 ** 32);
  }
}

const LEAVES = {
  none: () => null,
  bool(cursor) {
    const flag = cursor.leaf(1)[0];
    if (flag > 1) throw new ProtocolError("a boolean is neither true (1) nor false (0)");
    return flag === 1;
  },
  int(cursor) {
    const start = cursor.take(8);
    const high = cursor.view.getInt32(start + 4, true);
    if (high >= -0x200000 && high < 0x200000) {
      return high * 2 ** 32 + cursor.view.getUint32(start, true);
    }
    return narrow(cursor.view.getBigInt64(start, true));
  },
  float: (cursor) => cursor.view.getFloat64(cursor.take(8), true),
  complex(cursor) {
    const start = cursor.take(16);
    return new Complex(cursor.view.getFloat64(start, true), cursor.view.getFloat64(start + 8, true));
  },
  bigint: (cursor) => readDecimal(String.fromCharCode(...cursor.varying().subarray(0, MAX_DIGITS + 2))),
  str: (cursor) => readText(cursor.varying()),
  bytes: (cursor) => cursor.varying().slice(),
  unsent: (cursor) => new Unsent(readText(cursor.varying()), readText(cursor.varying())),
};

const TAGS = {
  list: listReader,
  tuple(trees, depth) {
    const read = listReader(trees, depth);
    return (cursor) => Tuple.from(read(cursor));
  },
  dict: dictReader,
  nd([name, sizes], depth, content) {
    listOf(content, 2);
    const dtype = readDtype(name);
    const size = countOf(sizes, dtype.size) * dtype.size;
    return (cursor) => new NdArray(elementsOf(dtype, cursor.leaf(size)), [...sizes], dtype.name);
  },
  ns(name) {
    const dtype = readDtype(name);
    return (cursor) => scalarAt(dtype, cursor.leaf(dtype.size));
  },
  oa([sizes, trees], depth, content) {
    listOf(content, 2);
    if (listOf(trees).length !== countOf(sizes, 8)) throw bad(content);
    const read = listReader(trees, depth);
    return (cursor) => new NdArray(read(cursor), [...sizes], "object");
  },
  graph(trees, depth) {
    const read = listReader(listOf(trees, 3), depth);
    return (cursor) => new GraphInstance(...read(cursor));
  },
  space(tree) {
    const space = readSpace(tree);
    return () => space;
  },
  autoreset(name) {
    const mode = readMode(name);
    return () => mode;
  },
};

function listReader(trees, depth) {
  checkDepth(depth);
  const nodes = listOf(trees).map((tree) => nodeOf(tree, depth + 1));
  return (cursor) => nodes.map((read) => read(cursor));
}

function dictReader(pairs, depth) {
  checkDepth(depth);
  const keys = new Keys();
  const nodes = listOf(pairs).map((pair) => {
    const [key, tree] = listOf(pair, 2);
    keys.add(readKey(key, depth + 1));
    return nodeOf(tree, depth + 1);
  });
  const names = keys.all;
  if (!isSimple(keys)) return (cursor) => dictOf(keys, nodes.map((read) => read(cursor)));
  return (cursor) => {
    const made = {};
    for (let i = 0; i < names.length; i++) made[names[i]] = nodes[i](cursor);
    return made;
  };
}

/** Whether assigning members one after the other makes the object. */
function isSimple(keys) {
  if (!keys.areStrings || keys.all.includes("__proto__")) return false;
  return !(objectOf(new Map(keys.all.map((key) => [key, null]))) instanceof Map);
}

function nodeOf(tree, depth) {
  if (typeof tree === "string" && Object.hasOwn(LEAVES, tree)) return LEAVES[tree];
  if (tree instanceof Members && tree.size === 1) {
    const [[tag, content]] = tree;
    if (Object.hasOwn(TAGS, tag)) return TAGS[tag](content, depth, content);
  }
  throw bad(tree);
}

function listOf(tree, size = tree?.length) {
  if (!Array.isArray(tree) || tree.length !== size) throw bad(tree);
  return tree;
}

function bad(tree) {
  return new ProtocolError(`a signature is unknown: ${shown(tree)}`);
}

const remembered = new Map();

/**
 * Compile a signature.
 *
 * @param {Uint8Array} signature With the blanks that pad it.
 * @returns {(bytes: Uint8Array, start: number) => unknown} Reads the leaves from a
 *   position to the end of the bytes.
 */
export function compileReader(signature) {
  if (signature.length > MAX_SIGNATURE_BYTES) {
    throw new ProtocolError(`a signature has more than ${MAX_SIGNATURE_BYTES} bytes`);
  }
  const text = readUtf8(signature);
  const known = remembered.get(text);
  if (known) return known;
  const reader = readerOf(text);
  if (text.length <= MAX_REMEMBERED_BYTES) {
    if (remembered.size >= MAX_REMEMBERED) remembered.clear();
    remembered.set(text, reader);
  }
  return reader;
}

function readerOf(text) {
  const tree = parse(text, { maxDepth: TREE_DEPTH, object: (members) => new Members(members) });
  const node = compiled(tree);
  return (bytes, start) => {
    const cursor = new Cursor(bytes, start);
    const value = node(cursor);
    if (cursor.at !== bytes.length) {
      throw new ProtocolError(`a value ends at byte ${cursor.at} of ${bytes.length}`);
    }
    return value;
  };
}

function compiled(tree) {
  try {
    return nodeOf(tree, 1);
  } catch (error) {
    // For other values than lists, the caller requested the first members.
    if (error instanceof TypeError) throw bad(tree);
    throw error;
  }
}

/**
 * Decode a value in the binary form.
 *
 * @param {Uint8Array} bytes All of it. Arrays stay in this memory.
 * @throws {ProtocolError} The bytes are malformed.
 */
export function decodeBinary(bytes) {
  if (bytes.length < 8) throw new ProtocolError("a value is shorter than 8 bytes");
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const size = view.getUint32(0, true);
  if (view.getUint32(4, true)) throw new ProtocolError("a value has bytes 4 to 8 that are not zero");
  if (size % 8 || 8 + size > bytes.length) {
    throw new ProtocolError(`a value has a signature of an impossible size: ${size}`);
  }
  return compileReader(bytes.subarray(8, 8 + size))(bytes, 8 + size);
}
