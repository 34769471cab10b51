/** The environment: the game as agents see it, in a page or in Node. */

import { MOST_CRATES, generator, makeLevel } from "./levels.js";
import { PIXELS, pixelsOf } from "./pictures.js";
import { Game, MOVES, SIZE, TILES } from "./rules.js";

const SPACES = {
  symbolic: { type: "Box", low: 0, high: TILES - 1, shape: [SIZE, SIZE], dtype: "uint8" },
  pixels: { type: "Box", low: 0, high: 255, shape: [PIXELS, PIXELS, 3], dtype: "uint8" },
};
const KWARGS = ["crates", "fast", "observation"];
const OPTIONS = ["crates", "level"];
const LARGEST = 2 ** 32 - 1;

/** The environment's options of `serveEnv`, except server and name. */
export class Environment {
  #random = generator(Date.now());
  #kwargs = {};
  #show;

  /**
   * @param {(game: Game, fast: boolean) => void | Promise<void>} show Called when
   *   something has changed; the agent waits for it.
   */
  constructor(show = () => {}) {
    this.#show = show;
    /** The present game. */
    this.game = null;
    /** Number of the present level. */
    this.level = 0;
    this.next();
  }

  /** Begin a level: the one of a number, or any. */
  next(level = this.#random(), crates = this.#kwargs.crates ?? 1) {
    this.level = level;
    this.game = new Game(makeLevel(level, crates));
  }

  /** Return the handlers. */
  options() {
    return {
      observationSpace: SPACES.symbolic,
      actionSpace: { type: "Discrete", n: MOVES.length },
      capabilities: ["seed", "options", "pause"],
      renderModes: ["rgb_array"],
      dialect: "binary",
      init: ({ kwargs }) => this.#init(kwargs),
      reset: (how) => this.#reset(how),
      step: (action) => this.#step(action),
      render: () => this.#render(),
      close: () => this.#init({}),
    };
  }

  #init(kwargs) {
    checkNames("the argument", kwargs, KWARGS);
    const { observation = "symbolic", crates = 1 } = kwargs;
    if (!Object.hasOwn(SPACES, observation)) {
      throw refusal(`observation is ${observation}: expected symbolic or pixels`);
    }
    checkInteger("crates", crates, 1, MOST_CRATES);
    this.#kwargs = { observation, crates, fast: kwargs.fast === true };
    return { observationSpace: SPACES[observation] };
  }

  async #reset({ seed, options }) {
    checkNames("the option", options, OPTIONS);
    const { level, crates = this.#kwargs.crates } = options;
    checkInteger("crates", crates, 1, MOST_CRATES);
    if (level !== undefined) checkInteger("level", level, 0, LARGEST);
    if (seed !== null) this.#random = generator(Number(BigInt.asUintN(32, BigInt(seed))));
    this.next(level ?? this.#random(), crates);
    await this.#shown();
    return { observation: this.#observed(), info: this.#info() };
  }

  async #step(action) {
    const reward = this.game.step(action);
    await this.#shown();
    const { solved, late } = this.game;
    return { observation: this.#observed(), reward, terminated: solved, truncated: late, info: this.#info() };
  }

  async #shown() {
    await this.#show(this.game, this.#kwargs.fast ?? false);
  }

  #observed() {
    return this.#kwargs.observation === "pixels" ? pixelsOf(this.game) : this.game.tiles();
  }

  #info() {
    const { crates, placed } = this.game;
    return { level: this.level, crates: crates.size, placed };
  }

  #render() {
    return { width: PIXELS, height: PIXELS, data: pixelsOf(this.game) };
  }
}

function checkNames(what, given, known) {
  const strange = Object.keys(given).find((name) => !known.includes(name));
  if (strange !== undefined) throw refusal(`${what} ${strange} is unknown: expected ${known.join(", ")}`);
}

function checkInteger(name, value, least, most) {
  if (!Number.isInteger(value) || value < least || value > most) {
    throw refusal(`${name} is ${value}: expected an integer from ${least} to ${most}`);
  }
}

/** What the agent may do again in another way, since nothing has been done. */
function refusal(words) {
  return Object.assign(new Error(words), { code: "bad-parameter" });
}
