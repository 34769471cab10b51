import assert from "node:assert/strict";
import { test } from "node:test";

import { familyOf } from "../../../gym_http_server/web/dashboard/static/js/families.js";

test("a family is a text, whatever names a package has", () => {
  assert.equal(familyOf({ env_id: "ALE/Pong-v5" }), "Atari");
  assert.equal(familyOf({ env_id: "CartPole-v1", entry_point: "gymnasium.envs.classic_control.cartpole:CartPoleEnv" }), "Classic control");
  assert.equal(familyOf({ env_id: "constructor/Bridge-v0" }), "constructor");
  assert.equal(familyOf({ env_id: "Bridge-v0", entry_point: "constructor.bridge:Bridge" }), "constructor");
});
