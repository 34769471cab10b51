/** Random numbers for samples, from a generator of numbers from 0 to 1. */

import { narrow } from "../json.js";

const CHUNK = 2n ** 32n;

/** Draw an integer from 0 on, below a number or BigInt. */
export function below(count, random) {
  if (count <= 2 ** 53) return Math.floor(random() * Number(count));
  // Enough bits that the remainder is as good as uniform.
  let drawn = 0n;
  for (let room = BigInt(count) * 2n ** 32n; room > 0n; room /= CHUNK) {
    drawn = drawn * CHUNK + BigInt(Math.floor(random() * 2 ** 32));
  }
  return narrow(drawn % BigInt(count));
}

/** Draw from the exponential distribution with mean 1. */
export function exponential(random) {
  return -Math.log1p(-random());
}

/** Draw from the normal distribution with mean 0 and deviation 1. */
export function normal(random) {
  return Math.sqrt(2 * exponential(random)) * Math.cos(2 * Math.PI * random());
}

/** Draw how often something of probability 1/4 is tried until it succeeds. */
export function geometric(random) {
  return 1 + Math.floor(Math.log1p(-random()) / Math.log(0.75));
}
