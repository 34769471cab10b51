/** Plays CartPole at random on the server of the form, and draws each state. */

import { GymHttpError, make } from "gym-http-client";

const FLOOR = 220;
const SCALE = 120;
const POLE = 120;

const find = (id) => document.getElementById(id);
const received = find("output");
const brush = find("scene").getContext("2d");

/** Draw a cart at a place, and its pole at an angle from upright. */
function draw([place, , angle]) {
  const { width, height } = brush.canvas;
  const x = width / 2 + place * SCALE;
  brush.clearRect(0, 0, width, height);
  brush.strokeStyle = "#888";
  brush.lineWidth = 1;
  stroke(0, FLOOR, width, FLOOR);
  brush.fillStyle = "#345";
  brush.fillRect(x - 30, FLOOR - 15, 60, 30);
  brush.strokeStyle = "#c84";
  brush.lineWidth = 8;
  stroke(x, FLOOR - 15, x + POLE * Math.sin(angle), FLOOR - 15 - POLE * Math.cos(angle));
}

function stroke(fromX, fromY, toX, toY) {
  brush.beginPath();
  brush.moveTo(fromX, fromY);
  brush.lineTo(toX, toY);
  brush.stroke();
}

/** Wait until the browser draws next. */
function frame() {
  return new Promise((resolve) => requestAnimationFrame(resolve));
}

async function play(env) {
  let { observation } = await env.reset();
  for (let steps = 0, done = false; !done; ) {
    draw(observation.data);
    await frame();
    const step = await env.step(env.actionSpace.sample());
    [observation, done] = [step.observation, step.terminated || step.truncated];
    received.textContent = `${++steps} steps over ${env.transport}${done ? ", and over" : ""}`;
  }
  draw(observation.data);
}

async function begin() {
  received.textContent = "…";
  find("play").disabled = true;
  let env;
  const leave = () => env?.close({ keepalive: true }).catch(() => {});
  addEventListener("pagehide", leave);
  try {
    env = await make("CartPole-v1", { url: find("url").value, token: find("token").value });
    await play(env);
  } catch (error) {
    if (!(error instanceof GymHttpError)) throw error;
    received.textContent = `It does not work: ${error.message}`;
  } finally {
    removeEventListener("pagehide", leave);
    await env?.close().catch(() => {});
    find("play").disabled = false;
  }
}

find("where").addEventListener("submit", (event) => {
  event.preventDefault();
  void begin();
});
const requested = new URLSearchParams(location.search).get("url");
if (requested) find("url").value = requested;
