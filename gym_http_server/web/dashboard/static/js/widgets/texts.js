/** Widgets of Text, and of values that have no better one: JSON. */

import { h } from "../elements.js";
import { checked } from "./arrays.js";
import { InputError } from "./input_error.js";
import { initialOf, readText } from "./plan.js";

/** Make the widget of a Text space. */
export function textWidget(space, name) {
  const field = h("input", { type: "text", autocomplete: "off", spellcheck: "false" });
  const set = (value) => (field.value = String(value));
  set(initialOf(space));
  return {
    element: h("label", { class: "widget-text" }, h("span", {}, name), field),
    value: () => checked(field, () => readText(field.value, space, name)),
    set,
  };
}

/** Make a widget for any value: a field with its JSON. */
export function jsonWidget(initial, name) {
  const field = h("textarea", { rows: "4", spellcheck: "false", autocomplete: "off" });
  const number = (_key, value) => (typeof value === "bigint" ? Number(value) : value);
  const set = (value) => (field.value = JSON.stringify(value, number));
  set(initial);
  return {
    element: h("label", { class: "widget-json" }, h("span", {}, `${name}, as JSON`), field),
    value: () => checked(field, () => parsed(field.value, name)),
    set,
  };
}

function parsed(text, name) {
  try {
    return JSON.parse(text);
  } catch {
    throw new InputError(name, text.slice(0, 60), "JSON");
  }
}
