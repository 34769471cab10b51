import assert from "node:assert/strict";
import { test } from "node:test";

import { number } from "../../../gym_http_server/web/dashboard/static/js/texts.js";

test("a number has as many decimals as people read, and no zero has a sign", () => {
  for (const [value, text] of [
    [1.005, "1"],
    [-1.236, "-1.24"],
    [12.34, "12.3"],
    [-200.4, "-200"],
    [1234567, "1,234,567"],
    [0, "0"],
    [-0, "0"],
    [-0.004, "0"],
    [NaN, "–"],
    [null, "–"],
  ]) {
    assert.equal(number(value), text, String(value));
  }
});
