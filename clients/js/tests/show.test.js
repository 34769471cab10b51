/** Shown states, over a connection that is played by hand. */

import assert from "node:assert/strict";
import { test } from "node:test";

import { Showing } from "../src/show.js";

const JPEG = Uint8Array.of(0xff, 0xd8);

/** A showing, and the connection that it reads. */
function shown() {
  const connection = { closed: false, close: () => (connection.closed = true) };
  const states = new Showing(connection, "http://server/stream");
  const say = (state) => connection.onmessage(JSON.stringify(state));
  return { connection, states, say };
}

test("a picture belongs to the text before it", async () => {
  const { connection, states, say } = shown();
  const waiting = [states.next(), states.next()];
  say({ show: 1, picture: null });
  say({ show: 2, picture: { type: "image/jpeg", width: 1, height: 1 } });
  connection.onmessage(JPEG);
  const [first, second] = (await Promise.all(waiting)).map(({ value }) => value);
  assert.deepEqual([first.state.show, first.picture], [1, null]);
  assert.deepEqual([second.state.show, second.picture], [2, JPEG]);
});

test("a slow reader gets the newest states, and every episode", async () => {
  const { connection, states, say } = shown();
  for (let number = 1; number <= 20; number++) say({ show: number, picture: null, ended: [{ number }] });
  connection.onclose(Object.assign(new Error("closed"), { closeCode: 1001 }));
  const got = [];
  for await (const { state } of states) got.push(state);
  assert.deepEqual(got.map(({ show }) => show), [13, 14, 15, 16, 17, 18, 19, 20]);
  const episodes = got.flatMap(({ ended }) => ended.map(({ number }) => number));
  assert.deepEqual(episodes, Array.from({ length: 20 }, (_, index) => index + 1));
});

test("what is out of its place is refused, once", async () => {
  const picture = { type: "image/jpeg", width: 1, height: 1 };
  const wrongs = [
    ({ connection }) => connection.onmessage(JPEG),
    ({ connection }) => connection.onmessage("{"),
    ({ say }) => say({ picture: null }),
    ({ say }) => [1, 2].forEach((show) => say({ show, picture })),
  ];
  for (const wrong of wrongs) {
    const all = shown();
    const next = all.states.next();
    wrong(all);
    await assert.rejects(next, { kind: "protocol" });
    assert.equal(all.connection.closed, true);
    assert.equal((await all.states.next()).done, true);
  }
  const { connection, states } = shown();
  connection.onclose(new Error("the connection was lost"));
  await assert.rejects(states.next(), { kind: "transport" });
});
