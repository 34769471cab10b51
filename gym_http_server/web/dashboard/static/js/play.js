/** Gymnasium's `play`: steps at a fixed pace, or one for each key, until it is stopped. No DOM. */

import { HeldKeys } from "./key_map.js";

/** Steps that may be made up for after a delay; beyond them the grid begins anew. */
const MADE_UP = 3;
/** Milliseconds over which the pace is measured. */
const WINDOW = 2000;

/** The clock of the page. */
export const PAGE_CLOCK = {
  now: () => performance.now(),
  after: (milliseconds, call) => setTimeout(call, milliseconds),
  cancel: (timer) => clearTimeout(timer),
};

/** How many steps a second were taken lately. */
export class Pace {
  #times = [];

  note(now) {
    this.#times.push(now);
    while (this.#times[0] < now - WINDOW) this.#times.shift();
  }

  /** Steps a second; null before the second step. */
  get perSecond() {
    const count = this.#times.length - 1;
    const span = count > 0 ? this.#times[count] - this.#times[0] : 0;
    return span > 0 ? (count * 1000) / span : null;
  }
}

/**
 * A person plays.
 *
 * @typedef {object} Player
 * @property {(action: unknown) => Promise<{ done: boolean }>} step
 * @property {() => Promise<unknown>} reset
 */
export class Play {
  #env;
  #clock;
  #held;
  #period;
  #waits;
  #analog;
  #onEnd;
  #timer = null;
  #due = 0;
  #isBusy = false;
  #isOver = false;
  #pending = null;
  #mustReset = true;

  /**
   * @param {Player} env
   * @param {import("./key_map.js").KeyMap} map
   * @param {object} options
   * @param {number} options.fps Steps a second.
   * @param {boolean} options.wait Whether each step waits for a key.
   * @param {(error: Error | null) => void} options.onEnd Called once: with null after `stop`.
   * @param {() => void} [options.onStep] Called after each step and reset.
   * @param {() => unknown} [options.analog] Returns the action while no key is held.
   * @param {typeof PAGE_CLOCK} [options.clock]
   */
  constructor(env, map, { fps, wait, onEnd, onStep = () => {}, analog = () => undefined, clock = PAGE_CLOCK }) {
    this.#env = env;
    this.#clock = clock;
    this.#held = new HeldKeys(map);
    this.#period = 1000 / fps;
    this.#waits = wait;
    this.#analog = analog;
    this.#onEnd = onEnd;
    this.onStep = onStep;
    this.map = map;
    this.pace = new Pace();
    this.steps = 0;
    this.episodes = 0;
  }

  /** Begin an episode, and then the steps. */
  start() {
    this.#due = this.#clock.now();
    return this.#turn();
  }

  /**
   * Note that a key went down.
   *
   * @param {string} code
   * @param {boolean} isRepeat Whether the keyboard repeats it while it is held.
   * @returns {boolean} Whether the key has a meaning here.
   */
  press(code, isRepeat = false) {
    if (this.#isOver) return false;
    if (code === "Escape") {
      this.stop();
      return true;
    }
    const isKnown = this.#held.press(code);
    if (isKnown && this.#waits && !isRepeat) {
      const binding = this.map.bound(this.#held);
      // A key pressed during a step is taken after it; of several, the last.
      if (binding) this.#pending = { action: binding.action };
      if (!this.#isBusy) this.#turn();
    }
    return isKnown;
  }

  release(code) {
    this.#held.release(code);
  }

  /** Release all keys, as when the window is left, which sees no key go up. */
  releaseAll() {
    this.#held.releaseAll();
  }

  stop() {
    this.#end(null);
  }

  /** Take one turn: a reset if the episode is over, otherwise a step if one is due. */
  async #turn() {
    if (this.#isOver || this.#isBusy) return;
    this.#isBusy = true;
    try {
      await this.#act();
    } catch (error) {
      this.#end(error);
    } finally {
      this.#isBusy = false;
    }
    if (!this.#isOver) this.#schedule();
  }

  async #act() {
    if (this.#mustReset) {
      await this.#env.reset();
      this.#mustReset = false;
      this.onStep();
      return;
    }
    const pending = this.#pending;
    if (this.#waits && pending === null) return;
    this.#pending = null;
    const action = this.#waits ? pending.action : this.#continuous();
    // Without a no-op, nothing happens until a key is held.
    if (action === undefined || action === null) return;
    const { done } = await this.#env.step(action);
    this.steps += 1;
    this.episodes += done ? 1 : 0;
    this.#mustReset = done;
    this.pace.note(this.#clock.now());
    this.onStep();
  }

  /** The action of a turn that waits for nobody. */
  #continuous() {
    const isHeld = [...this.#held].length > 0;
    return isHeld ? this.map.action(this.#held) : (this.#analog() ?? this.map.noop);
  }

  #schedule() {
    if (this.#waits) {
      if (this.#mustReset || this.#pending) this.#later(0);
      return;
    }
    const now = this.#clock.now();
    this.#due += this.#period;
    if (this.#due < now - MADE_UP * this.#period) this.#due = now;
    this.#later(Math.max(0, this.#due - now));
  }

  #later(milliseconds) {
    this.#timer = this.#clock.after(milliseconds, () => this.#turn());
  }

  #end(error) {
    if (this.#isOver) return;
    this.#isOver = true;
    this.#held.releaseAll();
    this.#clock.cancel(this.#timer);
    this.#onEnd(error);
  }
}
