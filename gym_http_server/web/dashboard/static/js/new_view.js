/** Creates an instance: environments by family, their arguments, and the options of a create. */

import { ArgumentFields } from "./argument_fields.js";
import { action, h } from "./elements.js";
import { faceOf, familyOf } from "./families.js";
import { plural } from "./texts.js";
import { show, tileOf } from "./thumbnails.js";

const MODES = ["rgb_array", "", "ansi", "rgb_array_list", "ansi_list"];
/** What is chosen at first, where it can be made. */
const FIRST = "CartPole-v1";
/** Milliseconds for which an environment is chosen before its picture is drawn. */
const SETTLED = 200;

/** Make the view. */
export function view(context) {
  if (!context.may("create")) {
    const words = "This token may not create instances: it has not the scope create.";
    return { element: h("div", { class: "view" }, h("h1", {}, "New instance"), h("p", { class: "nothing" }, words)), dispose() {} };
  }
  const page = new NewPage(context);
  page.load();
  return { element: page.element, dispose: () => page.dispose() };
}

class NewPage {
  #context;
  #envs = [];
  #isLoaded = false;
  #isOver = false;
  #family = "";
  #search = h("input", { type: "search", placeholder: "lander", autocomplete: "off" });
  #families = h("div", { class: "families", role: "group", "aria-label": "Families" });
  #list = h("select", { size: "12", "aria-label": "Environments" });
  #count = h("p", { class: "soft small", role: "status" });
  #name = h("h2", {}, "…");
  #about = h("p", { class: "soft small" });
  #picture = h("div", {});
  #settling = 0;
  #error = h("p", { class: "error", role: "alert", hidden: "" });
  #arguments = new ArgumentFields();
  #fields = {
    label: h("input", { maxlength: "64", autocomplete: "off" }),
    render_mode: h("select", {}, ...MODES.map((each) => h("option", { value: each }, each || "none"))),
    seed: h("input", { type: "number", min: "0", step: "1" }),
    num_envs: h("input", { type: "number", min: "1", step: "1" }),
    max_episode_steps: h("input", { type: "number", min: "1", step: "1" }),
    kwargs: h("textarea", { rows: "2", spellcheck: "false", placeholder: "{}" }),
    wrappers: h("textarea", { rows: "2", spellcheck: "false", placeholder: "[]" }),
  };
  #names = {
    label: "Label",
    render_mode: "Render mode",
    seed: "Seed of the first reset",
    num_envs: "Environments in a vector (num_envs)",
    max_episode_steps: "Steps of an episode (max_episode_steps)",
    kwargs: "Further keyword arguments, as a JSON object",
    wrappers: "Wrappers, as a JSON list",
  };
  #submit = h("button", { type: "submit", class: "primary" }, "Create");

  constructor(context) {
    this.#context = context;
    const labelled = (name) => h("label", {}, this.#names[name], this.#fields[name]);
    const form = h(
      "form",
      { class: "new-form" },
      h(
        "div",
        { class: "panel fields" },
        h("label", {}, h("span", {}, "Search environments"), this.#search),
        this.#families,
        this.#list,
        this.#count,
      ),
      h(
        "div",
        { class: "panel fields" },
        h("div", { class: "chosen" }, this.#picture, h("div", {}, this.#name, this.#about)),
        h("div", { class: "pairs" }, labelled("label"), labelled("render_mode")),
        this.#arguments.element,
        h(
          "details",
          { class: "fields" },
          h("summary", {}, "More: seed, vector, wrappers, JSON"),
          h("div", { class: "fields" }, ...["seed", "num_envs", "max_episode_steps", "kwargs", "wrappers"].map(labelled)),
        ),
        this.#error,
        h("div", {}, this.#submit),
      ),
    );
    this.element = h("div", { class: "view" }, h("h1", {}, "New instance"), form);
    this.#search.addEventListener("input", () => this.#draw());
    this.#search.addEventListener("keydown", (event) => this.#enterList(event));
    this.#list.addEventListener("change", () => this.#explain());
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      this.#create();
    });
  }

  dispose() {
    this.#isOver = true;
    clearTimeout(this.#settling);
  }

  async load() {
    this.#count.textContent = "Looking through the registered environments …";
    this.#submit.disabled = true;
    try {
      const { envs } = await this.#context.call("GET", "/v1/registry/");
      this.#envs = envs.sort((a, b) => b.available - a.available);
    } catch (error) {
      this.#fail(error.message);
    }
    if (this.#isOver) return;
    this.#isLoaded = true;
    this.#drawFamilies();
    this.#draw();
  }

  /** Go from the search to what it has found. */
  #enterList(event) {
    if (event.key !== "ArrowDown" || !this.#list.options.length) return;
    event.preventDefault();
    this.#list.focus();
  }

  #drawFamilies() {
    const families = Map.groupBy(this.#envs, familyOf);
    const isMade = (name) => families.get(name)[0].available;
    const names = [...families.keys()].sort((a, b) => isMade(b) - isMade(a) || a.localeCompare(b));
    families.set("", this.#envs);
    const made = ["", ...names].map((name) => {
      const button = action("", () => {
        this.#family = name;
        for (const each of made) each.setAttribute("aria-pressed", String(each === button));
        this.#draw();
      }, { "aria-pressed": String(name === this.#family) });
      const { length } = families.get(name);
      const words = name ? h("span", {}, name, h("span", { class: "soft" }, ` ${length}`)) : h("span", {}, "All");
      button.append(tileOf(name ? name[0].toUpperCase() : String(length)), words);
      return button;
    });
    this.#families.replaceChildren(...made);
    this.#families.hidden = names.length < 2;
    this.#drawFaces(names.map((name, index) => [made[index + 1].firstElementChild, faceOf(families.get(name))]));
  }

  /** Show the pictures of families, one after the other: the server draws one at a time. */
  async #drawFaces(faces) {
    for (const [tile, env] of faces) if (env && !this.#isOver) await show(tile, env.env_id);
  }

  #draw() {
    // The first look through the registry takes seconds.
    if (!this.#isLoaded) return;
    const text = this.#search.value.trim().toLowerCase();
    const isFound = (env) => env.env_id.toLowerCase().includes(text) && (!this.#family || familyOf(env) === this.#family);
    const found = this.#envs.filter(isFound);
    const chosen = this.#list.value;
    const options = found.map(({ env_id, available }) =>
      h("option", { value: env_id }, available ? env_id : `${env_id} (cannot be made)`));
    this.#list.replaceChildren(...options);
    const byName = (name) => found.find(({ env_id, available }) => env_id === name && available);
    const first = byName(chosen) ?? byName(FIRST) ?? found[0];
    if (first) this.#list.value = first.env_id;
    this.#count.textContent = plural(found.length, "environment");
    this.#explain();
  }

  #explain() {
    const chosen = this.#envs.find(({ env_id }) => env_id === this.#list.value);
    this.#submit.disabled = !chosen?.available;
    this.#name.textContent = chosen?.env_id ?? "No environment is chosen";
    this.#about.textContent = chosen ? aboutOf(chosen) : "";
    const tile = tileOf("");
    this.#picture.replaceChildren(tile);
    clearTimeout(this.#settling);
    if (chosen && faceOf([chosen])) this.#settling = setTimeout(() => show(tile, chosen.env_id), SETTLED);
    this.#arguments.show(chosen?.env_id ?? "", chosen?.arguments ?? []);
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
    const given = this.#arguments.values();
    if (Object.keys(given).length) body.kwargs = { ...given, ...body.kwargs };
    return body;
  }

  #fail(words) {
    this.#error.textContent = words;
    this.#error.hidden = false;
  }
}

function aboutOf({ available, reason, entry_point, max_episode_steps: most, api, possible_agents: agents }) {
  if (!available) return `It cannot be made here: ${reason}`;
  const moved = api ? [api, ...(agents ?? [])].join(" ") : "";
  return [entry_point ?? "", moved, most ? `at most ${plural(most, "step")} an episode` : ""].filter(Boolean).join(" · ");
}
