/** The page: signs in, and shows the view of the address. */

import { ask, h, toast } from "./elements.js";
import { view as overview } from "./overview_view.js";
import { call, openStream, refusals } from "./server.js";
import { setToken, takeToken, token } from "./session.js";
import { watch } from "./show_stream.js";
import { view as signInView } from "./sign_in_view.js";

/** Modules of views by address. They are loaded when somebody opens them, but the first one. */
const ROUTES = [
  [/^#?\/?$/, "./overview_view.js"],
  [/^#\/instances$/, "./instances_view.js"],
  [/^#\/new$/, "./new_view.js"],
  [/^#\/wall$/, "./wall_view.js"],
  [/^#\/recordings$/, "./recordings_view.js"],
  [/^#\/runs$/, "./runs_view.js"],
  [/^#\/runs\/([^/]+)$/, "./run_view.js"],
  [/^#\/compare\/?([^/]*)$/, "./compare_view.js"],
  [/^#\/envs\/([^/]+)$/, "./instance_view.js"],
];
const loaded = new Map([["./overview_view.js", overview]]);
const main = document.querySelector("main");
const signOut = document.querySelector(".sign-out");
const scoped = document.querySelectorAll("[data-scope]");
const context = { call, openStream, watch, go: (hash) => (location.hash = hash), toast, ask, may, about: null };
let shown = null;

/** Whether the token has one of some scopes. */
function may(...scopes) {
  return ["admin", ...scopes].some((each) => context.about.scopes.includes(each));
}

/** Replace the view. */
function show(make, names = []) {
  shown?.dispose();
  shown = null;
  try {
    shown = make(context, ...names);
    main.replaceChildren(shown.element);
  } catch (error) {
    main.replaceChildren(h("p", { class: "error" }, String(error)));
  }
}

/** Load a view, and show it unless the address has changed since. */
async function open(path, names) {
  const { hash } = location;
  if (loaded.has(path)) return show(loaded.get(path), names);
  shown?.dispose();
  shown = null;
  main.replaceChildren(h("div", { class: "skeleton" }));
  try {
    loaded.set(path, (await import(path)).view);
  } catch (error) {
    main.replaceChildren(h("p", { class: "error", role: "alert" }, `This view cannot be loaded: ${error.message}`));
    return;
  }
  if (location.hash === hash && context.about) show(loaded.get(path), names);
}

/** How a link is current at an address: as its page, as what that page belongs to, or not. */
function currentAs(link, address) {
  if (link === address) return "page";
  const belongs = link === "#/instances" ? address.startsWith("#/envs/") : link !== "#/" && address.startsWith(`${link}/`);
  return belongs && "true";
}

/** Show the view of the address. */
function route() {
  for (const link of document.querySelectorAll("nav a")) {
    const current = link.pathname === "/" && currentAs(link.hash, location.hash || "#/");
    if (!current) link.removeAttribute("aria-current");
    else {
      link.setAttribute("aria-current", current);
      // On a telephone the links are wider than the window.
      const { parentNode: nav } = link;
      nav.scrollLeft = link.offsetLeft - (nav.clientWidth - link.offsetWidth) / 2;
    }
  }
  for (const [pattern, path] of ROUTES) {
    const found = pattern.exec(location.hash);
    if (found) return open(path, found.slice(1).map(decodeURIComponent));
  }
  shown?.dispose();
  shown = null;
  main.replaceChildren(h("p", {}, `There is no view ${location.hash}. `, h("a", { href: "#/" }, "To the overview")));
}

/** Ask the server what it is, and show the view; or ask for the token. */
async function begin() {
  try {
    context.about = await call("GET", "/v1/");
  } catch (error) {
    if (error.status !== 401) main.replaceChildren(h("p", { class: "error", role: "alert" }, error.message));
    return;
  }
  signOut.hidden = !token();
  for (const link of scoped) link.hidden = !may(link.dataset.scope);
  route();
}

function askForToken() {
  if (shown?.isSignIn) return;
  const wasWrong = Boolean(token());
  setToken("");
  for (const each of [signOut, ...scoped]) each.hidden = true;
  context.about = null;
  show(() => signInView(wasWrong, (given) => (setToken(given), (shown.isSignIn = false), begin())));
  shown.isSignIn = true;
}

takeToken();
refusals.addEventListener("refused", askForToken);
signOut.addEventListener("click", () => {
  setToken("");
  location.reload();
});
addEventListener("hashchange", () => {
  takeToken();
  if (!context.about) return begin();
  route();
  // The view before may have been longer than the window.
  scrollTo(0, 0);
  main.focus({ preventScroll: true });
});
begin();
