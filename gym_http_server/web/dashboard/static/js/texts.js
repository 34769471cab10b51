/** Numbers and times as texts. */

const LENGTHS = ["B", "kB", "MB", "GB", "TB"];

/** A number with at most two decimals; a dash for none. */
export function number(value) {
  if (typeof value !== "number" || !Number.isFinite(value)) return "–";
  const digits = Math.abs(value) < 10 ? 2 : Math.abs(value) < 100 ? 1 : 0;
  // Without the sign of a zero.
  const shown = Number(value.toFixed(digits)) || 0;
  return shown.toLocaleString("en", { maximumFractionDigits: digits });
}

/** How long something is past: 4 min ago. */
export function ago(seconds) {
  return seconds < 2 ? "just now" : `${roughly(seconds)} ago`;
}

/** A number with the thing that it counts. */
export function plural(count, one, many = `${one}s`) {
  return `${count.toLocaleString("en")} ${count === 1 ? one : many}`;
}

/** A duration of seconds as people say it: in its largest unit, without a fraction. */
export function roughly(seconds) {
  if (typeof seconds !== "number") return "–";
  if (seconds < 60) return `${Math.floor(seconds)} s`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min`;
  return seconds < 48 * 3600 ? `${Math.floor(seconds / 3600)} h` : `${Math.floor(seconds / 86_400)} d`;
}

/** A number of bytes with a unit. */
export function bytesText(bytes) {
  let [amount, unit] = [bytes, 0];
  while (amount >= 1000 && unit < LENGTHS.length - 1) {
    amount /= 1000;
    unit += 1;
  }
  return `${Number(amount.toPrecision(3))} ${LENGTHS[unit]}`;
}

/** The numbers in a reward or return, by component or by agent; a single one has no name. */
export function partsOf(value) {
  return typeof value === "object" && value ? Object.entries(value) : [["", value]];
}
