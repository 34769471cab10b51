/** `serveEnv`: an environment of this page or process, provided to a server. */

import { Requester } from "./requester.js";
import { PollingConnection } from "./serving/http_polling.js";
import { Provider } from "./serving/provider.js";
import { ProvidedEnv } from "./serving/provided_env.js";
import { openConnection } from "./serving/connections.js";

export { NdArray, array } from "./arrays.js";

/**
 * Provide an environment to a server, or several, until `signal` ends it.
 *
 * @param {object} given See the declarations, `serve.d.ts`.
 * @returns {Promise<void>}
 */
export async function serveEnv(given) {
  if (typeof given !== "object" || given === null) {
    throw new TypeError(`serveEnv takes an object, as { url: …, name: …, step: … }; got a ${typeof given}`);
  }
  const { url, token, timeout, signal, transport = "websocket", n = 1, factory } = given;
  if (!Number.isInteger(n) || n < 1 || (n > 1 && !factory)) {
    throw new RangeError(`n is ${n}: expected 1, or more with a factory`);
  }
  const requester = new Requester({ url, token, timeout });
  const open = { websocket: (ended) => openConnection(requester, ended), http: async () => new PollingConnection(requester) }[transport];
  if (!open) throw new RangeError(`transport is ${transport}: expected "websocket" or "http"`);
  const providers = [];
  for (let index = 0; index < n; index++) {
    const own = factory ? { ...given, ...(await factory(index)) } : given;
    const env = new ProvidedEnv(own);
    if (typeof own.name !== "string") throw new TypeError("name is missing: expected NAME for agents of external/NAME");
    providers.push(new Provider(env, own, open, requester.url));
  }
  if (!signal?.aborted) await runAll(providers, signal);
}

/** Have providers serve until the signal, or until the server refuses one. */
async function runAll(providers, signal) {
  // One each, since some signals warn of many listeners.
  const ends = providers.map(() => new AbortController());
  const end = () => ends.forEach((each) => each.abort());
  signal?.addEventListener("abort", end);
  const running = providers.map((provider, index) => provider.run(ends[index].signal));
  try {
    await Promise.all(running);
  } finally {
    signal?.removeEventListener("abort", end);
    end();
    await Promise.allSettled(running);
  }
}
