"""The single intersection that comes with SUMO-RL."""

from pathlib import Path
from typing import Any

import gymnasium
import sumo_rl

_FILES = Path(sumo_rl.__file__).parent / "nets" / "single-intersection"


def _make() -> Any:
    return sumo_rl.SumoEnvironment(
        net_file=str(_FILES / "single-intersection.net.xml"),
        route_file=str(_FILES / "single-intersection.rou.xml"),
        single_agent=True,
        num_seconds=500,
        sumo_warnings=False,
    )


gymnasium.register("made/SumoCrossing-v0", _make)
