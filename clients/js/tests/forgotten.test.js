/** A game's notifications when the server loses the session while a handler runs. */

import assert from "node:assert/strict";
import { test } from "node:test";

import { INIT, RESET, lending } from "./corridor.mjs";

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
  const reply = await lending({ step: work.handler }, async (arrived, server) => {
    await server.welcome();
    await server.sendRequest(INIT);
    await server.sendRequest(RESET);
    server.sendMessage({ type: "step", id: 3, action: 1 });
    await work.isBegun;
    server.lose();
    await server.welcome();
    assert.deepEqual(arrived, ["came", "went"]);
    server.sendMessage(INIT);
    work.end();
    // The step's result is not sent: its request was on an earlier connection.
    assert.deepEqual([(await server.received()).id, arrived], [1, ["came", "went", "came"]]);
  });
  assert.deepEqual(reply, ["came", "went", "came", "went"]);
});

test("no agent comes by what was asked before the server forgot", async () => {
  const work = working(undefined);
  const reply = await lending({ init: work.handler }, async (arrived, server) => {
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
  await lending({ step: work.handler, reset }, async (arrived, server) => {
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

test("who ends it while a step is at work is told once that the agent went", async () => {
  const work = working({ observation: 1, reward: 1 });
  const reply = await lending({ step: work.handler }, async (arrived, server) => {
    await server.welcome();
    await server.sendRequest(INIT);
    await server.sendRequest(RESET);
    server.sendMessage({ type: "step", id: 3, action: 1 });
    await work.isBegun;
  });
  work.end();
  await new Promise((resolve) => setImmediate(resolve));
  assert.deepEqual(reply, ["came", "went"]);
});

test("who is refused when it comes back has no agent any more", async () => {
  const arrived = [];
  const refused = lending({ onAgentGone: () => arrived.push("went") }, async (_, server) => {
    await server.welcome();
    await server.sendRequest(INIT);
    server.lose();
    await server.received();
    server.sendMessage({ type: "refused", code: "bad-hello", message: "no" });
  });
  await assert.rejects(refused, { code: "bad-hello" });
  assert.deepEqual(arrived, ["went"]);
});
