/** The panel to record an instance: episodes always, steps and videos if wanted. */

import { h } from "./elements.js";
import { bytesText } from "./texts.js";
import { button } from "./widgets/containers.js";

/** Starts and stops a monitor, and shows how much it has written. */
export class RecordingPanel {
  #call;
  #path;
  #state = h("p", {});
  #directory = h("input", { type: "text", autocomplete: "off", spellcheck: "false" });
  #steps = h("input", { type: "checkbox" });
  #video = h("input", { type: "checkbox" });
  #every = h("input", { type: "number", min: "1", step: "1", value: "10" });
  #error = h("p", { class: "error", role: "alert" });

  /**
   * @param {(method: string, path: string, body?: object) => Promise<object>} call
   * @param {string} path Of the instance.
   * @param {string} name A directory to suggest.
   * @param {boolean} may Whether the token may record.
   */
  constructor(call, path, name, may) {
    this.#call = call;
    this.#path = `${path}monitor/`;
    this.#directory.value = name;
    this.#steps.checked = true;
    const labelled = (text, field) => h("label", { class: "switch" }, field, h("span", {}, text));
    const controls = [
      h(
        "div",
        { class: "row" },
        h("label", {}, h("span", {}, "Directory"), this.#directory),
        labelled("Steps", this.#steps),
        labelled("Video", this.#video),
        h("label", {}, h("span", {}, "of every … episodes"), this.#every),
      ),
      h(
        "div",
        { class: "row" },
        button("Record", "Record this instance", () => this.#start()),
        button("Stop", "Stop recording", () => this.#send("close/", {})),
      ),
      this.#error,
    ];
    this.element = h("div", { class: "recording" }, this.#state, ...(may ? controls : []));
  }

  /** Show the state of a row of the list of instances. */
  show({ recording }) {
    this.#state.textContent = recording ? wordsOf(recording) : "No steps or videos are recorded.";
  }

  #start() {
    const body = { directory: this.#directory.value };
    if (this.#steps.checked) body.steps = true;
    if (this.#video.checked) body.video = { every: Number(this.#every.value) };
    return this.#send("start/", body);
  }

  async #send(place, body) {
    this.#error.textContent = "";
    try {
      await this.#call("POST", this.#path + place, body);
    } catch (error) {
      this.#error.textContent = error.message;
    }
  }
}

function wordsOf({ steps, video, bytes, frames_written, frames_dropped, failed }) {
  const kinds = [...(steps ? ["steps"] : []), ...(video ? ["video"] : [])].join(" and ") || "episodes";
  const words = [`Recording ${kinds}: ${bytesText(bytes)}`];
  if (video) words.push(`${frames_written} frames written, ${frames_dropped} dropped`);
  if (failed) words.push("it has failed, and the log says why");
  return words.join(" · ");
}
