/** Showing: the newest state of an instance a few times a second, as text and picture. */

import { ProtocolError, TransportError } from "./errors.js";
import { openConnection } from "./serving/connections.js";

const PROTOCOL = "gym-http.v1.json";
const GOING_AWAY = 1001;
/** States that wait for their reader. */
const KEPT = 8;

/**
 * Open a stream that shows an instance.
 *
 * @param {import("./requester.js").Requester} requester
 * @param {string} path Of the instance.
 * @param {{ fps?: number, share?: number, size?: number, signal?: AbortSignal }} options
 */
export async function openShowing(requester, path, { signal, ...wanted }) {
  const query = new URLSearchParams({ watch: "1", form: "show" });
  for (const [name, value] of Object.entries(wanted)) if (value !== undefined) query.set(name, String(value));
  const about = `${path}stream/?${query}`;
  const connection = await openConnection(requester, signal, { path: about, protocol: PROTOCOL, instance: path });
  return new Showing(connection, requester.url + about);
}

/** Iterates over states until the instance is closed; a slow reader gets the newest. */
export class Showing {
  #connection;
  #url;
  #ready = [];
  #waiting = [];
  #over = null;
  /** A state whose picture has not arrived yet. */
  #state = null;

  constructor(connection, url) {
    this.#connection = connection;
    this.#url = url;
    connection.onmessage = (message) => this.#take(message);
    connection.onclose = (error) => {
      const closed = error.closeCode === GOING_AWAY;
      this.#end(closed ? {} : { error: new TransportError(error.message, { url, cause: error }) });
    };
  }

  [Symbol.asyncIterator]() {
    return this;
  }

  /** Wait for the next state. */
  next() {
    if (this.#ready.length) return Promise.resolve({ value: this.#ready.shift(), done: false });
    if (this.#over) return this.#ended();
    return new Promise((resolve, reject) => this.#waiting.push({ resolve, reject }));
  }

  /** Stop watching. */
  close() {
    this.#connection.close();
    this.#end({});
  }

  async return() {
    this.close();
    return { value: undefined, done: true };
  }

  #take(message) {
    if (typeof message !== "string") {
      if (this.#state === null) this.#refuse("a picture came without a text");
      else this.#add(this.#state, message);
      this.#state = null;
      return;
    }
    if (this.#state !== null) return this.#refuse("a text came instead of a picture");
    let state;
    try {
      state = JSON.parse(message);
    } catch (error) {
      return this.#refuse(`a message is no JSON: ${error.message}`);
    }
    if (typeof state?.show !== "number") return this.#refuse("a message shows no state");
    if (state.picture) this.#state = state;
    else this.#add(state, null);
  }

  #add(state, picture) {
    const value = { state, picture };
    const waiting = this.#waiting.shift();
    if (waiting) return waiting.resolve({ value, done: false });
    this.#ready.push(value);
    if (this.#ready.length <= KEPT) return;
    const [old, next] = this.#ready.splice(0, 2);
    // What happened only once is in one state only.
    const ended = [...(old.state.ended ?? []), ...(next.state.ended ?? [])];
    this.#ready.unshift(ended.length ? { ...next, state: { ...next.state, ended } } : next);
  }

  #refuse(words) {
    this.#connection.close();
    this.#end({ error: new ProtocolError(words, { url: this.#url }) });
  }

  #end(over) {
    this.#over ??= over;
    for (const { resolve, reject } of this.#waiting.splice(0)) this.#ended().then(resolve, reject);
  }

  #ended() {
    const { error } = this.#over;
    // An error is for one reader; after it, the iteration is over.
    this.#over = {};
    return error ? Promise.reject(error) : Promise.resolve({ value: undefined, done: true });
  }
}
