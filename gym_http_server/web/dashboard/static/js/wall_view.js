/** All instances as small live frames. */

import { h } from "./elements.js";
import { PictureWords } from "./picture_words.js";
import { stateText } from "./states.js";
import { number } from "./texts.js";

const EVERY = 2000;
const MOST = 24;
const WATCH = { fps: 4, share: 0.05, size: 240 };

/** Make the view. */
export function view(context) {
  const tiles = new Map();
  const grid = h("div", { class: "grid" });
  const words = h("p", { class: "soft", role: "status" });
  let timer = null;
  let isOver = false;

  const load = async () => {
    try {
      const { instances } = await context.call("GET", "/v1/instances/");
      if (isOver) return;
      const shown = instances.filter(({ state }) => state !== "making").slice(0, MOST);
      const ids = new Set(shown.map((each) => each.instance_id));
      for (const [id, tile] of tiles) if (!ids.has(id)) (tile.dispose(), tiles.delete(id));
      for (const row of shown) {
        if (!tiles.has(row.instance_id)) tiles.set(row.instance_id, new Tile(context, grid, row));
        tiles.get(row.instance_id).setState(row);
      }
      const more = instances.length - shown.length;
      words.textContent = instances.length ? (more ? `${more} more are not shown` : "") : "No instance runs.";
    } catch (error) {
      words.textContent = error.message;
    }
    if (!isOver) timer = setTimeout(load, EVERY);
  };
  load();
  return {
    element: h("div", {}, h("h1", {}, "Wall"), words, grid),
    dispose() {
      isOver = true;
      clearTimeout(timer);
      for (const tile of tiles.values()) tile.dispose();
    },
  };
}

class Tile {
  #element;
  #image = h("img", { alt: "", hidden: "" });
  #text = h("pre", { hidden: "" });
  #state = h("span", {});
  #words = h("p", { class: "soft" }, "…");
  #why = h("p", { class: "soft", hidden: "" });
  #age = new PictureWords();
  #timer = setInterval(() => this.#printAge(), 1000);
  #watcher;

  constructor(context, grid, row) {
    const href = `#/envs/${encodeURIComponent(row.instance_id)}`;
    const title = h("a", { href }, `${row.instance_id} ${row.label ?? row.env_id}`);
    this.#image.alt = `Frame of ${row.env_id}`;
    this.#element = h("article", { class: "panel tile" }, title, " ", this.#state, this.#image, this.#text, this.#words, this.#why);
    grid.append(this.#element);
    const onEnd = (error) => (this.#words.textContent = error ? error.message : "ended");
    this.#watcher = context.watch(row.instance_id, WATCH, (...update) => this.#show(...update), onEnd);
  }

  dispose() {
    clearInterval(this.#timer);
    this.#watcher.close();
    this.#forget();
    this.#element.remove();
  }

  /** Show the state, from the row of the list. */
  setState(row) {
    this.#state.className = `badge ${row.state}`;
    this.#state.textContent = stateText(row);
  }

  #show(update, blob) {
    this.#words.textContent = `return ${[update.return].flat().map(number).join(", ")}, length ${number(update.length)}`;
    this.#age.note(update, Boolean(blob), performance.now());
    this.#printAge();
    this.#text.hidden = !update.ansi;
    if (update.ansi) this.#text.textContent = update.ansi.replaceAll(/\u001b\[[0-9;]*m/g, "");
    if (!blob) return;
    this.#forget();
    this.#image.src = URL.createObjectURL(blob);
    this.#image.hidden = false;
  }

  #printAge() {
    this.#why.textContent = this.#age.text(performance.now());
    this.#why.hidden = !this.#why.textContent;
  }

  #forget() {
    if (this.#image.src) URL.revokeObjectURL(this.#image.src);
  }
}
