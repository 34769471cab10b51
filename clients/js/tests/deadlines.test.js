import assert from "node:assert/strict";
import { test } from "node:test";

import { Deadline, DeadlinePassed } from "../src/deadlines.js";
import { lateError } from "../src/requester.js";
import { Lost, Tries, isRepeated, newName } from "../src/retries.js";

const never = () => new Promise(() => {});

test("a wait ends with its deadline, also after others that ended well", async () => {
  const deadline = new Deadline(30);
  await deadline.race(Promise.resolve(1));
  let abandoned = false;
  await assert.rejects(deadline.race(never(), () => (abandoned = true)), DeadlinePassed);
  assert.ok(abandoned);
  assert.equal(deadline.left(), 0);
  assert.ok(deadline.signal.aborted);
  await assert.rejects(deadline.race(never()), DeadlinePassed);
});

test("a caller's signal ends a wait with its own reason", async () => {
  const controller = new AbortController();
  const deadline = new Deadline(10_000, controller.signal);
  const waited = deadline.race(never());
  controller.abort(new Error("enough"));
  await assert.rejects(waited, /enough/);
  deadline.done();
  assert.throws(() => new Deadline(1, controller.signal), /enough/);
});

test("pauses double, and their lengths are drawn", async (context) => {
  context.mock.method(Math, "random", () => 0.5);
  const deadline = new Deadline(Infinity);
  const pauses = [];
  deadline.sleep = async (pause) => void pauses.push(pause);
  const tries = new Tries(deadline, true);
  for (let i = 0; i < 9; i++) assert.ok(await tries.again({ lost: Lost.CUT }));
  assert.deepEqual(pauses, [25, 50, 100, 200, 400, 800, 1600, 2500, 2500]);
  deadline.done();
});

test("a server's Retry-After is waited for, within the time there is", async () => {
  const deadline = new Deadline(5000);
  const pauses = [];
  deadline.sleep = async (pause) => void pauses.push(pause);
  const busy = (seconds) => ({ status: 503, headers: new Headers({ "Retry-After": seconds }) });
  assert.ok(await new Tries(deadline, true).again(busy("2")));
  assert.ok(pauses[0] >= 2000 && pauses[0] < 2050);
  assert.ok(!(await new Tries(deadline, true).again(busy("10"))));
  assert.ok(await new Tries(deadline, true).again(busy("Fri, 31 Dec 1999 23:59:59 GMT")));
  deadline.done();
});

test("answers are not requested again", async () => {
  const deadline = new Deadline(1000);
  for (const status of [200, 400, 409, 410, 422, 500, 502, 504]) {
    assert.ok(!(await new Tries(deadline, true).again({ status })), status);
  }
  deadline.done();
});

const problem = (status, code) => ({
  status,
  headers: new Headers(),
  body: new TextEncoder().encode(JSON.stringify({ code, message: "not now" })),
});

test("a final answer of a create is retried in other calls", () => {
  assert.ok(!isRepeated(problem(503, "external-away"), true));
  assert.ok(isRepeated(problem(503, "external-away")));
  assert.ok(isRepeated(problem(503, "draining"), true));
  assert.ok(isRepeated({ status: 503, body: new Uint8Array([255]) }, true));
});

test("a timeout contains the last failure", async () => {
  const deadline = new Deadline(Infinity);
  deadline.sleep = async () => {};
  const tries = new Tries(deadline, true);
  const reply = () => lateError(new DeadlinePassed(1000), "http://host/", tries).message;
  assert.equal(reply(), "no answer within the time limit of 1 s");
  assert.ok(await tries.again(problem(429, "too-many-instances")));
  assert.equal(reply(), "no answer within the time limit of 1 s; before that: not now (429)");
  assert.ok(await tries.again({ status: 503, headers: new Headers(), body: new Uint8Array() }));
  assert.match(reply(), /; before that: status 503$/);
  assert.ok(await tries.again({ lost: Lost.CUT, message: "cut off" }));
  assert.match(reply(), /; before that: cut off$/);
  assert.equal(lateError(new Error("another"), "http://host/", tries), undefined);
  deadline.done();
});

test("names are new, and can be part of an address", () => {
  const names = new Set(Array.from({ length: 100 }, newName));
  assert.equal(names.size, 100);
  for (const name of names) assert.match(name, /^[A-Za-z0-9_-]{16}$/);
});
