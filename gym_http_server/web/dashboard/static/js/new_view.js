/** Creates an instance: the registry's environments, and the options of a create request. */

import { h } from "./elements.js";

const MODES = ["", "rgb_array", "ansi", "rgb_array_list", "ansi_list"];

/** Make the view. */
export function view(context) {
  const page = new NewPage(context);
  page.load();
  return { element: page.element, dispose: () => page.dispose() };
}

class NewPage {
  #context;
  #envs = [];
  #isLoaded = false;
  #isOver = false;
  #search = h("input", { type: "search", "aria-label": "Search environments", placeholder: "lander" });
  #list = h("select", { size: "10", "aria-label": "Environments" });
  #reason = h("p", { class: "soft", role: "status" });
  #error = h("p", { class: "error", role: "alert", hidden: "" });
  #fields = {
    label: h("input", { maxlength: "64" }),
    seed: h("input", { type: "number", min: "0", step: "1" }),
    render_mode: h("select", {}, ...MODES.map((each) => h("option", { value: each }, each || "none"))),
    num_envs: h("input", { type: "number", min: "1", step: "1" }),
    max_episode_steps: h("input", { type: "number", min: "1", step: "1" }),
    kwargs: h("textarea", { rows: "2", spellcheck: "false", placeholder: "{}" }),
    wrappers: h("textarea", { rows: "2", spellcheck: "false", placeholder: "[]" }),
  };
  #names = {
    label: "Label",
    seed: "Seed of the first reset",
    render_mode: "Render mode",
    num_envs: "Environments in a vector (num_envs)",
    max_episode_steps: "Steps of an episode (max_episode_steps)",
    kwargs: "Keyword arguments, as a JSON object",
    wrappers: "Wrappers, as a JSON list",
  };
  #submit = h("button", { type: "submit" }, "Create");

  constructor(context) {
    this.#context = context;
    this.#fields.render_mode.value = "rgb_array";
    const fields = Object.entries(this.#fields).map(([name, field]) => h("label", {}, this.#names[name], field));
    const form = h("form", { class: "fields" }, this.#search, this.#list, this.#reason, ...fields, this.#error, this.#submit);
    this.element = h("div", {}, h("h1", {}, "New instance"), form);
    this.#search.addEventListener("input", () => this.#draw());
    this.#list.addEventListener("change", () => this.#explain());
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      this.#create();
    });
  }

  dispose() {
    this.#isOver = true;
  }

  async load() {
    this.#reason.textContent = "Looking through the registered environments …";
    try {
      this.#envs = (await this.#context.call("GET", "/v1/registry/")).envs;
    } catch (error) {
      this.#fail(error.message);
    }
    if (this.#isOver) return;
    this.#isLoaded = true;
    this.#draw();
  }

  #draw() {
    // The first look through the registry takes seconds.
    if (!this.#isLoaded) return;
    const text = this.#search.value.trim().toLowerCase();
    const found = this.#envs.filter(({ env_id }) => env_id.toLowerCase().includes(text));
    const chosen = this.#list.value;
    const options = found.map(({ env_id, available }) =>
      h("option", { value: env_id }, available ? env_id : `${env_id} (cannot be made)`));
    this.#list.replaceChildren(...options);
    const kept = found.find(({ env_id }) => env_id === chosen);
    const first = kept ?? found.find(({ available }) => available) ?? found[0];
    if (first) this.#list.value = first.env_id;
    this.#explain();
  }

  #explain() {
    const chosen = this.#envs.find(({ env_id }) => env_id === this.#list.value);
    const words = chosen && !chosen.available ? `It cannot be made here: ${chosen.reason}` : "";
    this.#reason.textContent = words || `${this.#list.options.length} environments`;
    this.#submit.disabled = !chosen?.available;
  }

  async #create() {
    this.#error.hidden = true;
    let body;
    try {
      body = this.#body();
    } catch (error) {
      return this.#fail(error.message);
    }
    this.#submit.disabled = true;
    this.#submit.textContent = "Creating …";
    try {
      const { instance_id } = await this.#context.call("POST", "/v1/envs/", body);
      this.#context.go(`#/envs/${encodeURIComponent(instance_id)}`);
    } catch (error) {
      this.#fail(error.message);
    } finally {
      this.#submit.disabled = false;
      this.#submit.textContent = "Create";
    }
  }

  #body() {
    const body = { env_id: this.#list.value };
    for (const [name, field] of Object.entries(this.#fields)) {
      const text = field.value.trim();
      if (!text) continue;
      if (field.type === "number") body[name] = Number(text);
      else if (name === "kwargs" || name === "wrappers") {
        try {
          body[name] = JSON.parse(text);
        } catch (error) {
          throw new Error(`${this.#names[name]}: ${error.message}`);
        }
      } else body[name] = text;
    }
    return body;
  }

  #fail(words) {
    this.#error.textContent = words;
    this.#error.hidden = false;
  }
}
