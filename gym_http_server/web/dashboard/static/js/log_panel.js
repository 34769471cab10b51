/** The log of an instance, as it grows. */

import { h } from "./elements.js";
import { request } from "./server.js";

/** Seconds that the server may wait for more of the log. */
const WAIT_S = 20;
/** Characters that stay on the page. */
const KEPT = 200_000;
/** Milliseconds before a further attempt after an error. */
const PAUSE = 2000;

/** Follows a log until it is disposed of. */
export class LogPanel {
  #path;
  #output = h("pre", { class: "log", tabindex: "0", role: "log", "aria-label": "Log" });
  #state = h("p", { class: "hint" });
  #stop = new AbortController();

  /** @param {string} id Of an instance, which may have ended. */
  constructor(id) {
    this.#path = `/v1/envs/${encodeURIComponent(id)}/log/`;
    this.element = h("div", { class: "log-panel" }, this.#output, this.#state);
    this.#follow();
  }

  dispose() {
    this.#stop.abort();
  }

  async #follow() {
    const { signal } = this.#stop;
    const decoder = new TextDecoder();
    let from = 0;
    while (!signal.aborted) {
      try {
        const answer = await request("GET", `${this.#path}?from=${from}&wait_s=${WAIT_S}`, { signal });
        if (!answer.ok) {
          const { message } = await answer.json();
          this.#say(message);
          if ([400, 404].includes(answer.status)) return;
          await pause(signal);
          continue;
        }
        const bytes = await answer.arrayBuffer();
        if (Number(answer.headers.get("Gym-Log-Cut")) > 0) this.#add("… (the server has cut a part) …\n");
        this.#add(decoder.decode(bytes, { stream: true }));
        from = Number(answer.headers.get("Gym-Log-Next"));
        this.#say("");
        if (answer.headers.get("Gym-Log-Ended") === "true" && bytes.byteLength === 0) {
          this.#say("The instance has ended.");
          return;
        }
      } catch (error) {
        if (signal.aborted) return;
        this.#say(`The log cannot be read: ${error.message}`);
        await pause(signal);
      }
    }
  }

  #say(words) {
    this.#state.textContent = words;
  }

  #add(text) {
    if (!text) return;
    const output = this.#output;
    const isAtEnd = output.scrollHeight - output.scrollTop - output.clientHeight < 30;
    const whole = output.textContent + text;
    output.textContent = whole.slice(-KEPT);
    if (isAtEnd) output.scrollTop = output.scrollHeight;
  }
}

function pause(signal) {
  return new Promise((resolve) => {
    const timer = setTimeout(resolve, PAUSE);
    signal.addEventListener("abort", () => (clearTimeout(timer), resolve()), { once: true });
  });
}
