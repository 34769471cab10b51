"""SuperSuit's wrappers for single agents, around environments of Gymnasium."""

from typing import Any

import gymnasium
import supersuit


def _images(render_mode: str | None = None) -> Any:
    env: Any = gymnasium.make("CarRacing-v3", render_mode=render_mode)
    env = supersuit.color_reduction_v0(env, mode="full")
    env = supersuit.resize_v1(env, x_size=42, y_size=42)
    env = supersuit.frame_skip_v0(env, 2)
    return supersuit.frame_stack_v1(env, 3)


def _vectors(render_mode: str | None = None) -> Any:
    env: Any = gymnasium.make("Pendulum-v1", render_mode=render_mode)
    env = supersuit.clip_actions_v0(env)
    env = supersuit.sticky_actions_v0(env, repeat_action_probability=0.25)
    env = supersuit.delay_observations_v0(env, 2)
    return supersuit.clip_reward_v0(env, -1, 1)


gymnasium.register("made/SuperSuitImages-v0", _images)
gymnasium.register("made/SuperSuitVectors-v0", _vectors)
