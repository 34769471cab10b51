/** `serveEnv`: an environment of this page or process, lent to a server. */

import { Link } from "./http.js";
import { CallingLine } from "./serving/calls.js";
import { Lender } from "./serving/lender.js";
import { LentEnv } from "./serving/lent.js";
import { openLine } from "./serving/lines.js";

export { NdArray, array } from "./arrays.js";

/**
 * Lend an environment to a server, until `signal` ends it.
 *
 * @param {object} given See the declarations, `serve.d.ts`.
 * @returns {Promise<void>}
 */
export async function serveEnv(given) {
  const { url, token, timeout, signal, transport = "websocket" } = given;
  const link = new Link({ url, token, timeout });
  const open = { websocket: (ended) => openLine(link, ended), http: async () => new CallingLine(link) }[transport];
  if (!open) throw new RangeError(`transport is ${transport}: expected "websocket" or "http"`);
  const lender = new Lender(new LentEnv(given), given, open, link.url);
  if (!signal?.aborted) await lender.run(signal);
}
