"""A damaged database of the relay is one line of the log, and an honest answer."""

import os
import random
from collections.abc import Callable
from pathlib import Path

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


@pytest.mark.parametrize("damage", [header, first_page, middle, cut, empty, remove])
def test_damage_is_reported_until_the_directory_is_restored(
    damage: Callable[[Path], None], launch_server: Callable[..., Server], tmp_path: Path
) -> None:
    flags = ("--relay-dir", str(tmp_path / "relay"))
    first = launch_server(*flags)
    first.wait_listening()
    run = Run.create(Api(first), "pendulum")
    session = run.session()
    for number in range(1, 41):
        body = bytes(600_000 if number == 1 else 8_000)
        done(Api(first).request("POST", run.samples(session, number), data=body))
    assert first.stop() == 0
    path = tmp_path / "relay" / "relay.sqlite3"
    whole = path.read_bytes()
    damage(path)
    left = path.read_bytes() if path.exists() else b""
    second = launch_server(*flags)
    second.wait_listening()
    api = Api(second)
    for _ in range(3):
        for answer in (api.get("/v1/runs/"), api.get(run.path())):
            problem = error(answer, 503, "relay-damaged")
            assert answer.header("Retry-After")
            assert str(path) in problem["detail"]
            assert "restore" in problem["detail"]
    lines = [each for each in second.stderr.splitlines() if "damaged" in each]
    (line,) = lines
    assert "ERROR gym_http_server.relay" in line
    assert str(path) in line
    assert "restore" in line
    assert "Traceback" not in second.stderr
    # All but runs works.
    assert api.get("/healthz").status == api.get("/readyz").status == 200
    instance = api.create()
    instance.reset()
    no_content(instance.close())
    assert second.stop() == 0
    # Nothing of it was removed or made anew. The first page counts openings.
    after = path.read_bytes() if path.exists() else b""
    assert (len(after), after[PAGE:]) == (len(left), left[PAGE:])
    assert len(list((tmp_path / "relay" / "bodies").iterdir())) == 1
    path.write_bytes(whole)
    third = launch_server(*flags)
    third.wait_listening()
    same = Run(Api(third), run.name, run.tokens)
    assert same.stored()["stored"] == 40
