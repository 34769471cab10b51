"""Makes a virtual environment for each package, with the wheels of this repository."""

import json
import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from tests.packages.table import Package
from tests.support import made_packages
from tests.support.server import ROOT

#: What pip prints of conflicting requirements.
_CONFLICT = re.compile(r"The conflict is caused by:\n((?:    .+\n)+)")
_LIST = """
import importlib.metadata, json
found = importlib.metadata.distributions()
print(json.dumps({each.name.lower(): each.version for each in found}))
"""


class InstallError(Exception):
    """pip refused; the message has its reason."""


@dataclass(frozen=True)
class Installed:
    """A virtual environment with a package and this project.

    Attributes:
        python: Its interpreter.
        versions: The versions of all distributions in it, by their names.
        conflict: Why pip refused the versions of ``requirements.txt``; "" if it
            installed these.
    """

    python: Path
    versions: dict[str, str]
    conflict: str

    @property
    def server(self) -> str:
        """The shipped command."""
        return str(self.python.with_name("gym-http-server"))


def build_wheels(folder: Path) -> list[Path]:
    """Build the wheels of client and server from the working tree, and return them."""
    shutil.rmtree(folder, ignore_errors=True)
    made = made_packages.make(folder, "python")
    return [each for each in made if each.suffix == ".whl"]


def install(package: Package, wheels: list[Path], folder: Path) -> Installed:
    """Install a package beside the wheels, with our pinned versions if they fit.

    What an earlier call has installed is used again, with the new wheels.

    Raises:
        InstallError: The package cannot be installed beside the server.
    """
    pins = re.sub(r"\[.*\]", "", (ROOT / "requirements.txt").read_text())
    order = {"requirements": package.requirements, "pins": pins}
    record = folder / "installed.json"
    done = json.loads(record.read_text()) if record.exists() else {}
    python = folder / "venv" / "bin" / "python"
    if done.get("order") == json.loads(json.dumps(order)):
        flags = ("--no-compile", "--no-deps", "--force-reinstall")
        _pip("install", *flags, *wheels, python=python)
        conflict = done["conflict"]
    else:
        conflict = _install_anew(package, wheels, python, pins)
        record.write_text(json.dumps({"order": order, "conflict": conflict}))
    listed = subprocess.check_output([python, "-c", _LIST], text=True)
    return Installed(python, json.loads(listed), conflict)


def _install_anew(package: Package, wheels: list[Path], python: Path, pins: str) -> str:
    """Make the virtual environment; return why our pins do not fit, or ""."""
    folder = python.parents[2]
    folder.mkdir(parents=True, exist_ok=True)
    pinned = folder / "pinned.txt"
    pinned.write_text(pins)
    wanted = (*wheels, *package.requirements[: 1 if package.loose else None])
    try:
        _install(python, "--constraint", pinned, *wanted)
    except InstallError as error:
        conflict = str(error)
        if not package.loose:
            _install(python, *wanted)
            return conflict
        _install(python, "--constraint", pinned, *wheels, *package.requirements[1:])
        _pip(
            "install",
            "--no-compile",
            "--no-deps",
            package.requirements[0],
            python=python,
        )
        return conflict
    return ""


def _install(python: Path, *words: str | Path) -> None:
    command = [sys.executable, "-m", "venv", "--clear", "--without-pip"]
    subprocess.run([*command, python.parents[1]], check=True)
    _pip("install", "--no-compile", *words, python=python)


def _pip(*words: str | Path, python: Path | None = None) -> str:
    where = ("--python", python) if python else ()
    flags = ("--disable-pip-version-check", "--no-input")
    done = subprocess.run(
        [sys.executable, "-m", "pip", *where, *words[:1], *flags, *words[1:]],
        env={k: v for k, v in os.environ.items() if k != "PYTHONPATH"},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise InstallError(_reason(done.stdout, done.stderr))
    return done.stdout


def _reason(out: str, log: str) -> str:
    """Return why pip refused: the requirements that conflict, or its errors."""
    if conflict := _CONFLICT.search(out + log):
        return "\n".join(line.strip() for line in conflict[1].splitlines())
    lines = [line for line in log.splitlines() if line.startswith("ERROR")]
    return "\n".join(lines) or log
