/** The facts of one instance, from its row in the list of instances. */

import { numberText } from "./chart_scale.js";
import { h } from "./elements.js";
import { stateText, whyEnded } from "./states.js";
import { roughly } from "./texts.js";

/** Shows a row of the list: running, or ended. */
export class FactsPanel {
  #list = h("dl", { class: "facts" });

  constructor() {
    this.element = this.#list;
  }

  show(row) {
    const facts = row.reason === undefined ? runningFacts(row) : endedFacts(row);
    const rows = facts.flatMap(([name, value]) => [h("dt", {}, name), h("dd", {}, typeof value === "number" ? value.toLocaleString("en") : value)]);
    this.#list.replaceChildren(...rows);
  }
}

function runningFacts(row) {
  const facts = [["State", stateText(row)]];
  if (row.label) facts.push(["Label", row.label]);
  if (row.owner) facts.push(["Owner", row.owner]);
  if (row.node) facts.push(["Node", row.node]);
  facts.push(["Age", roughly(row.age_s)], ["Steps", row.steps], ["Episodes", row.episodes]);
  if (row.num_envs) facts.push(["Environments", row.num_envs]);
  if (row.render_mode) facts.push(["Render mode", row.render_mode]);
  if (row.step_ms) {
    const { mean, p50, p99 } = row.step_ms;
    facts.push(["Step time", `${numberText(mean)} ms on average, p50 ${numberText(p50)}, p99 ${numberText(p99)}`]);
  }
  facts.push(["Streams", row.streams], ["Watchers, with this page", row.watchers]);
  return facts;
}

function endedFacts(row) {
  const facts = [["Ended", `${whyEnded(row)}, ${roughly(row.ended_s_ago)} ago`]];
  if (row.label) facts.push(["Label", row.label]);
  if (row.node) facts.push(["Node", row.node]);
  facts.push(["Steps", row.steps], ["Episodes", row.episodes]);
  return facts;
}
