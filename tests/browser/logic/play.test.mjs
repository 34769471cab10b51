import assert from "node:assert/strict";
import { test } from "node:test";

import { ForeignSteps } from "../../../gym_http_server/web/dashboard/static/js/foreign_steps.js";
import { KeyMap, keyName } from "../../../gym_http_server/web/dashboard/static/js/key_map.js";
import { Pace, Play } from "../../../gym_http_server/web/dashboard/static/js/play.js";

const BINDINGS = [
  { keys: ["ArrowLeft"], action: 3 },
  { keys: ["Space"], action: 1 },
  { keys: ["Space", "ArrowLeft"], action: 9 },
];

/** A clock whose time passes only when a test says so. */
class Clock {
  time = 0;
  #timers = [];

  now = () => this.time;
  after = (milliseconds, call) => {
    const timer = { at: this.time + milliseconds, call };
    this.#timers.push(timer);
    return timer;
  };
  cancel = (timer) => {
    this.#timers = this.#timers.filter((each) => each !== timer);
  };

  async pass(milliseconds) {
    const end = this.time + milliseconds;
    for (;;) {
      await settled();
      const next = this.#timers.filter(({ at }) => at <= end).sort((a, b) => a.at - b.at)[0];
      if (!next) break;
      this.cancel(next);
      this.time = Math.max(this.time, next.at);
      next.call();
    }
    this.time = end;
  }
}

function settled() {
  return new Promise((resolve) => setImmediate(resolve));
}

/** An environment that notes its calls, with episodes of some steps. */
function noted(length = Infinity) {
  const calls = [];
  let steps = 0;
  return {
    calls,
    async reset() {
      calls.push("reset");
      steps = 0;
    },
    async step(action) {
      calls.push(action);
      steps += 1;
      return { done: steps >= length };
    },
  };
}

function playing(options = {}, env = noted()) {
  const clock = new Clock();
  const ends = [];
  const map = new KeyMap(BINDINGS, 0);
  const play = new Play(env, map, { fps: 10, wait: false, clock, onEnd: (error) => ends.push(error), ...options });
  return { clock, ends, env, play };
}

test("the sorted keys that are held select the action, and other combinations the no-op", () => {
  const map = new KeyMap(BINDINGS, 0);
  assert.equal(map.action(["ArrowLeft"]), 3);
  assert.equal(map.action(["Space", "ArrowLeft"]), 9);
  assert.equal(map.action(["ArrowLeft", "Space"]), 9);
  assert.equal(map.action([]), 0);
  assert.equal(map.action(["ArrowLeft", "KeyX"]), 0);
  assert.deepEqual(map.codes, ["ArrowLeft", "Space"]);
});

test("a key is replaced in all combinations, or changes places with another", () => {
  const map = new KeyMap(BINDINGS, 0);
  map.replace("ArrowLeft", "KeyA");
  assert.equal(map.action(["KeyA"]), 3);
  assert.equal(map.action(["Space", "KeyA"]), 9);
  assert.equal(map.has("ArrowLeft"), false);
  map.replace("KeyA", "Space");
  assert.equal(map.action(["Space"]), 3);
  assert.equal(map.action(["KeyA"]), 1);
});

test("steps follow at the pace, with the keys held then", async () => {
  const { clock, env, play } = playing();
  play.start();
  await clock.pass(250);
  assert.deepEqual(env.calls, ["reset", 0, 0]);
  assert.equal(play.press("ArrowLeft"), true);
  assert.equal(play.press("KeyX"), false);
  await clock.pass(100);
  play.press("Space");
  await clock.pass(100);
  play.releaseAll();
  await clock.pass(100);
  assert.deepEqual(env.calls, ["reset", 0, 0, 3, 9, 0]);
  await clock.pass(4000);
  assert.equal(Math.round(play.pace.perSecond), 10);
});

test("an episode that is over is followed by a reset", async () => {
  const { clock, env, play } = playing({}, noted(2));
  play.start();
  await clock.pass(500);
  assert.deepEqual(env.calls, ["reset", 0, 0, "reset", 0, 0]);
  assert.equal(play.episodes, 2);
});

test("a mode that waits takes one step for each key, and none for its repetitions", async () => {
  const { clock, env, play } = playing({ wait: true });
  play.start();
  await clock.pass(1000);
  play.press("ArrowLeft");
  play.press("ArrowLeft", true);
  await clock.pass(1000);
  play.release("ArrowLeft");
  play.press("Space");
  await clock.pass(1000);
  assert.deepEqual(env.calls, ["reset", 3, 1]);
});

test("a mode that waits resets by itself", async () => {
  const { clock, env, play } = playing({ wait: true }, noted(1));
  play.start();
  await clock.pass(10);
  play.press("Space");
  await clock.pass(10);
  assert.deepEqual(env.calls, ["reset", 1, "reset"]);
});

test("without a no-op nothing happens until a key is held", async () => {
  const clock = new Clock();
  const env = noted();
  const play = new Play(env, new KeyMap(BINDINGS, undefined), { fps: 10, wait: false, clock, onEnd() {} });
  play.start();
  await clock.pass(500);
  assert.deepEqual(env.calls, ["reset"]);
});

test("Escape ends, once, and no step follows", async () => {
  const { clock, ends, env, play } = playing();
  play.start();
  await clock.pass(100);
  const count = env.calls.length;
  assert.equal(play.press("Escape"), true);
  play.stop();
  await clock.pass(1000);
  assert.deepEqual(ends, [null]);
  assert.equal(env.calls.length, count);
  assert.equal(play.press("Space"), false);
});

test("an error ends it, and is passed on", async () => {
  const broken = { reset: async () => {}, step: async () => { throw new Error("lost"); } };
  const { clock, ends, play } = playing({}, broken);
  play.start();
  await clock.pass(500);
  assert.deepEqual(ends.map((each) => each.message), ["lost"]);
});

test("after a long delay the pace is kept, and missed steps are not made up for", async () => {
  let release = null;
  const env = noted();
  const slow = { reset: env.reset, step: (action) => (env.calls.push(action), new Promise((resolve) => (release = resolve))) };
  const { clock, play } = playing({}, slow);
  play.start();
  await clock.pass(100);
  await clock.pass(5000);
  assert.deepEqual(env.calls, ["reset", 0]);
  slow.step = env.step;
  release({ done: false });
  await clock.pass(1000);
  const made = env.calls.length - 2;
  assert.ok(made >= 10 && made <= 12, `${made} steps in a second of ten`);
});

test("the pace is that of the last two seconds", () => {
  const pace = new Pace();
  assert.equal(pace.perSecond, null);
  for (let i = 0; i <= 100; i++) pace.note(i * 100);
  for (let i = 1; i <= 100; i++) pace.note(10_000 + i * 20);
  assert.equal(pace.perSecond, 50);
});

test("steps of others are told from those of the page", () => {
  const steps = new ForeignSteps();
  steps.noteTotal(100, 0);
  steps.noteOwn();
  steps.noteOwn();
  steps.noteTotal(101, 100);
  steps.noteTotal(102, 200);
  assert.equal(steps.count, 0);
  assert.equal(steps.areRecent(200), false);
  steps.noteOwn();
  steps.noteTotal(105, 300);
  assert.equal(steps.count, 2);
  assert.equal(steps.areRecent(5200), true);
  assert.equal(steps.areRecent(5400), false);
  // A step of a vector is one of each environment.
  steps.noteOwn(4);
  steps.noteTotal(109, 9000);
  assert.equal(steps.count, 2);
});

test("keys have short names", () => {
  assert.deepEqual(["KeyA", "Digit1", "ArrowUp", "Space", "KeyboardX"].map(keyName), ["A", "1", "↑", "Space", "KeyboardX"]);
});
