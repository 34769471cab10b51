"""Compares the environments of a package, local beside the shipped command."""

import contextlib
import json
import os
import shutil
import signal
import subprocess
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

from gym_http_server.processes.end_problems import signal_name
from tests.packages.installing import Installed
from tests.packages.playing import WAYS
from tests.packages.table import Case, Package
from tests.support.server import ROOT, Server

_DEADLINE = 900.0
_AGAIN = 4
#: As the server sets it for its hosts: MuJoCo renders without a screen.
_VARIABLES = {"MUJOCO_GL": "egl"}


class _Ended(Exception):
    """A process ended without a result; the message says how."""


@dataclass(frozen=True)
class Outcome:
    """How an environment compares in one of the `WAYS`.

    Attributes:
        way: The way of playing.
        kind: ``same``, ``different``, ``unsettled`` for an environment that differs
            from itself locally, or ``fails``, locally and remotely alike.
        detail: Where and how; "" for the same.
    """

    way: str
    kind: str
    detail: str = ""


class Checker:
    """Plays the cases of a package.

    Args:
        package: The package.
        installed: Its virtual environment.
        folder: Where to keep recordings meanwhile.
    """

    def __init__(self, package: Package, installed: Installed, folder: Path) -> None:
        self._package = package
        self._installed = installed
        self._folder = folder / "recordings"
        (packages,) = installed.python.parents[1].glob("lib/*/site-packages")
        self._variables = {
            name: value.format(packages=packages)
            for name, value in {**_VARIABLES, **package.variables}.items()
        }
        self._environment = {
            **{k: v for k, v in os.environ.items() if not k.startswith("GHS_")},
            **self._variables,
            "PATH": f"{installed.python.parent}{os.pathsep}{os.environ['PATH']}",
            "PYTHONPATH": str(_code_of(folder)),
        }
        self._module = package.module
        if self._module.endswith(".py"):
            self._module = str(Path(__file__).parent / self._module)

    def check(self) -> Iterator[tuple[Case, list[Outcome]]]:
        """Yield each case with the outcome of each way."""
        server = Server(
            *("--import", self._module, "--step-deadline", "10m"),
            *("--create-deadline", "10m", "--host-memory", "6G"),
            program=self._installed.server,
            env={"PATH": self._environment["PATH"], **self._variables},
        )
        with server:
            for case in self._package.cases:
                ways = [way for way in WAYS if way != "rendering" or case.render_mode]
                yield case, [self._outcome(case, way, server.url) for way in ways]
        shutil.rmtree(self._folder, ignore_errors=True)

    def _outcome(self, case: Case, way: str, url: str) -> Outcome:
        shutil.rmtree(self._folder, ignore_errors=True)
        try:
            self._play(case, way, "local")
        except _Ended as ended:
            return Outcome(way, "fails", f"the local process {ended}")
        try:
            result = self._play(case, way, "remote", url)
            if "different" in result:
                settled = self._is_settled(case, way, url)
                kind = "different" if settled else "unsettled"
                return Outcome(way, kind, result["different"])
        except _Ended as ended:
            return Outcome(way, "different", f"the client's process {ended}")
        if "error" in result:
            return Outcome(way, "fails", result["error"])
        return Outcome(way, "same")

    def _is_settled(self, case: Case, way: str, url: str) -> bool:
        """Play again after a difference: is it always the remote one that differs?

        Each process has random seeds and addresses of its own.
        """
        return all(
            "different" not in self._play(case, way, f"local {number}")
            and "different" in self._play(case, way, f"remote {number}", url)
            for number in range(_AGAIN)
        )

    def _play(self, case: Case, way: str, name: str, url: str = "") -> dict[str, str]:
        """Play in a process of its own; return how it compares with ``local``."""
        (self._folder / name).mkdir(parents=True)
        order = {
            "case": asdict(case),
            "way": way,
            "module": self._module,
            "url": url,
            "folder": str(self._folder / name),
            "against": "" if name == "local" else str(self._folder / "local"),
        }
        command = [self._installed.python, "-m", "tests.packages.playing"]
        process = subprocess.Popen(
            [*command, json.dumps(order)],
            cwd=self._folder / name,
            env=self._environment,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        try:
            _, log = process.communicate(timeout=_DEADLINE)
        except subprocess.TimeoutExpired:
            raise _Ended(f"took longer than {_DEADLINE:.0f} s") from None
        finally:
            # What the environment started, too, such as a simulator.
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        if process.returncode < 0:
            raise _Ended(f"died of {signal_name(-process.returncode)}")
        if process.returncode:
            raise _Ended(f"failed: {log.strip().splitlines()[-1]}")
        return dict(json.loads((self._folder / name / "result.json").read_text()))


def _code_of(folder: Path) -> Path:
    """Return a folder from which `tests.packages` is imported.

    Some packages install their own `tests`, before which a package without an
    ``__init__.py``, as ours is, would not be found.
    """
    tests = folder / "code" / "tests"
    tests.mkdir(parents=True, exist_ok=True)
    (tests / "__init__.py").touch()
    for name in ("packages", "support"):
        if not (tests / name).exists():
            (tests / name).symlink_to(ROOT / "tests" / name)
    return tests.parent
