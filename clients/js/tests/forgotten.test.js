/** A game's notifications when the server loses the session while a handler runs. */

import assert from "node:assert/strict";
import { test } from "node:test";

import { INIT, RESET, provide } from "./corridor.mjs";

/** A handler that runs until the test ends it. */
function working(gives) {
  const work = { begun: undefined, end: undefined };
  const began = new Promise((resolve) => (work.begun = resolve));
  work.handler = () => new Promise((resolve) => (work.begun(), (work.end = () => resolve(gives))));
  work.isBegun = began;
  return work;
}

test("the agent goes once, though a step is at work meanwhile", async () => {
  const work = working({ observation: 1, reward: 1 });
  const reply = await provide({ step: work.handler }, async (arrived, server) => {
    await server.welcome();
    await server.sendRequest(INIT);
    await server.sendRequest(RESET);
    server.sendMessage({ type: "step", id: 3, action: 1 });
    await work.isBegun;
    server.lose();
    await server.welcome();
    assert.deepEqual(arrived, ["arrived", "left"]);
    server.sendMessage(INIT);
    work.end();
    // The step's result is not sent: its request was on an earlier connection.
    assert.deepEqual([(await server.received()).id, arrived], [1, ["arrived", "left", "arrived"]]);
  });
  assert.deepEqual(reply, ["arrived", "left", "arrived", "left"]);
});

test("a request of a lost session brings no agent", async () => {
  const work = working(undefined);
  const reply = await provide({ init: work.handler }, async (arrived, server) => {
    await server.welcome();
    server.sendMessage(INIT);
    await work.isBegun;
    // The server has given up the first request, and sends another.
    server.sendMessage({ type: "close", id: 2 });
    server.lose();
    await server.welcome();
    work.end();
    assert.deepEqual(await server.sendRequest({ type: "ping" }), { type: "pong" });
  });
  assert.deepEqual(reply, []);
});

test("what was not begun when the server forgot is not done", async () => {
  const work = working({ observation: 1, reward: 1 });
  let resets = 0;
  const reset = () => ({ observation: resets++ });
  await provide({ step: work.handler, reset }, async (arrived, server) => {
    await server.welcome();
    await server.sendRequest(INIT);
    await server.sendRequest(RESET);
    server.sendMessage({ type: "step", id: 3, action: 1 });
    await work.isBegun;
    server.sendMessage({ ...RESET, id: 4 });
    server.lose();
    await server.welcome();
    work.end();
    await server.sendRequest(INIT);
    assert.equal((await server.sendRequest(RESET)).result.observation, 1);
  });
});

test("a stop during a step notifies the author once", async () => {
  const work = working({ observation: 1, reward: 1 });
  const reply = await provide({ step: work.handler }, async (arrived, server) => {
    await server.welcome();
    await server.sendRequest(INIT);
    await server.sendRequest(RESET);
    server.sendMessage({ type: "step", id: 3, action: 1 });
    await work.isBegun;
  });
  work.end();
  await new Promise((resolve) => setImmediate(resolve));
  assert.deepEqual(reply, ["arrived", "left"]);
});

test("a refusal after a lost connection frees the environment", async () => {
  const arrived = [];
  const refused = provide({ onAgentGone: () => arrived.push("left") }, async (_, server) => {
    await server.welcome();
    await server.sendRequest(INIT);
    server.lose();
    await server.received();
    server.sendMessage({ type: "refused", code: "bad-hello", message: "no" });
  });
  await assert.rejects(refused, { code: "bad-hello" });
  assert.deepEqual(arrived, ["left"]);
});
