"""A damaged database of the relay is one line of the log, and an honest answer."""

import os
import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.support.api import Api, error, no_content
from tests.support.runs import Run, done
from tests.support.server import Server

pytestmark = pytest.mark.live

PAGE = 4096


def overwrite(path: Path, first: int, size: int) -> None:
    """Write bytes that are not the database's."""
    with path.open("r+b") as file:
        file.seek(first)
        file.write(random.Random(1).randbytes(size))


def header(path: Path) -> None:
    overwrite(path, 0, 100)


def first_page(path: Path) -> None:
    overwrite(path, 100, PAGE - 100)


def middle(path: Path) -> None:
    half = path.stat().st_size // PAGE // 2
    overwrite(path, half * PAGE, 8 * PAGE)


def cut(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 2)


def empty(path: Path) -> None:
    os.truncate(path, 0)


def remove(path: Path) -> None:
    path.unlink()


class Filled(NamedTuple):
    """A relay directory with a run of forty batches."""

    folder: Path
    run: Run


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Filled:
    """A directory that a server has filled, for copies."""
    folder = tmp_path_factory.mktemp("filled") / "relay"
    with Server("--relay-dir", str(folder)) as server:
        run = Run.create(Api(server), "pendulum")
        session = run.session()
        for number in range(1, 41):
            body = bytes(600_000 if number == 1 else 8_000)
            samples = run.samples(session, number)
            done(Api(server).request("POST", samples, data=body))
    return Filled(folder, run)


@pytest.mark.parametrize("damage", [header, first_page, middle, cut, empty, remove])
def test_damage_is_reported_until_the_directory_is_restored(
    damage: Callable[[Path], None],
    filled: Filled,
    launch_server: Callable[..., Server],
    tmp_path: Path,
) -> None:
    folder = shutil.copytree(filled.folder, tmp_path / "relay")
    path = folder / "relay.sqlite3"
    whole = path.read_bytes()
    damage(path)
    left = path.read_bytes() if path.exists() else b""
    server = launch_server("--relay-dir", str(folder))
    server.wait_listening()
    api = Api(server)
    for _ in range(3):
        for answer in (api.get("/v1/runs/"), api.get(filled.run.path())):
            problem = error(answer, 503, "relay-damaged")
            assert answer.header("Retry-After")
            assert str(path) in problem["detail"]
            assert "restore" in problem["detail"]
    lines = [each for each in server.stderr.splitlines() if "damaged" in each]
    (line,) = lines
    assert "ERROR gym_http_server.relay" in line
    assert str(path) in line
    assert "restore" in line
    assert "Traceback" not in server.stderr
    # All but runs works.
    assert api.get("/healthz").status == api.get("/readyz").status == 200
    instance = api.create()
    instance.reset()
    no_content(instance.close())
    assert server.stop() == 0
    # Nothing of it was removed or made anew. The first page counts openings.
    after = path.read_bytes() if path.exists() else b""
    assert (len(after), after[PAGE:]) == (len(left), left[PAGE:])
    assert len(list((folder / "bodies").iterdir())) == 1
    path.write_bytes(whole)
    names = [
        sorted(str(each.relative_to(where)) for each in where.rglob("*"))
        for where in (folder, filled.folder)
    ]
    assert names[0] == names[1]
    if damage is remove:
        # One is enough, since all leave the same files.
        again = launch_server("--relay-dir", str(folder))
        again.wait_listening()
        same = Run(Api(again), filled.run.name, filled.run.tokens)
        assert same.stored()["stored"] == 40
