import assert from "node:assert/strict";
import { test } from "node:test";

import { GamepadMap, sticksOf } from "../../../gym_http_server/web/dashboard/static/js/gamepad.js";

/** A gamepad in the standard mapping. */
function pad(pressed = [], axes = [0, 0, 0, 0]) {
  return { axes, buttons: Array.from({ length: 17 }, (_, i) => ({ pressed: pressed.includes(i) })) };
}

function held(map, given, isBound = () => false) {
  return [...map.held(given, isBound)].sort();
}

test("cross and stick hold the keys of directions, and buttons the others in order", () => {
  const map = new GamepadMap(["ArrowLeft", "ArrowRight", "Space", "KeyP"]);
  assert.deepEqual(held(map, pad()), []);
  assert.deepEqual(held(map, pad([14])), ["ArrowLeft"]);
  assert.deepEqual(held(map, pad([0, 15])), ["ArrowRight", "Space"]);
  assert.deepEqual(held(map, pad([1])), ["KeyP"]);
  // There is no key for up, nor for a third button.
  assert.deepEqual(held(map, pad([2, 12])), []);
  assert.deepEqual(held(map, pad([], [-0.8, 0, 0, 0])), ["ArrowLeft"]);
  assert.deepEqual(held(map, pad([], [0.4, 0, 0, 0])), []);
});

test("letters are directions where there are no arrows", () => {
  const map = new GamepadMap(["KeyW", "KeyA", "KeyS", "KeyD", "Space"]);
  assert.deepEqual(held(map, pad([], [0, -1, 0, 0])), ["KeyW"]);
  assert.deepEqual(held(map, pad([13, 0])), ["KeyS", "Space"]);
});

test("a stick between two directions holds both if they have an action, else the nearer", () => {
  const map = new GamepadMap(["ArrowUp", "ArrowDown", "ArrowLeft", "ArrowRight"]);
  const between = pad([], [0.6, -0.9, 0, 0]);
  assert.deepEqual(held(map, between), ["ArrowUp"]);
  assert.deepEqual(held(map, pad([], [0.9, -0.6, 0, 0])), ["ArrowRight"]);
  assert.deepEqual(held(map, between, (codes) => codes.length === 2), ["ArrowRight", "ArrowUp"]);
});

test("a key that is replaced stays on its button", () => {
  const map = new GamepadMap(["ArrowLeft", "Space"]);
  map.replace("ArrowLeft", "KeyJ");
  map.replace("Space", "KeyJ");
  assert.deepEqual(held(map, pad([14, 0])), ["KeyJ", "Space"]);
  assert.deepEqual(held(map, pad([14])), ["Space"]);
});

test("sticks at rest set nothing, and up is positive", () => {
  assert.equal(sticksOf(pad([], [0.1, -0.1, 0, 0])), null);
  assert.deepEqual(sticksOf(pad([], [0.5, -1, 0.02, 0.25])), [0.5, 1, 0, -0.25]);
  assert.deepEqual(sticksOf(pad([], [-1, 0])), [-1, 0]);
});
