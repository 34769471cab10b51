/** Reset and step by hand, with widgets made of the action space. */

import { h } from "./elements.js";
import { plainOf, widget } from "./space_widget.js";
import { InputError } from "./widgets/input_error.js";
import { button } from "./widgets/containers.js";
import { readNumber } from "./widgets/plan.js";

const SEED = { low: 0, high: Infinity, isInteger: true, isFlag: false };
/** How much of an observation is shown. */
const SHOWN = 4000;

/** The panel of resets and steps. */
export class ByHand {
  #stepper;
  #mayStep;
  #widget;
  #draw;
  #seed = h("input", { type: "text", inputmode: "numeric", autocomplete: "off" });
  #options = h("textarea", { rows: "2", spellcheck: "false", autocomplete: "off" });
  #error = h("p", { class: "error", role: "alert" });
  #answer = h("dl", { class: "answer" });
  #buttons;

  /**
   * @param {object} space Of the actions.
   * @param {import("./stepper.js").Stepper} stepper
   * @param {() => Promise<boolean>} mayStep Asks if others step the instance.
   * @param {() => Promise<unknown>} draw Asks the server for an action.
   */
  constructor(space, stepper, mayStep, draw) {
    this.#stepper = stepper;
    this.#mayStep = mayStep;
    this.#draw = draw;
    this.#widget = widget(space, "action", draw);
    const reset = button("Reset", "Reset the environment", () => this.#run("reset", () => this.#reset()));
    const step = button("Step", "Step with this action", () => this.#run("step", () => this.#step()));
    const sample = button("Sample", "Sample an action", () => this.#sample());
    const both = button("Sample and step", "Sample and step", async () => {
      if (await this.#sample()) await this.#run("step", () => this.#step());
    });
    this.#buttons = [reset, step, sample, both];
    this.element = h(
      "div",
      { class: "by-hand" },
      h(
        "div",
        { class: "row" },
        h("label", {}, h("span", {}, "Seed"), this.#seed),
        h("label", {}, h("span", {}, "Options, as JSON"), this.#options),
        reset,
      ),
      this.#widget.element,
      h("div", { class: "row" }, step, sample, both),
      this.#error,
      this.#answer,
    );
  }

  /** Enter actions of another space from now on. */
  setSpace(space) {
    const made = widget(space, "action", this.#draw);
    this.#widget.element.replaceWith(made.element);
    this.#widget = made;
  }

  async #sample() {
    this.#error.textContent = "";
    try {
      await this.#widget.sample();
      return true;
    } catch (error) {
      this.#error.textContent = error.message;
      return false;
    }
  }

  async #reset() {
    const requested = {};
    if (this.#seed.value.trim()) requested.seed = readNumber(this.#seed.value, SEED, "seed");
    if (this.#options.value.trim()) requested.options = optionsIn(this.#options.value);
    return () => this.#stepper.reset(requested);
  }

  async #step() {
    const action = this.#widget.value();
    return () => this.#stepper.step(action);
  }

  /** Read the input, ask if need be, send the request, and show its answer. */
  async #run(op, prepare) {
    this.#error.textContent = "";
    this.#disable(true);
    try {
      const send = await prepare();
      if (await this.#mayStep()) this.#show(op, await send());
    } catch (error) {
      this.#error.textContent = error.message;
    } finally {
      this.#disable(false);
    }
  }

  #disable(isBusy) {
    // Not `disabled`, which would take the focus from a button that was pressed.
    for (const each of this.#buttons) each.setAttribute("aria-disabled", String(isBusy));
  }

  #show(op, answer) {
    const rows = Object.entries(answer).flatMap(([name, value]) => [h("dt", {}, name), h("dd", {}, textOf(value))]);
    this.#answer.replaceChildren(h("dt", {}, "answer to"), h("dd", {}, op), ...rows);
  }
}

function optionsIn(text) {
  let options;
  try {
    options = JSON.parse(text);
  } catch {
    throw new InputError("options", text, "a JSON object");
  }
  if (typeof options !== "object" || options === null || Array.isArray(options)) {
    throw new InputError("options", text, "a JSON object");
  }
  return options;
}

/** Print a value of an answer: JSON, cut if it is long. */
function textOf(value) {
  let text;
  try {
    text = JSON.stringify(plainOf(value), (_key, each) => (typeof each === "bigint" ? String(each) : each));
  } catch {
    text = String(value);
  }
  return text.length > SHOWN ? `${text.slice(0, SHOWN)} … (${text.length} characters)` : text;
}
