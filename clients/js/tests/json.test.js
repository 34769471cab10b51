import assert from "node:assert/strict";
import { test } from "node:test";

import { ProtocolError } from "../src/errors.js";
import { parse } from "../src/json.js";
import { encodeBinary } from "../src/binary_writer.js";
import { stringify } from "../src/json_writer.js";
import { plainTree } from "../src/plain.js";
import { float } from "../src/scalars.js";
import { typedTree } from "../src/typed_writer.js";

test("integers beyond 2^53 are BigInts, all others numbers", () => {
  assert.deepEqual(parse("[9007199254740992, 9007199254740993, -9007199254740993]"), [
    2 ** 53,
    9007199254740993n,
    -9007199254740993n,
  ]);
  assert.equal(parse("100000000000000000000.0"), 1e20);
  assert.ok(Object.is(parse("-0.0"), -0));
  assert.ok(Object.is(parse("-0"), 0));
});

test("a member called __proto__ is a member", () => {
  const made = parse('{"__proto__": {"polluted": true}, "a": 1}');
  assert.deepEqual(Object.keys(made), ["__proto__", "a"]);
  assert.equal(made.polluted, undefined);
  assert.equal({}.polluted, undefined);
});

test("members keep their order, in a Map where objects would not", () => {
  assert.deepEqual(parse('{"1": "a", "2": "b", "x": "c"}'), { 1: "a", 2: "b", x: "c" });
  assert.deepEqual([...parse('{"x": 1, "1": 2}').keys()], ["x", "1"]);
  assert.deepEqual([...parse('{"2": 1, "1": 2}').keys()], ["2", "1"]);
});

test("malformed JSON is refused with its position", () => {
  for (const text of ["", "[1,]", '{"a":1,"a":2}', "01", "NaN", '"\u0001"', "[1] 2", "1e999"]) {
    assert.throws(() => parse(text), ProtocolError, text);
  }
  assert.throws(() => parse("[1,\n x]"), /at character 5/);
  assert.throws(() => parse("[".repeat(129)), /deeper than 128/);
});

test("floats are written such that they are read as floats", () => {
  assert.equal(stringify([1, float(1), -0, 1e21, 2 ** 60, 0.1, 2n ** 64n]),
    "[1,1.0,-0.0,1e+21,1152921504606847000.0,0.1,18446744073709551616]");
  assert.equal(stringify({ a: undefined, b: null }), '{"b":null}');
  assert.throws(() => stringify(NaN), TypeError);
  assert.throws(() => stringify("\ud800"), TypeError);
});

test("objects with their content elsewhere are refused, not sent as {}", () => {
  for (const value of [new Set([1]), new Date(0), /a/, new ArrayBuffer(8), Promise.resolve(1)]) {
    const refusal = new RegExp(`a ${value.constructor.name} cannot be sent`);
    for (const write of [stringify, plainTree, typedTree, encodeBinary]) {
      assert.throws(() => write({ seed: value }), refusal);
    }
  }
  class Point {
    x = 1;
  }
  assert.equal(stringify({ a: {}, b: Object.create(null), c: new Point() }), '{"a":{},"b":{},"c":{"x":1}}');
});
