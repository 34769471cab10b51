/**
 * The page: a person plays by keyboard until an agent takes over.
 *
 * In the URL, `?server=` is the server that the game connects to, `?name=` its name
 * there, and with `?fast` agents play without drawing. The server's token, if it has one,
 * is in `#token=`.
 */

import { FRUITS, SIZE, sceneOf } from "./scene.js";

const find = (id) => document.getElementById(id);
const query = new URLSearchParams(location.search);
const url = query.get("server") ?? "http://127.0.0.1:5000";
const name = query.get("name") ?? "catch";
const token = new URLSearchParams(location.hash.slice(1)).get("token") ?? undefined;

const Catch = sceneOf(Phaser);
const game = new Phaser.Game({
  ...SIZE,
  type: Phaser.CANVAS,
  parent: "game",
  audio: { noAudio: true },
  physics: { default: "arcade" },
  zoom: 3,
  scene: Catch,
});
find("fast").checked = query.has("fast");
// For use in the console.
globalThis.game = game;

function scene() {
  return game.scene.getScene("catch");
}

function setAgent(is) {
  scene().isDriven = is;
  find("player").textContent = is ? "An agent plays." : "You play, with the arrows, until an agent connects.";
}

function log(line) {
  find("log").textContent += `${line}\n`;
}

async function provide() {
  try {
    const { serveScene } = await import(`${url}/v1/external/client/phaser.js`);
    await serveScene({
      ...{ url, token, name, log },
      scene: scene(),
      observationSpace: { type: "Box", low: 0, high: 1, shape: [4], dtype: "float32" },
      actionSpace: { type: "Discrete", n: 3 },
      capabilities: ["seed"],
      renderModes: ["rgb_array"],
      updates: 4,
      drawn: () => !find("fast").checked,
      begin: ({ seed }) => scene().scene.restart({ seed }),
      act: (action) => scene().go(action - 1),
      outcome: () => ({
        observation: scene().observe(),
        reward: scene().take(),
        terminated: scene().over,
        info: { caught: scene().caught, left: FRUITS - scene().caught - scene().missed },
      }),
      onAgent: () => setAgent(true),
      onAgentGone: () => setAgent(false),
    });
  } catch (error) {
    log(`The game cannot connect to ${url}: ${error.message}. Does it allow ${location.origin}?`);
  }
}

game.events.once("ready", () => {
  setAgent(false);
  void provide();
});
