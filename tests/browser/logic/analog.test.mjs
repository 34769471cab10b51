import assert from "node:assert/strict";
import { test } from "node:test";

import { KeyMap } from "../../../gym_http_server/web/dashboard/static/js/key_map.js";
import { PAGE_CLOCK, Play } from "../../../gym_http_server/web/dashboard/static/js/play.js";

test("sliders set the action while no key is held", async () => {
  const actions = [];
  const env = { reset: async () => {}, step: async (action) => (actions.push(action), { done: false }) };
  const turns = [];
  const clock = { ...PAGE_CLOCK, after: (_, call) => turns.push(call), cancel: () => {} };
  const map = new KeyMap([{ keys: ["ArrowUp"], action: [1] }], [0]);
  let set = [0.25];
  const play = new Play(env, map, { fps: 10, wait: false, clock, onEnd() {}, analog: () => set });
  const turn = async () => {
    turns.shift()();
    await new Promise((resolve) => setImmediate(resolve));
  };
  await play.start();
  await turn();
  play.press("ArrowUp");
  await turn();
  play.release("ArrowUp");
  set = undefined;
  await turn();
  assert.deepEqual(actions, [[0.25], [1], [0]]);
  play.stop();
});
