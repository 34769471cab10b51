/** Tabs: one of several panels is shown; arrows go from tab to tab. */

import { action, h } from "./elements.js";

/** Panels by name, of which the first is shown. */
export class Tabs {
  #list;
  #panels = h("div", {});
  #shown = null;

  /**
   * @param {string} label What the panels are about.
   * @param {[string, Element][]} entries
   */
  constructor(label, entries) {
    this.#list = h("div", { class: "tabs", role: "tablist", "aria-label": label });
    this.#list.addEventListener("keydown", (event) => this.#move(event));
    this.element = h("div", {}, this.#list, this.#panels);
    for (const [name, content] of entries) this.add(name, content);
  }

  /** Append a panel. */
  add(name, content) {
    const id = `tab-${name.toLowerCase().replaceAll(" ", "-")}`;
    const tab = action(name, () => this.#show(tab), { role: "tab", id, "aria-controls": `${id}-panel` });
    const panel = h("div", { role: "tabpanel", id: `${id}-panel`, "aria-labelledby": id }, content);
    this.#list.append(tab);
    this.#panels.append(panel);
    this.#show(this.#shown ?? tab);
  }

  /** Remove a panel; if it was shown, the first one is shown instead. */
  remove(name) {
    const tab = [...this.#list.children].find((each) => each.textContent === name);
    if (!tab) return;
    const isShown = tab === this.#shown;
    this.#panelOf(tab).remove();
    tab.remove();
    if (isShown) this.#show(this.#list.firstElementChild);
  }

  #panelOf(tab) {
    return [...this.#panels.children].find(({ id }) => id === tab.getAttribute("aria-controls"));
  }

  #show(shown) {
    this.#shown = shown;
    for (const tab of this.#list.children) {
      const isShown = tab === shown;
      tab.setAttribute("aria-selected", String(isShown));
      tab.tabIndex = isShown ? 0 : -1;
      this.#panelOf(tab).hidden = !isShown;
    }
  }

  #move(event) {
    const all = [...this.#list.children];
    const at = all.indexOf(this.#shown);
    const next = { ArrowLeft: at - 1, ArrowRight: at + 1, Home: 0, End: all.length - 1 }[event.key];
    if (next === undefined) return;
    event.preventDefault();
    this.#show(all[(next + all.length) % all.length]);
    this.#shown.focus();
  }
}
