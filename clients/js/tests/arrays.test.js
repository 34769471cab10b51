import assert from "node:assert/strict";
import { test } from "node:test";

import { NdArray, array, decodeBinary, encodeBinary } from "../src/index.js";
import { elementsOf, readDtype } from "../src/dtypes.js";
import { narrowBits, roundToHalf, widenBits } from "../src/float16.js";

test("nested lists become arrays of their shape", () => {
  const made = array([[1, 2, 3], [4, 5, 6]], { dtype: "int16" });
  assert.deepEqual(made.shape, [2, 3]);
  assert.deepEqual(made.data, Int16Array.of(1, 2, 3, 4, 5, 6));
  assert.equal(made.get(1, 2), 6);
  assert.deepEqual(made.row(1).data, Int16Array.of(4, 5, 6));
  assert.deepEqual(made.toArray(), [[1, 2, 3], [4, 5, 6]]);
});

test("misuse is a RangeError or TypeError", () => {
  assert.throws(() => array([[1], [2, 3]]), RangeError);
  assert.throws(() => array([1, 2, 3], { shape: [2, 2] }), RangeError);
  assert.throws(() => array([1], { dtype: "float31" }), TypeError);
  assert.throws(() => array([1, 2]).get(0, 0), RangeError);
  assert.equal(array([1, 2]).get(2), undefined);
});

test("typed arrays lie over the memory that was received", () => {
  const bytes = encodeBinary({ a: array([1, 2], { dtype: "float32" }), b: array([3n], { dtype: "int64" }) });
  const { a, b } = decodeBinary(bytes);
  assert.equal(a.data.buffer, bytes.buffer);
  assert.equal(b.data.buffer, bytes.buffer);
  assert.ok(b.data instanceof BigInt64Array);
});

test("elements that lie where no typed array can begin are copied", () => {
  const shifted = new Uint8Array(9).subarray(1);
  shifted.set(Uint8Array.of(0, 0, 128, 63), 0);
  assert.deepEqual(elementsOf(readDtype("<f4"), shifted), Float32Array.of(1, 0));
});

test("booleans are booleans, but bytes in data", () => {
  const made = decodeBinary(encodeBinary(array([true, false], { dtype: "bool" })));
  assert.deepEqual(made.data, Uint8Array.of(1, 0));
  assert.deepEqual(made.toArray(), [true, false]);
});

test("strings in arrays are strings", () => {
  const bytes = new Uint8Array(Uint32Array.of(0x61, 0, 0x62, 0x1f600).buffer);
  const made = new NdArray(bytes, [2], "<U2");
  assert.deepEqual(made.toArray(), ["a", "b😀"]);
});

test("every float16 is widened and narrowed to the same bits", () => {
  for (let half = 0; half < 65536; half++) assert.equal(narrowBits(widenBits(half)), half);
});

test("numbers are rounded to the nearest float16, ties to even", () => {
  // By hand: between 1 and 2 the step is 2^-10, below 2^-14 it is 2^-24.
  assert.equal(roundToHalf(1 + 2 ** -11), 1);
  assert.equal(roundToHalf(1 + 3 * 2 ** -11), 1 + 2 ** -9);
  assert.equal(roundToHalf(65519), 65504);
  assert.equal(roundToHalf(65520), Infinity);
  assert.equal(roundToHalf(2 ** -25), 0);
  assert.equal(roundToHalf(1.5 * 2 ** -25), 2 ** -24);
  assert.equal(roundToHalf(-(2 ** -24)), -(2 ** -24));
});

test("an array as text shows its dtype, its shape and eight elements", () => {
  assert.equal(`${array([[0.1, -2]], { dtype: "float32" })}`, "NdArray(float32, [1, 2]: 0.1, -2)");
  assert.equal(`${array(Uint8Array.from({ length: 12 }, (_, i) => i), { shape: [3, 4] })}`,
    "NdArray(uint8, [3, 4]: 0, 1, 2, 3, 4, 5, 6, 7, …)");
  assert.equal(`${array([1n, 2n], { dtype: "int64" })}`, "NdArray(int64, [2]: 1, 2)");
  assert.equal(`${array([true], { dtype: "bool" })}`, "NdArray(bool, [1]: true)");
  assert.equal(`${array(1.5)}`, "NdArray(float64, []: 1.5)");
  assert.equal(`${array([])}`, "NdArray(float64, [0]: empty)");
  assert.equal(`${new NdArray(new Uint8Array([97, 0, 0, 0]), [1], "<U1")}`, 'NdArray(<U1, [1]: "a")');
  assert.equal(`${new NdArray([null, "b"], [2], "object")}`, 'NdArray(object, [2]: null, "b")');
});

test("an array in JSON is nested lists", () => {
  const reply = { a: array([[1, 2], [3, 4]]), b: array([2n ** 63n - 1n], { dtype: "int64" }), c: array(true, { dtype: "bool" }) };
  assert.equal(JSON.stringify(reply), '{"a":[[1,2],[3,4]],"b":["9223372036854775807"],"c":true}');
});
