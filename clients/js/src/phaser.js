/** `serveScene`: a scene of a Phaser game as an environment; an agent's steps advance its time. */

import { serveEnv } from "./serve.js";

export { NdArray, array } from "./arrays.js";

const FPS = 60;

/**
 * Provide a scene of Phaser 3 to a server, until `signal` ends it.
 *
 * @param {object} given See the declarations, `phaser.d.ts`.
 * @returns {Promise<void>}
 */
export async function serveScene(given) {
  const { scene, updates = 1, fps = FPS, drawn = () => true, begin, act, outcome, ...rest } = given;
  for (const [name, handler] of Object.entries({ begin, act, outcome })) {
    if (typeof handler !== "function") throw new TypeError(`${name} is not a function`);
  }
  if (!Number.isInteger(updates) || updates < 1) {
    throw new RangeError(`updates is ${updates}: expected how many updates a step has, 1 or more`);
  }
  const clock = new GameClock(scene.game, fps, drawn);
  await serveEnv({
    ...rest,
    render: rest.render ?? (rest.renderModes?.includes("rgb_array") ? () => clock.frame() : undefined),
    onAgent() {
      clock.take();
      rest.onAgent?.();
    },
    onAgentGone() {
      clock.give();
      rest.onAgentGone?.();
    },
    async reset(how) {
      await begin(how);
      // A restarted scene exists only after an update.
      await clock.advance(1);
      return outcome();
    },
    async step(action) {
      await act(action);
      await clock.advance(updates);
      return outcome();
    },
  });
}

/** The time of a game while an agent uses it: it advances by updates of one length. */
class GameClock {
  #game;
  #delta;
  #drawn;
  #taken = false;
  #time = 0;

  constructor(game, fps, drawn) {
    [this.#game, this.#delta, this.#drawn] = [game, 1000 / fps, drawn];
  }

  /** Stop the game's own loop. */
  take() {
    if (this.#taken) return;
    this.#taken = true;
    this.#time = this.#game.loop.time;
    this.#game.loop.sleep();
  }

  /** Resume the game's own loop. */
  give() {
    if (!this.#taken) return;
    this.#taken = false;
    for (const tweens of this.#tweens()) delete tweens.getDelta;
    this.#game.loop.wake(true);
  }

  /** Make updates; if people see them, one for each frame of the screen. */
  async advance(count) {
    for (let i = 0; i < count; i++) {
      // A page that is hidden gets no frames.
      const seen = !globalThis.document?.hidden && this.#drawn();
      this.#time += this.#delta;
      this.#slowTweens();
      if (seen) {
        this.#game.step(this.#time, this.#delta);
        await new Promise((resolve) => requestAnimationFrame(resolve));
      } else {
        this.#game.headlessStep(this.#time, this.#delta);
      }
    }
  }

  /** Have tweens go by this clock, and not by the one on the wall. */
  #slowTweens() {
    const delta = this.#delta;
    for (const tweens of this.#tweens()) {
      tweens.getDelta = () => {
        tweens.time += delta / 1000;
        return delta;
      };
    }
  }

  #tweens() {
    return this.#game.scene.getScenes(false).flatMap(({ tweens }) => tweens ?? []);
  }

  /** Draw the game, and return the frame. */
  frame() {
    const { renderer, scene, canvas } = this.#game;
    renderer.preRender();
    scene.render(renderer);
    renderer.postRender();
    const { width, height } = canvas;
    const copy = Object.assign(document.createElement("canvas"), { width, height });
    const picture = copy.getContext("2d", { willReadFrequently: true });
    picture.drawImage(canvas, 0, 0);
    return picture.getImageData(0, 0, width, height);
  }
}
