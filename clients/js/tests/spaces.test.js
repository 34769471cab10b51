import assert from "node:assert/strict";
import { test } from "node:test";

import { Box, Discrete, MultiDiscrete, Opaque, Sequence, Text, array, spaceOf } from "../src/index.js";
import { below, exponential, geometric, normal } from "../src/spaces/draws.js";

/** mulberry32 */
function seeded(state) {
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}

function mean(count, draw) {
  let sum = 0;
  for (let i = 0; i < count; i++) sum += draw();
  return sum / count;
}

function near(actual, expected, within) {
  assert.ok(Math.abs(actual - expected) < within, `${actual}, not ${expected} within ${within}`);
}

test("a Discrete draws each of its integers equally often", () => {
  const counts = new Map();
  const [space, random] = [new Discrete({ n: 4, start: -1 }), seeded(1)];
  for (let i = 0; i < 40000; i++) {
    const drawn = space.sample(random);
    counts.set(drawn, (counts.get(drawn) ?? 0) + 1);
  }
  assert.deepEqual([...counts.keys()].sort((a, b) => a - b), [-1, 0, 1, 2]);
  for (const count of counts.values()) near(count, 10000, 500);
});

test("the same generator draws the same samples", () => {
  const space = spaceOf({ type: "Dict", spaces: [["a", { type: "Box", low: "-inf", high: 1, shape: [3] }]] });
  assert.deepEqual(space.sample(seeded(5)), space.sample(seeded(5)));
});

test("a Box draws evenly between bounds, exponentially from one, normally without", () => {
  const random = seeded(2);
  const space = new Box({ low: [0, 2, "-inf", "-inf"], high: [10, "inf", 5, "inf"], shape: [4], dtype: "float64" });
  const sums = [0, 0, 0, 0, 0];
  for (let i = 0; i < 20000; i++) {
    const { data } = space.sample(random);
    data.forEach((each, at) => (sums[at] += each / 20000));
    sums[4] += data[3] ** 2 / 20000;
    assert.ok(space.contains(array(data, { dtype: "float64" })));
  }
  near(sums[0], 5, 0.1);
  near(sums[1], 3, 0.05);
  near(sums[2], 4, 0.05);
  near(sums[3], 0, 0.05);
  near(sums[4], 1, 0.05);
});

test("the largest bounds are no trouble", () => {
  const random = seeded(3);
  const wide = new Box({ low: -3.4e38, high: 3.4e38, shape: [8] });
  const deep = new Box({ low: "-9223372036854775808", high: "9223372036854775807", shape: [8], dtype: "int64" });
  for (let i = 0; i < 200; i++) {
    assert.ok(wide.contains(wide.sample(random)));
    assert.ok(deep.contains(deep.sample(random)));
  }
  assert.ok(new Set(Array.from({ length: 20 }, () => below(2n ** 63n, random))).size === 20);
});

test("the draws have the means that they should", () => {
  const random = seeded(4);
  near(mean(20000, () => exponential(random)), 1, 0.05);
  near(mean(20000, () => normal(random)), 0, 0.05);
  near(mean(20000, () => geometric(random)), 4, 0.1);
  near(mean(20000, () => Number(below(7, random))), 3, 0.1);
});

test("numbers, lists and typed arrays can be elements", () => {
  const box = new Box({ low: -1, high: 1, shape: [2] });
  assert.ok(box.contains([0.5, -1]));
  assert.ok(box.contains(Float32Array.of(0, 1)));
  assert.ok(!box.contains(Float64Array.of(0, 1)));
  assert.ok(!box.contains([0.5]));
  assert.ok(!box.contains([0.5, 1.5]));
  assert.ok(!box.contains(null));
  assert.ok(new MultiDiscrete({ nvec: [2, 3] }).contains([1, 2]));
  assert.ok(!new MultiDiscrete({ nvec: [2, 3] }).contains([1, 3]));
  assert.ok(new Discrete({ n: 3 }).contains(2n));
  assert.ok(!new Discrete({ n: 3 }).contains(2.5));
});

test("lengths of texts are those of characters", () => {
  const space = new Text({ min_length: 1, max_length: 2, charset: "a😀" });
  assert.ok(space.contains("😀😀"));
  assert.ok(!space.contains("aaa"));
});

test("a stacked sequence is one batch", () => {
  const space = new Sequence({ space: { type: "Box", low: 0, high: 1, shape: [2] }, stack: true });
  const drawn = space.sample(seeded(6));
  assert.deepEqual(drawn.shape.slice(1), [2]);
  assert.ok(space.contains(drawn));
});

test("spaces are printed as by Gymnasium", () => {
  const go = { type: "Discrete", n: 2 };
  const box = { type: "Box", low: 0.5, high: 1.5, shape: [3] };
  // As printed by Gymnasium, but with commas within arrays.
  const printed = {
    "Discrete(2)": go,
    "Discrete(3, start=-1)": { type: "Discrete", n: 3, start: -1 },
    "Discrete(3, dtype=int32)": { type: "Discrete", n: 3, dtype: "int32" },
    "Box(-1.0, 1.0, (2,), float32)": { type: "Box", low: -1, high: 1, shape: [2] },
    "Box(0, 255, (4, 5, 3), uint8)": { type: "Box", low: 0, high: 255, shape: [4, 5, 3], dtype: "uint8" },
    "Box(-inf, inf, (), float64)": { type: "Box", low: "-inf", high: "inf", shape: [], dtype: "float64" },
    "Box([-4.8, -inf], [4.8, inf], (2,), float32)": { type: "Box", low: [-4.8, "-inf"], high: [4.8, "inf"], shape: [2] },
    "Box(1e-05, 1e+16, (1,), float64)": { type: "Box", low: 1e-5, high: 1e16, shape: [1], dtype: "float64" },
    "Box(-3.4e+38, 3.4e+38, (1,), float32)": { type: "Box", low: -3.4e38, high: 3.4e38, shape: [1] },
    "Box(False, True, (2,), bool)": { type: "Box", low: false, high: true, shape: [2], dtype: "bool" },
    "MultiDiscrete([5, 2])": { type: "MultiDiscrete", nvec: [5, 2] },
    "MultiDiscrete([2, 2], start=[1, 0])": { type: "MultiDiscrete", nvec: [2, 2], start: [1, 0] },
    "MultiDiscrete([2, 2, 2, 2, 2, 2, 2, 2, …])": { type: "MultiDiscrete", nvec: new Array(9).fill(2) },
    "MultiBinary(4)": { type: "MultiBinary", n: 4 },
    "MultiBinary((2, 3))": { type: "MultiBinary", n: [2, 3] },
    "Text(1, 8, charset=ab)": { type: "Text", max_length: 8, charset: "ab" },
    "Dict('go': Discrete(2), 'it': Box(0.5, 1.5, (3,), float32))": { type: "Dict", spaces: [["go", go], ["it", box]] },
    "Tuple(Discrete(2), MultiBinary(1))": { type: "Tuple", spaces: [go, { type: "MultiBinary", n: 1 }] },
    "Tuple()": { type: "Tuple", spaces: [] },
    "OneOf(Discrete(2))": { type: "OneOf", spaces: [go] },
    "Sequence(Discrete(2), stack=False)": { type: "Sequence", space: go },
    "Sequence(Box(0.5, 1.5, (3,), float32), stack=True)": { type: "Sequence", space: box, stack: true },
    "Graph(Discrete(2), None)": { type: "Graph", node_space: go, edge_space: null },
  };
  for (const [text, description] of Object.entries(printed)) assert.equal(`${spaceOf(description)}`, text);
});

test("an opaque space asks for the server, and has the base that is nearest", () => {
  const base = { type: "Discrete", n: 4, start: 0, dtype: "int64" };
  const even = spaceOf({ type: "Opaque", class: "company.spaces:Even", repr: "Discrete(4)", base });
  assert.ok(even instanceof Opaque);
  assert.equal(even.base.n, 4);
  assert.equal(`${even}`, "Discrete(4)");
  assert.throws(() => even.sample(), /only the server can sample company\.spaces:Even.*GET.*observation_space/);
  assert.throws(() => even.contains(2), /only the server can test elements of company/);
  assert.deepEqual(even.fromPlain([1]), [1]);
});
