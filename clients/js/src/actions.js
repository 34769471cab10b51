/** Actions that are no element of any space of integers, and would be sent as they are. */

import { NdArray } from "./arrays.js";
import { Float } from "./scalars.js";
import { Discrete, MultiBinary, MultiDiscrete } from "./spaces/index.js";

/**
 * Demand that actions for integers have neither NaN nor infinities in them: these are
 * exact values, which the server does not cast, and break an episode.
 *
 * @param {import("./spaces/space.js").Space | null} space Of the actions.
 * @param {unknown} actions One, or lists of them.
 * @throws {RangeError}
 */
export function checkIntegers(space, actions) {
  const isOne = space instanceof Discrete;
  if (!isOne && !(space instanceof MultiDiscrete || space instanceof MultiBinary)) return;
  const odd = oddIn(actions);
  if (odd === undefined) return;
  const words = isOne ? "an integer" : "made of integers";
  throw new RangeError(`an action of a ${space.constructor.name} is ${words}; got ${odd}`);
}

/** Find a number that is not finite; undefined if all are finite. */
function oddIn(value) {
  const number = value instanceof Float ? value.value : value;
  if (typeof number === "number") return Number.isFinite(number) ? undefined : number;
  const items = value instanceof NdArray ? value.data : value;
  const mayHave = Array.isArray(items) || items instanceof Float32Array || items instanceof Float64Array;
  if (!mayHave) return undefined;
  for (const item of items) {
    const odd = oddIn(item);
    if (odd !== undefined) return odd;
  }
  return undefined;
}
