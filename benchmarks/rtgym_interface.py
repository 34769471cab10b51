"""An interface of rtgym that does nothing, and rtgym's own loop over it.

``python -m benchmarks.rtgym_interface ID SECONDS`` prints the processor time of a time
step of rtgym's environment ID at 100 Hz, in microseconds.
"""

from __future__ import annotations

import sys
import time
from typing import Any

import gymnasium
import numpy as np

__all__ = ["HZ", "Nothing"]

HZ = 100
_OBSERVATION = np.zeros(1, np.float32)
_WARM_UP_STEPS = 20


class Nothing:
    """Has the methods of ``RealTimeGymInterface``, and does nothing in them."""

    def get_observation_space(self) -> gymnasium.Space[Any]:
        """Return the space of one number."""
        return gymnasium.spaces.Tuple((gymnasium.spaces.Box(-1.0, 1.0, (1,)),))

    def get_action_space(self) -> gymnasium.Space[Any]:
        """Return the space of one number."""
        return gymnasium.spaces.Box(-1.0, 1.0, (1,))

    def get_default_action(self) -> Any:
        """Return zero."""
        return np.zeros(1, np.float32)

    def reset(self, seed: Any = None, options: Any = None) -> tuple[Any, Any]:
        """Return the observation and no info."""
        return [_OBSERVATION], {}

    def get_obs_rew_terminated_info(self) -> tuple[Any, float, bool, Any]:
        """Return the observation."""
        return [_OBSERVATION], 0.0, False, {}

    def send_control(self, control: Any) -> None:
        """Do nothing."""

    def wait(self) -> None:
        """Do nothing."""


def main() -> None:
    """Step rtgym's environment for some time."""
    env_id, seconds = sys.argv[1], float(sys.argv[2])
    config = {
        "interface": Nothing,
        "time_step_duration": 1 / HZ,
        "start_obs_capture": 1 / HZ,
        "time_step_timeout_factor": 1.0,
        "ep_max_length": np.inf,
        "act_buf_len": 1,
    }
    env = gymnasium.make(f"rtgym:{env_id}", config=config, disable_env_checker=True)
    action = np.zeros(1, np.float32)
    env.reset()
    for _ in range(_WARM_UP_STEPS):
        env.step(action)
    steps = round(seconds * HZ)
    began = time.process_time_ns()
    for _ in range(steps):
        env.step(action)
    print((time.process_time_ns() - began) / 1000 / steps)


if __name__ == "__main__":
    main()
