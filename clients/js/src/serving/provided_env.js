/** A lent environment: the handlers of its author, and what the server asks of them. */

import { NdArray, dtypeOfTyped } from "../arrays.js";
import { objectOf } from "../json.js";
import { scalar } from "../numpy_scalars.js";
import { isPlain } from "../plain.js";
import { Float, Tuple } from "../scalars.js";
import { DictSpace, Discrete, TupleSpace, spaceOf } from "../spaces/index.js";
import { Attributes } from "./attributes.js";
import { DIALECTS } from "./dialects.js";

const PROTOCOL = 1;
/** What agents may do again, since the environment says that it has not begun. */
const UNDONE = new Set(["bad-parameter", "invalid-action", "no-attribute", "reset-needed", "unsupported"]);
/** Elements of an observation from which on it is worth less to be read by people. */
const MANY = 256;

/** One environment. */
export class ProvidedEnv {
  #given;
  #observationSpace;
  #actionSpace;
  #renderMode = null;
  // Whether there is an episode to act in.
  #begun = false;
  #calls = {
    init: (asked) => this.#init(asked),
    reset: (asked) => this.#reset(asked),
    step: (asked) => this.#step(asked),
    render: () => this.#render(),
    close: () => this.#close(),
  };

  /** @param {object} given What `serveEnv` is called with. */
  constructor(given) {
    for (const name of ["observationSpace", "actionSpace"]) {
      if (!given[name]) throw new TypeError(`${name} is missing: give a space, or its description`);
    }
    for (const name of ["step", given.reset ? "reset" : "observe"]) {
      if (typeof given[name] !== "function") throw new TypeError(`${name} is no function`);
    }
    this.#given = given;
    this.#setSpaces(given);
    if (given.attributes !== undefined) this.#tell(new Attributes(given));
    /** @type {boolean} Whether an agent has it. */
    this.taken = false;
    // Values of attributes are to lose nothing, either.
    this.dialect = given.dialect ?? (given.attributes || this.#hasMany() ? "binary" : "json");
    if (!Object.hasOwn(DIALECTS, this.dialect)) {
      throw new RangeError(`dialect is ${this.dialect}: expected "json", "typed" or "binary"`);
    }
  }

  #hasMany() {
    return sizeOf(this.#observationSpace) > MANY || this.#given.renderModes?.some((mode) => mode.startsWith("rgb"));
  }

  #tell(attributes) {
    Object.assign(this.#calls, attributes.calls, { describe: () => attributes.described(this.#renderMode) });
  }

  /** Say what it is. */
  hello() {
    const { name, capabilities = [], renderModes, rewardChannels, metadata, realtime } = this.#given;
    const { observationSpace, actionSpace } = this.#given;
    const { reset, render, attributes } = this.#given;
    const own = { reset, render, attributes, realtime };
    const can = new Set([...capabilities, "replay", ...Object.keys(own).filter((key) => own[key])]);
    return {
      type: "hello",
      protocol: PROTOCOL,
      name,
      // Not those of the present instance: whoever comes back says the same again.
      observation_space: asSpace(observationSpace).toJSON(),
      action_space: asSpace(actionSpace).toJSON(),
      capabilities: [...can].sort(),
      render_modes: renderModes,
      reward_channels: rewardChannels,
      metadata,
      realtime,
      dialect: this.dialect,
    };
  }

  /**
   * Do what is asked; give `{ result }` or `{ error }`.
   *
   * @param {{ type: string }} asked
   */
  async answer(asked) {
    try {
      const call = this.#calls[asked.type];
      if (!call) throw new Refusal(`there is no ${asked.type} here`, "unsupported");
      return { result: await call(asked) };
    } catch (error) {
      const code = UNDONE.has(error?.code) ? error.code : "env-error";
      const words = error?.message || String(error);
      return { error: { code, message: code === "env-error" ? `${asked.type} failed: ${words}` : words } };
    }
  }

  async #init({ kwargs, render_mode: renderMode }) {
    const { init } = this.#given;
    if (!init && kwargs && Object.keys(kwargs).length) {
      throw new Refusal(`kwargs has ${Object.keys(kwargs)}: expected none, since this environment takes none`, "bad-parameter");
    }
    const told = (await init?.({ kwargs: kwargs ?? {}, renderMode: renderMode ?? null })) ?? {};
    this.#setSpaces({ ...this.#given, ...told });
    this.#renderMode = renderMode ?? null;
    this.#begun = false;
    this.taken = true;
    return { observation_space: this.#observationSpace.toJSON(), action_space: this.#actionSpace.toJSON() };
  }

  async #reset({ seed, options }) {
    const { reset, observe, capabilities = [] } = this.#given;
    // Where there are attributes, the server leaves it to the environment to say so.
    if (options && Object.keys(options).length && !capabilities.includes("options")) {
      throw new Refusal("this environment takes no options: expected none", "unsupported");
    }
    const told = reset ? await reset({ seed: seed ?? null, options: options ?? {} }) : { observation: await observe() };
    this.#begun = true;
    return { observation: this.#observed(told, "reset"), info: told.info ?? {} };
  }

  async #step({ action }) {
    if (!this.#begun) throw new Refusal("this environment was not reset yet: reset it first", "reset-needed");
    const told = await this.#given.step(asElement(this.#actionSpace, action));
    const { reward, terminated = false, truncated = false, info = {} } = told ?? {};
    return {
      observation: this.#observed(told, "step"),
      reward: typeof reward === "number" ? new Float(reward) : reward,
      terminated,
      truncated,
      info,
    };
  }

  async #render() {
    if (!this.#given.render) throw new Refusal("this environment gives no frames", "unsupported");
    return { rendered: framed(await this.#given.render()) };
  }

  async #close() {
    this.taken = false;
    await this.#given.close?.();
    this.#setSpaces(this.#given);
    return {};
  }

  #observed(told, name) {
    if (told?.observation === undefined) throw new TypeError(`${name} gave no observation`);
    return asElement(this.#observationSpace, told.observation, exactly);
  }

  #setSpaces({ observationSpace, actionSpace }) {
    this.#observationSpace = asSpace(observationSpace);
    this.#actionSpace = asSpace(actionSpace);
  }
}

/** What the environment refuses before it has done anything. */
class Refusal extends Error {
  constructor(words, code) {
    super(words);
    this.code = code;
  }
}

function asSpace(given) {
  return typeof given.toJSON === "function" ? given : spaceOf(given);
}

/**
 * Make an element of what was given for one: flat typed arrays, lists, plain objects.
 *
 * @param {(space: object, value: unknown) => unknown} leaf Has the last word on numbers.
 */
function asElement(space, value, leaf = (_, each) => each) {
  if (ArrayBuffer.isView(value) && space.shape) return shaped(space.shape, value);
  if (space instanceof DictSpace && value?.constructor === Object) {
    const members = Array.from(space.spaces, ([key, each]) => [key, asElement(each, value[key], leaf)]);
    return objectOf(new Map(members));
  }
  if (space instanceof TupleSpace && Array.isArray(value)) {
    return Tuple.from(space.spaces, (each, index) => asElement(each, value[index], leaf));
  }
  if (typeof value !== "object" || value === null || !isPlain(value)) return leaf(space, value);
  return space.fromPlain(value);
}

/** Give an integer the dtype that elements of the space have in Python. */
function exactly(space, value) {
  return space instanceof Discrete && Number.isInteger(value) ? scalar(value, space.dtype) : value;
}

function shaped(shape, data) {
  if (data.length !== shape.reduce((product, size) => product * size, 1)) return data;
  return new NdArray(data, shape, dtypeOfTyped(data));
}

/** Make an array of an ImageData, without its opacity, or of what looks like one. */
function framed(frame) {
  if (typeof frame?.width !== "number" || !ArrayBuffer.isView(frame.data)) return frame;
  const { width, height, data } = frame;
  const shape = [height, width, 3];
  if (data.length === 3 * width * height) return new NdArray(data, shape, "uint8");
  const seen = data.filter((_, at) => at % 4 !== 3);
  return new NdArray(seen, shape, "uint8");
}

function sizeOf(space) {
  return space.shape?.reduce((product, size) => product * size, 1) ?? 0;
}
