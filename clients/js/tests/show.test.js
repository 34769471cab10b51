/** Shown states, over a line that is played by hand. */

import assert from "node:assert/strict";
import { test } from "node:test";

import { Showing } from "../src/show.js";

const JPEG = Uint8Array.of(0xff, 0xd8);

/** A showing, and the line that it reads. */
function shown() {
  const line = { closed: false, close: () => (line.closed = true) };
  const states = new Showing(line, "http://server/stream");
  const say = (state) => line.onmessage(JSON.stringify(state));
  return { line, states, say };
}

test("a picture belongs to the text before it", async () => {
  const { line, states, say } = shown();
  const waiting = [states.next(), states.next()];
  say({ show: 1, picture: null });
  say({ show: 2, picture: { type: "image/jpeg", width: 1, height: 1 } });
  line.onmessage(JPEG);
  const [first, second] = (await Promise.all(waiting)).map(({ value }) => value);
  assert.deepEqual([first.state.show, first.picture], [1, null]);
  assert.deepEqual([second.state.show, second.picture], [2, JPEG]);
});

test("a slow reader gets the newest states, and every episode", async () => {
  const { line, states, say } = shown();
  for (let number = 1; number <= 20; number++) say({ show: number, picture: null, ended: [{ number }] });
  line.onclose(Object.assign(new Error("closed"), { closeCode: 1001 }));
  const got = [];
  for await (const { state } of states) got.push(state);
  assert.deepEqual(got.map(({ show }) => show), [13, 14, 15, 16, 17, 18, 19, 20]);
  const episodes = got.flatMap(({ ended }) => ended.map(({ number }) => number));
  assert.deepEqual(episodes, Array.from({ length: 20 }, (_, index) => index + 1));
});

test("what is out of its place is refused, once", async () => {
  const picture = { type: "image/jpeg", width: 1, height: 1 };
  const wrongs = [
    ({ line }) => line.onmessage(JPEG),
    ({ line }) => line.onmessage("{"),
    ({ say }) => say({ picture: null }),
    ({ say }) => [1, 2].forEach((show) => say({ show, picture })),
  ];
  for (const wrong of wrongs) {
    const all = shown();
    const next = all.states.next();
    wrong(all);
    await assert.rejects(next, { kind: "protocol" });
    assert.equal(all.line.closed, true);
    assert.equal((await all.states.next()).done, true);
  }
  const { line, states } = shown();
  line.onclose(new Error("the connection was lost"));
  await assert.rejects(states.next(), { kind: "transport" });
});
