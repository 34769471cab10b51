/** The common part of environments and vectors: an instance on a server. */

import { checkIntegers } from "./actions.js";
import { TYPED, jsonOf, typedOf } from "./answers.js";
import { ApiError } from "./errors.js";
import { Form, Op } from "./frames.js";
import { checkOptions } from "./options.js";
import { NOTHING, bodyOf } from "./request_bodies.js";
import { Session } from "./session.js";

const RESET = { op: Op.RESET, path: "reset/" };
const STEP = { op: Op.STEP, path: "step/" };
const RENDER = { op: Op.RENDER, path: "render/" };
const ROLLOUT = { op: Op.ROLLOUT, path: "rollout/" };
/** Codes of an instance that has already ended when it is closed. */
const GONE = new Set(["instance-ended", "server-restarted", "unknown-instance"]);

/** An instance on a server. */
export class Remote {
  #requester;
  #session;
  #newSession;
  #closed = null;

  /**
   * @param {import("./requester.js").Requester} requester
   * @param {object} reply The instance's description.
   * @param {{ stream?: boolean }} options
   */
  constructor(requester, reply, { stream = true } = {}) {
    this.#requester = requester;
    this.#newSession = () => new Session(requester, pathOf(reply.instanceId), stream);
    this.#session = this.#newSession();
    Object.assign(this, reply);
  }

  /** The server's address, without a token. */
  get url() {
    return this.#requester.url;
  }

  /** The transport of calls at present. */
  get transport() {
    return this.#session.transport;
  }

  async reset(requested = {}) {
    checkOptions("reset", requested);
    const { seed, options, ...call } = requested;
    const answer = await this.#sendRequest(RESET, bodyOf({ seed, options }), call);
    const { observation, info, realtime, rewards } = answer;
    return realtime === undefined ? { observation, info } : { observation, info, realtime, rewards };
  }

  async step(action, call) {
    if (action === undefined) throw new TypeError("a step needs an action");
    checkOptions("step", call);
    return this.#sendRequest(STEP, this._stepBody(action), call);
  }

  async stepMany(actions, call) {
    checkOptions("stepMany", call);
    return this.#sendRequest(STEP, this.#playing(actions, { actions }), call);
  }

  async rollout(requested = {}) {
    checkOptions("rollout", requested);
    const { episodes, policy, actions, seed, options, maxSteps, ...call } = requested;
    const members = { episodes, policy, actions, seed, options, max_steps: maxSteps };
    return this.#sendRequest(ROLLOUT, this.#playing(actions, members), call);
  }

  async render(call) {
    checkOptions("render", call);
    return (await this.#sendRequest(RENDER, NOTHING, call)).rendered;
  }

  /** Describe the instance as it is now. */
  async describe(call) {
    checkOptions("describe", call);
    const path = pathOf(this.instanceId);
    return this.#requester.within(call, async (deadline) =>
      typedOf(await this.#requester.request("GET", path, deadline, { accept: TYPED }), this.#requester.url + path),
    );
  }

  /** Return the last episodes, whichever way their steps arrived. */
  async episodes(options = {}) {
    checkOptions("episodes", options);
    const { last = 1000, from = 0, ...call } = options;
    return this.#get(`episodes/?last=${Number(last)}&from=${Number(from)}`, call);
  }

  /** Return the keys with which a person plays the environment. */
  async keys(call) {
    checkOptions("keys", call);
    return this.#get("keys/", call);
  }

  /** End the instance. Later calls fail; closing again does nothing. */
  async close(call) {
    checkOptions("close", call);
    this.#closed ??= this.#close(call);
    return this.#closed;
  }

  /** Close connections that a subclass has. */
  _closeOthers() {}

  /** Make another session, whose calls do not wait for those of the first one. */
  _newSession() {
    return this.#newSession();
  }

  /** The milliseconds that a call may take. */
  get _timeout() {
    return this.#requester.timeout;
  }

  async #get(rest, call) {
    const path = pathOf(this.instanceId) + rest;
    return this.#requester.within(call, async (deadline) =>
      jsonOf(await this.#requester.request("GET", path, deadline), this.#requester.url + path),
    );
  }

  async #close({ keepalive, ...call } = {}) {
    this.#session.close();
    this._closeOthers();
    const path = `${pathOf(this.instanceId)}close/`;
    try {
      await this.#requester.within(call, async (deadline) =>
        jsonOf(await this.#requester.request("POST", path, deadline, { keepalive }), this.#requester.url + path),
      );
    } catch (error) {
      if (error instanceof ApiError && GONE.has(error.code)) return;
      this.#closed = null;
      throw error;
    }
  }

  _stepBody(action) {
    return this.#playing(action, { action });
  }

  #playing(actions, members) {
    const body = bodyOf(members);
    // The server casts plain values, and refuses invalid ones.
    if (body.form === Form.BINARY) checkIntegers(this.actionSpace, actions);
    return body;
  }

  _checkOpen() {
    if (this.#closed) throw new TypeError(`${this.envId} ${this.instanceId} was closed`);
  }

  async #sendRequest(operation, body, call) {
    this._checkOpen();
    return this.#session.sendRequest(operation, body, call);
  }
}

// Node before 18.18 has no such symbol.
if (Symbol.asyncDispose) {
  Remote.prototype[Symbol.asyncDispose] = function dispose() {
    return this.close();
  };
}

/** The path of an instance. */
export function pathOf(instanceId) {
  return `/v1/envs/${encodeURIComponent(instanceId)}/`;
}
