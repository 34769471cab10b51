/** `serveEnv` against a live server, whose address is in GYM_HTTP_TEST_URL. */

import assert from "node:assert/strict";
import { test } from "node:test";

import { ApiError, NdArray, make, makeVec } from "../src/index.js";
import { serveEnv } from "../src/serve.js";
import { BinaryDialect, JsonDialect, TypedDialect } from "../src/serving/dialects.js";
import { ProvidedEnv } from "../src/serving/provided_env.js";

const url = process.env.GYM_HTTP_TEST_URL;
const skip = url ? false : "no GYM_HTTP_TEST_URL is given";
let count = 0;

const CORRIDOR = {
  observationSpace: { type: "Discrete", n: 5 },
  actionSpace: { type: "Discrete", n: 2 },
  reset: () => ({ observation: 0 }),
  step: (action) => ({ observation: action, reward: action }),
};

/** Provide environments while `use` runs with the name and the logged lines. */
async function provide(given, use) {
  const name = `provided-${process.pid}-${++count}`;
  const controller = new AbortController();
  const lines = [];
  let [there, missing] = [undefined, given.n ?? 1];
  const isThere = new Promise((resolve) => (there = resolve));
  const log = (line) => {
    lines.push(line.replace(`external/${name}: `, ""));
    if (line.includes("connected") && --missing === 0) there();
  };
  const served = serveEnv({ ...CORRIDOR, url, name, log, signal: controller.signal, ...given });
  try {
    await Promise.race([isThere, served]);
    return await use(`external/${name}`, lines);
  } finally {
    controller.abort();
    await served;
  }
}

async function playing(envId, options, use) {
  const env = await make(envId, { url, ...options });
  try {
    return await use(env);
  } finally {
    await env.close();
  }
}

for (const dialect of ["json", "typed", "binary"]) {
  test(`agents get what handlers give, in ${dialect}`, { skip }, () => {
    const arrived = [];
    const given = {
      dialect,
      observationSpace: { type: "Box", low: 0, high: 9, shape: [2, 2], dtype: "uint8" },
      actionSpace: { type: "Box", low: -1, high: 1, shape: [2], dtype: "float32" },
      capabilities: ["seed", "options"],
      renderModes: ["rgb_array"],
      onAgent: () => arrived.push("arrived"),
      onAgentGone: () => arrived.push("left"),
      reset: async ({ seed, options }) => {
        arrived.push([seed, options]);
        return { observation: Uint8Array.of(1, 2, 3, 4), info: { level: 7 } };
      },
      step: async (action) => {
        assert.ok(action instanceof NdArray);
        arrived.push(action.toArray());
        return { observation: [[5, 6], [7, 8]], reward: 1, terminated: true, info: { a: [1, null] } };
      },
      render: () => ({ width: 1, height: 2, data: Uint8ClampedArray.of(1, 2, 3, 255, 4, 5, 6, 255) }),
    };
    return provide(given, async (envId, lines) => {
      await playing(envId, { renderMode: "rgb_array" }, async (env) => {
        const begun = await env.reset({ seed: 2n ** 60n + 1n, options: { level: 7 } });
        assert.deepEqual([begun.observation.toArray(), begun.info], [[[1, 2], [3, 4]], { level: 7 }]);
        const step = await env.step([0.5, -1]);
        assert.deepEqual([step.observation.toArray(), step.observation.dtype], [[[5, 6], [7, 8]], "uint8"]);
        assert.deepEqual([step.reward, step.terminated, step.truncated], [1, true, false]);
        assert.deepEqual(step.info, { a: [1, null] });
        const frame = await env.render();
        assert.deepEqual(frame.toArray(), [[[1, 2, 3]], [[4, 5, 6]]]);
      });
      assert.deepEqual(arrived, ["arrived", [2n ** 60n + 1n, { level: 7 }], [0.5, -1], "left"]);
      assert.match(lines[0], /^connected, connection \w+$/);
      assert.deepEqual(lines.slice(1), ["an agent arrived", "the agent left"]);
    });
  });

  test(`what handlers throw is reply to agents, in ${dialect}`, { skip }, () => {
    const refuse = () => {
      throw Object.assign(new Error("that way is closed"), { code: "invalid-action" });
    };
    const step = (action) => (action ? refuse() : { observation: 1, reward: NaN });
    return provide({ dialect, step }, async (envId, lines) =>
      playing(envId, {}, async (env) => {
        await env.reset();
        await assert.rejects(env.step(1), { code: "invalid-action", message: /that way is closed/ });
        await assert.rejects(env.step(0), ApiError);
        await assert.rejects(env.step(0), { code: "reset-needed" });
        await env.reset();
        assert.ok(lines.includes("that way is closed"), lines);
      }),
    );
  });
}

for (const transport of ["websocket", "http"]) {
  test(`several environments of one name, by ${transport}`, { skip }, () => {
    const arrived = [];
    const factory = async (index) => {
      let steps = 0;
      return {
        onAgent: () => arrived.push(index),
        reset: () => ({ observation: index, info: { steps } }),
        step: async () => ({ observation: index, reward: ++steps }),
      };
    };
    return provide({ n: 3, factory, transport }, async (envId, lines) => {
      const vector = await makeVec(envId, { url, numEnvs: 3 });
      try {
        const indices = (await vector.reset()).observation.toArray();
        assert.deepEqual([...indices].sort(), [0n, 1n, 2n]);
        await vector.step([0, 0, 0]);
        const { observation, reward } = await vector.step([0, 0, 0]);
        assert.deepEqual([observation.toArray(), reward.toArray()], [indices, [2, 2, 2]]);
      } finally {
        await vector.close();
      }
      assert.deepEqual(arrived.sort(), [0, 1, 2]);
      assert.equal(lines.filter((line) => line === "an agent arrived").length, 3);
    });
  });
}

test("when one of several is refused, all end", { skip }, async () => {
  const [name, lines] = [`provided-${process.pid}-${++count}`, []];
  const factory = (index) => (index === 2 ? { name: "two words" } : {});
  const log = (line) => lines.push(line);
  await assert.rejects(serveEnv({ ...CORRIDOR, url, name, n: 3, factory, log }), { code: "bad-hello" });
  assert.equal(lines.filter((line) => line === `external/${name}: stopped`).length, 2);
});

test("init may have other spaces, for its instance only", { skip }, () => {
  const init = ({ kwargs }) => {
    if (!kwargs.wide) throw Object.assign(new Error("not so narrow"), { code: "bad-parameter" });
    return { observationSpace: { type: "Discrete", n: 50 } };
  };
  return provide({ init, reset: () => ({ observation: 40 }) }, async (envId) => {
    await assert.rejects(make(envId, { url }), { status: 400, message: /not so narrow/ });
    await playing(envId, { kwargs: { wide: true } }, async (env) => {
      assert.equal(env.observationSpace.n, 50);
      assert.equal((await env.reset()).observation, 40);
    });
  });
});

test("without reset, the present observation is observed", { skip }, () =>
  provide({ reset: undefined, observe: async () => 3 }, (envId) =>
    playing(envId, {}, async (env) => {
      assert.deepEqual(await env.reset(), { observation: 3, info: { continued: true } });
    }),
  ));

test("wrong options are refused", { skip }, async () => {
  await assert.rejects(serveEnv({ ...CORRIDOR, url, name: "two words" }), { code: "bad-hello" });
  await assert.rejects(serveEnv({ ...CORRIDOR, url, name: "a", step: undefined }), TypeError);
  await assert.rejects(serveEnv({ ...CORRIDOR, url, name: "a", actionSpace: undefined }), TypeError);
  await assert.rejects(serveEnv({ ...CORRIDOR, url, name: "a", dialect: "morse" }), RangeError);
  await assert.rejects(serveEnv({ ...CORRIDOR, url, name: "a", transport: "pigeons" }), RangeError);
  for (const n of [0, 1.5, 2, "2"]) {
    await assert.rejects(serveEnv({ ...CORRIDOR, url, name: "a", n }), /expected 1, or more with a factory/);
  }
  await assert.rejects(serveEnv({ ...CORRIDOR, url, name: "two words", transport: "http" }), /a letter or digit/);
  await assert.rejects(serveEnv({ ...CORRIDOR, url, name: "a", attributes: 1 }), TypeError);
});

test("a stop before the start does nothing", async () => {
  await serveEnv({ ...CORRIDOR, url: "http://127.0.0.1:1", name: "a", signal: AbortSignal.abort() });
});

test("large arrays and frames are binary by default", () => {
  const pixels = { type: "Box", low: 0, high: 255, shape: [84, 84], dtype: "uint8" };
  assert.equal(new ProvidedEnv(CORRIDOR).dialect, "json");
  assert.equal(new ProvidedEnv({ ...CORRIDOR, observationSpace: pixels }).dialect, "binary");
  assert.equal(new ProvidedEnv({ ...CORRIDOR, renderModes: ["ansi", "rgb_array"] }).dialect, "binary");
  assert.equal(new ProvidedEnv({ ...CORRIDOR, observationSpace: pixels, dialect: "json" }).dialect, "json");
});

test("a dialect refuses what is of the other", () => {
  assert.throws(() => new JsonDialect().read(new Uint8Array(16)), /is no text/);
  assert.throws(() => new TypedDialect().read(new Uint8Array(16)), /is no text/);
  assert.throws(() => new BinaryDialect().read("{}"), /is text/);
});
