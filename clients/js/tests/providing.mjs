/**
 * Provides an environment, and prints all requests and results of its handlers.
 *
 *     node providing.mjs URL NAME KIND DIALECT [TRANSPORT]
 *
 * Each line is JSON. A line on standard input is a command: `stop`, or `drop`, which loses
 * the connection. With the variable PROVIDER_REPLACE it takes the place of an earlier one.
 */

import { createInterface } from "node:readline";

import { serveEnv } from "../src/serve.js";

const [url, name, kind, dialect, transport] = process.argv.slice(2);
const SPACES = {
  discrete: { type: "Discrete", n: 1000 },
  box: { type: "Box", low: -1, high: 1, shape: [2, 3], dtype: "float32" },
  dict: {
    type: "Dict",
    spaces: [
      ["place", { type: "Discrete", n: 1000 }],
      ["seen", { type: "Box", low: 0, high: 255, shape: [4], dtype: "uint8" }],
    ],
  },
};
// Its attributes include the spaces of the first environment.
SPACES.open = SPACES.discrete;
const controller = new AbortController();
let [draw, steps, slow] = [() => 0.5, 0, 0];
let state = 1;

const print = (line) => console.log(JSON.stringify(line));
const plain = (value) => value?.toArray?.() ?? value;

/** A small generator with a seed. */
function generator(seed) {
  state = Number(seed) >>> 0;
  return () => (state = (Math.imul(state, 1664525) + 1013904223) >>> 0) / 2 ** 32;
}

function observed() {
  const place = Math.floor(draw() * 1000);
  if (kind === "discrete" || kind === "open") return place;
  if (kind === "box") return Float32Array.from({ length: 6 }, () => draw() * 2 - 1);
  return { place, seen: Uint8Array.from({ length: 4 }, () => draw() * 256) };
}

function shown(observation) {
  if (typeof observation === "number") return observation;
  if (ArrayBuffer.isView(observation)) return [...observation];
  return { place: observation.place, seen: [...observation.seen] };
}

class Toy {
  gravity = 9.8;
  field = Float32Array.of(1, 2);
  _secret = 1;

  async add(one, other, { twice = false } = {}) {
    return (one + other) * (twice ? 2 : 1);
  }

  fail() {
    throw new Error("that is broken");
  }
}

const OPEN = {
  attributes: new Toy(),
  generator: { state: () => ({ state }), setState: (reply) => void (state = Number(reply.state)) },
};

createInterface({ input: process.stdin }).on("line", () => controller.abort());
await serveEnv({
  url,
  name,
  dialect,
  transport,
  observationSpace: SPACES[kind],
  actionSpace: kind === "box" ? { ...SPACES.box, shape: [2] } : { type: "Discrete", n: 5 },
  capabilities: ["seed", "options", "pause"],
  renderModes: ["ansi"],
  replace: process.env.PROVIDER_REPLACE ? true : undefined,
  signal: controller.signal,
  log: (line) => print({ log: line }),
  onAgent: () => print({ agent: true }),
  onAgentGone: () => print({ agent: false }),
  init({ kwargs, renderMode }) {
    slow = kwargs.slow ?? 0;
    print({ request: "init", kwargs, renderMode });
    return kwargs.actions && { actionSpace: { type: "Discrete", n: kwargs.actions } };
  },
  async reset({ seed, options }) {
    if (options.impossible) throw Object.assign(new Error("no such option"), { code: "bad-parameter" });
    if (seed !== null) draw = generator(seed);
    steps = 0;
    const observation = observed();
    print({ request: "reset", seed: String(seed), options, observation: shown(observation) });
    return { observation, info: { options } };
  },
  async step(action) {
    if (slow) await new Promise((resolve) => setTimeout(resolve, slow));
    if (++steps > 50) throw new Error("the crate is stuck");
    const observation = observed();
    const reply = { reward: draw(), terminated: steps === 50, truncated: false, info: { steps } };
    print({ request: "step", action: plain(action), ...reply, observation: shown(observation) });
    return { ...reply, observation };
  },
  render: () => `step ${steps}`,
  ...(kind === "open" && OPEN),
});
