/** Recordings on the server: their files, and a player of their videos. */

import { h } from "./elements.js";
import { request } from "./server.js";
import { ago, bytesText } from "./texts.js";

/**
 * Make the view.
 *
 * @param {object} context
 */
export function view(context) {
  const page = new RecordingsPage(context);
  page.load();
  return { element: page.element, dispose: () => page.dispose() };
}

class RecordingsPage {
  #context;
  #end = new AbortController();
  #url = "";
  #words = h("p", { class: "soft", role: "status" }, "Loading …");
  #video = h("video", { controls: "", playsinline: "", hidden: "" });
  #list = h("div", { class: "recordings" });

  constructor(context) {
    this.#context = context;
    this.element = h("div", { class: "view" }, h("h1", {}, "Recordings"), this.#words, this.#video, this.#list);
  }

  dispose() {
    this.#end.abort();
    this.#forget();
  }

  async load() {
    let found;
    try {
      found = (await this.#context.call("GET", "/v1/recordings/")).recordings;
    } catch (error) {
      this.#words.textContent = error.status === 404 ? "This server lists no recordings." : error.message;
      return;
    }
    this.#words.textContent = found.length ? "" : "There are no recordings. The page of an instance starts them.";
    this.#list.replaceChildren(...found.map((each) => this.#entry(each)));
  }

  #entry({ directory, env_id, label, began_at, active, bytes, files }) {
    const began = began_at === null ? "" : ` · ${ago(Date.now() / 1000 - began_at)}`;
    const title = h("h2", {}, directory);
    const facts = `${label ?? env_id ?? "unknown environment"} · ${bytesText(bytes)}${began}${active ? " · being written" : ""}`;
    const items = files.map((file) => h("li", { class: "row" }, ...this.#file(directory, file)));
    return h("section", { class: "panel" }, title, h("p", { class: "soft" }, facts), h("ul", { class: "files" }, ...items));
  }

  #file(directory, { name, bytes, type }) {
    const path = [...directory.split("/"), "files", name].map(encodeURIComponent).join("/");
    const act = (words, what) => {
      const button = h("button", { type: "button", class: "quiet", "aria-label": `${words} ${name} of ${directory}` }, words);
      button.addEventListener("click", () => this.#load(`/v1/recordings/${path}/`, name, what));
      return button;
    };
    const play = type === "video/mp4" ? [act("Play", (url) => this.#play(url, name))] : [];
    return [h("span", {}, `${name} · ${bytesText(bytes)}`), ...play, act("Download", (url) => save(url, name))];
  }

  /** Load a file with the token, which an address of a video cannot carry. */
  async #load(path, name, use) {
    this.#words.textContent = `Loading ${name} …`;
    try {
      const response = await request("GET", path, { signal: this.#end.signal });
      if (!response.ok) throw new Error(`${name} cannot be loaded: the server answered ${response.status}`);
      const blob = await response.blob();
      this.#forget();
      this.#url = URL.createObjectURL(blob);
      this.#words.textContent = name;
      use(this.#url);
    } catch (error) {
      if (error.name !== "AbortError") this.#words.textContent = error.message;
    }
  }

  #play(url, name) {
    this.#video.src = url;
    this.#video.hidden = false;
    this.#video.setAttribute("aria-label", name);
    this.#video.focus();
    this.#video.play().catch((error) => (this.#words.textContent = error.message));
  }

  #forget() {
    this.#video.hidden = true;
    this.#video.removeAttribute("src");
    if (this.#url) URL.revokeObjectURL(this.#url);
    this.#url = "";
  }
}

function save(url, name) {
  const link = h("a", { href: url, download: name });
  document.body.append(link);
  link.click();
  link.remove();
}
