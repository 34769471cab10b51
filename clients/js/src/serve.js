/** `serveEnv`: an environment of this page or process, lent to a server. */

import { Link } from "./http.js";
import { CallingLine } from "./serving/calls.js";
import { Lender } from "./serving/lender.js";
import { LentEnv } from "./serving/lent.js";
import { openLine } from "./serving/lines.js";

export { NdArray, array } from "./arrays.js";

/**
 * Lend an environment to a server, or several, until `signal` ends it.
 *
 * @param {object} given See the declarations, `serve.d.ts`.
 * @returns {Promise<void>}
 */
export async function serveEnv(given) {
  const { url, token, timeout, signal, transport = "websocket", n = 1, factory } = given;
  if (!Number.isInteger(n) || n < 1 || (n > 1 && !factory)) {
    throw new RangeError(`n is ${n}: expected 1, or more with a factory`);
  }
  const link = new Link({ url, token, timeout });
  const open = { websocket: (ended) => openLine(link, ended), http: async () => new CallingLine(link) }[transport];
  if (!open) throw new RangeError(`transport is ${transport}: expected "websocket" or "http"`);
  const lenders = [];
  for (let index = 0; index < n; index++) {
    const own = factory ? { ...given, ...(await factory(index)) } : given;
    lenders.push(new Lender(new LentEnv(own), own, open, link.url));
  }
  if (!signal?.aborted) await runAll(lenders, signal);
}

/** Have lenders serve until the signal, or until the server refuses one. */
async function runAll(lenders, signal) {
  // One each, since some signals warn of many who listen.
  const ends = lenders.map(() => new AbortController());
  const end = () => ends.forEach((each) => each.abort());
  signal?.addEventListener("abort", end);
  const running = lenders.map((lender, index) => lender.run(ends[index].signal));
  try {
    await Promise.all(running);
  } finally {
    signal?.removeEventListener("abort", end);
    end();
    await Promise.allSettled(running);
  }
}
