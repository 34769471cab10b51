/** The first view: whether all is well, what runs, and what has happened. */

import { action, copyable, h } from "./elements.js";
import { Rates } from "./rates.js";
import { token } from "./session.js";
import { sparkline } from "./sparkline.js";
import { ago, bytesText, number, plural } from "./texts.js";
import { Wall } from "./wall_view.js";

const EVERY = 2000;
/** Of the lists, that of runs and the facts of the machine are requested less often. */
const SELDOM = 5;
const TILES = 8;
const EVENTS = 12;
/** Points of the sparkline: two minutes. */
const POINTS = 60;
/** Seconds for which a crash or a refusal is shown as something to look at. */
const LATELY = 900;
/** Bytes of memory below which the server says that little is left. */
const LITTLE = 512 * 2 ** 20;
/** Ends that somebody wanted. */
const WANTED = /^(closed|idle|shutdown|abandoned|orphaned)/;
// Kept while other views are shown.
const rates = new Rates();

/** Make the view. */
export function view(context) {
  const page = new Overview(context);
  page.begin();
  return { element: page.element, dispose: () => page.dispose() };
}

class Overview {
  #context;
  #title = h("h1", { class: "hero-title" }, "…");
  #words = h("p", { class: "soft" }, "Looking at what runs …");
  #care = h("ul", { class: "care", hidden: "" });
  #rate = h("b", {}, "–");
  #spark = sparkline("Steps a second over the last two minutes");
  #cells = {
    instances: stat("Instances"),
    slots: stat("Slots"),
    memory: stat("Memory"),
    processor: stat("Processor"),
    runs: stat("Runs", "#/runs"),
  };
  #begin = h("section", { hidden: "" });
  #wall;
  #wallPart;
  #list = h("ol", { class: "events" });
  #machine = null;
  #nodes = null;
  #lost = [];
  #nodesTable;
  #runs = [];
  #events = [];
  #next = 0;
  #turn = 0;
  #timer = null;
  #isOver = false;

  constructor(context) {
    this.#context = context;
    this.#wall = new Wall(context, TILES);
    const more = h("a", { href: "#/wall" }, "The whole wall");
    this.#wallPart = h("section", { class: "overview-wall" }, h("div", { class: "head" }, h("h2", {}, "Live"), more), this.#wall.element);
    const rate = h("div", { class: "hero-rate" }, h("p", {}, this.#rate, h("span", { class: "soft" }, " steps a second")), this.#spark.element);
    this.element = h(
      "div",
      { class: "view" },
      h("section", { class: "hero panel" }, h("div", {}, this.#title, this.#words, this.#care), rate),
      h("dl", { class: "stats panel" }, ...Object.values(this.#cells).map(({ element }) => element)),
      this.#begin,
      h(
        "div",
        { class: "overview-parts" },
        this.#wallPart,
        h("section", {}, h("h2", {}, "What happened"), this.#list),
      ),
    );
    this.#learn(context.about);
    if (this.#nodes) this.#addNodes();
  }

  /** Note the nodes of a fleet; or the machine, which in a fleet is that of one node. */
  #learn({ machine, nodes = null, ended_nodes: ended = [] }) {
    this.#nodes = nodes;
    this.#lost = ended.filter(({ reason }) => reason === "node-lost");
    this.#machine = nodes ? null : machine;
    this.#nodesTable?.show(nodes);
  }

  async #addNodes() {
    const { nodesTable } = await import("./nodes_table.js");
    this.#nodesTable = nodesTable();
    this.#nodesTable.show(this.#nodes);
    this.#begin.before(this.#nodesTable.element);
  }

  async begin() {
    if (!this.#context.may("read")) {
      this.element.replaceChildren(this.element.firstChild);
      this.element.firstChild.lastChild.remove();
      return this.#judge("blind", "This token may not see instances", "It has not the scope read.", []);
    }
    await this.#load();
    // The second list gives rates, so it is not waited for long.
    if (!this.#isOver) this.#timer = setTimeout(() => this.begin(), this.#turn === 1 ? EVERY / 2 : EVERY);
  }

  dispose() {
    this.#isOver = true;
    clearTimeout(this.#timer);
    this.#wall.dispose();
  }

  async #load() {
    const { call } = this.#context;
    const isTurn = this.#turn++ % SELDOM === 0;
    try {
      const [listed, events] = await Promise.all([
        call("GET", "/v1/instances/"),
        call("GET", `/v1/events/?from=${this.#next}`),
        (isTurn || this.#nodes) && this.#turn > 1 ? call("GET", "/v1/").then((about) => this.#learn(about)) : null,
        isTurn && this.#context.may("runs") ? call("GET", "/v1/runs/").then(({ runs }) => (this.#runs = runs)) : null,
      ]);
      if (this.#isOver) return;
      rates.take(listed.instances, performance.now());
      this.#note(events);
      this.#show(listed);
    } catch (error) {
      if (this.#isOver) return;
      this.#judge("bad", "The server does not answer", error.message, []);
    }
  }

  /** Keep new events; one that is listed again, or has a new count, takes the place of the old one. */
  #note({ events, next }) {
    const kept = new Map(this.#events.map((each) => [keyOf(each), each]));
    for (const each of events) kept.set(keyOf(each), each);
    this.#events = [...kept.values()].sort((one, other) => one.at - other.at).slice(-500);
    this.#next = next;
  }

  #show({ instances, slots }) {
    const states = countOf(instances);
    const care = this.#careOf(instances, slots);
    const isEmpty = !instances.length;
    const steps = rates.total === null ? "–" : number(rates.total);
    const words = `${slots.taken} of ${slots.of} slots taken`;
    const kind = care.length ? "bad" : "good";
    const title = care.length ? `${plural(care.length, "thing needs", "things need")} a look` : isEmpty ? "Ready" : "All is well";
    this.#judge(kind, title, isEmpty ? `Nothing runs yet; ${words}.` : `${statesText(states)}; ${words}.`, care);
    this.#rate.textContent = steps;
    this.#spark.show(rates.past.slice(-POINTS), POINTS);
    this.#showCells(instances, states, slots);
    this.#wall.show(instances);
    this.#wallPart.hidden = isEmpty;
    const begins = isEmpty && this.#context.may("create");
    if (begins && this.#begin.hidden) this.#begin.replaceChildren(...this.#ways());
    this.#begin.hidden = !begins;
    this.#list.replaceChildren(...this.#events.slice(-EVENTS).reverse().map(eventItem));
    if (!this.#events.length) this.#list.replaceChildren(h("li", { class: "soft" }, "Nothing yet."));
  }

  #judge(kind, title, words, care) {
    this.#title.textContent = title;
    this.#title.className = `hero-title is-${kind}`;
    this.#words.textContent = words;
    this.#care.hidden = !care.length;
    this.#care.replaceChildren(...care.map((each) => h("li", {}, ...each)));
  }

  /** What somebody should look at, as the parts of lines. */
  #careOf(instances, slots) {
    const found = [];
    const link = (row) => h("a", { href: hrefOf(row.instance_id) }, row.label ?? row.env_id);
    for (const row of instances) if (row.state === "stuck") found.push([link(row), " is stuck in a call"]);
    for (const row of instances) if (row.recording?.failed) found.push(["The recording of ", link(row), " has failed"]);
    const now = Date.now() / 1000;
    const lately = this.#events.filter(({ at }) => now - at < LATELY);
    const crashes = lately.filter(({ event, reason }) => event === "ended" && !WANTED.test(reason));
    for (const each of crashes.slice(-3).reverse()) {
      found.push([link(each), ` ended ${ago(now - each.at)}: ${each.reason}`]);
    }
    for (const { away, node } of this.#nodes ?? []) if (away) found.push([`The node ${node} is missing`]);
    for (const { node } of this.#lost) found.push([`The node ${node} was lost, with its instances`]);
    if (slots.taken >= slots.of) found.push(["All slots are taken: further instances are refused"]);
    if (this.#machine?.memory_free_bytes < LITTLE) found.push([`Only ${bytesText(this.#machine.memory_free_bytes)} of memory are free`]);
    return found;
  }

  #showCells(instances, states, slots) {
    const { instances: all, slots: taken, memory, processor, runs } = this.#cells;
    all.show(String(instances.length), states.size === 1 ? [...states.keys()][0] : statesText(states));
    taken.show(`${slots.taken}`, `of ${slots.of}`, slots.taken / slots.of);
    const used = instances.reduce((sum, { memory_bytes }) => sum + memory_bytes, 0);
    const free = this.#machine?.memory_free_bytes;
    memory.show(bytesText(used), free ? `${bytesText(free)} free` : "", free ? used / (used + free) : undefined);
    const [busy, cores] = [rates.cores, this.#machine?.cores];
    const share = cores && (busy ?? 0) / cores;
    processor.show(busy === null ? "–" : number(busy), cores ? `of ${plural(cores, "core")}` : "cores", share);
    const waiting = this.#runs.reduce((sum, { queue_batches }) => sum + queue_batches, 0);
    runs.element.hidden = !this.#context.may("runs");
    runs.show(String(this.#runs.length), this.#runs.length ? `${plural(waiting, "batch", "batches")} ${waiting === 1 ? "waits" : "wait"}` : "none");
  }

  /** Three ways to begin, for a server on which nothing runs. */
  #ways() {
    const { origin } = location;
    const header = token() ? "-H 'Authorization: Bearer TOKEN' " : "";
    const url = token() ? origin.replace("://", "://:TOKEN@") : origin;
    const curl = `curl ${header}-d '{"env_id": "CartPole-v1"}' ${origin}/v1/envs/`;
    const python = [
      "from gym_http_client import RemoteEnv",
      `env = RemoteEnv("${url}", "CartPole-v1")`,
      "env.reset(seed=1)",
      "for _ in range(1000):",
      "    if any(env.step(env.action_space.sample())[2:4]): env.reset()",
    ].join("\n");
    const play = action("Play LunarLander", () => this.#play(play), { class: "primary" });
    const way = (title, words, ...parts) => h("article", { class: "panel way" }, h("h3", {}, title), h("p", { class: "soft" }, words), ...parts);
    return [
      h("h2", {}, "Three ways to begin"),
      h(
        "div",
        { class: "ways" },
        way("With the keyboard", "Land a space ship between two flags.", play),
        way("With curl", "Any language that speaks HTTP will do.", copyable(curl)),
        way("With Python", "Exactly as a local Gymnasium environment.", copyable(python)),
      ),
    ];
  }

  async #play(button) {
    const { call, go, toast } = this.#context;
    button.disabled = true;
    try {
      const body = { env_id: "LunarLander-v3", render_mode: "rgb_array", label: "played by hand" };
      const { instance_id } = await call("POST", "/v1/envs/", body);
      go(hrefOf(instance_id));
    } catch (error) {
      toast(error.message);
      button.disabled = false;
    }
  }
}

/** A figure with its name, a note, and a bar if it is a part of something. */
function stat(name, href) {
  const value = h("b", {}, "–");
  const note = h("span", { class: "soft small" });
  const bar = h("meter", { min: "0", max: "1", "aria-label": `${name}, share`, hidden: "" });
  const element = h("div", { class: "stat" }, h("dt", {}, href ? h("a", { href }, name) : name), h("dd", {}, value, " ", note, bar));
  return {
    element,
    show(text, words, share) {
      value.textContent = text;
      note.textContent = words;
      bar.hidden = share === undefined;
      bar.value = Math.min(1, share ?? 0);
    },
  };
}

function countOf(instances) {
  const counts = new Map();
  for (const { state } of instances) counts.set(state, (counts.get(state) ?? 0) + 1);
  return counts;
}

function statesText(counts) {
  return [...counts].map(([state, count]) => `${count} ${state}`).join(", ");
}

function hrefOf(id) {
  return `#/envs/${encodeURIComponent(id)}`;
}

/** Identify an event. Refusals that differ only by numbers are one, with a count. */
function keyOf({ env_id, event, label, node, number, owner, reason }) {
  return JSON.stringify([node, event === "refused" ? [env_id, label, owner, reason?.replace(/\d+/g, "0")] : number]);
}

function eventItem({ at, count, env_id, event, instance_id, label, node, owner, reason }) {
  const isBad = event === "refused" || (event === "ended" && !WANTED.test(reason));
  const name = label ?? env_id;
  const title = instance_id ? h("a", { href: hrefOf(instance_id) }, name) : name;
  const words = [label ? env_id : "", owner ?? "", node ?? "", reason ?? "", count > 1 ? `${count} times` : ""].filter(Boolean).join(" · ");
  const time = h("time", { datetime: new Date(at * 1000).toISOString(), class: "soft small" }, ago(Date.now() / 1000 - at));
  return h(
    "li",
    { class: isBad ? "is-bad" : `is-${event}` },
    h("p", {}, h("span", {}, title, h("span", { class: "soft" }, ` ${event}`)), time),
    ...(words ? [h("p", { class: "soft small" }, words)] : []),
  );
}
