import assert from "node:assert/strict";
import { test } from "node:test";

import { ansiRuns } from "../../../gym_http_server/web/dashboard/static/js/ansi.js";
import {
  meanBetween,
  nearest,
  numberText,
  rangeOf,
  scaled,
  ticksOf,
} from "../../../gym_http_server/web/dashboard/static/js/chart_scale.js";

test("ticks are round numbers within the range", () => {
  assert.deepEqual(ticksOf(0, 10, 5), [0, 2, 4, 6, 8, 10]);
  assert.deepEqual(ticksOf(-0.3, 0.3, 4), [-0.2, 0, 0.2]);
  assert.deepEqual(ticksOf(3, 3), [3]);
  for (const [low, high] of [[1, 1 + 2 ** -52], [-1e9 - 1e-7, -1e9], [0, 5e-324]]) {
    assert.deepEqual(ticksOf(low, high), [low]);
  }
  const wide = ticksOf(-1e308, 1e308, 4);
  assert.ok(wide.length > 1 && wide.every(Number.isFinite));
});

test("a range leaves out what is not finite, and has room around one value", () => {
  assert.deepEqual(rangeOf([3, NaN, -1, Infinity]), [-1, 3]);
  assert.deepEqual(rangeOf([]), [0, 1]);
  assert.deepEqual(rangeOf([0]), [0, 1]);
  assert.deepEqual(rangeOf([-20]), [-22, -18]);
  assert.equal(scaled(5, [0, 10], [100, 0]), 50);
});

test("the nearest point is found", () => {
  const xs = [0, 1, 2, 10];
  assert.deepEqual([-5, 0.4, 0.6, 5, 7, 99].map((x) => nearest(xs, x)), [0, 0, 1, 2, 3, 3]);
  assert.equal(nearest([], 1), -1);
  assert.equal(nearest([4], 1), 0);
});

test("the mean of what was added follows from two means", () => {
  assert.equal(meanBetween(null, { mean: 4, count: 2 }), 4);
  assert.equal(meanBetween(null, { mean: 0, count: 0 }), null);
  assert.equal(meanBetween({ mean: 4, count: 2 }, { mean: 6, count: 4 }), 8);
  assert.equal(meanBetween({ mean: 4, count: 2 }, { mean: 4, count: 2 }), null);
  assert.equal(meanBetween({ mean: 4, count: 2 }, { mean: 2, count: 3 }), 0);
});

test("numbers are short", () => {
  const texts = [0, 12.3456789, -200, 1e9, 0.00001234, NaN].map(numberText);
  assert.deepEqual(texts, ["0", "12.346", "-200", "1e+9", "1.234e-5", "not finite"]);
});

test("colours of a terminal become classes, and other sequences nothing", () => {
  // As Gymnasium's Taxi prints its place and destination.
  const runs = ansiRuns("|\x1b[34;1mR\x1b[0m: |\x1b[43mG\x1b[0m|\x1b[2J<b>");
  assert.deepEqual(runs, [
    { text: "|", classes: "" },
    { text: "R", classes: "ansi-blue ansi-bold" },
    { text: ": |", classes: "" },
    { text: "G", classes: "ansi-on-yellow" },
    { text: "|", classes: "" },
    { text: "<b>", classes: "" },
  ]);
});
