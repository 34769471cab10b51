/** Which refusals a provider survives, and which end it. */

import assert from "node:assert/strict";
import { once } from "node:events";
import { createServer } from "node:http";
import { test } from "node:test";

import { serveEnv } from "../src/serve.js";
import { CORRIDOR, INIT, RESET, provide } from "./corridor.mjs";

const fail = () => {
  throw new Error("no room");
};
const reject = async () => fail();

test("a stop before the connection is open sends nothing and ends at once", { timeout: 5000 }, async (context) => {
  let calls = 0;
  const server = createServer(() => calls++).listen(0, "127.0.0.1");
  await once(server, "listening");
  context.after(() => (server.close(), server.closeAllConnections()));
  const timers = context.mock.method(globalThis, "setTimeout");
  const ended = new AbortController();
  const url = `http://127.0.0.1:${server.address().port}`;
  const serving = serveEnv({ ...CORRIDOR, url, transport: "http", signal: ended.signal });
  ended.abort();
  await serving;
  assert.deepEqual([calls, timers.mock.calls.length], [0, 0]);
});

for (const [missing, words] of Object.entries({
  name: "name is missing: expected NAME for agents of external/NAME",
  reset: "reset is missing: expected a function, or observe",
  step: "step is undefined: expected a function",
})) {
  test(`without ${missing}, nothing is provided`, { timeout: 5000 }, async () => {
    const given = { ...CORRIDOR, url: "http://127.0.0.1:9", [missing]: undefined };
    await assert.rejects(serveEnv(given), { name: "TypeError", message: words });
  });
}

test("an address is no environment to provide", async () => {
  const words = /^serveEnv takes an object, as .*; got a string$/;
  await assert.rejects(serveEnv("http://:secret@127.0.0.1:9", CORRIDOR), { name: "TypeError", message: words });
});

for (const [how, handler] of Object.entries({ throws: fail, rejects: reject })) {
  test(`a handler that ${how} is reply of, and requests are answered`, async () => {
    const lines = [];
    const given = { onAgent: handler, onAgentGone: handler, log: (line) => lines.push(line) };
    await provide(given, async (_, server) => {
      await server.welcome();
      await server.sendRequest(INIT);
      assert.equal((await server.sendRequest(RESET)).result.observation, 0);
    });
    await new Promise((resolve) => setImmediate(resolve));
    assert.equal(lines.filter((line) => line === "external/corridor: a handler failed: no room").length, 2);
  });

  test(`a log that ${how} keeps nothing from being answered`, async () => {
    const reply = await provide({ log: handler }, async (_, server) => {
      await server.welcome();
      await server.sendRequest(INIT);
      server.lose();
      await server.welcome();
      assert.equal((await server.sendRequest(INIT)).id, 1);
      assert.equal((await server.sendRequest(RESET)).result.observation, 0);
    });
    assert.deepEqual(reply, ["arrived", "left", "arrived", "left"]);
  });
}

test("where an answer cannot be sent, another connection is opened", async () => {
  const lines = [];
  await provide({ log: (line) => lines.push(line) }, async (_, server) => {
    await server.welcome();
    server.breakLine();
    server.sendMessage(INIT);
    await server.welcome();
    assert.equal((await server.sendRequest(INIT)).id, 1);
  });
  const words = "init cannot be answered: the connection is broken; connecting again";
  assert.ok(lines.includes(`external/corridor: ${words}`), lines);
});
