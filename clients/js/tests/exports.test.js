import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";

import * as client from "gym-http-client";

const read = (path) => readFileSync(new URL(path, import.meta.url), "utf8");
const sorted = (names) => [...names].sort();

test("what is exported is declared, and nothing else is", () => {
  const declared = read("../src/index.d.ts").matchAll(/^export (?:abstract )?(?:class|function) (\w+)/gm);
  const names = new Set(Array.from(declared, ([, name]) => name));
  assert.deepEqual(sorted(names), sorted(Object.keys(client)));
});

test("the file that tsc reads uses every export and every type", () => {
  const types = read("types.ts");
  const imported = Array.from(types.matchAll(/^import (?:type )?\{([^}]*)\}/gm), ([, names]) => names);
  const used = new Set(imported.join(",").split(",").map((name) => name.trim()).filter(Boolean));
  const declared = read("../src/index.d.ts").matchAll(
    /^export (?:abstract )?(?:class|function|interface|type) (\w+)/gm,
  );
  assert.deepEqual(sorted(used), sorted(new Set(Array.from(declared, ([, name]) => name))));
  const body = types.slice(types.lastIndexOf('from "gym-http-client";'));
  for (const name of used) assert.match(body, new RegExp(`\\b${name}\\b`));
});

test("methods that are declared are there", () => {
  for (const [kind, body] of Array.from(
    read("../src/index.d.ts").matchAll(/^export (?:abstract )?class (\w+)[^{]*\{\n([\s\S]*?)^\}/gm),
    ([, name, inner]) => [client[name], inner],
  )) {
    for (const [, method] of body.matchAll(/^  (\w+)(?:<[^>]*>)?\(/gm)) {
      if (method !== "constructor") assert.equal(typeof kind.prototype[method], "function", `${kind.name}.${method}`);
    }
  }
});

test("no file that browsers load names a module of Node's", () => {
  const client = read("../src/stream.js") + read("../src/index.js") + read("../src/requester.js");
  assert.doesNotMatch(client, /from "node:/);
});
