"""A server with agents at work, as the pictures show it: all are real."""

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from tests.support.api import Api, Instance, no_content, ok
from tests.support.runs import Run
from tests.support.server import ROOT, Server
from tests.support.wait import wait_until

EXAMPLES = ROOT / "examples"
LANDER = EXAMPLES / "lander.py"
#: Environments with a picture each, of random agents.
WALL = (
    "ALE/Breakout-v5",
    "CarRacing-v3",
    "HalfCheetah-v5",
    "BipedalWalker-v3",
    "FrozenLake-v1",
)
#: Steps random agents until it is ended.
RANDOM = """
import sys, time
from gym_http_client import RemoteEnv
options = {"render_mode": "rgb_array", "label": "random agent"}
env = RemoteEnv(sys.argv[1], sys.argv[2], **options)
env.reset(seed=1)
while True:
    _, _, terminated, truncated, _ = env.step(env.action_space.sample())
    if terminated or truncated:
        env.reset()
    time.sleep(0.1)
"""


@dataclass
class Scene:
    """A server, and programs that use it.

    Attributes:
        server: The server.
        folder: Where the programs run.
        names: What stands for braces in the addresses of views.
    """

    server: Server
    folder: Path
    names: dict[str, str] = field(default_factory=dict)
    programs: list[subprocess.Popen[str]] = field(default_factory=list)

    @property
    def api(self) -> Api:
        """A client of the server."""
        return Api(self.server)

    def start(self, *words: str | Path, out: Path | None = None) -> None:
        """Start a Python program beside the server."""
        paths = [str(ROOT), str(ROOT / "clients" / "python")]
        with contextlib.ExitStack() as stack:
            output = stack.enter_context(out.open("w")) if out else subprocess.DEVNULL
            self.programs.append(
                subprocess.Popen(
                    [sys.executable, "-u", *words],
                    cwd=self.folder,
                    env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)}
                    | {"TMPDIR": str(self.folder)},
                    stdout=output,
                    stderr=subprocess.STDOUT if out else None,
                    text=True,
                )
            )

    def run(self, *words: str | Path) -> None:
        """Run a program to its end."""
        self.start(*words)
        # Others run beside it, and may leave it little of the processor.
        assert self.programs[-1].wait(timeout=500) == 0, words
        self.programs.pop()

    def end(self) -> None:
        """End all programs, their environments with them."""
        for each in self.programs:
            each.terminate()
        for each in self.programs:
            each.wait(timeout=20)
        self.programs.clear()


@contextlib.contextmanager
def quiet_scene(folder: Path, *flags: str, token: str | None = None) -> Iterator[Scene]:
    """Start a server that nobody uses."""
    with Server(*flags, token=token) as server:
        scene = Scene(server, folder)
        try:
            yield scene
        finally:
            scene.end()


@contextlib.contextmanager
def busy_scene(folder: Path) -> Iterator[Scene]:
    """Start a server on which much goes on."""
    with quiet_scene(folder) as scene:
        _train_on_the_relay(scene)
        scene.run(EXAMPLES / "vector_training.py", scene.server.url)
        scene.names["trained"] = _last_ended(scene)
        _land_often(scene)
        for env_id in WALL:
            scene.start("-c", RANDOM, scene.server.url, env_id)
        scene.start(LANDER, "--episodes", "1000", scene.server.url)
        scene.api.create("Taxi-v4", render_mode="rgb_array", label="by hand")
        wait_until(
            lambda: len(scene.api.instances()) == len(WALL) + 2, 60.0, "all instances"
        )
        found = scene.api.instances()
        scene.names["lander"] = next(k for k, v in found.items() if "Lander" in v)
        for id_, env_id in found.items():
            if "Lander" in env_id or "Breakout" in env_id:
                name = env_id.split("/")[-1].lower()
                body = {"directory": name, "steps": True, "video": {}}
                no_content(Instance(scene.api, id_).post("monitor/start/", body))
        yield scene


def _train_on_the_relay(scene: Scene) -> None:
    """Train the example's agent, whose run remains."""
    example = EXAMPLES / "relay" / "reinforce.py"
    scene.names["run"] = Run.create(scene.api, "cartpole-reinforce").name
    for name in ("w1", "w2"):
        scene.start(example, "worker", name, scene.server.url)
    scene.run(example, "trainer", scene.server.url)
    scene.end()


def _land_often(scene: Scene) -> None:
    """Play as many episodes by rules as by chance, to compare them."""
    flags = ("--episodes", "40", "--hz", "100000")
    scene.run(LANDER, *flags, scene.server.url)
    scene.names["landed"] = _last_ended(scene)
    random = scene.api.create("LunarLander-v3", label="random agent")
    ok(random.post("rollout/", {"episodes": 40, "seed": 1}))
    random.close()
    scene.names["random"] = random.id


def _last_ended(scene: Scene) -> str:
    """Return the ID of the instance that ended last."""
    ended = ok(scene.api.get("/v1/instances/?state=ended"))["ended"]
    return str(ended[0]["instance_id"])


def crash(scene: Scene) -> None:
    """Let the process of an instance die."""
    crashed = scene.api.create("Acrobot-v1", label="to be killed")
    ok(crashed.post("reset/", {}))
    scene.server.host(crashed.id).send_signal(signal.SIGSEGV)
    wait_until(lambda: crashed.id not in scene.api.instances(), 20.0, "the end")
    scene.names["crashed"] = crashed.id
