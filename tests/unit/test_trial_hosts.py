"""The trials that a process serves before it has an instance."""

import subprocess
import sys

PROGRAM = """
import gc, os
import gymnasium
from gymnasium.envs.classic_control.cartpole import CartPoleEnv
from gym_http_server.host import process

threads = os.listdir("/proc/self/task")
calls = []
for name in ("reset", "step", "close"):
    def note(self, *args, name=name, method=getattr(CartPoleEnv, name), **kwargs):
        calls.append(name)
        return method(self, *args, **kwargs)
    setattr(CartPoleEnv, name, note)
process.warm_up()
held = os.listdir("/proc/self/fd")
process.warm_up()
gc.collect()
print(calls == 2 * ["reset", *6 * ["step"], "close"])
print(os.listdir("/proc/self/fd") == held)
print(os.listdir("/proc/self/task") == threads)
"""


def test_a_trial_serves_an_environment_and_leaves_nothing_behind() -> None:
    done = subprocess.run(
        [sys.executable, "-X", "dev", "-W", "error", "-c", PROGRAM],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.split() == ["True"] * 3
    assert done.stderr == ""


def test_an_environment_of_a_module_is_not_tried() -> None:
    program = (
        "import gymnasium\n"
        "from gym_http_server.host import process\n"
        "gymnasium.envs.registration.registry['CartPole-v1'].entry_point = print\n"
        "process.warm_up()"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout == ""
