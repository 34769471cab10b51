"""The first view of the page: three ways to begin, whether all is well, and owners."""

import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.support.api import Api, Instance, ok
from tests.support.peers.checked_page import CheckedPage
from tests.support.server import Server
from tests.support.status_page import host_of
from tests.support.token_file import token_of, write_file
from tests.support.wait import wait_until

pytestmark = [pytest.mark.live, pytest.mark.toolchain, pytest.mark.timeout(120)]

SECONDS = 20.0


@pytest.fixture
def page() -> Iterator[CheckedPage]:
    """A page whose errors, violations and foreign requests fail the test."""
    with CheckedPage() as opened:
        # Frames that are out of sight are not watched.
        opened.resize(1400, 1000)
        yield opened
        assert opened.faults == []
        assert len(opened.hosts) == 1


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with Server("--max-instances", "3") as started:
        yield started


def text(page: CheckedPage, selector: str) -> str:
    """Return the text of an element."""
    return str(page.run(f"document.querySelector('{selector}').innerText"))


def watchers(server: Server) -> int:
    """Return how many watch the only instance."""
    (listed,) = ok(Api(server).get("/v1/instances/"))["instances"]
    return int(listed["watchers"])


def test_an_empty_server_offers_three_ways_to_begin(
    server: Server, page: CheckedPage
) -> None:
    page.open(f"{server.url}/")
    page.shows("Three ways to begin")
    assert text(page, "h1") == "Ready"
    code = page.run(
        "[...document.querySelectorAll('.copyable pre')].map((e) => e.innerText)"
    )
    assert code[0] == f'curl -d \'{{"env_id": "CartPole-v1"}}\' {server.url}/v1/envs/'
    # The lines are what they claim to be: Python that runs.
    namespace: dict[str, object] = {}
    exec(code[1], namespace)
    wait_until(lambda: "1 of 3 slots" in page.text(), SECONDS, "the instance of Python")
    # Else the page could begin to watch what is closed just now.
    wait_until(lambda: watchers(server) == 1, SECONDS, "the page to watch it")
    namespace["env"].close()  # type: ignore[attr-defined]
    page.shows("Three ways to begin")
    page.press(".ways .primary")
    page.shows("played by hand")
    page.shows("Close instance")
    api = Api(server)
    ((instance_id, env_id),) = api.instances().items()
    assert env_id == "LunarLander-v3"
    Instance(api, instance_id).close()


def test_it_says_that_all_is_well_or_what_needs_a_look(
    server: Server, page: CheckedPage
) -> None:
    api = Api(server)
    first = api.create("CartPole-v1", label="good", render_mode="rgb_array")
    first.reset()
    page.open(f"{server.url}/")
    page.shows("All is well")
    page.shows("1 of 3 slots taken")
    assert "Node" not in page.text()
    for _ in range(50):
        first.step(0)
        first.reset()
    rate = "parseFloat(document.querySelector('.hero-rate b').innerText) > 0"
    wait_until(lambda: page.run(rate), SECONDS, "steps a second")
    wait_until(
        lambda: page.run("document.querySelector('.spark-line').getAttribute('d')"),
        SECONDS,
        "the sparkline",
    )
    wait_until(
        lambda: page.run("document.querySelector('.tile img').naturalWidth"),
        SECONDS,
        "a frame on the wall",
    )
    killed = api.create("Taxi-v4", label="killed")
    os.kill(host_of(killed), signal.SIGKILL)
    page.shows("1 thing needs a look")
    assert "crashed (SIGKILL)" in text(page, ".care")
    others = [api.create(), api.create()]
    refused = api.request("POST", "/v1/envs/", {"env_id": "Acrobot-v1"})
    assert refused.status >= 400
    page.shows("All slots are taken")
    page.shows("Acrobot-v1 refused")
    for each in others:
        each.reset()
    # In the place of the picture, and not cut off.
    why = (
        "[...document.querySelectorAll('.tile-stage > .small:not([hidden])')].map("
        "(each) => [each.textContent, each.scrollWidth > each.clientWidth])"
    )
    words = "No picture: the instance was made without a render mode."
    wait_until(lambda: [words, False] in page.run(why), 15.0, "the reason")
    for each in (first, *others):
        each.close()


def test_the_open_page_goes_on_with_a_server_that_was_started_again(
    make_server: Callable[..., Server], page: CheckedPage
) -> None:
    server = make_server()
    api = Api(server)
    for _ in range(3):
        api.create(label="before").close()
    page.open(f"{server.url}/")
    page.shows("before")
    assert server.stop() == 0
    page.shows("The server does not answer")
    make_server("--port", str(server.port))
    api.create(label="after")
    page.shows("All is well")
    page.shows("after made")
    # The console has the requests that nobody answered.
    page.faults[:] = [each for each in page.faults if "Failed to load" not in each]


def test_an_admin_filters_by_owner_and_a_reader_sees_its_own(
    tmp_path: Path, page: CheckedPage
) -> None:
    with Server("--tokens", write_file(tmp_path), token=token_of("root")) as server:
        api = Api(server)
        made = {}
        for owner in ("ada", "bob", "reader"):
            body = {"env_id": "CartPole-v1", "label": f"of {owner}", "for": owner}
            made[owner] = ok(api.request("POST", "/v1/envs/", body))["instance_id"]
        page.open(f"{server.url}/#token={token_of('root')}")
        page.shows("3 of 64 slots taken")
        page.run("location.hash = '#/instances'")
        page.shows("Live")
        page.shows("of reader")
        owners = (
            "[...document.querySelectorAll('[aria-label=Owner] option')]"
            ".map((each) => each.value)"
        )
        assert page.run(owners) == ["", "ada", "bob", "reader"]
        page.run(
            "const list = document.querySelector('[aria-label=Owner]');"
            "list.value = 'bob'; list.dispatchEvent(new Event('input'))"
        )
        wait_until(lambda: "of ada" not in page.text(), SECONDS, "the filter")
        assert "of bob" in page.text()
        page.run("sessionStorage.clear()")
        page.open(f"{server.url}/?2#token={token_of('reader')}")
        page.shows("slots taken")
        page.run("location.hash = '#/instances'")
        page.shows("Live")
        page.shows("of reader")
        assert "of ada" not in page.text()
        assert made["reader"] in page.text()
        # It is offered nothing that its token may not do: no answer was 403.
        offered = page.text()
        for words in ("New instance", "Close", "Runs"):
            assert words not in offered
        page.run(f"location.hash = '#/envs/{made['reader']}'")
        page.press("#tab-spaces")
        page.shows("Discrete(2)")
        for words in ("By hand", "Play", "Close", "Record this"):
            assert words not in page.text()
        page.run("location.hash = '#/new'")
        page.shows("This token may not create instances")
        page.run("sessionStorage.clear()")
        page.open(f"{server.url}/?3#token={token_of('maker')}")
        page.shows("This token may not see instances")
        assert page.faults == []
