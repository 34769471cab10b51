/** `ProvidedEnv`: calls an author's handlers for the requests of a server. */

import { NdArray, dtypeOfTyped } from "../arrays.js";
import { objectOf } from "../json.js";
import { scalar } from "../numpy_scalars.js";
import { isPlain } from "../plain.js";
import { Float, Tuple } from "../scalars.js";
import { DictSpace, Discrete, TupleSpace, spaceOf } from "../spaces/index.js";
import { Attributes } from "./attributes.js";
import { DIALECTS } from "./dialects.js";

const PROTOCOL = 1;
/** Codes that state that nothing has changed, so that agents may continue. */
const UNDONE = new Set(["bad-parameter", "invalid-action", "no-attribute", "reset-needed", "unsupported"]);
/** Elements of an observation from which on it is worth less to be read by people. */
const MANY = 256;

/** One environment. */
export class ProvidedEnv {
  #definition;
  #observationSpace;
  #actionSpace;
  #renderMode = null;
  // Whether there is an episode to act in.
  #begun = false;
  #calls = {
    init: (request) => this.#init(request),
    reset: (request) => this.#reset(request),
    step: (request) => this.#step(request),
    render: () => this.#render(),
    close: () => this.#close(),
  };

  /** @param {object} definition The options of `serveEnv`. */
  constructor(definition) {
    for (const name of ["observationSpace", "actionSpace"]) {
      if (!definition[name]) throw new TypeError(`${name} is missing: expected a space, or its description`);
    }
    if (!definition.reset && !definition.observe) throw new TypeError("reset is missing: expected a function, or observe");
    for (const name of ["step", definition.reset ? "reset" : "observe"]) {
      if (typeof definition[name] !== "function") throw new TypeError(`${name} is ${definition[name]}: expected a function`);
    }
    this.#definition = definition;
    this.#setSpaces(definition);
    if (definition.attributes !== undefined) this.#addAttributes(new Attributes(definition));
    /** @type {boolean} Whether an agent has it. */
    this.taken = false;
    // Values of attributes are to lose nothing, either.
    this.dialect = definition.dialect ?? (definition.attributes || this.#hasMany() ? "binary" : "json");
    if (!Object.hasOwn(DIALECTS, this.dialect)) {
      throw new RangeError(`dialect is ${this.dialect}: expected "json", "typed" or "binary"`);
    }
  }

  #hasMany() {
    return sizeOf(this.#observationSpace) > MANY || this.#definition.renderModes?.some((mode) => mode.startsWith("rgb"));
  }

  #addAttributes(attributes) {
    Object.assign(this.#calls, attributes.calls, { describe: () => attributes.described(this.#renderMode) });
  }

  /** Describe the environment. */
  hello() {
    const { name, capabilities = [], renderModes, rewardChannels, metadata, realtime } = this.#definition;
    const { replace = isPage() } = this.#definition;
    const { observationSpace, actionSpace } = this.#definition;
    const { reset, render, attributes } = this.#definition;
    const own = { reset, render, attributes, realtime };
    const can = new Set([...capabilities, "replay", ...Object.keys(own).filter((key) => own[key])]);
    return {
      type: "hello",
      protocol: PROTOCOL,
      name,
      // Not those of the present instance: after a lost connection the hello is the same.
      observation_space: asSpace(observationSpace).toJSON(),
      action_space: asSpace(actionSpace).toJSON(),
      capabilities: [...can].sort(),
      render_modes: renderModes,
      reward_channels: rewardChannels,
      metadata,
      realtime,
      replace: replace || undefined,
      dialect: this.dialect,
    };
  }

  /**
   * Execute a request; return `{ result }` or `{ error }`.
   *
   * @param {{ type: string }} request
   */
  async answer(request) {
    try {
      const call = this.#calls[request.type];
      if (!call) throw new Refusal(`this environment does not support ${request.type}`, "unsupported");
      return { result: await call(request) };
    } catch (error) {
      const code = UNDONE.has(error?.code) ? error.code : "env-error";
      const words = error?.message || String(error);
      return { error: { code, message: code === "env-error" ? `${request.type} failed: ${words}` : words } };
    }
  }

  async #init({ kwargs, render_mode: renderMode }) {
    const { init } = this.#definition;
    if (!init && kwargs && Object.keys(kwargs).length) {
      throw new Refusal(`kwargs has ${Object.keys(kwargs)}: expected none, since this environment has no arguments`, "bad-parameter");
    }
    const result = (await init?.({ kwargs: kwargs ?? {}, renderMode: renderMode ?? null })) ?? {};
    this.#setSpaces({ ...this.#definition, ...result });
    this.#renderMode = renderMode ?? null;
    this.#begun = false;
    this.taken = true;
    return { observation_space: this.#observationSpace.toJSON(), action_space: this.#actionSpace.toJSON() };
  }

  async #reset({ seed, options }) {
    const { reset, observe, capabilities = [] } = this.#definition;
    // With attributes, the server leaves this check to the environment.
    if (options && Object.keys(options).length && !capabilities.includes("options")) {
      throw new Refusal("this environment has no options: expected none", "unsupported");
    }
    const result = reset ? await reset({ seed: seed ?? null, options: options ?? {} }) : { observation: await observe() };
    this.#begun = true;
    return { observation: this.#observed(result, "reset"), info: result.info ?? {} };
  }

  async #step({ action }) {
    if (!this.#begun) throw new Refusal("this environment was not reset yet: reset it first", "reset-needed");
    const result = await this.#definition.step(asElement(this.#actionSpace, action));
    const { reward, terminated = false, truncated = false, info = {} } = result ?? {};
    return {
      observation: this.#observed(result, "step"),
      reward: typeof reward === "number" ? new Float(reward) : reward,
      terminated,
      truncated,
      info,
    };
  }

  async #render() {
    if (!this.#definition.render) throw new Refusal("this environment renders no frames", "unsupported");
    return { rendered: framed(await this.#definition.render()) };
  }

  async #close() {
    this.taken = false;
    await this.#definition.close?.();
    this.#setSpaces(this.#definition);
    return {};
  }

  #observed(result, name) {
    if (result?.observation === undefined) throw new TypeError(`${name} returned no observation`);
    return asElement(this.#observationSpace, result.observation, exactly);
  }

  #setSpaces({ observationSpace, actionSpace }) {
    this.#observationSpace = asSpace(observationSpace);
    this.#actionSpace = asSpace(actionSpace);
  }
}

/** An error before anything has changed. */
class Refusal extends Error {
  constructor(words, code) {
    super(words);
    this.code = code;
  }
}

/** Whether this runs in a page or its workers, which have an address; Node has none. */
function isPage() {
  return globalThis.location !== undefined;
}

function asSpace(definition) {
  return typeof definition.toJSON === "function" ? definition : spaceOf(definition);
}

/**
 * Convert a value to an element: flat typed arrays, lists, plain objects.
 *
 * @param {(space: object, value: unknown) => unknown} leaf Converts numbers.
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

/** Convert an integer to the dtype that elements of the space have in Python. */
function exactly(space, value) {
  return space instanceof Discrete && Number.isInteger(value) ? scalar(value, space.dtype) : value;
}

function shaped(shape, data) {
  if (data.length !== shape.reduce((product, size) => product * size, 1)) return data;
  return new NdArray(data, shape, dtypeOfTyped(data));
}

/** Make an array from an ImageData, without its opacity, or from a similar object. */
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
