"""The IDs, as EnvPool keeps them."""

import importlib
from types import SimpleNamespace
from typing import Any

registry = SimpleNamespace(
    specs={
        "Walk-v1": ("envpool.walks", "WalkEnvSpec", {"max_episode_steps": 7}),
        "area/Walk-v1": ("envpool.walks", "WalkEnvSpec", {}),
        "Reach-v1": ("envpool.walks", "ReachEnvSpec", {"reward_threshold": 3.5}),
        "Duel-v1": ("envpool.walks", "WalkEnvSpec", {"max_num_players": 2}),
        "Away-v0": ("envpool.away", "AwayEnvSpec", {}),
    }
)


def list_all_envs() -> list[str]:
    return list(registry.specs)


def make_gymnasium(task_id: str, **given: Any) -> Any:
    module, name, defaults = registry.specs[task_id]
    kind = getattr(importlib.import_module(module), name)
    config = kind.gen_config(**{**defaults, **given})
    return kind.pool(config)
