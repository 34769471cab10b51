import assert from "node:assert/strict";
import { test } from "node:test";

import { Client, Env, attach, list, make, makeVec, registry, spaceOf } from "../src/index.js";
import { Requester } from "../src/requester.js";

// No server listens: wrong options are refused before anything is sent.
const url = "http://127.0.0.1:9";
const space = spaceOf({ type: "Discrete", n: 2 });
const env = new Env(new Requester({ url }), { instanceId: "c0ffee00", envId: "Any-v0", actionSpace: space });

const typeError = (message) => ({ name: "TypeError", message });

test("a seed that stands alone is not dropped in silence", async () => {
  await assert.rejects(env.reset(42), typeError("reset takes an object, as { seed: 42 }; got 42"));
  await assert.rejects(env.reset(42n), typeError("reset takes an object, as { seed: 42 }; got 42"));
  await assert.rejects(env.reset([1, 2]), typeError("reset takes an object, as { seed: 42 }; got [1,2]"));
  await assert.rejects(env.reset(null), typeError("reset takes an object, as { seed: 42 }; got null"));
});

test("an error names the nearest option", async () => {
  const reply = (name, meant) => typeError(`there is no option ${name}: did you mean ${meant}?`);
  await assert.rejects(env.reset({ Seed: 42 }), reply("Seed", "seed"));
  await assert.rejects(env.rollout({ max_steps: 3 }), reply("max_steps", "maxSteps"));
  await assert.rejects(make("Any-v0", { url, render_mode: "ansi" }), reply("render_mode", "renderMode"));
  await assert.rejects(make("Any-v0", { url, rendermod: "ansi" }), reply("rendermod", "renderMode"));
  await assert.rejects(makeVec("Any-v0", { url, num_envs: 3 }), reply("num_envs", "numEnvs"));
  await assert.rejects(attach("c0ffee00", { url, maxBdy: 1 }), reply("maxBdy", "maxBody"));
  assert.throws(() => new Client({ URL: url }), reply("URL", "url"));
});

test("an error lists all options if none is near", async () => {
  await assert.rejects(env.step(0, { seed: 1 }), typeError("there is no option seed; there are timeout, signal"));
  const reply = /^there is no option render; there are url, .*renderMode, .*signal$/;
  await assert.rejects(make("Any-v0", { url, render: "ansi" }), { name: "TypeError", message: reply });
  // A client knows its address already.
  await assert.rejects(new Client({ url }).make("Any-v0", { url }), /^TypeError: there is no option url; there are/);
});

test("options that are no object are refused", async () => {
  const message = 'make takes options as an object, as { url: … }; got "http://127.0.0.1:9"';
  await assert.rejects(make("Any-v0", url), typeError(message));
  for (const call of [makeVec, attach]) await assert.rejects(call("a", url), /takes options as an object/);
  for (const call of [list, registry]) await assert.rejects(call(url), /takes options as an object/);
  assert.throws(() => new Client(url), /^TypeError: Client takes options as an object/);
  const { signal } = new AbortController();
  await assert.rejects(env.step(0, signal), typeError("step takes an object, as { timeout: 5000 }; got AbortSignal"));
  for (const call of ["render", "describe", "close"]) await assert.rejects(env[call](5000), TypeError);
  await assert.rejects(env.stepMany([0], 5000), TypeError);
  await assert.rejects(env.rollout(2), TypeError);
});

test("an error does not show a token", async () => {
  const refused = await make("Any-v0", "http://:secret@127.0.0.1:9").catch((error) => error);
  assert.match(refused.message, /got "http:\/\/…@127.0.0.1:9"$/);
});
