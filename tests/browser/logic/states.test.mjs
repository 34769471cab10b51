import assert from "node:assert/strict";
import { test } from "node:test";

import { endSentence, stateText, whyEnded } from "../../../gym_http_server/web/dashboard/static/js/states.js";

const ROW = { state: "running", busy_s: null, idle_s: 0.1, age_s: 90 };

test("a state that lasts has its time, as people say it", () => {
  assert.equal(stateText(ROW), "running");
  assert.equal(stateText({ ...ROW, busy_s: 7 }), "running");
  assert.equal(stateText({ ...ROW, state: "waiting", idle_s: 0.4 }), "waiting");
  assert.equal(stateText({ ...ROW, state: "waiting", idle_s: 59.9 }), "waiting for 59 s");
  assert.equal(stateText({ ...ROW, state: "waiting", idle_s: 245 }), "waiting for 4 min");
  assert.equal(stateText({ ...ROW, state: "waiting", idle_s: 90_000 }), "waiting for 25 h");
  assert.equal(stateText({ ...ROW, state: "stuck", busy_s: 40.2, idle_s: null }), "stuck for 40 s");
  assert.equal(stateText({ ...ROW, state: "paused" }), "paused");
  assert.equal(stateText({ ...ROW, state: "making", idle_s: null, age_s: 3 }), "making for 3 s");
});

test("an end has its reason", () => {
  const crash = { reason: "crashed", signal: "SIGSEGV", detail: null, exit_status: null };
  assert.equal(stateText(crash), "ended: crashed (SIGSEGV)");
  assert.equal(whyEnded({ ...crash, signal: null, exit_status: 3 }), "crashed (exit status 3)");
  assert.equal(whyEnded({ reason: "closed", signal: null, detail: null, exit_status: 0 }), "closed");
  assert.equal(whyEnded({ reason: "memory", signal: "SIGKILL", detail: null }), "used too much memory");
  assert.equal(endSentence({ ...crash, detail: "at start" }), "Its process ended by itself. (at start, SIGSEGV)");
  assert.equal(whyEnded({ reason: "of tomorrow", signal: null, detail: null }), "of tomorrow");
});
