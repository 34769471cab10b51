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
  #lent;
  #given;
  #open;
  #url;
  #line = null;
  #dialect = null;
  // In memory only: when a page is left, the game is gone, too.
  #resume = undefined;
  // The last answer, in case the server did not get it.
  #last = { id: 0, told: null };
  // Handlers run one after the other, even if the server gave one up.
  #running = Promise.resolve();
  // How often the server has forgotten what it asked.
  #forgotten = 0;
  // Whether the author was told last that an agent came.
  #hasAgent = false;

  /**
   * @param {import("./provided_env.js").ProvidedEnv} lent
   * @param {object} given What `serveEnv` is called with.
   * @param {(signal?: AbortSignal) => Promise<object>} open Opens a line, as `openConnection` does.
   * @param {string} url The server, for errors.
   */
  constructor(lent, given, open, url) {
    [this.#lent, this.#given, this.#open, this.#url] = [lent, given, open, url];
  }

  /** Serve until the signal. */
  async run(signal) {
    for (let pause = FIRST_PAUSE, said = ""; !signal?.aborted; ) {
      try {
        const line = (this.#line = await this.#open(signal));
        const lost = await this.#serve(line, signal, () => ([pause, said] = [FIRST_PAUSE, ""]));
        if (lost) this.#log(`${lost.message}; connecting anew`);
      } catch (error) {
        if (signal?.aborted) break;
        if (error instanceof ApiError && error.body?.type === "refused") {
          this.#forget();
          throw error;
        }
        if (error.message !== said) this.#log(`${error.message}; trying again`);
        said = error.message;
      }
      // Not all at the same moment, where many lost the same server.
      await sleep(pause * (0.5 + Math.random() / 2), signal);
      pause = Math.min(2 * pause, LONGEST_PAUSE);
    }
    this.#forget();
    this.#log("stopped");
  }

  /** Serve over one line; give why it ended. */
  #serve(line, signal, onWelcome) {
    return new Promise((resolve, reject) => {
      const beats = new Heartbeats();
      const end = (settle, reason) => {
        beats.stop();
        signal?.removeEventListener("abort", leave);
        if (this.#line === line) this.#line = null;
        line.close();
        settle(reason);
      };
      const lose = (error) => end(resolve, error);
      const leave = () => end(resolve);
      // It may have come while the line was opened, and is not told of again.
      if (signal?.aborted) return leave();
      signal?.addEventListener("abort", leave);
      line.onclose = lose;
      // Where heartbeats are no messages.
      line.onheard = () => beats.heard();
      line.onmessage = (message) => {
        beats.heard();
        try {
          this.#greeted(parse(message));
        } catch (error) {
          return end(reject, error);
        }
        onWelcome();
        const { heartbeat_s: seconds } = parse(message);
        beats.start(seconds * 1000, () => line.send(this.#dialect.control("ping")), lose);
        line.onmessage = (next) => {
          beats.heard();
          try {
            this.#take(line, this.#dialect.read(next), lose);
          } catch (error) {
            lose(new Error(`what the server sent cannot be read: ${error.message}`));
          }
        };
      };
      beats.start(WELCOME / 3, () => {}, () => end(reject, new Error("the server does not answer to hello")));
      line.send(stringify({ ...this.#lent.hello(), resume: this.#resume }));
    });
  }

  #greeted(reply) {
    if (reply?.type === "refused") {
      const words = `${reply.code}: ${reply.message}`;
      if (PASSING.has(reply.code)) throw new Error(words);
      throw new ApiError(words, { code: reply.code, url: this.#url, body: reply });
    }
    if (reply?.type !== "welcome") throw new Error("the answer to the hello is none");
    if (!reply.resumed) this.#forget();
    this.#resume = reply.resume;
    this.#dialect = new DIALECTS[this.#lent.dialect]();
    this.#log(`${reply.resumed ? "resumed" : "connected"}, connection ${reply.connection}`);
  }

  #take(line, said, lose) {
    if (said.type === "ping") line.send(this.#dialect.control("pong"));
    else if (said.type === "fault") {
      this.#log(`the server found a fault${said.field ? ` in ${said.field}` : ""}: ${said.message}`);
    } else if (said.type !== "pong") {
      this.#asked(line, said).catch((error) => lose(new Error(`${said.type} cannot be answered: ${error.message}`)));
    }
  }

  /** Answer a request; what comes again is not done again. */
  async #asked(line, request) {
    const { id } = request;
    if (id !== this.#last.id) {
      const asked = this.#forgotten;
      const told = (this.#running = this.#running.then(() => this.#done(request, asked)));
      this.#last = { id, told };
    }
    const told = await this.#last.told;
    // A later line asks for it anew.
    if (this.#line === line && this.#last.id === id) line.send(this.#written(id, told));
  }

  async #done(request, asked) {
    if (asked !== this.#forgotten) return null;
    const told = await this.#lent.answer(request);
    if (told.error) this.#log(told.error.message);
    // Whoever asked is not there any more.
    if (asked !== this.#forgotten) this.#lent.taken = false;
    this.#tellOfAgent();
    return told;
  }

  #written(id, { result, error }) {
    if (error) return this.#dialect.failure(id, error);
    try {
      return this.#dialect.answer(id, result);
    } catch (failure) {
      const message = `what the environment gave cannot be said: ${failure.message}`;
      this.#log(message);
      return this.#dialect.failure(id, { code: "env-error", message });
    }
  }

  /** The server knows nothing of what was before. */
  #forget() {
    this.#forgotten++;
    this.#last = { id: 0, told: null };
    this.#lent.taken = false;
    this.#tellOfAgent();
  }

  #tellOfAgent() {
    if (this.#lent.taken === this.#hasAgent) return;
    this.#hasAgent = this.#lent.taken;
    this.#log(this.#hasAgent ? "an agent came" : "the agent went");
    this.#call(this.#hasAgent ? this.#given.onAgent : this.#given.onAgentGone);
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
      await (this.#given.log ?? console.log)(`external/${this.#given.name}: ${words}`);
    } catch {
      // There is nowhere else to say so, and the environment goes on.
    }
  }
}

/** Find out whether the other side is still there. */
class Heartbeats {
  #timer;
  #quiet = 0;

  start(pause, ping, lose) {
    this.stop();
    this.#timer = setInterval(() => {
      // Counted in beats, since timers of hidden pages come late.
      this.#quiet++;
      if (this.#quiet === 1) ping();
      else if (this.#quiet > 2) lose(new Error("the server says nothing"));
    }, pause);
  }

  heard() {
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
