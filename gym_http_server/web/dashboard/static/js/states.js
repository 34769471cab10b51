/** The state of an instance in words, from its row in the list of instances. No DOM. */

import { roughly } from "./texts.js";

/** The states by which the list can be searched. */
export const STATES = ["making", "running", "waiting", "stuck", "paused", "ending", "ended"];

/** For how long, of the states that last until somebody does something. */
const SINCE = { making: "age_s", waiting: "idle_s", stuck: "busy_s" };
const WHY = {
  closed: "closed",
  crashed: "crashed",
  "step-deadline": "a call took too long",
  unresponsive: "its process did not answer",
  "create-deadline": "took too long to make",
  idle: "not used for too long",
  orphaned: "its clients were lost",
  memory: "used too much memory",
  "external-gone": "its external environment did not come back",
  "agent-lost": "its agent was silent for too long",
  abandoned: "nobody waited for it any more",
  shutdown: "the server stopped",
};

/** The state of an instance, and for how long it waits or is stuck, or why it has ended. */
export function stateText(row) {
  if (row.reason !== undefined) return `ended: ${whyEnded(row)}`;
  const seconds = row[SINCE[row.state]];
  return typeof seconds === "number" && seconds >= 1 ? `${row.state} for ${roughly(seconds)}` : row.state;
}

/** Why an instance has ended. */
export function whyEnded({ reason, signal, detail, exit_status: status }) {
  const more = [signal, detail].filter(Boolean);
  if (reason === "crashed" && !more.length && status) more.push(`exit status ${status}`);
  const words = WHY[reason] ?? reason;
  return more.length ? `${words} (${more.join(", ")})` : words;
}
