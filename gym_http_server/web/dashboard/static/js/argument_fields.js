/** Fields for the keyword arguments of an environment, made of its signature. */

import { h } from "./elements.js";

/** Shows fields, and reads those that somebody has changed. */
export class ArgumentFields {
  #fields = [];
  #of = null;

  constructor() {
    this.element = h("fieldset", { class: "arguments", hidden: "" });
  }

  /**
   * Show the arguments of an environment; what was entered stays while it is the same one.
   *
   * @param {string} envID
   * @param {{ name: string, default?: unknown }[]} given Of the registry.
   */
  show(envID, given) {
    if (envID === this.#of) return;
    this.#of = envID;
    this.#fields = given.map(fieldOf);
    this.element.hidden = !given.length;
    const labels = this.#fields.map(({ element }) => element);
    this.element.replaceChildren(h("legend", {}, "Arguments"), h("div", { class: "pairs" }, ...labels));
  }

  /**
   * Return the values that differ from the defaults, by name.
   *
   * @throws {Error} A field has no such value.
   */
  values() {
    return Object.fromEntries(this.#fields.flatMap(({ name, read }) => {
      const value = read();
      return value === undefined ? [] : [[name, value]];
    }));
  }
}

/** Make the field of an argument; `read` returns undefined while it has its default. */
function fieldOf(argument) {
  const { name } = argument;
  const initial = argument.default;
  const labelled = (input, attributes = {}) => h("label", attributes, h("span", {}, name), input);
  if (typeof initial === "boolean") {
    const input = h("input", { type: "checkbox" });
    input.checked = initial;
    return { name, element: labelled(input, { class: "switch" }), read: () => (input.checked === initial ? undefined : input.checked) };
  }
  if (typeof initial === "number") {
    const input = h("input", { type: "number", step: "any", value: String(initial) });
    const read = () => (input.value === "" || Number(input.value) === initial ? undefined : Number(input.value));
    return { name, element: labelled(input), read };
  }
  const isText = typeof initial === "string";
  const input = h("input", { type: "text", autocomplete: "off", spellcheck: "false", placeholder: isText ? initial : JSON.stringify(initial) ?? "required, as JSON" });
  return { name, element: labelled(input), read: () => readText(name, input.value.trim(), isText) };
}

function readText(name, text, isText) {
  if (!text) return undefined;
  if (isText) return text;
  try {
    return JSON.parse(text);
  } catch {
    throw new Error(`${name} is ${text.slice(0, 80)}: expected JSON, such as 3, "text" or [1, 2]`);
  }
}
