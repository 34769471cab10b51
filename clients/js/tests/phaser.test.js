import assert from "node:assert/strict";
import { test } from "node:test";

import { serveScene } from "../src/phaser.js";

const ARGUMENTS = { scene: { game: {} }, begin() {}, act() {}, outcome() {}, signal: AbortSignal.abort() };

test("missing options of a scene are refused", async () => {
  for (const name of ["begin", "act", "outcome"]) {
    await assert.rejects(serveScene({ ...ARGUMENTS, [name]: undefined }), new TypeError(`${name} is not a function`));
  }
  for (const updates of [0, 1.5, "4"]) {
    await assert.rejects(serveScene({ ...ARGUMENTS, updates }), RangeError);
  }
  await assert.rejects(serveScene(ARGUMENTS), /observationSpace is missing/);
});
