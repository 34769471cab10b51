/** The state of an instance in words, from its row in the list of instances. No DOM. */

import { roughly } from "./texts.js";

/** The states by which the list can be searched. */
export const STATES = ["making", "running", "waiting", "stuck", "paused", "ending", "ended"];

/** For how long, of the states that last until somebody does something. */
const SINCE = { making: "age_s", waiting: "idle_s", stuck: "busy_s" };
/** Why an instance has ended, by reason: in a few words, and in a sentence. */
const WHY = {
  closed: ["closed", "A client closed it."],
  crashed: ["crashed", "Its process ended by itself."],
  "step-deadline": ["a call took too long", "A call took longer than the server allows."],
  unresponsive: ["did not respond", "Its process did not respond for longer than a call may take."],
  "create-deadline": ["took too long to make", "Making it took longer than the server allows."],
  idle: ["not used for too long", "Nobody used it for longer than the server allows."],
  orphaned: ["its clients were lost", "Its clients were gone without closing it, and its slot was needed."],
  memory: ["used too much memory", "It used more memory than the server allows."],
  "external-gone": ["its environment did not come back", "Its external environment has not come back."],
  "agent-lost": ["its agent was silent", "Its agent was silent for longer than its clock allows."],
  abandoned: ["nobody waited for it", "Its create was never answered: the client was gone, or its web worker was killed."],
  shutdown: ["the server stopped", "The server was stopped."],
};

/** The state of an instance, and for how long it waits or is stuck, or why it has ended. */
export function stateText(row) {
  if (row.reason !== undefined) return `ended: ${whyEnded(row)}`;
  const seconds = row[SINCE[row.state]];
  return typeof seconds === "number" && seconds >= 1 ? `${row.state} for ${roughly(seconds)}` : row.state;
}

/** Why an instance has ended, in a few words. */
export function whyEnded(row) {
  return (WHY[row.reason]?.[0] ?? row.reason) + factsOf(row);
}

/** Why an instance has ended, in a sentence. */
export function endSentence(row) {
  return (WHY[row.reason]?.[1] ?? `It has ended: ${row.reason}.`) + factsOf(row);
}

function factsOf({ reason, detail, signal, exit_status: status }) {
  const how = signal ?? (status ? `exit status ${status}` : "");
  const facts = [detail, reason === "crashed" ? how : ""].filter(Boolean);
  return facts.length ? ` (${facts.join(", ")})` : "";
}
