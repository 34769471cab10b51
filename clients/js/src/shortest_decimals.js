/** Floats of fewer bits as decimals of no more digits than they need. */

import { roundToHalf } from "./float16.js";

/** Return the number with the fewest digits that is parsed as the same float32 or float16. */
export function shortest(number, dtype) {
  if (dtype.size === 8 || !Number.isFinite(number)) return number;
  const round = dtype.size === 4 ? Math.fround : roundToHalf;
  for (let digits = 1; digits < 10; digits++) {
    const short = Number(number.toPrecision(digits));
    if (Object.is(round(short), number)) return short;
  }
  return number;
}
