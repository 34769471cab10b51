import assert from "node:assert/strict";
import { test } from "node:test";

import { EpisodePoints } from "../../../gym_http_server/web/dashboard/static/js/episode_points.js";
import { csvOf, tensorBoardCommands } from "../../../gym_http_server/web/dashboard/static/js/exports.js";

const episode = (number, more = {}) => ({ number, return: number, length: 10, seconds: 2, ended_at: 1000 + 5 * number, ...more });

test("episodes count once, and steps and time are added up", () => {
  const points = new EpisodePoints();
  assert.deepEqual(points.add([episode(3), episode(4)]), [
    { episode: 3, step: 10, time: 2, length: 10, total: 3 },
    { episode: 4, step: 20, time: 7, length: 10, total: 4 },
  ]);
  assert.equal(points.next, 5);
  assert.deepEqual(points.add([episode(4), episode(5)]).map(({ step }) => step), [30]);
});

test("a file of CSV has a row for each point", () => {
  const lines = [
    { label: "a, \"b\"\n", points: [{ episode: 0, step: 5, y: 1.5 }] },
    { label: "=HYPERLINK(1)", points: [{ version: 2, y: -3 }] },
  ];
  assert.equal(
    csvOf({ label: "Return", lines }),
    'series,episode,version,step,Return\r\n"a, ""b""\n",0,,5,1.5\r\n"\'=HYPERLINK(1)",,2,,-3\r\n',
  );
  assert.equal(csvOf({ label: "Return", lines: [] }), "series,Return\r\n");
});

test("commands are safe to paste", () => {
  assert.equal(
    tensorBoardCommands("http://h:1", ["3c657dbc"], ["a'; rm -rf ~"]),
    "python -m gym_http_client watch http://h:1 3c657dbc --tensorboard logs\n" +
      "gym-http-server runs http://h:1 'a'\\''; rm -rf ~' export --tensorboard 'logs/a'\\''; rm -rf ~'",
  );
  // Of a link that somebody made: Ctrl+C and Enter would end the quotes in a terminal.
  assert.equal(
    tensorBoardCommands("http://h", ["\x03rm -rf ~\n\x1b[201~"], []),
    "python -m gym_http_client watch http://h '?rm -rf ~??[201~' --tensorboard logs",
  );
  assert.equal(tensorBoardCommands("http://h", [], []), "");
});
