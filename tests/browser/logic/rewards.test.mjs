import assert from "node:assert/strict";
import { test } from "node:test";

import { wordsOf } from "../../../gym_http_server/web/dashboard/static/js/frame_panel.js";

test("rewards of several components are shown one by one", () => {
  const one = { op: "step", reward: 1.5, return: 2, length: 2 };
  assert.equal(wordsOf(one), "step · reward 1.5 · return 2 · length 2");
  const several = { op: "step", reward: [1.5, -2], return: [3, null], length: 2 };
  assert.equal(wordsOf(several), "step · reward 1.5, -2 · return 3 · length 2");
  assert.equal(wordsOf({ op: "step", reward: { a: "1" }, return: null }), "step");
});

test("rewards and ends of several agents are shown with their names", () => {
  const some = { op: "step", reward: { left: 1, right: -2 }, truncated: { left: true, right: false } };
  assert.equal(wordsOf(some), "step · reward left 1, right -2 · left truncated");
});
