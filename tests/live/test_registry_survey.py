"""A module that hangs or fails on import fails one survey of the registry."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.support import api as calls
from tests.support.api import Api
from tests.support.server import Server
from tests.support.wait import wait_until

#: Each of these failed the whole list.
ODD_ARGUMENTS = """
import gymnasium

class Raises(list):
    def __len__(self):
        raise RuntimeError

class Meta(type):
    @property
    def __signature__(cls):
        raise NameError

class Odd(gymnasium.Env):
    def __init__(self, half="\\udcff", itself=[], raises=Raises(), size=4): ...

class Hides(gymnasium.Env, metaclass=Meta): ...

itself = Odd.__init__.__defaults__[1]
itself.append(itself)
gymnasium.register("odd/Defaults-v0", Odd)
gymnasium.register("odd/Signature-v0", Hides)
gymnasium.register("odd/Half-v0", "odd_half:Env")
"""
REGISTERS = """
import gymnasium
gymnasium.register("odd/Module-v0", entry_point="odd_entry:Env")
"""
#: A file beside the module selects what the import does.
ODD = """
import pathlib
exec(pathlib.Path(__file__).with_name("deed").read_text())
"""
SLEEPS = """
import subprocess, time
subprocess.Popen(["sleep", "600"])
time.sleep(600)
"""
EXITS = """
import os, time
if os.fork() == 0:
    os.setsid()
    time.sleep(600)
os._exit(3)
"""


@pytest.mark.slow
def test_a_survey_that_hangs_or_dies_is_reported_and_restarted(
    make_server: Callable[..., Server], tmp_path: Path
) -> None:
    (tmp_path / "odd_registering.py").write_text(REGISTERS)
    (tmp_path / "odd_entry.py").write_text(ODD)
    deed = tmp_path / "deed"
    options = ("--import", "odd_registering", "--create-deadline", "5")
    server = make_server(*options, python_path=(tmp_path,))
    api = Api(server)
    for source, how in ((SLEEPS, "took longer than 5 s"), (EXITS, "ended early")):
        deed.write_text(source)
        with ThreadPoolExecutor(3) as pool:
            asking = [pool.submit(api.get, "/v1/registry/") for _ in range(3)]
            # No other request waits for it.
            instance = api.create()
            instance.reset()
            instance.close()
            for answer in asking:
                error = calls.error(answer.result(), 503, "survey-failed")
                assert f"{how} while loading 'odd_entry:Env'" in error["message"]
        wait_until(lambda: not server.services("registry"), 5.0, "its child's end")
        wait_until(lambda: not server.environments(), 5.0, "the host's end")
    deed.write_text("raise ImportError('not here')")
    envs = {each["env_id"]: each for each in calls.ok(api.get("/v1/registry/"))["envs"]}
    assert envs["CartPole-v1"]["available"]
    assert envs["odd/Module-v0"]["reason"] == "ImportError: not here"


def test_arguments_that_cannot_be_described_are_left_out(
    make_server: Callable[..., Server], tmp_path: Path
) -> None:
    (tmp_path / "odd_arguments.py").write_text(ODD_ARGUMENTS)
    (tmp_path / "odd_half.py").write_text("raise ImportError('\\udcff')")
    server = make_server("--import", "odd_arguments", python_path=(tmp_path,))
    found = calls.ok(Api(server).get("/v1/registry/?search=odd/"))["envs"]
    rows = {each["env_id"]: each for each in found}
    arguments = [{"name": "size", "default": 4}]
    assert rows["odd/Defaults-v0"]["arguments"] == arguments
    assert rows["odd/Signature-v0"]["arguments"] == []
    assert rows["odd/Half-v0"]["reason"].startswith("ImportError: ")
