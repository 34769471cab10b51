/** `Requester`: sends requests to one server until there is an answer. */

import { Deadline, DeadlinePassed } from "./deadlines.js";
import { ProtocolError, TransportError } from "./errors.js";
import { Lost, Tries, isRepeated, newName } from "./retries.js";

/** Milliseconds that a call may take, by default. */
export const TIMEOUT = 60_000;

/** Bytes that an answer may have, by default. */
export const MAX_BODY = 256 * 1024 * 1024;

/** Whether this is no page, but Node or the like. */
export const IN_NODE = Boolean(globalThis.process?.versions?.node);
const ABSENT = new Set(["ECONNREFUSED", "ENOTFOUND", "EAI_AGAIN", "EHOSTUNREACH", "ENETUNREACH"]);
const MALFORMED = /^(HPE_|UND_ERR_HEADERS_OVERFLOW|UND_ERR_RES_EXCEEDED)/;
const VISIBLE = /^[\x21-\x7e]+$/;
const ORIGIN_AFTER = 2;
const COLOUR = /\x1b\[[0-9;]*m/g;

let transport;

/** Requests to one server. */
export class Requester {
  #prefix = newName();
  #count = 0;
  #met = false;

  /** @param {object} options See `Client`. */
  constructor({ url, token, timeout = TIMEOUT, maxBody = MAX_BODY, onWarning = showWarning } = {}) {
    if (typeof onWarning !== "function") throw new TypeError(`onWarning is a function: ${onWarning}`);
    const address = addressOf(url ?? "http://127.0.0.1:5000");
    this.url = address.url;
    this.inFleet = false;
    this.timeout = timeout;
    this.maxBody = maxBody;
    this.onWarning = onWarning;
    this.token = token ?? address.token ?? globalThis.process?.env?.GHS_TOKEN ?? "";
    if (this.token && !VISIBLE.test(this.token)) {
      throw new TypeError("a token has visible ASCII characters only");
    }
  }

  /** A deadline for a call, plus the milliseconds that the server may wait in it. */
  deadline({ timeout = this.timeout, signal } = {}, wait = 0) {
    if (!(timeout > 0)) throw new RangeError(`a timeout is a number of milliseconds: ${timeout}`);
    return new Deadline(timeout + wait, signal);
  }

  /** Make a call with a deadline of its own. */
  async within(options, call, wait = 0) {
    const deadline = this.deadline(options, wait);
    try {
      return await call(deadline);
    } finally {
      deadline.done();
    }
  }

  /** A new key for a request. */
  key() {
    return `${this.#prefix}-${++this.#count}`;
  }

  /**
   * Send a request until there is an answer, and return that, with any status.
   *
   * @param {string} method GET, POST, which gets a key, PUT or DELETE.
   * @param {string} path Below the server's address.
   * @param {Deadline} deadline
   * @param {object} [what] Among others `creates`: whether the request creates an instance.
   * @returns {Promise<{ status: number, headers: Headers, body: Uint8Array }>}
   */
  async request(method, path, deadline, { body, contentType, accept, key, keepalive, creates, headers } = {}) {
    const url = this.url + path;
    const init = { method, body, keepalive };
    init.headers = this.#headers(accept, contentType, method === "POST" ? (key ?? this.key()) : undefined);
    Object.assign(init.headers, headers);
    const tries = new Tries(deadline, this.#met, creates);
    for (;;) {
      const outcome = await this.#exchange(url, init, tries);
      if (outcome.lost === undefined && !isRepeated(outcome, creates)) {
        this.#met = true;
        // Servers of a fleet name the node of an instance that is made or described.
        this.inFleet ||= outcome.headers.get("gym-node") !== null;
        this.#warnOf(outcome);
        return outcome;
      }
      const strange = !tries.met && tries.count >= ORIGIN_AFTER && (await refusesPage(url));
      const again = !strange && (await this.#patient(url, tries, outcome));
      this.#met = tries.met;
      if (again) continue;
      if (outcome.lost === undefined) return outcome;
      throw new TransportError(strange || outcome.message, { url, cause: outcome.cause });
    }
  }

  /** Show the warnings of an answer: a list of objects, or undefined. */
  warn(reply) {
    if (!Array.isArray(reply)) return;
    for (const each of reply) {
      const { category = "UserWarning", message = "" } = each instanceof Map ? Object.fromEntries(each) : each;
      this.onWarning({ category: String(category), message: String(message) });
    }
  }

  #warnOf({ headers }) {
    const reply = headers.get("gym-warnings");
    if (!reply) return;
    try {
      this.warn(JSON.parse(reply));
    } catch (error) {
      if (!(error instanceof SyntaxError)) throw error;
    }
  }

  /** Wait for the next try; turn the end of a call's time into its error. */
  async #patient(url, tries, outcome) {
    try {
      return await tries.again(outcome);
    } catch (error) {
      throw lateError(error, url, tries) ?? error;
    }
  }

  #headers(accept, contentType, key) {
    const headers = { Accept: accept ?? "application/json" };
    if (contentType) headers["Content-Type"] = contentType;
    if (key) headers["Idempotency-Key"] = key;
    if (this.token) headers.Authorization = `Bearer ${this.token}`;
    return headers;
  }

  /** Send a request once. */
  async #exchange(url, init, tries) {
    const { deadline } = tries;
    // Two imports, each with its name: bundlers follow no expression.
    transport ??= IN_NODE ? import("./node_http.js") : import("./page_http.js");
    const { exchange } = await transport;
    try {
      return await exchange(url, init, deadline, this.maxBody);
    } catch (error) {
      if (error instanceof ProtocolError) throw error;
      if (deadline.reason !== undefined) throw lateError(deadline.reason, url, tries) ?? deadline.reason;
      return failureOf(error, url);
    }
  }
}

/** Show a warning of the server, unless a client has a function of its own for it. */
function showWarning({ category, message }) {
  console.warn(`${category}: ${message.replace(COLOUR, "")}`);
}

/** Make the error of a call that timed out after some attempts; undefined for other errors. */
export function lateError(reason, url, tries) {
  if (!(reason instanceof DeadlinePassed)) return undefined;
  const before = tries?.lastFailure ? `; before that: ${tries.lastFailure}` : "";
  return new TransportError(reason.message + before, { url });
}

/** Return the cause of a failed request: Node exposes it, browsers do not. */
function failureOf(error, url) {
  const cause = error.cause ?? error;
  const code = cause.code ?? cause.errors?.[0]?.code ?? "";
  const reason = cause.message || code || error.message;
  if (MALFORMED.test(code)) {
    throw new ProtocolError(`the answer from ${url} is not HTTP: ${reason}`, { url, cause: error });
  }
  const absent = ABSENT.has(code) || !code;
  const message = `no answer from ${url}: ${reason}`;
  return { lost: absent ? Lost.ABSENT : Lost.CUT, message, cause: error };
}

/**
 * Return whether a server answers but hides its answers from this page.
 *
 * A browser hides the cause of a failure from scripts, but not whether a server answered.
 */
async function refusesPage(url) {
  const page = globalThis.location?.origin;
  const server = new URL(url);
  if (!page || page === server.origin) return undefined;
  try {
    await fetch(new URL("/healthz", server), { mode: "no-cors", cache: "no-store" });
  } catch {
    return undefined;
  }
  return (
    `the server at ${server.origin} does not let pages of ${page} see its answers; ` +
    `start it with --allow-origin ${page} to allow that`
  );
}

/** Split a server's address from the token in it, so that no message shows it. */
function addressOf(text) {
  const url = parsed(text);
  if (!url || !/^https?:$/.test(url.protocol)) {
    const begins = /^https?:\/\//i.test(text);
    throw new TypeError(
      "a server's address looks like http://127.0.0.1:5000" +
        (begins ? "" : "; this one does not begin with http:// or https://"),
    );
  }
  const token = decodeURIComponent(url.password) || undefined;
  // Each request has "/v1" in its own path.
  const path = url.pathname.replace(/\/+$/, "").replace(/\/+v1$/, "");
  return { url: `${url.protocol}//${url.host}${path}`, token };
}

function parsed(text) {
  try {
    return new URL(text);
  } catch {
    return null;
  }
}
