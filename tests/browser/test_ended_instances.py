"""Curves stay: pages of ended instances, comparisons and exports, in Chromium."""

import json
import shlex
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.live.test_client_commands import environment
from tests.support import npm
from tests.support.api import Api, Instance, no_content, ok
from tests.support.peers.checked_page import CheckedPage
from tests.support.runs import Run, done
from tests.support.server import Server
from tests.support.wait import wait_until

pytestmark = [pytest.mark.live, pytest.mark.toolchain, pytest.mark.timeout(180)]

SECONDS = 20.0
POINTS = "Number(document.querySelector('.curve-plot').ariaValueMax) + 1"
VALUE = "document.querySelector('.curve-plot').ariaValueText"
#: Series of the first chart, as its legend names them.
CURRENT = "document.querySelector('nav [aria-current]').innerText"
LEGEND = """JSON.stringify([...document.querySelector('.chart-legend')
  .querySelectorAll('button')].map((each) => each.textContent))"""
#: Keeps what a person would save.
SAVED = """
URL.createObjectURL = (blob) => { globalThis.saved = blob.text(); return "#"; };
HTMLAnchorElement.prototype.click = function () { globalThis.name = this.download; };"""


@pytest.fixture
def page() -> Iterator[CheckedPage]:
    """A page whose errors and violations fail the test."""
    with CheckedPage() as opened:
        yield opened
        assert opened.faults == []


def played(api: Api, episodes: int, **options: object) -> Instance:
    """Play episodes of a new instance."""
    instance = api.create(**options)
    ok(instance.post("rollout/", {"episodes": episodes, "seed": 5}))
    return instance


def test_an_instance_ends_and_comes_back_after_a_restart(
    make_server: Callable[..., Server], page: CheckedPage
) -> None:
    server = make_server()
    instance = played(Api(server), 7, label="best of Anna")
    no_content(instance.post("monitor/start/", {"directory": "anna"}))
    page.open(f"{server.url}/#/envs/{instance.id}")
    page.shows("Sample and step")
    instance.close()
    page.shows("A client closed it.")
    wait_until(lambda: page.run(POINTS) == 7, SECONDS, "the curve")
    last = page.run(VALUE)
    assert server.stop() == 0
    port, data = str(server.port), str(server.data_dir)
    make_server("--port", port, "--data-dir", data)
    page.open(f"{server.url}/")
    page.shows("slots taken")
    page.run("location.hash = '#/instances'")
    page.press(f"a[href='#/envs/{instance.id}']")
    page.shows("A client closed it.")
    assert page.run(CURRENT) == "Instances"
    page.shows("best of Anna")
    page.shows("Recording anna")
    page.choose_tab("Log")
    page.shows("The instance has ended.")
    wait_until(lambda: page.run(POINTS) == 7, SECONDS, "the curve")
    assert page.run(VALUE) == last
    assert "Sample and step" not in page.text()
    page.run((npm.tools() / "node_modules/axe-core/axe.min.js").read_text())
    assert serious(page) == []


def test_the_page_of_a_crashed_instance_has_the_place(
    make_server: Callable[..., Server], page: CheckedPage
) -> None:
    server = make_server("--import", "tests.support.envs.hostile")
    instance = Api(server).create("hostile/Segfault-v0")
    instance.reset()
    failed = instance.post("step/", {"action": 1}).json()
    page.open(f"{server.url}/#/envs/{instance.id}")
    page.shows("Its process ended by itself. (SIGSEGV)")
    page.shows(failed["log_tail"].splitlines()[0])
    page.run("location.hash = '#/envs/00000000'")
    page.shows("There is no instance 00000000, or it ended long ago.")
    assert "Close instance" not in page.text()
    assert "Waiting for" not in page.text()
    page.take_fault("00000000/log/")


def test_up_to_eight_are_compared_and_exported(
    make_server: Callable[..., Server], page: CheckedPage, tmp_path: Path
) -> None:
    server = make_server()
    api = Api(server)
    first = played(api, 3, label='=1+1,"first"')
    second, third = played(api, 4, label="twin"), played(api, 5, label="twin")
    first.close()
    run = Run.create(api, "cart")
    episode = {"type": "episode", "mode": "training", "length": 9, "return": 12.5}
    for _ in range(6):
        done(run.post("records/", episode))
    page.open(f"{server.url}/")
    page.shows("slots taken")
    page.run(f"location.hash = '#/compare/{first.id},{second.id},{third.id}'")
    page.shows("Instance or run")
    assert page.run(CURRENT) == "Compare"
    names = ['=1+1,"first"', f"twin {second.id}", f"twin {third.id}"]
    wait_until(lambda: json.loads(page.run(LEGEND)) == names, SECONDS, "the legend")
    wait_until(lambda: page.run(POINTS) == 5, SECONDS, "the longest curve")
    page.run("document.querySelector('main select').value = 'run:cart'")
    page.press("main form button")
    names.append("Run cart")
    wait_until(lambda: json.loads(page.run(LEGEND)) == names, SECONDS, "the run")
    wait_until(lambda: page.run(POINTS) == 6, SECONDS, "the run's curve")
    ok(third.post("rollout/", {"episodes": 2}))
    wait_until(lambda: page.run(POINTS) == 7, SECONDS, "new episodes")
    page.run(SAVED)
    page.press(".exports summary")
    page.press(".exports .row button")
    lines = page.run("saved").split("\r\n")
    assert page.run("globalThis.name") == "return.csv"
    assert lines[0] == "series,episode,step,time,Return"
    assert len(lines) == 1 + 3 + 4 + 7 + 6 + 1
    wanted = ok(first.get("episodes/"))["episodes"]
    assert lines[1].startswith('"\'=1+1,""first""",0,')
    assert lines[3].endswith(f",{wanted[2]['return']:g}")
    assert lines[3].split(",")[-3] == str(sum(each["length"] for each in wanted))
    commands = page.run("document.querySelector('.exports pre').textContent")
    watch, runs = commands.splitlines()
    ids = f"{first.id} {second.id} {third.id}"
    assert watch == (
        f"python -m gym_http_client watch {server.url} {ids} --tensorboard logs"
    )
    assert shlex.split(runs)[:4] == ["gym-http-server", "runs", server.url, "cart"]
    for each in (second, third):
        each.close()
    # By now all have ended, so that the command does.
    command = [sys.executable, *shlex.split(watch)[1:]]
    found = subprocess.run(
        command, cwd=tmp_path, env=environment(), capture_output=True, check=False
    )
    assert found.returncode == 0, found.stderr
    assert f"{first.id}: wrote 3 episodes".encode() in found.stdout
    assert f"twin-{third.id}" in {each.name for each in (tmp_path / "logs").iterdir()}
    page.run((npm.tools() / "node_modules/axe-core/axe.min.js").read_text())
    assert serious(page) == []
    more = [played(api, 1, label=f"number {number}") for number in range(6)]
    ids = ",".join(each.id for each in (first, second, third, *more))
    page.run(f"location.hash = '#/compare/{ids}'")
    many = [*names[:3], *(f"number {number}" for number in range(5))]
    wait_until(lambda: json.loads(page.run(LEGEND)) == many, SECONDS, "eight")
    assert page.run("document.querySelector('main form').hidden") is True
    ids = f"{first.id},{second.id},{third.id},run:cart"
    page.run(f"location.hash = '#/compare/{ids}'")
    page.press("[aria-label='Remove Run cart']")
    wait_until(lambda: json.loads(page.run(LEGEND)) == names[:3], SECONDS, "three")


def serious(page: CheckedPage) -> list[str]:
    """Return the serious violations that axe-core finds."""
    found = page.run("axe.run().then((each) => JSON.stringify(each.violations))")
    return [
        f"{each['id']}: {[node['html'][:120] for node in each['nodes']][:3]}"
        for each in json.loads(found)
        if each["impact"] in ("serious", "critical")
    ]
