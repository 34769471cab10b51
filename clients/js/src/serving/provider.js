/** A provider: keeps one environment connected, and answers for it. */

import { ApiError } from "../errors.js";
import { parse } from "../json.js";
import { stringify } from "../json_writer.js";
import { DIALECTS } from "./dialects.js";

const FIRST_PAUSE = 50;
const LONGEST_PAUSE = 5000;
const WELCOME = 10_000;
/** Refusals that may end by themselves. */
const PASSING = new Set(["too-many-external"]);

/** One environment's connection, opened again as often as it is lost. */
export class Provider {
  #env;
  #options;
  #open;
  #url;
  #connection = null;
  #dialect = null;
  // In memory only: the game ends with the page, too.
  #resume = undefined;
  // The last answer, in case the server did not get it.
  #last = { id: 0, result: null };
  // Handlers run one after the other, even if the server gave up a request.
  #running = Promise.resolve();
  // How often the server has lost the session.
  #conversation = 0;
  // Whether the author's last notification was that an agent arrived.
  #hasAgent = false;

  /**
   * @param {import("./provided_env.js").ProvidedEnv} env
   * @param {object} options The options of `serveEnv`.
   * @param {(signal?: AbortSignal) => Promise<object>} open Opens a connection, as `openConnection` does.
   * @param {string} url The server, for errors.
   */
  constructor(env, options, open, url) {
    [this.#env, this.#options, this.#open, this.#url] = [env, options, open, url];
  }

  /** Serve until the signal. */
  async run(signal) {
    for (let pause = FIRST_PAUSE, logged = ""; !signal?.aborted; ) {
      try {
        const connection = (this.#connection = await this.#open(signal));
        const lost = await this.#serve(connection, signal, () => ([pause, logged] = [FIRST_PAUSE, ""]));
        if (lost) this.#log(`${lost.message}; connecting again`);
      } catch (error) {
        if (signal?.aborted) break;
        if (error instanceof ApiError && error.body?.type === "refused") {
          this.#forget();
          throw error;
        }
        if (error.message !== logged) this.#log(`${error.message}; trying again`);
        logged = error.message;
      }
      // Random, so that clients of one server do not all return at the same moment.
      await sleep(pause * (0.5 + Math.random() / 2), signal);
      pause = Math.min(2 * pause, LONGEST_PAUSE);
    }
    this.#forget();
    this.#log("stopped");
  }

  /** Serve over one connection; return the reason of its end. */
  #serve(connection, signal, onWelcome) {
    return new Promise((resolve, reject) => {
      const beats = new Heartbeats();
      const end = (settle, reason) => {
        beats.stop();
        signal?.removeEventListener("abort", leave);
        if (this.#connection === connection) this.#connection = null;
        connection.close();
        settle(reason);
      };
      const lose = (error) => end(resolve, error);
      const leave = () => end(resolve);
      // The signal may have been aborted while the connection was opened.
      if (signal?.aborted) return leave();
      signal?.addEventListener("abort", leave);
      connection.onclose = lose;
      // For transports whose heartbeats are not messages.
      connection.onbytes = () => beats.arrived();
      connection.onmessage = (message) => {
        beats.arrived();
        try {
          this.#receiveWelcome(parse(message));
        } catch (error) {
          return end(reject, error);
        }
        onWelcome();
        const { heartbeat_s: seconds } = parse(message);
        beats.start(seconds * 1000, () => connection.send(this.#dialect.control("ping")), lose);
        connection.onmessage = (next) => {
          beats.arrived();
          try {
            this.#receive(connection, this.#dialect.read(next), lose);
          } catch (error) {
            lose(new Error(`a message of the server cannot be decoded: ${error.message}`));
          }
        };
      };
      beats.start(WELCOME / 3, () => {}, () => end(reject, new Error("the server does not answer to hello")));
      connection.send(stringify({ ...this.#env.hello(), resume: this.#resume }));
    });
  }

  #receiveWelcome(reply) {
    if (reply?.type === "refused") {
      const words = `${reply.code}: ${reply.message}`;
      if (PASSING.has(reply.code)) throw new Error(words);
      throw new ApiError(words, { code: reply.code, url: this.#url, body: reply });
    }
    if (reply?.type !== "welcome") throw new Error("the answer to the hello is malformed");
    if (!reply.resumed) this.#forget();
    this.#resume = reply.resume;
    this.#dialect = new DIALECTS[this.#env.dialect]();
    this.#log(`${reply.resumed ? "resumed" : "connected"}, connection ${reply.connection}`);
  }

  #receive(connection, message, lose) {
    if (message.type === "ping") connection.send(this.#dialect.control("pong"));
    else if (message.type === "fault") {
      this.#log(`the server found a fault${message.field ? ` in ${message.field}` : ""}: ${message.message}`);
    } else if (message.type !== "pong") {
      this.#answerRequest(connection, message).catch((error) => lose(new Error(`${message.type} cannot be answered: ${error.message}`)));
    }
  }

  /** Answer a request; a repeated one gets the stored answer. */
  async #answerRequest(connection, request) {
    const { id } = request;
    if (id !== this.#last.id) {
      const conversation = this.#conversation;
      const result = (this.#running = this.#running.then(() => this.#execute(request, conversation)));
      this.#last = { id, result };
    }
    const result = await this.#last.result;
    // After a new connection the server repeats the request.
    if (this.#connection === connection && this.#last.id === id) connection.send(this.#encoded(id, result));
  }

  async #execute(request, conversation) {
    if (conversation !== this.#conversation) return null;
    const result = await this.#env.answer(request);
    if (result.error) this.#log(result.error.message);
    // The request belongs to an earlier conversation.
    if (conversation !== this.#conversation) this.#env.taken = false;
    this.#notifyAuthor();
    return result;
  }

  #encoded(id, { result, error }) {
    if (error) return this.#dialect.failure(id, error);
    try {
      return this.#dialect.answer(id, result);
    } catch (failure) {
      const message = `the result of the environment cannot be encoded: ${failure.message}`;
      this.#log(message);
      return this.#dialect.failure(id, { code: "env-error", message });
    }
  }

  /** The server has lost the earlier conversation. */
  #forget() {
    this.#conversation++;
    this.#last = { id: 0, result: null };
    this.#env.taken = false;
    this.#notifyAuthor();
  }

  #notifyAuthor() {
    if (this.#env.taken === this.#hasAgent) return;
    this.#hasAgent = this.#env.taken;
    this.#log(this.#hasAgent ? "an agent arrived" : "the agent left");
    this.#call(this.#hasAgent ? this.#options.onAgent : this.#options.onAgentGone);
  }

  /** Call a handler, which may be async; nothing waits for it. */
  async #call(handler) {
    try {
      await handler?.();
    } catch (error) {
      this.#log(`a handler failed: ${error?.message ?? error}`);
    }
  }

  async #log(words) {
    try {
      await (this.#options.log ?? console.log)(`external/${this.#options.name}: ${words}`);
    } catch {
      // The author's callback failed; the environment continues.
    }
  }
}

/** Detects a server that no longer responds. */
class Heartbeats {
  #timer;
  #quiet = 0;

  start(pause, ping, lose) {
    this.stop();
    this.#timer = setInterval(() => {
      // Counted in beats, since timers of hidden pages are late.
      this.#quiet++;
      if (this.#quiet === 1) ping();
      else if (this.#quiet > 2) lose(new Error("the server sends nothing"));
    }, pause);
  }

  arrived() {
    this.#quiet = 0;
  }

  stop() {
    clearInterval(this.#timer);
    this.#quiet = 0;
  }
}

function sleep(pause, signal) {
  if (signal?.aborted) return Promise.resolve();
  return new Promise((resolve) => {
    const timer = setTimeout(done, pause);
    function done() {
      clearTimeout(timer);
      signal?.removeEventListener("abort", done);
      resolve();
    }
    signal?.addEventListener("abort", done);
  });
}
