/** The arithmetic of charts: ticks of an axis, ranges, smoothing, and the point under a pointer. */

const STEPS = [1, 2, 5, 10];
/** Seconds between two ticks of an axis of time. */
const TIMES = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 21600, 43200, 86400];

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
  const first = Math.ceil(low / step);
  // Of values that differ in their last digits, ticks would be the same number.
  if (!(Math.max(Math.abs(first), Math.abs(high / step)) < 1e12)) return [low];
  const ticks = [];
  for (let n = first; n * step <= high; n++) {
    // Multiples of a decimal step have digits that the step has not.
    ticks.push(Number((n * step).toPrecision(12)));
  }
  return ticks;
}

/** Choose ticks of an axis of seconds: whole seconds, minutes, hours or days. */
export function timeTicksOf(low, high, count = 5) {
  if (!(high > low)) return [low];
  const step = TIMES.find((each) => (high - low) / each <= count);
  if (high - low < 2 || !step) return ticksOf(low, high, count);
  const first = Math.ceil(low / step);
  return Array.from({ length: Math.floor(high / step) - first + 1 }, (_, n) => (first + n) * step);
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
  // It may be a count.
  if (low === 0) return [0, 1];
  const room = Math.abs(low) / 10;
  return [low - room, low + room];
}

/** Map a value from one range to another. */
export function scaled(value, [low, high], [start, end]) {
  return start + ((value - low) / (high - low)) * (end - start);
}

/**
 * Find the value that is nearest.
 *
 * @param {number[]} xs Ascending.
 * @param {number} x
 * @returns {number} Its index; -1 if there are none.
 */
export function nearest(xs, x) {
  const above = Math.min(firstFrom(xs, x), xs.length - 1);
  return above > 0 && x - xs[above - 1] <= xs[above] - x ? above - 1 : above;
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

/** Print a tick of an axis, in thousands or millions where all its digits stay. */
export function tickText(value) {
  const size = Math.abs(value);
  if (size >= 1e6 && value % 1e4 === 0) return `${value / 1e6}M`;
  return size >= 1e4 && value % 100 === 0 ? `${value / 1e3}k` : numberText(value);
}

/** Print seconds as a tick: 45 s, 3 min, 2 h, 1 d. */
export function timeText(seconds) {
  const size = Math.abs(seconds);
  if (size < 120 && seconds % 60 !== 0) return `${numberText(seconds)} s`;
  if (size === 0) return "0";
  if (size < 7200 && size % 3600 !== 0) return `${numberText(seconds / 60)} min`;
  return size < 172_800 ? `${numberText(seconds / 3600)} h` : `${numberText(seconds / 86_400)} d`;
}

/** Print seconds with the unit below, too: 4.2 s, 3 min 20 s, 2 h 5 min. */
export function exactTime(seconds) {
  if (seconds < 60) return `${numberText(Number(seconds.toFixed(1)))} s`;
  const minutes = Math.floor(seconds / 60);
  if (minutes < 60) return `${minutes} min ${Math.floor(seconds % 60)} s`;
  return `${Math.floor(minutes / 60)} h ${minutes % 60} min`;
}

/**
 * Smooth values by an exponential moving average, which is not drawn towards 0 at its beginning.
 *
 * @param {number[]} values
 * @param {number} weight Of what came before: 0 leaves them as they are; less than 1.
 * @returns {number[]}
 */
export function smoothed(values, weight) {
  if (!weight) return values;
  let [mean, remaining] = [0, 1];
  return values.map((value) => {
    mean = mean * weight + value * (1 - weight);
    remaining *= weight;
    return mean / (1 - remaining);
  });
}

/**
 * Reduce a line to the least and the largest value of each column, in their order.
 *
 * @param {number[]} xs Ascending.
 * @param {number[]} ys
 * @param {number} first The index of the first point.
 * @param {number} end The index after the last one.
 * @param {number} columns About as many as the plot has pixels.
 * @returns {number[]} Indices: all, if there are few; at most four a column.
 */
export function decimated(xs, ys, first, end, columns) {
  const all = (from, to) => Array.from({ length: Math.max(0, to - from) }, (_, n) => from + n);
  if (end - first <= 2 * columns) return all(first, end);
  const found = [];
  const width = (xs[end - 1] - xs[first]) / columns || 1;
  let start = first;
  while (start < end) {
    const edge = xs[first] + (Math.floor((xs[start] - xs[first]) / width) + 1) * width;
    let [least, most, next] = [start, start, start + 1];
    for (; next < end && xs[next] < edge; next++) {
      if (ys[next] < ys[least]) least = next;
      if (ys[next] > ys[most]) most = next;
    }
    found.push(...new Set([start, Math.min(least, most), Math.max(least, most), next - 1]));
    start = next;
  }
  return found;
}

/** The index of the first value that is not below a limit; the number of values if all are. */
export function firstFrom(xs, limit) {
  let [first, end] = [0, xs.length];
  while (first < end) {
    const middle = (first + end) >> 1;
    if (xs[middle] < limit) first = middle + 1;
    else end = middle;
  }
  return first;
}
