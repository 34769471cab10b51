/** The arithmetic of curves: ticks of an axis, ranges, and the point under a pointer. */

const STEPS = [1, 2, 5, 10];

/**
 * Choose round numbers for the ticks of an axis.
 *
 * @param {number} low
 * @param {number} high Not below `low`.
 * @param {number} [count] The largest number of ticks.
 * @returns {number[]} In ascending order, each from `low` to `high`.
 */
export function ticksOf(low, high, count = 5) {
  if (!(high > low)) return [low];
  const least = high / count - low / count;
  const power = 10 ** Math.floor(Math.log10(least));
  const step = power * (STEPS.find((each) => each * power >= least) ?? 10);
  const ticks = [];
  for (let n = Math.ceil(low / step); n * step <= high; n++) {
    // Multiples of a decimal step have digits that the step has not.
    ticks.push(Number((n * step).toPrecision(12)));
  }
  return ticks;
}

/**
 * Find the range of some values, with room around a single value.
 *
 * @param {number[]} values Those that are not finite are left out.
 * @returns {[number, number]}
 */
export function rangeOf(values) {
  let [low, high] = [Infinity, -Infinity];
  for (const value of values) {
    if (!Number.isFinite(value)) continue;
    low = Math.min(low, value);
    high = Math.max(high, value);
  }
  if (low > high) return [0, 1];
  if (low < high) return [low, high];
  const room = Math.abs(low) / 10 || 1;
  return [low - room, low + room];
}

/** Map a value from one range to another. */
export function scaled(value, [low, high], [start, end]) {
  return start + ((value - low) / (high - low)) * (end - start);
}

/**
 * Find the point whose x is nearest.
 *
 * @param {{ x: number }[]} points With ascending x.
 * @param {number} x
 * @returns {number} Its index; -1 if there are no points.
 */
export function nearest(points, x) {
  let [first, last] = [0, points.length - 1];
  while (last - first > 1) {
    const middle = (first + last) >> 1;
    if (points[middle].x <= x) first = middle;
    else last = middle;
  }
  if (last < 0) return -1;
  return Math.abs(points[last].x - x) < Math.abs(points[first].x - x) ? last : first;
}

/**
 * The mean of what was added between two means.
 *
 * @param {{ mean: number, count: number } | null} before
 * @param {{ mean: number, count: number }} after
 * @returns {number | null} null if nothing was added.
 */
export function meanBetween(before, after) {
  if (before === null) return after.count > 0 ? after.mean : null;
  const added = after.count - before.count;
  // Means are rounded, so a short step after many long ones may seem to take less than 0.
  return added > 0 ? Math.max(0, (after.mean * after.count - before.mean * before.count) / added) : null;
}

/** Print a number with at most five significant digits. */
export function numberText(value) {
  if (!Number.isFinite(value)) return "not finite";
  const rounded = Number(value.toPrecision(5));
  const size = Math.abs(rounded);
  return size !== 0 && (size < 1e-4 || size >= 1e7) ? rounded.toExponential() : String(rounded);
}
