/** The attributes that the author of an environment exposes to agents. */

const NAME = /^[\p{ID_Start}][\p{ID_Continue}]*$/u;

/** The attributes of one environment, its spec and its random generator. */
export class Attributes {
  #target;
  #given;
  /** The operations on attributes, by name. */
  calls = {
    generator: () => this.#state(),
    set_generator: ({ state }) => this.#setState(state),
    attribute: ({ name }) => this.#get(name),
    set_attribute: ({ name, value, force }) => this.#set(name, value, force ?? true),
    call_attribute: ({ name, args, kwargs }) => this.#call(name, args ?? [], kwargs ?? {}),
  };

  /** @param {{ attributes: object, generator?: object, spec?: object }} given */
  constructor(given) {
    this.#given = given;
    this.#target = given.attributes;
    if (typeof this.#target !== "object" || this.#target === null) {
      throw new TypeError("attributes is no object: give the one whose members agents may get, set and call");
    }
  }

  /** Describe the environment. */
  described(renderMode) {
    const { metadata = {}, renderModes = [], spec = null } = this.#given;
    const reply = spec ? null : "the environment has no spec";
    return {
      metadata: { ...metadata, render_modes: renderModes },
      render_mode: renderMode,
      spec,
      spec_error: reply,
    };
  }

  async #state() {
    return { seed: null, state: await this.#generator("state").state() };
  }

  async #setState(state) {
    await this.#generator("setState").setState(state);
    return {};
  }

  #generator(method) {
    const { generator } = this.#given;
    if (typeof generator?.[method] === "function") return generator;
    throw refusal("this environment does not expose its generator", "unsupported");
  }

  async #get(name) {
    if (!this.#has(name)) throw none(name);
    const value = await this.#target[name];
    return typeof value === "function" ? { callable: true } : { callable: false, value: value ?? null };
  }

  #set(name, value, force) {
    if (!this.#has(name) && !force) return { set: false };
    this.#target[name] = value;
    return { set: true };
  }

  async #call(name, args, kwargs) {
    if (!this.#has(name)) throw none(name);
    // In JavaScript, arguments have no names: they are one object, the last argument.
    const named = Object.keys(kwargs).length ? [kwargs] : [];
    return { value: (await this.#target[name](...args, ...named)) ?? null };
  }

  /** Whether there is such a member; those of every object do not count. */
  #has(name) {
    if (!NAME.test(name)) throw refusal(`the attribute ${name} is private or no name: expected a public one`, "no-attribute");
    if (name in Object.prototype) throw none(name);
    return name in this.#target;
  }
}

function none(name) {
  return refusal(`there is no attribute ${name}`, "no-attribute");
}

function refusal(words, code) {
  return Object.assign(new Error(words), { code });
}
