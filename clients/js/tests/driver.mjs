/**
 * The driver of the JavaScript client: the same command line as those of all clients.
 *
 *     driver.mjs conformance VECTORS_DIR [URL] [--only FILE]
 *     driver.mjs show VECTORS_DIR
 *     driver.mjs agree URL ENV_ID SEED rest|stream ACTIONS_FILE
 *     driver.mjs probe URL rest|stream [TIMEOUT_S]
 *     driver.mjs create URL ENV_ID WAIT_S [TIMEOUT_S]
 *     driver.mjs bench URL rest|stream SECONDS
 *     driver.mjs converse VECTORS_DIR
 *
 * The output of each is described in the README of the vectors.
 */

import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";

import { GymHttpError, decodeBinary, decodeTyped, make } from "../src/index.js";
import { agree } from "./agreeing.mjs";
import { FILES, checksOf } from "./checking.mjs";
import { canConverse, converse } from "./conversations.mjs";
import { kindOf, unhex } from "./models.mjs";

function casesOf(path) {
  return JSON.parse(readFileSync(path, "utf8")).cases;
}

async function conformance(folder, ...args) {
  const at = args.indexOf("--only");
  const only = at < 0 ? [] : args.splice(at, 2).slice(1);
  const [url] = args;
  let [passed, failed] = [0, 0];
  for (const name of only.length ? only : FILES) {
    const path = join(folder, name);
    if (!existsSync(path)) {
      console.error(`there is no ${path}`);
      return 2;
    }
    for (const vector of casesOf(path)) {
      for (const problem of await problemsOf(name, vector, url)) {
        if (problem === null) passed++;
        else failed++;
        if (problem !== null) console.log(`FAIL ${name} ${vector.id}: ${problem}`);
      }
    }
  }
  console.log(`${passed} passed, ${failed} failed`);
  return failed ? 1 : 0;
}

async function problemsOf(name, vector, url) {
  const problems = [];
  try {
    for (const check of checksOf(name, vector, url)) problems.push(await tried(check));
  } catch (error) {
    problems.push(`expected no error, actual ${error}`);
  }
  return problems;
}

async function tried(check) {
  try {
    return await check();
  } catch (error) {
    return `expected no error, actual ${error}`;
  }
}

function show(folder) {
  for (const { id, typed, binary } of casesOf(join(folder, "values.json"))) {
    console.log(`${id}\t${kindOf(binary === null ? decodeTyped(typed) : decodeBinary(unhex(binary)))}`);
  }
}

async function agreeing(url, envId, seed, transport, path) {
  const lines = readFileSync(path, "utf8").split("\n").filter(Boolean);
  const options = { url, stream: transport === "stream" };
  const used = await agree(envId, Number(seed), lines, options, (line) => console.log(line));
  if (used !== transport) console.error(`steps went over ${used}`);
}

function probe(url, transport, limit = "60") {
  const options = { url, stream: transport === "stream", timeout: Number(limit) * 1000 };
  return reply(async () => {
    const env = await make("CartPole-v1", options);
    try {
      await env.reset({ seed: 1 });
      await env.step(0);
      await env.step(0);
    } finally {
      // The earlier failure matters more than that of closing.
      await env.close().catch(() => {});
    }
  });
}

function create(url, envId, wait, limit = "60") {
  const options = { url, waitS: Number(wait), timeout: Number(limit) * 1000 };
  return reply(async () => (await make(envId, options)).close());
}

async function reply(use) {
  try {
    await use();
    console.log("ok");
  } catch (error) {
    if (!(error instanceof GymHttpError)) throw error;
    const { kind, status, code, url: where, message } = error;
    const place = [status, code, where].map((each) => each ?? "-");
    console.log(
      `error kind=${kind} status=${place[0]} code=${place[1]} url=${place[2]} message=${JSON.stringify(message)}`,
    );
  }
}

async function bench(url, transport, seconds) {
  const env = await make("CartPole-v1", { url, stream: transport === "stream" });
  const limit = Number(seconds) * 1000;
  await env.reset({ seed: 1 });
  let [count, paused] = [0, 0];
  const began = performance.now();
  while (performance.now() - began - paused < limit) {
    const { terminated, truncated } = await env.step(count++ % 2);
    if (terminated || truncated) {
      const since = performance.now();
      await env.reset();
      paused += performance.now() - since;
    }
  }
  console.log(((count * 1000) / (performance.now() - began - paused)).toFixed(1));
  await env.close();
}

async function converseAll(folder) {
  for (const vector of casesOf(join(folder, "external.json")).filter(canConverse)) {
    await converse(vector, (line) => console.log(`${vector.id}\t${line}`));
  }
}

const COMMANDS = { conformance, show, agree: agreeing, probe, create, bench, converse: converseAll };

const [command, ...args] = process.argv.slice(2);
if (!Object.hasOwn(COMMANDS, command ?? "")) {
  console.error(`one of ${Object.keys(COMMANDS).join(", ")}`);
  process.exit(2);
}
process.exitCode = (await COMMANDS[command](...args)) ?? 0;
