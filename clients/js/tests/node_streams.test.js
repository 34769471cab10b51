import assert from "node:assert/strict";
import { test } from "node:test";

import { checkedUrl } from "../src/node_streams.js";

const PATH = "/v1/envs/00a3c657/";
const urlOf = (first, url) => checkedUrl(url, first, PATH);

test("streams at nodes have TLS if the first address has it", () => {
  assert.equal(urlOf("http://lb", `ws://10.0.0.7:5000${PATH}stream/`), `http://10.0.0.7:5000${PATH}stream`);
  assert.equal(urlOf("http://lb", `ws://[fd00::7]:5000${PATH}stream`), `http://[fd00::7]:5000${PATH}stream`);
  assert.equal(urlOf("http://lb", `wss://node-2${PATH}stream/`), `https://node-2${PATH}stream`);
  assert.equal(urlOf("https://lb", `wss://node-2/gym${PATH}stream/`), `https://node-2/gym${PATH}stream`);
  assert.equal(urlOf("https://lb", `ws://node-2${PATH}stream/`), null);
});

test("malformed URLs of streams at nodes are ignored", () => {
  for (const url of [
    `http://node-2${PATH}stream`,
    `ws://user:secret@node-2${PATH}stream`,
    `ws://node-2/?x=${PATH}stream`,
    `ws://node-2/#${PATH}stream`,
    `ws://node-2:99999${PATH}stream`,
    `ws://node 2${PATH}stream`,
    `ws://node-2\r\nX: y${PATH}stream`,
    `ws://${PATH}stream`,
    "ws://node-2/v1/envs/00a00000/stream/",
    `ws://node-2${PATH}stream/other`,
    "",
    5,
    null,
    undefined,
  ]) {
    assert.equal(urlOf("http://lb", url), null, String(url));
  }
});
