/** What remains of an instance that has ended: why that was, its recordings, and its exports. */

import { h } from "./elements.js";

/** What the reasons of an end mean. */
const REASONS = {
  closed: "A client closed it.",
  crashed: "Its process ended by itself.",
  "step-deadline": "A call took longer than the server allows.",
  unresponsive: "Its process did not respond for longer than a call may take.",
  idle: "Nobody used it for longer than the server allows.",
  orphaned: "Its clients were gone without closing it, and its slot was needed.",
  memory: "It used more memory than the server allows.",
  "external-gone": "Its external environment has not come back.",
  "agent-lost": "Its agent was silent for longer than its clock allows.",
  abandoned: "The client that created it was gone before it was made.",
  shutdown: "The server was stopped.",
};

/** Say in a sentence why an instance has ended. */
export function whyEnded({ reason, detail, signal, exit_status }) {
  const how = signal ?? (exit_status ? `exit status ${exit_status}` : "");
  const facts = [detail, reason === "crashed" ? how : ""].filter(Boolean).join(", ");
  return `${REASONS[reason] ?? `It has ended: ${reason}.`}${facts ? ` (${facts})` : ""}`;
}

/** Shows why an instance has ended, and links to its recordings. */
export class EndedPanel {
  #why = h("p", { class: "why" });
  #recordings = h("ul", { hidden: "" });

  constructor() {
    this.element = h("div", {}, this.#why, this.#recordings);
  }

  /** @param {object} row Of the list of instances. */
  show(row) {
    this.#why.textContent = whyEnded(row);
  }

  /**
   * Find the recordings of an instance.
   *
   * @param {(method: string, path: string) => Promise<object>} call
   * @param {string} id
   */
  async find(call, id) {
    const { recordings } = await call("GET", "/v1/recordings/");
    const own = recordings.filter(({ instance_id }) => instance_id === id);
    this.#recordings.hidden = !own.length;
    this.#recordings.replaceChildren(
      ...own.map(({ directory }) => h("li", {}, h("a", { href: "#/recordings" }, `Recording ${directory}`))),
    );
  }
}
