import assert from "node:assert/strict";
import { test } from "node:test";

import {
  controlOf,
  flatten,
  initialOf,
  isOpaque,
  limitsOf,
  nest,
  readNumber,
  placeOf,
  readText,
} from "../../../gym_http_server/web/dashboard/static/js/widgets/plan.js";

const BOX = { type: "Box", dtype: "float32", shape: [2], low: [-1, "-inf"], high: [1, "inf"] };

test("each number gets the control that fits its limits", () => {
  const control = (space, isChoice) => limitsOf(space).map((each) => controlOf(each, isChoice));
  assert.deepEqual(control(BOX), ["slider", "number"]);
  assert.deepEqual(control({ type: "Discrete", n: 32, start: -3 }, true), ["select"]);
  assert.deepEqual(control({ type: "Discrete", n: 33, start: 0 }, true), ["number"]);
  assert.deepEqual(control({ type: "MultiBinary", n: [1, 2] }), ["switch", "switch"]);
  assert.deepEqual(control({ type: "MultiDiscrete", nvec: [5, 400], shape: [2], start: 0 }, true), ["select", "number"]);
  assert.deepEqual(control({ type: "Box", dtype: "bool", shape: [1], low: false, high: true }), ["switch"]);
  const uint64 = { type: "Box", dtype: "uint64", shape: [], low: 0, high: "18446744073709551615" };
  assert.deepEqual(control(uint64), ["number"]);
  assert.equal(limitsOf({ type: "Box", dtype: "uint8", shape: [84, 84], low: 0, high: 255 }), null);
});

test("numbers are read within their limits, and others are refused by name", () => {
  const [slider, free] = limitsOf(BOX);
  assert.equal(readNumber(" 0.5 ", slider, "action[0]"), 0.5);
  assert.equal(readNumber("-1e9", free, "action[1]"), -1e9);
  for (const text of ["", "1.5", "NaN", "x"]) {
    assert.throws(() => readNumber(text, slider, "action[0]"), {
      name: "InputError",
      message: `action[0] is ${JSON.stringify(text)}: expected a number from -1 to 1`,
    });
  }
  assert.throws(() => readNumber("Infinity", free, "a"), /expected a number$/);
  const [choice] = limitsOf({ type: "Discrete", n: 2, start: 1 });
  assert.equal(readNumber("2", choice, "a"), 2);
  assert.throws(() => readNumber("1.0", choice, "a"), /an integer from 1 to 2/);
  assert.throws(() => readNumber("3", choice, "a"), /an integer from 1 to 2/);
});

test("integers beyond 2^53 stay exact", () => {
  const [limits] = limitsOf({ type: "Discrete", n: "9223372036854775807", start: 1 });
  assert.equal(limits.high, 9223372036854775807n);
  assert.equal(readNumber("9007199254740993", limits, "a"), 9007199254740993n);
  assert.throws(() => readNumber("9223372036854775808", limits, "a"), /an integer from 1 to 9223372036854775807/);
});

test("texts are counted by code points, and their characters checked", () => {
  const space = { type: "Text", min_length: 2, max_length: 2, charset: "a😀" };
  assert.equal(readText("a😀", space, "t"), "a😀");
  assert.throws(() => readText("😀", space, "t"), /2 to 2 characters; it has 1/);
  assert.throws(() => readText("ab", space, "t"), /without "b"/);
});

test("nested lists are in C order, and places are named as in Python", () => {
  assert.deepEqual(nest([1, 2, 3, 4, 5, 6], [3, 2]), [[1, 2], [3, 4], [5, 6]]);
  assert.deepEqual(flatten(nest([1, 2, 3, 4, 5, 6], [3, 1, 2])), [1, 2, 3, 4, 5, 6]);
  assert.equal(nest([7], []), 7);
  assert.equal(placeOf(3, [3, 2]), "[1][1]");
  assert.equal(placeOf(0, []), "");
});

test("an opaque space begins with an element of its base, or null", () => {
  const opaque = { type: "Opaque", class: "a:B", repr: null, base: null };
  const even = { ...opaque, base: { type: "Discrete", n: 2, start: 4 } };
  const space = { type: "Dict", spaces: [["even", even], ["text", opaque]] };
  assert.deepEqual(initialOf(space), { even: 4, text: null });
  assert.ok(isOpaque(space));
  assert.ok(isOpaque({ type: "Sequence", space: even }));
  assert.ok(!isOpaque({ type: "Text", max_length: 6, charset: "Opaque" }));
});

test("a widget begins with an element near zero", () => {
  const space = {
    type: "Dict",
    spaces: [
      ["at", { type: "Box", dtype: "float32", shape: [2], low: [2, -5], high: [3, -4] }],
      ["text", { type: "Text", min_length: 3, max_length: 9, charset: "xy" }],
      ["one", { type: "OneOf", spaces: [{ type: "Discrete", n: 2, start: 4 }] }],
      ["all", { type: "Tuple", spaces: [{ type: "MultiBinary", n: 2 }, { type: "Sequence", space: { type: "Discrete", n: 2 } }] }],
      ["graph", { type: "Graph", node_space: { type: "Discrete", n: 2 }, edge_space: null }],
    ],
  };
  assert.deepEqual(initialOf(space), {
    at: [2, -4],
    text: "xxx",
    one: [0, 4],
    all: [[0, 0], []],
    graph: { nodes: [0], edges: null, edge_links: null },
  });
});
