/**
 * Streams at the node of a fleet that has an instance, instead of through another one.
 *
 * A ticket opens them: the token is sent only to the address that the user named.
 */

import { JSON_TYPE, jsonOf } from "./answers.js";
import { Deadline } from "./deadlines.js";
import { IN_NODE } from "./requester.js";
import { writeText } from "./text.js";

/** Milliseconds in which a node must answer; then the stream goes through the first address. */
const LIMIT = 1000;
const URL_OF_STREAM = /^(wss?):(\/\/[\w.:/%[\]~-]+?\/v1\/envs\/[^/]+\/stream)\/?$/;

/**
 * Return the address of a stream, with http: or https:, if its URL is good.
 *
 * @param {unknown} url As the server has it.
 * @param {string} first The first address; with TLS there, no stream goes without.
 * @param {string} path Of the instance.
 * @returns {string | null}
 */
export function checkedUrl(url, first, path) {
  const [, scheme, rest] = (typeof url === "string" && URL_OF_STREAM.exec(url)) || [];
  if (!rest?.endsWith(`${path}stream`)) return null;
  if (scheme === "ws" && !first.startsWith("http:")) return null;
  try {
    const found = new URL(scheme.replace("ws", "http") + ":" + rest);
    return found.origin + found.pathname;
  } catch {
    return null;
  }
}

/** The streams of one instance at its node. */
export class NodeStreams {
  #requester;
  #path;
  #wanted = true;

  /**
   * @param {import("./requester.js").Requester} requester Of the first address.
   * @param {string} path Of the instance.
   */
  constructor(requester, path) {
    this.#requester = requester;
    this.#path = path;
  }

  /**
   * Open a stream; return null if there is none. On a server without a fleet, this sends
   * nothing, nor in a page: a node refuses those of another address.
   *
   * @template T
   * @param {(url: string, deadline: Deadline) => Promise<T>} connect Opens it at its URL.
   * @param {string} query Of the stream's URL.
   * @param {Deadline} deadline Of the call.
   * @returns {Promise<T | null>}
   */
  async open(connect, query, deadline) {
    if (!IN_NODE || !this.#requester.inFleet || !this.#wanted) return null;
    try {
      const { stream_url: given, ticket } = await this.#limited(deadline, (limited) => this.#ticket(limited));
      const url = checkedUrl(given, this.#requester.url, this.#path);
      // Another ticket would have the same URL.
      this.#wanted = url !== null;
      if (url === null) return null;
      const whole = `${url}${query}&ticket=${encodeURIComponent(ticket)}`;
      return await this.#limited(deadline, (limited) => connect(whole, limited));
    } catch (error) {
      if (deadline.reason !== undefined) throw deadline.reason;
      return null;
    }
  }

  async #limited(deadline, call) {
    const limited = new Deadline(Math.min(LIMIT, deadline.left()), deadline.signal);
    try {
      return await call(limited);
    } finally {
      limited.done();
    }
  }

  async #ticket(deadline) {
    const path = "/v1/tickets/";
    const id = decodeURIComponent(this.#path.split("/").at(-2));
    const body = writeText(JSON.stringify({ instance_id: id }));
    const answer = await this.#requester.request("POST", path, deadline, { body, contentType: JSON_TYPE });
    return jsonOf(answer, this.#requester.url + path);
  }
}
