/** Deadlines: the time limit of a call as a whole, and its caller's signal. */

const LONGEST = 2 ** 31 - 1;

/** The time of one call: `race` and `sleep` end with it, and so do users of its `signal`. */
export class Deadline {
  #end;
  #timer;
  #caller;
  #controller;
  #onAbort;
  #waiting = new Set();

  /**
   * @param {number} limit Milliseconds; Infinity for no limit.
   * @param {AbortSignal} [caller] Ends the call earlier.
   */
  constructor(limit, caller) {
    caller?.throwIfAborted();
    this.limit = limit;
    this.#end = performance.now() + limit;
    this.#caller = caller;
    this.#timer = setTimeout(() => this.#over(new DeadlinePassed(limit)), Math.min(limit, LONGEST));
    if (caller) {
      this.#onAbort = () => this.#over(caller.reason);
      caller.addEventListener("abort", this.#onAbort, { once: true });
    }
  }

  /** Why the call is over; undefined while it is not. */
  reason = undefined;

  /** Milliseconds that are left. */
  left() {
    return this.reason === undefined ? this.#end - performance.now() : 0;
  }

  /** A signal for `fetch`. */
  get signal() {
    if (!this.#controller) {
      this.#controller = new AbortController();
      if (this.reason !== undefined) this.#controller.abort(this.reason);
    }
    return this.#controller.signal;
  }

  /** Wait for something; `abandon` is called if the call is over before. */
  race(promise, abandon = () => {}) {
    if (this.reason !== undefined) return this.#given(abandon);
    return new Promise((resolve, reject) => {
      const fail = (reason) => {
        abandon(reason);
        reject(reason);
      };
      this.#waiting.add(fail);
      promise.then(
        (value) => {
          this.#waiting.delete(fail);
          resolve(value);
        },
        (error) => {
          this.#waiting.delete(fail);
          reject(error);
        },
      );
    });
  }

  async #given(abandon) {
    abandon(this.reason);
    throw this.reason;
  }

  /** Wait for some milliseconds. */
  sleep(pause) {
    let timer;
    const slept = new Promise((resolve) => (timer = setTimeout(resolve, pause)));
    return this.race(slept, () => clearTimeout(timer));
  }

  /** The call has ended. */
  done() {
    clearTimeout(this.#timer);
    this.#caller?.removeEventListener("abort", this.#onAbort);
  }

  #over(reason) {
    if (this.reason !== undefined) return;
    this.reason = reason;
    this.#controller?.abort(reason);
    for (const fail of this.#waiting) fail(reason);
  }
}

/** The time limit of a call has passed; the caller converts this into its own error. */
export class DeadlinePassed extends Error {
  constructor(limit) {
    super(`no answer within the time limit of ${limit / 1000} s`);
  }
}
