/** Conversations of the vectors: an environment with a script, without a network. */

import { DIALECTS } from "../src/serving/dialects.js";
import { Provider } from "../src/serving/provider.js";
import { ProvidedEnv } from "../src/serving/provided_env.js";
import { build, hex, matches, shown, unhex } from "./models.mjs";

const TIMEOUT_MS = 5000;

/** Whether the client can have a conversation. */
export function canConverse({ kind, dialect }) {
  return kind === "conversation" && Object.hasOwn(DIALECTS, dialect);
}

/**
 * Play a conversation.
 *
 * @param {object} vector The case.
 * @param {(connection: string) => void} print Called with all messages of the environment.
 */
export async function converse(vector, print) {
  const ended = new AbortController();
  const network = new Network();
  const given = { ...scripted(vector), log: () => {} };
  const provider = new Provider(new ProvidedEnv(given), given, () => network.open(), "http://127.0.0.1:5000");
  const running = provider.run(ended.signal);
  try {
    for (const { from, text, hex: raw } of vector.messages) {
      if (from === "environment") {
        const message = await network.received();
        print(typeof message === "string" ? `text\t${message}` : `hex\t${hex(message)}`);
      } else if (from === "server") {
        network.connection.onmessage(text ?? unhex(raw));
      } else {
        network.connection.onclose(new Error("the connection was lost"));
      }
    }
  } finally {
    ended.abort();
    await running;
  }
}

/** Connections without a network, and the messages sent over them. */
export class Network {
  #received = [];
  #wake = () => {};

  open() {
    this.connection = {
      send: (message) => {
        this.#received.push(message);
        this.#wake();
      },
      close: () => {},
      onmessage: () => {},
      onclose: () => {},
    };
    return this.connection;
  }

  /** Wait for the next message. */
  async received() {
    const late = setTimeout(() => this.#wake(), TIMEOUT_MS);
    if (!this.#received.length) await new Promise((resolve) => (this.#wake = resolve));
    clearTimeout(late);
    if (!this.#received.length) throw new Error("it sends nothing");
    return this.#received.shift();
  }
}

/** The options of `serveEnv` for a case. */
function scripted(vector) {
  const script = [...vector.script];
  function next(handler, requested) {
    const entry = script.shift();
    if (entry?.handler !== handler) throw new Error(`${handler} is not what the script goes on with`);
    for (const [name, value] of Object.entries(requested)) {
      if (!matches(entry[name], value)) throw new Error(`${name} is ${shown(value)}: expected ${JSON.stringify(entry[name])}`);
    }
    if (entry.raises) throw new Error(entry.raises);
    return built(entry.gives);
  }
  const { observation_space, action_space, capabilities, render_mode: mode } = vector;
  const target = { ...built(vector.attributes ?? {}) };
  for (const { handler, kwargs } of script) {
    if (kwargs === undefined) continue;
    target[handler] = (...args) => next(handler, { kwargs: kwargs.dict.length ? args.pop() : {}, args }).value;
  }
  return {
    name: "scripted",
    observationSpace: observation_space,
    actionSpace: action_space,
    dialect: vector.dialect,
    capabilities: capabilities.filter((each) => ["seed", "options"].includes(each)),
    renderModes: mode && [mode],
    attributes: capabilities.includes("attributes") ? target : undefined,
    reset: ({ seed, options }) => next("reset", { seed, options }),
    step: (action) => next("step", { action }),
    render: mode && (() => next("render", {}).rendered),
  };
}

function built(models) {
  return Object.fromEntries(Object.entries(models).map(([name, model]) => [name, build(model)]));
}
