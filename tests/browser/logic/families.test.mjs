import assert from "node:assert/strict";
import { test } from "node:test";

import { faceOf, familyOf } from "../../../gym_http_server/web/dashboard/static/js/families.js";

test("a family is a text, whatever names a package has", () => {
  assert.equal(familyOf({ env_id: "ALE/Pong-v5" }), "Atari");
  assert.equal(familyOf({ env_id: "CartPole-v1", entry_point: "gymnasium.envs.classic_control.cartpole:CartPoleEnv" }), "Classic control");
  assert.equal(familyOf({ env_id: "constructor/Bridge-v0" }), "constructor");
  assert.equal(familyOf({ env_id: "Bridge-v0", entry_point: "constructor.bridge:Bridge" }), "constructor");
});

test("the picture of a family is of what people know and the server can make", () => {
  const env = (env_id, more = {}) => ({ env_id, available: true, ...more });
  const bipeds = [env("BipedalWalker-v3"), env("BipedalWalker-v4"), env("CarRacing-v3")];
  assert.equal(faceOf([env("Acrobot-v1"), ...bipeds]).env_id, "BipedalWalker-v4");
  assert.equal(faceOf([env("Ant-v5", { available: false }), env("Hopper-v5")]).env_id, "Hopper-v5");
  assert.equal(faceOf([env("external/cart", { external: {} }), env("Ant-v4", { available: false })]), undefined);
});
