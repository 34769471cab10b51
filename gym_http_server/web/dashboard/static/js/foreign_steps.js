/** Whether others step an instance, from its total of steps. No DOM. */

/** Milliseconds for which a step of others counts. */
const LATELY = 5000;

/** Compares the total of an instance's steps with the page's own. */
export class ForeignSteps {
  #own = 0;
  #total = null;
  #counted = 0;
  #lastAt = -Infinity;

  /** Note a step of this page, before it is sent; a vector takes several at once. */
  noteOwn(count = 1) {
    this.#own += count;
  }

  /** Note the total of all clients. */
  noteTotal(total, now) {
    const grown = total - (this.#total ?? total);
    // A total may be older than the last own step, so own ones are taken off later.
    const own = Math.min(this.#own, grown);
    this.#own -= own;
    this.#counted += Math.max(0, grown - own);
    if (grown > own) this.#lastAt = now;
    this.#total = total;
  }

  /** The number of steps that others took while this page watched. */
  get count() {
    return this.#counted;
  }

  /** Whether others took a step lately. */
  areRecent(now) {
    return now - this.#lastAt < LATELY;
  }
}
