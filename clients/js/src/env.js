/** `Env`: an environment on a server. */

import { checkOptions } from "./options.js";
import { RealTime } from "./real_time.js";
import { Remote } from "./remote.js";
import { BinaryBody } from "./request_bodies.js";
import { Discrete } from "./spaces/index.js";

/** An environment on a server; `make` makes one. */
export class Env extends Remote {
  #realTime = null;

  async reset(options) {
    return this.#note(await super.reset(options));
  }

  async step(action, call) {
    return this.#note(await super.step(action, call));
  }

  async act(action, options = {}) {
    checkOptions("act", options);
    const { timeout, signal, ...members } = options;
    return this.#clock().act(action, members, { timeout, signal });
  }

  updates(options = {}) {
    checkOptions("updates", options);
    return this.#clock().updates(options, this._timeout);
  }

  async timing(call) {
    checkOptions("timing", call);
    return this.#clock().timing(call);
  }

  async setTiming(settings = {}) {
    checkOptions("setTiming", settings);
    const { timeout, signal, ...members } = settings;
    return this.#clock().setTiming(members, { timeout, signal });
  }

  async pause(call) {
    checkOptions("pause", call);
    return this.#clock().pause(call);
  }

  async resume(call) {
    checkOptions("resume", call);
    return this.#clock().resume(call);
  }

  async trace(options = {}) {
    checkOptions("trace", options);
    const { timeout, signal, ...members } = options;
    return this.#clock().trace(members, { timeout, signal });
  }

  _closeOthers() {
    this.#realTime?.close();
  }

  #clock() {
    this._checkOpen();
    return this.#agent();
  }

  #agent() {
    this.#realTime ??= new RealTime(() => this._newSession());
    return this.#realTime;
  }

  #note(answer) {
    return answer.realtime === undefined ? answer : this.#agent().note(answer);
  }

  _stepBody(action) {
    // The server has less to do with an action that needs no cast.
    if (typeof action === "number" && this.actionSpace instanceof Discrete && this.actionSpace.contains(action)) {
      return new BinaryBody({ action });
    }
    return super._stepBody(action);
  }

  toString() {
    return `<Env ${this.envId} ${this.instanceId}>`;
  }
}
