/** The page of one instance: its frame, curves, log, spaces and recording; stepping and playing. */

import { ByHand } from "./by_hand.js";
import { CurvesPanel } from "./curves_panel.js";
import { h } from "./elements.js";
import { EndedPanel } from "./ended_panel.js";
import { FactsPanel } from "./facts_panel.js";
import { ForeignSteps } from "./foreign_steps.js";
import { FramePanel } from "./frame_panel.js";
import { LogPanel } from "./log_panel.js";
import { PlayPanel, isPlayable } from "./play_panel.js";
import { RealtimePanel } from "./realtime_panel.js";
import { RecordingPanel } from "./recording_panel.js";
import { token } from "./session.js";
import { stateText, whyEnded } from "./states.js";
import { Tabs } from "./tabs.js";
import { number, plural, roughly } from "./texts.js";
import { spaceOf } from "../../v1/external/client/spaces/index.js";
import { Stepper } from "./stepper.js";
import { button } from "./widgets/containers.js";

/** Milliseconds between two requests for the row of the list, and for missed episodes. */
const EVERY = 1000;
/** Milliseconds for which closing waits for the answers of the last poll. */
const LATEST = 500;
/** What the watcher of the page asks for; the server has a limit for the share. */
const WATCH = { fps: 50, share: 1, size: 640 };

/**
 * Make the page of one instance.
 *
 * @param {object} context What all views share.
 * @param {string} id Of the instance.
 * @returns {{ element: Element, dispose(): void }}
 */
export function view(context, id) {
  const page = new InstancePage(context, id);
  page.begin();
  return { element: page.element, dispose: () => page.dispose() };
}

class InstancePage {
  #context;
  #id;
  #path;
  #title = h("h1", {});
  #closing = button("Close instance", "Close instance", () => this.#close());
  #facts = new FactsPanel();
  #frame = new FramePanel();
  #curves;
  #log;
  #recording;
  #realtime;
  #hasClock = false;
  #summary = h("p", { class: "summary soft" });
  #banner = h("div", { hidden: "" });
  #spaces = h("div", {}, h("p", {}, "Waiting for the environment …"));
  #hand = h("div", {}, h("p", { class: "soft" }, "Waiting for the environment …"));
  #control = h("div", {});
  #tabs;
  #play = null;
  #byHand = null;
  #spacesVersion = 0;
  #stepper;
  #foreign = new ForeignSteps();
  #row = null;
  #episodes = 0;
  #hasConsent = false;
  #isDescribed = false;
  #ended = false;
  #watcher = null;
  #timer = null;
  #stopped = false;
  #isClosing = false;
  // The last requests of a poll.
  #polled = null;

  constructor(context, id) {
    this.#context = context;
    this.#id = id;
    this.#path = `/v1/envs/${encodeURIComponent(id)}/`;
    this.#curves = new CurvesPanel(id);
    this.#log = new LogPanel(id);
    this.#recording = new RecordingPanel(context.call, this.#path, id, context.may("step"));
    this.#realtime = new RealtimePanel(context.call, this.#path, context.may("step"));
    this.#stepper = new Stepper(id, token(), {
      onStep: () => this.#foreign.noteOwn(this.#row?.num_envs ?? 1),
      onSpaces: (version) => this.#takeSpaces(version),
      onWarning: ({ message }) => context.toast(message),
    });
    this.#title.textContent = `Instance ${id}`;
    this.element = this.#layout();
  }

  #layout() {
    this.#closing.classList.add("danger");
    this.#closing.hidden = true;
    this.#tabs = new Tabs("More about this instance", [
      ...(this.#context.may("step") ? [["By hand", this.#hand]] : []),
      ["Facts", this.#facts.element],
      ["Log", this.#log.element],
      ["Spaces", this.#spaces],
      ["Recording", this.#recording.element],
    ]);
    return h(
      "div",
      { class: "view instance" },
      h("div", { class: "head instance-head" }, h("div", {}, this.#title, this.#summary), this.#closing),
      this.#banner,
      h(
        "div",
        { class: "instance-columns" },
        h("div", { class: "panel stage" }, this.#frame.element, this.#control),
        h("section", { class: "panel", "aria-label": "Curves" }, this.#curves.element),
        h("div", { class: "panel instance-more" }, this.#tabs.element),
      ),
    );
  }

  /** Say the state, and the figures that matter most, below the title. */
  #summarize(row) {
    const words = [plural(row.steps, "step"), plural(row.episodes, "episode")];
    if (typeof row.last_return === "number") words.push(`last return ${number(row.last_return)}`);
    if (row.reason === undefined) words.push(`${roughly(row.age_s)} old`);
    const state = h("span", { class: `badge ${row.reason === undefined ? row.state : "ended"}` }, stateText(row));
    this.#summary.replaceChildren(state, ` ${words.join(" · ")}`);
  }

  begin() {
    this.#poll();
  }

  /** Receive frames and episodes, of an instance that runs. */
  #follow() {
    this.#watcher ??= this.#context.watch(
      this.#id,
      { ...WATCH, session: this.#stepper.session },
      (update, blob) => this.#updated(update, blob),
      (error) => this.#frame.say(error ? `No more updates: ${error.message}` : "No more updates."),
    );
  }

  dispose() {
    this.#stopped = true;
    clearTimeout(this.#timer);
    this.#watcher?.close();
    this.#play?.dispose();
    this.#stepper.close();
    this.#log.dispose();
    this.#frame.dispose();
  }

  #updated(update, blob) {
    if (this.#stopped) return;
    this.#frame.show(update, blob);
    if (typeof update.steps === "number") this.#foreign.noteTotal(update.steps, performance.now());
    // After a gap the next poll fetches what the watcher has missed.
    const ended = update.ended ?? [];
    if (ended.length && ended[0].number <= this.#curves.next) this.#curves.addEpisodes(ended);
  }

  async #poll() {
    try {
      await this.#refresh();
    } catch (error) {
      if (!this.#stopped) this.#frame.say(error.message);
    }
    if (!this.#stopped && !this.#ended) this.#timer = setTimeout(() => this.#poll(), EVERY);
  }

  async #refresh() {
    if (this.#isClosing) return;
    const { call } = this.#context;
    const { instances, ended } = await call("GET", `/v1/instances/?search=${encodeURIComponent(this.#id)}`);
    if (this.#stopped || this.#isClosing) return;
    const isThis = ({ instance_id }) => instance_id === this.#id;
    const row = instances.find(isThis) ?? ended.find(isThis);
    this.element.lastChild.hidden = !row;
    this.#banner.hidden = !!row;
    this.#closing.hidden = !row || !this.#context.may("step", "create");
    if (!row) return this.#banner.replaceChildren(`There is no instance ${this.#id}, or it ended long ago.`);
    this.#row = row;
    this.#title.textContent = [row.env_id, row.label, row.program].filter(Boolean).join(" · ");
    this.#summarize(row);
    this.#facts.show(row);
    if (row.reason !== undefined) return this.#end();
    // Browsers open one stream after the other: one that hangs would hold up all pages.
    if (row.state !== "making" && row.state !== "stuck") this.#follow();
    this.#recording.show(row);
    this.#curves.addRow(row);
    if (row.state === "making" || row.state === "ending") return;
    const requests = [];
    if (!this.#isDescribed) requests.push(this.#describe());
    if (row.episodes !== this.#episodes) requests.push(this.#fetchEpisodes(row.episodes));
    if (this.#hasClock) requests.push(this.#realtime.update());
    this.#polled = Promise.all(requests);
  }

  /** Fetch the spaces and keys, for which a busy environment lets the page wait. */
  async #describe() {
    this.#isDescribed = true;
    const { call } = this.#context;
    try {
      const [described, keys] = await Promise.all([
        call("GET", this.#path),
        call("GET", `${this.#path}keys/`),
      ]);
      if (!this.#stopped) this.#showControls(described, keys);
    } catch (error) {
      this.#isDescribed = false;
      if (!this.#stopped) this.#spaces.lastChild.textContent = error.message;
    }
  }

  /** Fetch the spaces again, if a call by hand shows that the environment has others. */
  async #takeSpaces(version) {
    if (version === this.#spacesVersion || !this.#byHand) return;
    // Calls before the answer do not fetch them, too.
    this.#spacesVersion = version;
    try {
      const described = await this.#context.call("GET", this.#path);
      if (this.#stopped) return;
      this.#showSpaces(described);
      this.#byHand.setSpace(described.action_space);
    } catch (error) {
      if (!this.#stopped) this.#spaces.lastChild.textContent = error.message;
    }
  }

  #showSpaces({ action_space, observation_space, spaces_version, api, agents, possible_agents: all }) {
    this.#spacesVersion = spaces_version ?? 0;
    this.#spaces.lastChild.replaceWith(
      h(
        "dl",
        { class: "facts spaces" },
        ...spaceRows("Actions", action_space),
        ...spaceRows("Observations", observation_space),
        ...(api ? [h("dt", {}, "Agents"), h("dd", {}, `${api}: ${(all ?? agents).join(", ")}`)] : []),
      ),
    );
  }

  #showControls(described, keys) {
    if (described.realtime && !this.#hasClock) this.#tabs.add("Clock", this.#realtime.element);
    this.#hasClock = Boolean(described.realtime);
    this.#showSpaces(described);
    this.#stepper.note(described);
    if (!this.#context.may("step")) return;
    const mayStep = () => this.#mayStep();
    if (!this.#row?.num_envs && isPlayable(keys, described.action_space)) {
      this.#play = new PlayPanel(keys, described.action_space, this.#stepper, mayStep, this.#frame.element);
      this.#control.replaceChildren(this.#play.element);
    }
    const draw = async () => (await this.#context.call("GET", `${this.#path}action_space/sample`)).action;
    this.#byHand = new ByHand(described.action_space, this.#stepper, mayStep, draw);
    this.#hand.replaceChildren(this.#byHand.element);
  }

  async #fetchEpisodes(count) {
    try {
      const path = `${this.#path}episodes/?from=${this.#curves.next}`;
      const { episodes } = await this.#context.call("GET", path);
      if (this.#stopped) return;
      this.#curves.addEpisodes(episodes);
      this.#episodes = count;
    } catch (error) {
      // A busy environment answers at the next poll.
      if (!this.#stopped) this.#frame.say(error.message);
    }
  }

  /** Ask, once, if others step the instance. */
  async #mayStep() {
    if (this.#hasConsent || !this.#hasOthers()) return true;
    const question = "Another client steps this instance. Take it over? Its next steps continue from yours.";
    this.#hasConsent = await this.#context.ask(question, "Take it over", "Leave it");
    return this.#hasConsent;
  }

  #hasOthers() {
    if (!this.#hasClock) return this.#foreign.areRecent(performance.now());
    // Steps of a clock are nobody's, but an agent has a stream.
    return (this.#row?.streams ?? 0) > (this.#stepper.hasStream ? 1 : 0);
  }

  async #close() {
    const { ask, call, go, toast } = this.#context;
    const name = this.#row ? `${this.#row.env_id} ${this.#id}` : this.#id;
    if (!(await ask(`Close ${name}? Its clients lose it.`, "Close instance", "Keep it"))) return;
    try {
      this.#play?.dispose();
      this.#stepper.close();
      // No request may find the instance gone; those that a busy environment has yet to
      // answer are not waited for.
      this.#isClosing = true;
      await Promise.race([this.#polled, new Promise((done) => setTimeout(done, LATEST))]);
      // Browsers let a DELETE wait for the answer to an earlier GET of the same address.
      await call("POST", `${this.#path}close/`, {});
      go("#/");
    } catch (error) {
      this.#isClosing = false;
      toast(error.message);
    }
  }

  /** Show what remains: curves, facts, log and recordings, and why it has ended. */
  async #end() {
    this.#ended = true;
    this.#closing.hidden = true;
    this.#watcher?.close();
    this.#play?.dispose();
    this.#control.replaceChildren();
    for (const each of ["By hand", "Recording", ...(this.#isDescribed ? [] : ["Spaces"])]) this.#tabs.remove(each);
    // Without a watcher there never was a picture.
    this.#frame.element.parentNode.hidden = !this.#watcher;
    this.#frame.say(`It has ended: ${whyEnded(this.#row)}.`);
    const rest = new EndedPanel();
    rest.show(this.#row);
    this.#banner.replaceChildren(h("div", { class: "panel banner" }, rest.element));
    this.#banner.hidden = false;
    this.#curves.end();
    const { call } = this.#context;
    // Tokens without the scope see no recordings.
    await Promise.allSettled([this.#fetchEpisodes(this.#row.episodes), rest.find(call, this.#id)]);
  }
}

function spaceRows(title, space) {
  return [h("dt", {}, title), h("dd", {}, space ? printed(space) : "cannot be described")];
}

function printed(space) {
  const text = String(spaceOf(space));
  return text.length > 2000 ? `${text.slice(0, 2000)} …` : text;
}
