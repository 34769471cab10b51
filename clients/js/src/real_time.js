/**
 * Real time: the calls of an environment whose clock does not wait for the agent.
 *
 * They have sessions of their own, so that they do not wait behind a step.
 */

import { ApiError, ProtocolError } from "./errors.js";
import { Op } from "./frames.js";
import { NOTHING, bodyOf } from "./request_bodies.js";
import { newName } from "./retries.js";

const ACT = { op: Op.ACT, path: "action/" };
const UPDATES = { op: Op.UPDATES, path: "updates/", method: "GET" };
const TRACE = { op: Op.TRACE, path: "realtime/trace/", method: "GET" };
const DESCRIBE = { op: Op.REALTIME, path: "realtime/", method: "GET" };
const CHANGE = { op: Op.SET_REALTIME, path: "realtime/" };
const PAUSE = { op: Op.PAUSE, path: "realtime/pause/" };
const RESUME = { op: Op.RESUME, path: "realtime/resume/" };
/** Milliseconds that the server waits for an update before it answers without one. */
const WAIT = 10_000;

/** The actions of one environment, and what else its clock is asked. */
export class RealTime {
  #newSession;
  #session;
  #name = newName();
  #sequence = 0;
  #seen = 0;
  #iterators = new Set();

  /** @param {() => import("./session.js").Session} newSession */
  constructor(newSession) {
    this.#newSession = newSession;
    this.#session = newSession();
  }

  /** Note the update in an answer, and return the answer. */
  note(answer) {
    const update = answer?.realtime?.update;
    if (update > this.#seen) this.#seen = update;
    return answer;
  }

  act(action, { actions, at, blend, update, validS, priority }, call) {
    const members = { action, actions, at, blend, valid_s: validS, priority };
    if (action !== undefined || actions !== undefined) members.for = update ?? (this.#seen || undefined);
    Object.assign(members, { session: this.#name, sequence: ++this.#sequence });
    return this.#session.sendRequest(ACT, bodyOf(members), call);
  }

  timing(call) {
    return this.#session.sendRequest(DESCRIBE, NOTHING, call);
  }

  setTiming({ hz, periodS, captureS, elasticity, defaultAction, agentTimeoutS }, call) {
    const settings = { hz, period_s: periodS, capture_s: captureS, elasticity };
    Object.assign(settings, { default_action: defaultAction, agent_timeout_s: agentTimeoutS });
    return this.#session.sendRequest(CHANGE, bodyOf(settings), call);
  }

  pause(call) {
    return this.#session.sendRequest(PAUSE, bodyOf({}), call);
  }

  resume(call) {
    return this.#session.sendRequest(RESUME, bodyOf({}), call);
  }

  trace({ last = 4096, format = "chrome" }, call) {
    const query = { last, format };
    return this.#session.sendRequest({ ...TRACE, query }, bodyOf(query), call);
  }

  updates({ after = this.#seen || undefined, ...options }, timeout) {
    const iterator = new Updates(this, this.#newSession(), { after, ...options }, timeout);
    this.#iterators.add(iterator);
    return iterator;
  }

  forget(iterator) {
    this.#iterators.delete(iterator);
  }

  close() {
    this.#session.close();
    for (const each of this.#iterators) each.close();
  }
}

/** The updates of one environment, for `for await`. */
class Updates {
  #realTime;
  #session;
  #query;
  #arrived = [];
  #ended = false;

  /** The number of updates so far that the server's buffer could not hold. */
  lost = 0;

  constructor(realTime, session, { after, deliver = "latest", most }, timeout) {
    this.#realTime = realTime;
    this.#session = session;
    this.#query = { deliver, wait_s: Math.floor(Math.min(WAIT, timeout / 2)) / 1000 };
    if (after !== undefined) this.#query.after = after;
    if (most !== undefined) this.#query.max = most;
  }

  [Symbol.asyncIterator]() {
    return this;
  }

  async next() {
    while (!this.#arrived.length) {
      if (this.#ended) return { done: true, value: undefined };
      await this.#ask();
    }
    const value = this.#realTime.note(this.#arrived.shift());
    if (typeof value?.realtime?.update !== "number") throw new ProtocolError("an update has no number");
    this.#query.after = value.realtime.update;
    this.#ended ||= value.last === true;
    return { done: false, value };
  }

  async return() {
    this.close();
    return { done: true, value: undefined };
  }

  close() {
    this.#ended = true;
    this.#arrived = [];
    this.#session.close();
    this.#realTime.forget(this);
  }

  async #ask() {
    const query = { ...this.#query };
    try {
      const answer = await this.#session.sendRequest({ ...UPDATES, query }, bodyOf(query));
      if (!Array.isArray(answer?.updates)) throw new ProtocolError("the answer has no updates");
      this.lost += answer.lost;
      if (this.#ended) return;
      this.#arrived = answer.updates;
      this.#ended = answer.state === "ended" && !answer.updates.length;
    } catch (error) {
      if (this.#ended) return;
      if (!(error instanceof ApiError && error.code === "world-ended")) throw error;
      this.#ended = true;
    }
  }
}
