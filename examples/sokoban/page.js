/**
 * The page: a person plays by keyboard until an agent takes over.
 *
 * In the URL, `?server=` is the server that the game connects to, and `?name=` its name
 * there. The server's token, if it has one, is in `#token=`, which browsers do not send.
 */

import { Environment } from "./environment.js";
import { draw } from "./pictures.js";

const PAUSE = 120;
const KEYS = {
  ArrowUp: 0,
  ArrowDown: 1,
  ArrowLeft: 2,
  ArrowRight: 3,
  w: 0,
  s: 1,
  a: 2,
  d: 3,
};

const find = (id) => document.getElementById(id);
const query = new URLSearchParams(location.search);
const server = query.get("server") ?? "http://127.0.0.1:5000";
const name = query.get("name") ?? "sokoban";
const token = new URLSearchParams(location.hash.slice(1)).get("token") ?? undefined;

const environment = new Environment(show);
let hasAgent = false;

function show(game, fast) {
  if (fast || find("fast").checked) return undefined;
  redraw();
  // A hidden page needs no frames and no pause.
  return document.hidden ? undefined : new Promise((resolve) => setTimeout(resolve, PAUSE));
}

function redraw() {
  const { game, level } = environment;
  draw(game, find("scene"));
  const words = `level ${level}, ${game.steps} steps, ${game.placed} of ${game.crates.size} in place`;
  find("state").textContent = words + (game.solved ? ": solved!" : "");
}

function setAgent(is) {
  hasAgent = is;
  find("player").textContent = is ? "An agent plays." : "You play, until an agent connects.";
  find("two").disabled = is;
  if (!is) begin();
}

function begin(level) {
  environment.next(level, find("two").checked ? 2 : 1);
  redraw();
}

function press(event) {
  if (hasAgent || event.ctrlKey || event.metaKey || event.altKey) return;
  const key = event.key.length === 1 ? event.key.toLowerCase() : event.key;
  if (key === "r") begin(environment.level);
  else if (key === "n") begin();
  else if (Object.hasOwn(KEYS, key) && !environment.game.solved) environment.game.step(KEYS[key]);
  else return;
  event.preventDefault();
  redraw();
}

function log(line) {
  find("log").textContent += `${line}\n`;
  find("log").scrollTop = find("log").scrollHeight;
}

async function provide() {
  try {
    const { serveEnv } = await import(`${server}/v1/external/client/serve.js`);
    await serveEnv({
      ...environment.options(),
      url: server,
      token,
      name,
      log,
      onAgent: () => setAgent(true),
      onAgentGone: () => setAgent(false),
    });
  } catch (error) {
    log(
      `The game cannot connect to ${server}: ${error.message}. ` +
        `Is it started with --allow-origin ${location.origin}?`,
    );
  }
}

addEventListener("keydown", press);
find("two").addEventListener("change", () => begin());
setAgent(false);
void provide();
