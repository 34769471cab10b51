/** The options of each call, checked. */

import { shown } from "./text.js";

const CALL = ["timeout", "signal"];
const SERVER = ["url", "token", "timeout", "maxBody", "stream", "onWarning"];
const MAKE = [
  ...["kwargs", "seed", "renderMode", "maxEpisodeSteps", "disableEnvChecker", "wrappers", "api", "waitS", "label"],
  "realtime",
  ...CALL,
];
const VECTOR = ["numEnvs", "vectorizationMode", "vectorKwargs", "autoresetMode", "hosts"];
const REGISTRY = ["search", "available", ...CALL];
const ACT = ["actions", "at", "blend", "update", "validS", "priority", ...CALL];
const TIMING = ["hz", "periodS", "captureS", "elasticity", "defaultAction", "agentTimeoutS", ...CALL];
const NEAR = 2;
const USER = /^([a-z]+:\/\/)[^/?#]*@/i;

/** The names of the options of methods; those of functions are in `withServer`. */
const NAMES = {
  Client: SERVER,
  make: MAKE,
  makeVec: [...MAKE, ...VECTOR],
  attach: CALL,
  show: ["fps", "share", "size", "signal"],
  list: CALL,
  instances: ["search", "state", ...CALL],
  registry: REGISTRY,
  info: CALL,
  request: ["body", "contentType", "headers", ...CALL],
  reset: ["seed", "options", ...CALL],
  step: CALL,
  stepMany: CALL,
  rollout: ["episodes", "policy", "actions", "seed", "options", "maxSteps", ...CALL],
  render: CALL,
  describe: CALL,
  episodes: ["last", "from", ...CALL],
  keys: CALL,
  act: ACT,
  updates: ["after", "deliver", "most"],
  timing: CALL,
  setTiming: TIMING,
  pause: CALL,
  resume: CALL,
  trace: ["last", "format", ...CALL],
  close: ["keepalive", ...CALL],
};

/**
 * Check that options are an object with only the options of a call.
 *
 * @param {string} call Its name.
 * @param {unknown} options Undefined for no options.
 * @throws {TypeError} It is not an object, or an option is unknown.
 */
export function checkOptions(call, options) {
  if (options !== undefined) demand(call, options, NAMES[call]);
}

/**
 * Split the options of a function from those of the server that it is called at.
 *
 * @returns {{ server: object, rest: object }} `timeout` is in both.
 * @throws {TypeError} As `checkOptions`.
 */
export function withServer(call, options) {
  if (options === undefined) return { server: {}, rest: {} };
  demand(call, options, [...SERVER, ...NAMES[call]]);
  const members = Object.entries(options);
  const those = (names) => Object.fromEntries(members.filter(([name]) => names.includes(name)));
  return { server: those(SERVER), rest: those(NAMES[call]) };
}

function demand(call, options, names) {
  if (Object.prototype.toString.call(options) !== "[object Object]") {
    throw new TypeError(`${call} takes ${example(names)}; got ${given(options)}`);
  }
  for (const name of Object.keys(options)) {
    if (!names.includes(name)) throw new TypeError(`there is no option ${name}${advice(name, names)}`);
  }
}

function example(names) {
  if (names.includes("url")) return "options as an object, as { url: … }";
  return `an object, as ${names.includes("seed") ? "{ seed: 42 }" : "{ timeout: 5000 }"}`;
}

function given(value) {
  // An address may have a token in it.
  if (typeof value === "string") return shown(value.replace(USER, "$1…@"));
  if (value === null || Array.isArray(value)) return shown(value);
  return typeof value === "object" ? String(value.constructor?.name) : shown(String(value)).slice(1, -1);
}

function advice(name, names) {
  const plain = (text) => text.replace(/[-_]/g, "").toLowerCase();
  const distances = names.map((each) => distance(plain(name), plain(each)));
  const nearest = Math.min(...distances);
  // Of a short name, two letters are most.
  if (nearest <= Math.min(NEAR, name.length / 3)) return `: did you mean ${names[distances.indexOf(nearest)]}?`;
  return `; there are ${[...new Set(names)].join(", ")}`;
}

/** The number of letters to insert, delete or replace between two words. */
function distance(one, other) {
  let row = Array.from({ length: other.length + 1 }, (_, i) => i);
  for (let i = 0; i < one.length; i++) {
    const next = [i + 1];
    for (let j = 0; j < other.length; j++) {
      next.push(Math.min(row[j] + Number(one[i] !== other[j]), row[j + 1] + 1, next[j] + 1));
    }
    row = next;
  }
  return row[other.length];
}
