/** All instances as small live frames. */

import { h } from "./elements.js";
import { PictureWords } from "./picture_words.js";
import { stateText } from "./states.js";
import { number, partsOf, plural } from "./texts.js";

const EVERY = 2000;
const MOST = 50;
/** Seconds of a call after which a tile waits for its end to watch. */
const LONG = 1;
const WATCH = { fps: 4, share: 0.05, size: 240 };

/** Make the view. */
export function view(context) {
  const wall = new Wall(context, MOST);
  let timer = null;
  let isOver = false;

  const load = async () => {
    try {
      const { instances } = await context.call("GET", "/v1/instances/");
      if (isOver) return;
      wall.show(instances);
    } catch (error) {
      wall.say(error.message);
    }
    if (!isOver) timer = setTimeout(load, EVERY);
  };
  load();
  return {
    element: h("div", { class: "view" }, h("h1", {}, "Wall"), wall.element),
    dispose() {
      isOver = true;
      clearTimeout(timer);
      wall.dispose();
    },
  };
}

/** Tiles of the first instances of a list. Those that are out of sight are not watched. */
export class Wall {
  #context;
  #most;
  #tiles = new Map();
  #grid = h("div", { class: "wall" });
  #words = h("p", { class: "soft small", role: "status" });
  #sight = new IntersectionObserver((entries) => {
    for (const { target, isIntersecting } of entries) this.#tiles.get(target.dataset.id)?.watch(isIntersecting);
  });

  constructor(context, most) {
    this.#context = context;
    this.#most = most;
    this.element = h("div", {}, this.#grid, this.#words);
  }

  /** Show the instances of a list. */
  show(instances) {
    const shown = instances.filter(({ state }) => state !== "making").slice(0, this.#most);
    const ids = new Set(shown.map((each) => each.instance_id));
    for (const [id, tile] of this.#tiles) if (!ids.has(id)) (tile.dispose(), this.#tiles.delete(id));
    for (const row of shown) {
      const tile = this.#tiles.get(row.instance_id) ?? this.#add(row);
      tile.setState(row);
    }
    const more = instances.length - shown.length;
    this.say(instances.length ? (more ? `${plural(more, "more is", "more are")} not shown` : "") : "No instance runs.");
  }

  #add(row) {
    const tile = new Tile(this.#context, row);
    this.#tiles.set(row.instance_id, tile);
    this.#grid.append(tile.element);
    this.#sight.observe(tile.element);
    return tile;
  }

  say(words) {
    this.#words.textContent = words;
  }

  dispose() {
    this.#sight.disconnect();
    for (const tile of this.#tiles.values()) tile.dispose();
    this.#tiles.clear();
  }
}

class Tile {
  #context;
  #id;
  #image = h("img", { alt: "", hidden: "" });
  #text = h("pre", { hidden: "" });
  #state = h("span", {});
  #stage;
  #words = h("span", { class: "soft small" }, "…");
  #why = h("span", { class: "soft small", hidden: "" });
  #age = new PictureWords();
  #timer = setInterval(() => this.#printAge(), 1000);
  #watcher = null;
  #isInSight = false;
  #isInCall = false;

  constructor(context, row) {
    this.#context = context;
    this.#id = row.instance_id;
    const href = `#/envs/${encodeURIComponent(row.instance_id)}`;
    this.#image.alt = `Frame of ${row.env_id}`;
    this.#stage = h("div", { class: "tile-stage" }, this.#image, this.#text);
    const title = h("a", { href, title: row.instance_id }, row.label ?? row.env_id);
    const envID = row.label ? h("span", { class: "soft small" }, row.env_id) : "";
    this.element = h("article", { class: "panel tile", "data-id": row.instance_id }, this.#stage, title, envID, this.#state, this.#words, this.#why);
  }

  /** Watch the instance, or stop. */
  watch(isInSight) {
    this.#isInSight = isInSight;
    if (!isInSight) {
      this.#watcher?.close();
      this.#watcher = null;
    } else if (!this.#watcher && !this.#isInCall) {
      const onEnd = (error) => (this.#words.textContent = error ? error.message : "ended");
      this.#watcher = this.#context.watch(this.#id, WATCH, (...update) => this.#show(...update), onEnd);
    }
  }

  dispose() {
    clearInterval(this.#timer);
    this.#watcher?.close();
    this.#forget();
    this.element.remove();
  }

  /** Show the state, from the row of the list. */
  setState(row) {
    this.#state.className = `badge ${row.state}`;
    this.#state.textContent = stateText(row);
    // Browsers open one stream after the other: one that waits would hold up all tiles.
    this.#isInCall = row.busy_s > LONG;
    if (this.#isInSight) this.watch(true);
  }

  #show(update, blob) {
    this.#words.textContent = `return ${partsOf(update.return).map(([, part]) => number(part)).join(", ")} · length ${number(update.length)}`;
    this.#age.note(update, Boolean(blob), performance.now());
    this.#text.hidden = !update.ansi;
    if (update.ansi) this.#text.textContent = update.ansi.replaceAll(/\u001b\[[0-9;]*m/g, "");
    if (blob) {
      this.#forget();
      this.#image.src = URL.createObjectURL(blob);
      this.#image.hidden = false;
    }
    this.#printAge();
  }

  #printAge() {
    // Without a picture, in its place.
    const place = this.#image.hidden && this.#text.hidden ? this.#stage : this.element;
    if (this.#why.parentElement !== place) place.append(this.#why);
    this.#why.textContent = this.#age.text(performance.now());
    this.#why.hidden = !this.#why.textContent;
  }

  #forget() {
    if (this.#image.src) URL.revokeObjectURL(this.#image.src);
  }
}
