/** Against a live server, whose address is in GYM_HTTP_TEST_URL. */

import assert from "node:assert/strict";
import { test } from "node:test";

import {
  ApiError,
  AutoresetMode,
  Box,
  Client,
  Discrete,
  NdArray,
  VectorEnv,
  array,
  attach,
  decodeBinary,
  float,
  instances,
  list,
  make,
  makeVec,
  registry,
  scalar,
} from "../src/index.js";

const url = process.env.GYM_HTTP_TEST_URL;
const skip = url ? false : "no GYM_HTTP_TEST_URL is given";
const transports = [{ stream: false }, { stream: true }];

/** Run with an environment that is closed in the end. */
async function using(made, use) {
  const env = await made;
  try {
    return await use(env);
  } finally {
    await env.close();
  }
}

for (const how of transports) {
  const options = { url, ...how };
  const over = how.stream ? "stream" : "rest";

  test(`an environment is reset and stepped over ${over}`, { skip }, () =>
    using(make("CartPole-v1", options), async (env) => {
      assert.ok(env.actionSpace instanceof Discrete);
      assert.ok(env.observationSpace instanceof Box);
      const { observation, info } = await env.reset({ seed: 42 });
      assert.deepEqual(info, {});
      // Gymnasium's for this seed, as docs/api.md shows it.
      assert.deepEqual(observation.data, Float32Array.of(0.027395604, -0.006112156, 0.035859793, 0.019736802));
      const step = await env.step(1);
      assert.deepEqual(step.observation.data, Float32Array.of(0.027273363, 0.18847767, 0.03625453, -0.26141977));
      assert.deepEqual([step.reward, step.terminated, step.truncated], [1, false, false]);
      assert.equal(env.transport, over);
      assert.equal((await env.describe()).steps, 1);
    }));

  test(`several agents have values by agent over ${over}`, { skip }, () =>
    using(make("pettingzoo/classic.rps_v2", { ...options, kwargs: { max_cycles: 2 } }), async (env) => {
      assert.deepEqual(Object.keys((await env.reset({ seed: 1 })).info), ["player_0", "player_1"]);
      const step = await env.step({ player_0: 0, player_1: 2 });
      assert.deepEqual([step.reward.player_0, step.reward.player_1].map(Number), [1, -1]);
      assert.deepEqual(step.truncated, { player_0: false, player_1: false });
      assert.equal(Number(step.observation.player_1.data[0]), 0);
      const last = await env.step({ player_0: 1, player_1: 1 });
      assert.deepEqual(last.agents, []);
    }));

  test(`warnings of the server are shown over ${over}`, { skip }, async () => {
    const reply = [];
    await using(make("CartPole-v0", { ...options, onWarning: (each) => reply.push(each) }), async (env) => {
      await env.reset({ seed: 42 });
      // Gymnasium's own, of the version and of steps behind the end.
      assert.deepEqual([reply.length, reply[0].category], [1, "DeprecationWarning"]);
      assert.match(reply[0].message, /CartPole-v0 is out of date/);
      for (let step = 0; step < 20; step++) assert.equal((await env.step(1)).warnings, undefined);
    });
    assert.equal(reply.length, 2);
    assert.match(reply[1].message, /already returned terminated = True/);
  });

  test(`several steps and whole episodes come in columns over ${over}`, { skip }, () =>
    using(make("CartPole-v1", options), async (env) => {
      await env.reset({ seed: 42 });
      const { observations, rewards, terminated, steps, stopped } = await env.stepMany([1, 0, 1]);
      assert.deepEqual(observations.shape, [3, 4]);
      assert.deepEqual(rewards.data, Float64Array.of(1, 1, 1));
      assert.deepEqual(terminated.toArray(), [false, false, false]);
      assert.deepEqual([steps, stopped], [3, null]);
      const played = await env.rollout({ actions: [[1, 0]], seed: 42 });
      assert.equal(played.steps, 2);
      assert.equal(played.episodes[0].return, 2);
      assert.deepEqual(played.episodes[0].observations.shape, [3, 4]);
      assert.equal((await env.rollout({ episodes: 2, maxSteps: 3, seed: 1 })).steps, 6);
    }));

  test(`frames are arrays or text over ${over}`, { skip }, async () => {
    await using(make("CartPole-v1", { ...options, renderMode: "rgb_array" }), async (env) => {
      await env.reset({ seed: 1 });
      const frame = await env.render();
      assert.deepEqual([frame.shape, frame.dtype], [[400, 600, 3], "uint8"]);
    });
    await using(make("CartPole-v1", options), async (env) => {
      await env.reset({ seed: 1 });
      assert.equal(await env.render(), null);
    });
    await using(make("FrozenLake-v1", { ...options, renderMode: "ansi" }), async (env) => {
      await env.reset({ seed: 1 });
      assert.match(await env.render(), /FHFH/);
    });
  });

  test(`actions of all kinds arrive over ${over}`, { skip }, () =>
    using(make("Pendulum-v1", options), async (env) => {
      const seen = [];
      const actions = [[0.5], [float(0.5)], array([0.5], { dtype: "float32" }), Float32Array.of(0.5)];
      for (const action of actions) {
        await env.reset({ seed: 3 });
        seen.push((await env.step(action)).observation.data);
      }
      for (const each of seen) assert.deepEqual(each, seen[0]);
      assert.ok(env.actionSpace.contains(env.actionSpace.sample()));
      await env.step(env.actionSpace.sample());
    }));

  test(`what the server refuses is an ApiError over ${over}`, { skip }, () =>
    using(make("CartPole-v1", options), async (env) => {
      await assert.rejects(env.step(0), (error) => {
        assert.ok(error instanceof ApiError);
        assert.deepEqual([error.kind, error.status, error.code], ["api", 409, "reset-needed"]);
        assert.equal(error.url, `${url}/v1/envs/${env.instanceId}/step/`);
        return true;
      });
      await env.reset({ seed: 1 });
      await assert.rejects(env.step("left"), { code: "invalid-action", status: 400 });
      await assert.rejects(env.step(scalar(2, "int64")), ApiError);
      await assert.rejects(env.step(), TypeError);
      for (const action of [NaN, float(NaN), Infinity]) {
        await assert.rejects(env.step(action), { name: "RangeError", message: /^an action of a Discrete is an integer/ });
        await assert.rejects(env.stepMany([0, action]), RangeError);
        await assert.rejects(env.rollout({ actions: [[0, action]] }), RangeError);
      }
      await env.reset({ seed: 1 });
      assert.equal((await env.step(scalar(1, "int64"))).reward, 1);
    }));

  test(`calls that are made at once are done in their order over ${over}`, { skip }, () =>
    using(make("CartPole-v1", options), async (env) => {
      const begun = env.reset({ seed: 42 });
      const steps = [1, 0, 1].map((action) => env.step(action));
      await begun;
      const together = (await Promise.all(steps)).map(({ observation }) => [...observation.data]);
      await env.reset({ seed: 42 });
      assert.deepEqual((await env.stepMany([1, 0, 1])).observations.toArray(), together);
    }));

  test(`a vector steps as one over ${over}`, { skip }, () => {
    const requested = { numEnvs: 3, vectorizationMode: "sync", autoresetMode: AutoresetMode.SAME_STEP };
    return using(makeVec("CartPole-v1", { ...options, ...requested }), async (vector) => {
      assert.equal(vector.numEnvs, 3);
      assert.equal(vector.metadata.autoreset_mode, AutoresetMode.SAME_STEP);
      assert.deepEqual(vector.singleObservationSpace.shape, [4]);
      const { observation } = await vector.reset({ seed: 42 });
      assert.deepEqual(observation.row(0).data, Float32Array.of(0.027395604, -0.006112156, 0.035859793, 0.019736802));
      await vector.reset({ seed: [7, null, 9] });
      const step = await vector.step([1, 0, 1]);
      assert.deepEqual(step.reward.data, Float64Array.of(1, 1, 1));
      assert.deepEqual(step.terminated.toArray(), [false, false, false]);
      assert.equal((await vector.step(vector.actionSpace.sample())).observation.length, 3);
      const refused = { name: "RangeError", message: "an action of a MultiDiscrete is made of integers; got NaN" };
      await assert.rejects(vector.step([0, NaN, 0]), refused);
      await assert.rejects(vector.step(Float32Array.of(0, 0, NaN)), refused);
      assert.equal((await vector.step([0, 1, 0])).observation.length, 3);
      const again = await attach(vector.instanceId, { url });
      assert.ok(again instanceof VectorEnv);
    });
  });

  test(`an aborted call rejects with the signal's reason over ${over}`, { skip }, () =>
    using(make("CartPole-v1", options), async (env) => {
      await env.reset({ seed: 1 });
      await assert.rejects(env.step(1, { signal: AbortSignal.abort(new Error("enough")) }), /enough/);
      const controller = new AbortController();
      const step = env.step(1, { signal: controller.signal });
      controller.abort(new Error("too late"));
      await assert.rejects(step, /too late/);
      // The server may have executed the request; the next call is no copy of it.
      assert.ok((await env.step(1)).observation instanceof NdArray);
    }));
}

for (const how of transports) {
  const options = { url, ...how };
  const over = how.stream ? "stream" : "rest";

  test(`a clock ends time steps over ${over}`, { skip }, () =>
    using(make("Pendulum-v1", { ...options, realtime: { mode: "elastic", hz: 100 } }), async (env) => {
      // Gymnasium's for this seed, and the actions 0 and 1.5.
      const { observation, realtime } = await env.reset({ seed: 42 });
      assert.equal(observation.data[0], Math.fround(-0.149952560));
      assert.equal(realtime.episode, 1);
      // Of the action before, which was the default one.
      let step = await env.step([1.5]);
      assert.equal(step.observation.data[0], Math.fround(-0.180489525));
      assert.equal(step.reward, -2.9644252412400434);
      assert.deepEqual(step.realtime.action.value.data, Float32Array.of(0));
      step = await env.step([0]);
      assert.equal(step.observation.data[0], Math.fround(-0.257643043));
      assert.deepEqual(step.realtime.action.value.data, Float32Array.of(1.5));
      assert.equal((await env.pause()).state, "paused");
      await assert.rejects(env.step([0]), { code: "paused", status: 409 });
      assert.equal((await env.resume()).state, "running");
      assert.equal((await env.setTiming({ hz: 50 })).settings.hz, 50);
      assert.equal((await env.timing()).state, "running");
      assert.equal((await env.trace({ last: 3, format: "json" })).events.length, 3);
      await env.close();
      await assert.rejects(env.act([0]), /was closed/);
    }));

  test(`an agent answers updates over ${over}`, { skip }, () =>
    using(make("Pendulum-v1", { ...options, realtime: { mode: "free_running", hz: 100 } }), async (env) => {
      await env.reset({ seed: 42 });
      const numbers = [1];
      const updates = env.updates();
      for await (const { observation, realtime } of updates) {
        assert.equal(observation.dtype, "float32");
        assert.ok(realtime.update > numbers.at(-1));
        assert.equal((await env.act([0.5])).sequence, numbers.length);
        if (numbers.push(realtime.update) > 10) break;
      }
      assert.equal(updates.lost, 0);
      await env.act(undefined, { actions: [[0.5], [0]], at: numbers.at(-1) + 1000 });
      await env.act();
      const { received, ...others } = (await env.timing()).actions;
      assert.equal(received, 12);
      assert.equal(
        received,
        Object.values(others).reduce((sum, each) => sum + each),
      );
      await assert.rejects(env.act([0], { valid: 1 }), /did you mean validS/);
    }));

  test(`all updates arrive up to the end of the world over ${over}`, { skip }, () => {
    const realtime = { mode: "free_running", hz: 100, episodes: 1 };
    return using(make("Pendulum-v1", { ...options, realtime, maxEpisodeSteps: 20 }), async (env) => {
      await env.reset({ seed: 42 });
      const numbers = [];
      const updates = env.updates({ deliver: "all" });
      for await (const { truncated, realtime, last } of updates) {
        numbers.push(realtime.update);
        assert.equal(last ?? false, truncated);
      }
      // The first is that of the reset.
      assert.deepEqual(numbers, Array.from({ length: 20 }, (_, index) => index + 2));
      assert.equal(updates.lost, 0);
      await assert.rejects(env.act([0.5]), { code: "world-ended" });
    });
  });
}

test("another environment has no clock", { skip }, () =>
  using(make("CartPole-v1", { url }), async (env) => {
    await assert.rejects(env.act(0), { code: "not-real-time" });
    await assert.rejects(env.updates().next(), { code: "not-real-time" });
  }));

test("a server lists instances and environments", { skip }, async () => {
  const client = new Client({ url });
  assert.equal((await client.info()).name, "gym_http_server");
  const [taxi] = await registry({ url, search: "taxi", available: true });
  assert.equal(taxi.env_id, "Taxi-v4");
  await using(client.make("CartPole-v1", { seed: 42, label: "from JavaScript" }), async (env) => {
    assert.equal((await list({ url }))[env.instanceId], "CartPole-v1");
    const [listed] = (await client.instances({ search: env.instanceId, state: "waiting" })).instances;
    assert.equal((await client.instances({ search: env.instanceId, state: "busy" })).instances.length, 0);
    assert.deepEqual([listed.label, listed.state, listed.steps], ["from JavaScript", "waiting", 0]);
    assert.deepEqual((await env.episodes({ last: 1 })).episodes, []);
    assert.equal((await env.keys()).noop, 0);
    await using(client.attach(env.instanceId), async (again) => {
      const { observation } = await again.reset();
      assert.equal(observation.data[0], Math.fround(0.027395604));
    });
    await assert.rejects(env.reset({ seed: 1 }), ApiError);
  });
});

test("what is closed stays closed, and closing twice does nothing", { skip }, async () => {
  const env = await make("CartPole-v1", { url });
  await Promise.all([env.close(), env.close()]);
  await env.close();
  await assert.rejects(env.step(0), /was closed/);
  assert.equal((await list({ url }))[env.instanceId], undefined);
  const ended = (await instances({ url })).ended.find((each) => each.instance_id === env.instanceId);
  assert.equal(ended.reason, "closed");
});

test("an instance is shown until it is closed", { skip }, () =>
  using(make("CartPole-v1", { url, renderMode: "rgb_array" }), async (env) => {
    await env.reset({ seed: 3 });
    const client = new Client({ url });
    const states = await client.show(env.instanceId, { fps: 60, size: 120 });
    const first = (await states.next()).value;
    assert.deepEqual([first.state.show, first.state.op], [1, "reset"]);
    assert.deepEqual(first.state.picture, { type: "image/jpeg", width: 120, height: 80 });
    assert.deepEqual([...first.picture.subarray(0, 2)], [0xff, 0xd8]);
    await env.step(1);
    for await (const { state, picture } of states) {
      if (state.steps === 0) continue;
      assert.equal(state.action, 1);
      if (picture) break;
    }
    assert.equal((await states.next()).done, true);
    const others = await client.show(env.instanceId);
    assert.equal((await others.next()).value.state.steps, 1);
    await env.close();
    for await (const { state } of others) assert.equal(state.steps, 1);
    await assert.rejects(client.show(env.instanceId), /unknown|ended|closed|instance/);
    await assert.rejects(client.show(env.instanceId, { sizes: 1 }), /did you mean size/);
  }));

test("any request can be sent", { skip }, async () => {
  const client = new Client({ url });
  const made = await client.request("POST", "/v1/envs/", { body: { env_id: "CartPole-v1" } });
  assert.equal(made.status, 200);
  const path = `/v1/envs/${made.value.instance_id}/`;
  const reset = await client.request("POST", `${path}reset/`, {
    body: '{"seed": 42}',
    contentType: "application/json",
    headers: { Accept: "application/vnd.gym-http.binary" },
  });
  assert.equal(reset.headers.get("content-type"), "application/vnd.gym-http.binary");
  assert.equal(reset.value, null);
  assert.equal(decodeBinary(reset.body).observation.data[0], Math.fround(0.027395604));
  assert.deepEqual((await client.request("DELETE", path)).status, 204);
  const unknown = client.request("GET", "/v1/envs/ffffffff/", { headers: { Accept: "application/problem+json" } });
  await assert.rejects(unknown, { code: "unknown-instance", status: 404 });
  const bytes = Uint8Array.of(0, 255);
  await assert.rejects(client.request("PUT", "/v1/envs/", { body: bytes }), { code: "method-not-allowed" });
  await assert.rejects(client.request("PATCH", "/v1/envs/"), /a method is GET, POST, PUT or DELETE; got PATCH/);
  await assert.rejects(client.request("GET", "v1"), /a path is as \/v1\/runs\/; got v1/);
  await assert.rejects(client.request("GET", "/v1/", { header: {} }), /did you mean headers/);
});

test("bytes are put, and returned as they were", { skip }, async () => {
  const client = new Client({ url });
  const run = `js-${Date.now()}`;
  await client.request("POST", "/v1/runs/", { body: { run } });
  const path = `/v1/runs/${run}/weights/`;
  const body = Uint8Array.from({ length: 256 }, (_, byte) => byte);
  const headers = { "If-None-Match": "*" };
  assert.equal((await client.request("PUT", path, { body, headers })).status, 201);
  const got = await client.request("GET", path);
  assert.deepEqual(Uint8Array.from(got.body), body);
  const known = { "If-None-Match": got.headers.get("etag") };
  assert.equal((await client.request("GET", path, { headers: known })).status, 304);
  await assert.rejects(client.request("PUT", path, { body: "x", headers }), { code: "version-conflict", status: 412 });
  assert.equal((await client.request("DELETE", `/v1/runs/${run}/`)).status, 204);
});

test("making fails with the server's words, and leaves nothing", { skip }, async () => {
  await assert.rejects(make("CartPole-v7", { url }), { code: "unknown-env", status: 400 });
  await assert.rejects(make("CartPole-v1", { url, kwargs: { nonsense: 1 } }), ApiError);
  await assert.rejects(make("CartPole-v1", { url: "nowhere" }), TypeError);
  await assert.rejects(make("CartPole-v1", { url, token: "two words" }), TypeError);
  await assert.rejects(make("CartPole-v1", { url, timeout: -1 }), RangeError);
});
