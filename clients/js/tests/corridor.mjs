/** A corridor that is provided to a simulated network. */

import assert from "node:assert/strict";

import { Provider } from "../src/serving/provider.js";
import { ProvidedEnv } from "../src/serving/provided_env.js";
import { Network } from "./conversations.mjs";

const WELCOME = { type: "welcome", protocol: 1, connection: "c4d1e0f2", resume: "a", heartbeat_s: 60 };
export const INIT = { type: "init", id: 1, kwargs: {}, render_mode: null };
export const RESET = { type: "reset", id: 2, seed: null, options: null };

export const CORRIDOR = {
  name: "corridor",
  observationSpace: { type: "Discrete", n: 5 },
  actionSpace: { type: "Discrete", n: 2 },
  reset: () => ({ observation: 0 }),
  step: () => ({ observation: 1, reward: 1 }),
  log: () => {},
};

/**
 * Provide a corridor to a simulated network.
 *
 * @param {object} handlers Others than the corridor's.
 * @param {(arrived: string[], network: object) => Promise<void>} use Is called with the
 *     author's notifications, and the means to send messages as a server does.
 */
export async function provide(handlers, use) {
  const [ended, arrived, network] = [new AbortController(), [], new Network()];
  const given = {
    ...CORRIDOR,
    onAgent: () => arrived.push("arrived"),
    onAgentGone: () => arrived.push("left"),
    ...handlers,
  };
  const provider = new Provider(new ProvidedEnv(given), given, () => network.open(), "http://127.0.0.1:5000");
  const running = provider.run(ended.signal);
  const sendMessage = (message) => network.connection.onmessage(JSON.stringify(message));
  const server = {
    sendMessage,
    received: async () => JSON.parse(await network.received()),
    async sendRequest(message) {
      sendMessage(message);
      return server.received();
    },
    /** Welcome it, on a connection that resumes nothing. */
    async welcome() {
      assert.equal((await server.received()).type, "hello");
      sendMessage({ ...WELCOME, resumed: false });
    },
    lose: () => network.connection.onclose(new Error("the connection was lost")),
    /** Have the present connection send nothing any more. */
    breakLine: () => {
      network.connection.send = () => {
        throw new Error("the connection is broken");
      };
    },
  };
  try {
    await use(arrived, server);
  } finally {
    ended.abort();
    await running;
  }
  return arrived;
}
