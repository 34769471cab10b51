/** Rates of instances between two lists of them: steps a second, and cores that are busy. No DOM. */

/** Milliseconds over which the use of cores is averaged: it is read every two seconds. */
const WINDOW = 10_000;
/** Milliseconds after which what was seen before counts no more. */
const GAP = 30_000;
/** Rates that are kept for the sparkline. */
const KEPT = 150;

/** Compares each list of instances with the one before. */
export class Rates {
  #before = new Map();
  #at = -Infinity;
  #total = null;
  #cpu = [];
  /** The steps a second of all instances, the newest last. */
  past = [];

  /**
   * Take a list. Each row gets a `rate`, in steps a second; 0 in the first list.
   *
   * @param {object[]} rows Of `/v1/instances/`.
   * @param {number} now In milliseconds.
   */
  take(rows, now) {
    const seconds = (now - this.#at) / 1000;
    if (now - this.#at > GAP) {
      this.#before.clear();
      this.#cpu = [];
      this.#total = null;
      this.past = [];
    }
    let [steps, cpu] = [0, 0];
    const seen = new Map();
    for (const row of rows) {
      const last = this.#before.get(row.instance_id);
      // An instance that began since then has all its steps in this time.
      const added = row.steps - (last?.steps ?? (this.#before.size ? 0 : row.steps));
      row.rate = Math.max(0, added) / seconds || 0;
      steps += row.rate;
      cpu += Math.max(0, row.cpu_s - (last?.cpu_s ?? row.cpu_s));
      seen.set(row.instance_id, row);
    }
    if (Number.isFinite(seconds)) {
      this.#total = steps;
      this.past = [...this.past, steps].slice(-KEPT);
    }
    this.#cpu = [...this.#cpu, { at: now, cpu }].filter(({ at }) => now - at <= WINDOW);
    this.#before = seen;
    this.#at = now;
  }

  /** Steps a second of all instances; null before there are two lists. */
  get total() {
    return this.#total;
  }

  /** Cores that instances keep busy; null before it can be said. */
  get cores() {
    const [first] = this.#cpu;
    const seconds = (this.#at - first?.at) / 1000;
    if (!(seconds > 2)) return null;
    return this.#cpu.slice(1).reduce((sum, { cpu }) => sum + cpu, 0) / seconds;
  }
}
