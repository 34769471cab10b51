/** Resets and steps of one instance, over a stream of the JavaScript client. */

import { pathOf } from "../../v1/external/client/remote.js";
import { Op } from "../../v1/external/client/frames.js";
import { bodyOf } from "../../v1/external/client/request_bodies.js";
import { Requester } from "../../v1/external/client/requester.js";
import { Session } from "../../v1/external/client/session.js";

const RESET = { op: Op.RESET, path: "reset/" };
const STEP = { op: Op.STEP, path: "step/" };

/** Opens a stream with the first call. To leave does not end the instance. */
export class Stepper {
  #session;
  /** The last answers about agents: their IDs, whose turn it is, and which have ended. */
  #last = {};

  /**
   * @param {string} id Of the instance.
   * @param {string} token Empty if the server needs none.
   * @param {{ onStep?: () => void, onSpaces?: (version: number) => void,
   *   onWarning?: (warning: { message: string }) => void }} [options]
   *   `onStep` is called before each step, `onSpaces` with the version of the spaces after
   *   each call.
   */
  constructor(id, token, { onStep = () => {}, onSpaces = () => {}, onWarning = () => {} } = {}) {
    const url = new URL("../..", import.meta.url).href.replace(/\/$/, "");
    this.#session = new Session(new Requester({ url, token, onWarning }), pathOf(id), true);
    this.onStep = onStep;
    this.onSpaces = onSpaces;
  }

  /**
   * Begin an episode.
   *
   * @param {{ seed?: number | bigint, options?: object }} [requested]
   */
  reset(requested = {}) {
    return this.#send(RESET, requested);
  }

  /** Take a step with a plain action, which the server casts; of several, those that act now. */
  step(action) {
    this.onStep();
    return this.#send(STEP, { action: this.#acting(action) });
  }

  /** Whether it is the turn of an agent that can only pass. */
  get mustPass() {
    const { agents = [], agent_selection: turn, terminated, truncated } = this.#last;
    return turn !== undefined && agents.length > 0 && Boolean(terminated?.[turn] || truncated?.[turn]);
  }

  #acting(action) {
    const { agents, agent_selection: turn } = this.#last;
    if (!agents) return action;
    if (this.mustPass) return { [turn]: null };
    const acting = turn === undefined ? agents : [turn];
    return Object.fromEntries(acting.map((agent) => [agent, action?.[agent] === undefined ? action : action[agent]]));
  }

  /** Take what the description of the instance, or an answer, says about agents. */
  note(answer) {
    this.#last = answer;
  }

  async #send(call, body) {
    const answer = await this.#session.sendRequest(call, bodyOf(body));
    this.#complete(answer);
    this.note(answer);
    this.onSpaces(answer.spaces_version ?? 0);
    return answer;
  }

  /** Add what an answer about agents leaves out, since its other members say it. */
  #complete(answer) {
    if (!this.#last.agents || !answer.terminated) return;
    answer.agents ??= Object.keys(answer.terminated);
    if (answer.cumulative_rewards) answer.agent_selection ??= Object.keys(answer.observation)[0];
  }

  /** The session of its requests, for a watcher that shows each of them. */
  get session() {
    return this.#session.name;
  }

  /** Whether the stream is open. */
  get hasStream() {
    return this.#session.transport === "stream";
  }

  /** Close the stream. */
  close() {
    this.#session.close();
  }
}

/** Whether the answer to a step ends the episode; of a vector, none does. */
export function isDone({ agents, terminated, truncated }) {
  if (agents) return !agents.length;
  return [terminated, truncated].some((each) => each === true);
}
