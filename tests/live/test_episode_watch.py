"""``python -m gym_http_client watch``: follows episodes, for TensorBoard if wanted."""

import contextlib
import functools
import re
import signal
import struct
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tensorboardX.proto import event_pb2

from tests.live.test_client_commands import environment
from tests.support.api import Api, Instance, ok
from tests.support.faults.disconnecting_proxy import DisconnectingProxy
from tests.support.server import Server
from tests.support.wait import wait_until

pytestmark = pytest.mark.live


@pytest.fixture(scope="module")
def api() -> Iterator[Api]:
    with Server(token="s3cret") as server:
        yield Api(server)


@contextlib.contextmanager
def begin(*args: str, **more: str) -> Iterator["subprocess.Popen[str]"]:
    watch = subprocess.Popen(
        [sys.executable, "-m", "gym_http_client", "watch", *args],
        env=environment(GHS_TOKEN="s3cret", **more),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    with watch:
        try:
            yield watch
        finally:
            watch.kill()


def holds(folder: Path, count: int) -> bool:
    return len(scalars(folder).get("episode/return", ())) >= count


def scalars(folder: Path) -> dict[str, list[tuple[int, float, float]]]:
    """Read the event file: length, checksum, event and checksum of each record."""
    (path,) = folder.iterdir()
    data = path.read_bytes()
    found: dict[str, list[tuple[int, float, float]]] = {}
    while len(data) >= 12:
        (size,) = struct.unpack_from("<Q", data)
        event = event_pb2.Event.FromString(data[12 : 12 + size])
        data = data[12 + size + 4 :]
        for value in event.summary.value:
            point = (event.step, value.simple_value, event.wall_time)
            found.setdefault(value.tag, []).append(point)
    return found


def expected(
    episodes: list[dict[str, Any]], name: str, env: int | None = None
) -> list[tuple[int, Any, Any]]:
    points, steps = [], 0
    for each in episodes:
        steps += each["length"]
        if env is None or each["env"] == env:
            points.append((steps, pytest.approx(each[name], 1e-6), each["ended_at"]))
    return points


def test_event_files_equal_the_episodes(api: Api, tmp_path: Path) -> None:
    single = api.create(label="first try/2")
    vector = api.create(num_envs=3)
    with (
        DisconnectingProxy(api.server.port) as proxy,
        begin(
            *(f"http://127.0.0.1:{proxy.port}", single.id, vector.id),
            *("--tensorboard", str(tmp_path / "logs"), "--every", "0.05"),
        ) as watch,
    ):
        play(single, 2)
        assert watch.stdout is not None
        seen = [watch.stdout.readline() for _ in range(2)]
        proxy.cut_after(1)
        wait_until(lambda: proxy.cuts, message="a cut")
        play(single, 3)
        ok(vector.post("reset/", {"seed": 1}))
        for _ in range(40):
            vector.step([0, 1, 0])
        cases = []
        for each, name in ((single, "first-try-2"), (vector, "CartPole-v1")):
            folder = tmp_path / "logs" / f"{name}-{each.id}"
            truth = ok(each.get("episodes/"))["episodes"]
            cases.append((folder, truth))
            wait_until(
                functools.partial(holds, folder, len(truth)),
                message="the episodes in the event file",
            )
        single.close()
        vector.close()
        output, errors = watch.communicate(timeout=20)
    assert (watch.returncode, errors) == (0, "")
    assert len(cases[0][1]) == 5
    assert {each["env"] for each in cases[1][1]} == {0, 1, 2}
    for folder, truth in cases:
        found = scalars(folder)
        for name in ("return", "length", "seconds"):
            assert found[f"episode/{name}"] == expected(truth, name)
            if truth[0]["env"] is not None:
                for env in range(3):
                    wanted = expected(truth, name, env)
                    assert found[f"env-{env}/{name}"] == wanted
    output = "".join(seen) + output
    assert f"tensorboard --logdir {tmp_path / 'logs'}" in output
    assert "no answer, trying on" in output
    assert f"{single.id}: wrote 5 episodes" in output
    assert re.search(f"{single.id} ended: closed", output)


def test_lines_and_errors(api: Api, tmp_path: Path) -> None:
    instance = api.create()
    play(instance, 1)
    with begin(api.server.url, instance.id) as watch:
        assert watch.stdout is not None
        assert watch.stdout.readline() == f"Watching {instance.id}; Ctrl-C stops.\n"
        (episode,) = ok(instance.get("episodes/"))["episodes"]
        assert watch.stdout.readline() == (
            f"{instance.id}  episode 0  return {episode['return']:g}  length "
            f"{episode['length']}  {episode['seconds']:.3g} s  terminated\n"
        )
        watch.send_signal(signal.SIGINT)
        assert (watch.communicate(timeout=20)[1], watch.returncode) == ("", 130)
    # A package that is not installed.
    (tmp_path / "tensorboardX.py").write_text("raise ModuleNotFoundError\n")
    paths = f"{tmp_path}:{environment()['PYTHONPATH']}"
    for args, words in (
        ((api.server.url, "00c0ffee"), "watch: .*00c0ffee"),
        (
            (api.server.url, instance.id, "--tensorboard", "x"),
            "pip install tensorboardX",
        ),
        ((api.server.url, instance.id, "--every", "nan"), "expected seconds"),
    ):
        with begin(*args, PYTHONPATH=paths) as refused:
            errors = refused.communicate(timeout=20)[1]
        assert refused.returncode in (1, 2)
        assert re.search(words, errors), errors
        assert "Traceback" not in errors
    instance.close()


def test_an_instance_that_has_ended_is_read_to_its_end(api: Api) -> None:
    instance = api.create()
    play(instance, 3)
    instance.close()
    with begin(api.server.url, instance.id) as watch:
        output, errors = watch.communicate(timeout=20)
    assert (watch.returncode, errors) == (0, "")
    lines = output.splitlines()
    assert [line.split()[2] for line in lines[1:4]] == ["0", "1", "2"]
    assert lines[4:] == [f"{instance.id} ended: closed"]


def play(instance: Instance, episodes: int) -> None:
    ok(instance.post("rollout/", {"episodes": episodes, "seed": 5}))
