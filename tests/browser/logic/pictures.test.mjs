import assert from "node:assert/strict";
import { test } from "node:test";

import { PictureWords } from "../../../gym_http_server/web/dashboard/static/js/picture_words.js";

const LATER = { why: "too-slow", next_picture_s: 0.4 };
const TICKS = { why: "too-slow", next_picture_s: null };

test("a picture is only spoken of when it is older than a second", () => {
  const words = new PictureWords();
  assert.equal(words.text(0), "");
  words.note({ why: null }, true, 1000);
  // Nothing has happened since, so it is the newest state.
  assert.equal(words.text(90_000), "");
  words.note(LATER, false, 90_100);
  assert.equal(words.text(90_100), "Picture of 1 min ago.");
  words.note({ why: null }, true, 91_000);
  words.note(LATER, false, 91_900);
  assert.equal(words.text(91_900), "");
  assert.equal(words.text(95_000), "Picture of 4 s ago.");
  words.note({ why: null }, true, 95_100);
  assert.equal(words.text(95_200), "");
});

test("what spares an agent is no reason, and a clock is only blamed where there is one", () => {
  const words = new PictureWords();
  words.note(LATER, false, 0);
  assert.equal(words.text(9000), "");
  words.note(TICKS, false, 0);
  assert.match(words.text(9000), /^No picture: drawing takes longer than the clock allows\.$/);
  words.note({ why: null }, true, 10_000);
  words.note(TICKS, false, 10_500);
  assert.equal(words.text(13_000), "Picture of 3 s ago.");
});

test("other reasons stand beside the age of the last picture", () => {
  const words = new PictureWords();
  words.note({ why: "no-render-mode" }, false, 0);
  assert.match(words.text(5000), /without a render mode\.$/);
  words.note({ why: null }, true, 6000);
  words.note({ why: "external-away" }, false, 7000);
  assert.equal(words.text(9000), "The external environment has lost its connection. Picture of 3 s ago.");
  words.note({ why: "render-failed", render_error: "broken" }, false, 9000);
  assert.match(words.text(9500), /^Rendering failed: broken\. Picture of 3 s ago\.$/);
});
