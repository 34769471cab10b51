/** An agent that prints the bits of all that it gets; browsers load this file, too. */

import { DictSpace, Discrete, NdArray, Opaque, TupleSpace, attach, make } from "../src/index.js";
import { arrayBytes } from "../src/arrays.js";
import { parse } from "../src/json.js";
import { writeHex } from "../src/text.js";

/**
 * Play actions, each a line of plain JSON, and print the bits of all results.
 *
 * @param {string[]} lines
 * @param {object} options Of `make`.
 * @param {(line: string) => void} print
 * @returns {Promise<string>} The transport of the steps.
 */
export async function agree(envId, seed, lines, options, print) {
  const attached = envId.startsWith("@");
  const env = await (attached ? attach(envId.slice(1), options) : make(envId, options));
  const bits = (observation) => partsOf(observation, env.observationSpace).join(",");
  try {
    print(`reset ${bits((await env.reset({ seed })).observation)}`);
    for (const line of lines) {
      const { observation, reward, terminated, truncated } = await env.step(parse(line));
      print(`${bits(observation)} ${doubleBits(reward)} ${Number(terminated)} ${Number(truncated)}`);
      if (terminated || truncated) print(`reset ${bits((await env.reset()).observation)}`);
    }
    return env.transport;
  } finally {
    await env.close();
  }
}

function partsOf(value, space) {
  if (value instanceof NdArray) return [arrayBits(value)];
  if (Array.isArray(value)) {
    return value.flatMap((item, i) => partsOf(item, space instanceof TupleSpace ? space.spaces[i] : space?.space));
  }
  if (typeof value === "object") {
    const members = value instanceof Map ? [...value] : Object.entries(value);
    return members.flatMap(([key, item]) => partsOf(item, space instanceof DictSpace ? space.spaces.get(key) : null));
  }
  const nearest = space instanceof Opaque ? space.base : space;
  const isInteger = typeof value !== "number" || nearest instanceof Discrete;
  return [isInteger ? integerBits(value) : doubleBits(value)];
}

function arrayBits(array) {
  const bytes = arrayBytes(array);
  if (array.dtype[0] !== ">") return writeHex(bytes);
  const size = Number(array.dtype.slice(2));
  return writeHex(Uint8Array.from(bytes, (_, i) => bytes[i - (i % size) + size - 1 - (i % size)]));
}

function integerBits(value) {
  const view = new DataView(new ArrayBuffer(8));
  view.setBigInt64(0, BigInt(value), true);
  return writeHex(new Uint8Array(view.buffer));
}

function doubleBits(value) {
  const view = new DataView(new ArrayBuffer(8));
  view.setFloat64(0, value, true);
  return writeHex(new Uint8Array(view.buffer));
}
