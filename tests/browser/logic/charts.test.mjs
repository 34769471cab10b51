import assert from "node:assert/strict";
import { test } from "node:test";

import {
  decimated,
  exactTime,
  firstFrom,
  smoothed,
  tickText,
  timeText,
  timeTicksOf,
} from "../../../gym_http_server/web/dashboard/static/js/chart_scale.js";

test("a smoothed line begins at its first value and follows a constant", () => {
  assert.deepEqual(smoothed([5, 5, 5], 0.9).map((each) => each.toFixed(9)), Array(3).fill("5.000000000"));
  // As TensorBoard does: (1 * 0.25 + 3 * 0.5) / 0.75.
  assert.ok(Math.abs(smoothed([1, 3], 0.5)[1] - 1.75 / 0.75) < 1e-12);
  const raw = [1, 2, 3];
  assert.equal(smoothed(raw, 0), raw);
});

test("10,000 points become few, and no peak is lost", () => {
  const xs = Array.from({ length: 10_000 }, (_, n) => n);
  const ys = xs.map((n) => Math.sin(n / 50));
  ys[4321] = 99;
  ys[8765] = -99;
  const found = decimated(xs, ys, 0, xs.length, 400);
  assert.ok(found.length <= 4 * 401, String(found.length));
  assert.ok(found.includes(4321) && found.includes(8765));
  assert.deepEqual([found[0], found.at(-1)], [0, 9999]);
  assert.deepEqual(found, [...found].sort((a, b) => a - b));
});

test("few points stay, and those of one x are one column", () => {
  assert.deepEqual(decimated([1, 2, 3], [0, 5, 0], 1, 3, 100), [1, 2]);
  const same = Array(500).fill(7);
  const ys = same.map((_, n) => n % 10);
  assert.deepEqual(decimated(same, ys, 0, 500, 100), [0, 9, 499]);
});

test("times have ticks of whole minutes and hours, in words", () => {
  assert.deepEqual(timeTicksOf(0, 130, 5), [0, 30, 60, 90, 120]);
  assert.deepEqual(timeTicksOf(10, 700, 4), [300, 600]);
  assert.deepEqual([0, 45, 90, 180, 5400, 36_000, 259_200].map(timeText), ["0", "45 s", "90 s", "3 min", "90 min", "10 h", "3 d"]);
  assert.deepEqual([4.21, 200, 7500].map(exactTime), ["4.2 s", "3 min 20 s", "2 h 5 min"]);
});

test("ticks are short without a lost digit", () => {
  assert.deepEqual([0, 9500, 12_000, 12_345, 2_500_000, -40_000].map(tickText), ["0", "9500", "12k", "12345", "2.5M", "-40k"]);
});

test("the first value from a limit on is found", () => {
  assert.deepEqual([-1, 0, 0.5, 3, 4].map((each) => firstFrom([0, 1, 3], each)), [0, 0, 1, 2, 3]);
});
