"""The JavaScript client in a browser: the example page, and the same lines as Node."""

import contextlib
import json
import re
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.support.drivers import CLIENTS, Program
from tests.support.peers.chromium import Chromium
from tests.support.peers.example_pages import served_page
from tests.support.reference_runs import ReferenceRun
from tests.support.server import Server
from tests.support.wait import wait_until

PAGE = "/examples/page/index.html"
TOKEN = "a-token-for-pages-only"

pytestmark = [pytest.mark.live, pytest.mark.toolchain, pytest.mark.timeout(180)]
MakeServer = Callable[..., Server]


@pytest.fixture(scope="module")
def origin() -> Iterator[str]:
    """Serve the example page and the client from a separate port."""
    with served_page(CLIENTS / "js/examples/page/serve.mjs") as origin:
        yield origin


# One for each test: helpers that it starts within a test look like left behind.
@pytest.fixture
def chromium(origin: str) -> Iterator[Chromium]:
    with Chromium() as browser:
        yield browser


def played(chromium: Chromium, origin: str, server: Server, token: str = "") -> str:
    """Press the button of the page, and return its final text."""
    chromium.open(f"{origin}{PAGE}?url={server.url}")
    chromium.run(f"document.getElementById('token').value = {json.dumps(token)}")
    chromium.run("document.getElementById('play').click()")

    def result() -> str | None:
        if chromium.run("document.getElementById('play').disabled"):
            return None
        return str(chromium.run("document.getElementById('output').textContent"))

    return str(wait_until(result, 60.0, "the end of the episode"))


def test_a_page_that_is_allowed_plays_over_a_stream(
    chromium: Chromium, origin: str, make_server: MakeServer
) -> None:
    server = make_server("--allow-origin", origin)
    assert re.fullmatch(
        r"\d+ steps over stream, and over", played(chromium, origin, server)
    )
    # What was drawn is a cart and a pole, of which an empty canvas has nothing.
    pixels = chromium.run(
        "Array.from(document.getElementById('scene').getContext('2d')"
        ".getImageData(0, 0, 600, 300).data).filter((each) => each).length"
    )
    assert pixels > 5_000


def test_a_page_of_another_origin_shows_why_it_is_refused(
    chromium: Chromium, origin: str, make_server: MakeServer
) -> None:
    server = make_server("--allow-origin", "https://app.example")
    words = played(chromium, origin, server)
    assert server.url in words
    assert f"start it with --allow-origin {origin}" in words


def test_a_page_without_a_server_says_so(
    chromium: Chromium, origin: str, make_server: MakeServer
) -> None:
    server = make_server()
    server.stop()
    words = played(chromium, origin, server)
    assert f"no answer from {server.url}" in words
    assert "allow-origin" not in words


def test_a_page_with_a_token_steps_over_a_stream_by_a_ticket(
    chromium: Chromium, origin: str, make_server: MakeServer
) -> None:
    server = make_server("--token", TOKEN, "--allow-origin", origin, token=TOKEN)
    assert "over stream, and over" in played(chromium, origin, server, TOKEN)
    words = played(chromium, origin, server, "another-token-altogether")
    assert "the token is missing or wrong" in words


@pytest.mark.parametrize("transport", ["rest", "stream"])
def test_browser_and_node_see_the_same(
    chromium: Chromium,
    origin: str,
    transport: str,
    driver: Callable[[str], Program],
    make_server: MakeServer,
    tmp_path: Path,
) -> None:
    server = make_server("--allow-origin", origin)
    walk = ReferenceRun("CartPole-v1", 7, 200)
    args = walk.args(server.url, transport, tmp_path)
    in_node = driver("js").output(*args)
    walk.compare(in_node)
    actions = Path(args[-1]).read_text(encoding="utf-8").split()
    options = {"url": server.url, "stream": transport == "stream"}
    chromium.open(f"{origin}{PAGE}")
    output = chromium.run(f"""(async () => {{
        const {{ agree }} = await import("/tests/agreeing.mjs");
        const lines = [];
        const used = await agree("CartPole-v1", 7, {json.dumps(actions)},
            {json.dumps(options)}, (line) => lines.push(line));
        return {{ lines, used }};
    }})()""")
    assert output["used"] == transport
    assert output["lines"] == in_node.splitlines()


def test_leaving_the_page_closes_its_instances(
    chromium: Chromium, origin: str, make_server: MakeServer
) -> None:
    server = make_server("--allow-origin", origin)
    chromium.open(f"{origin}{PAGE}")
    chromium.run(f"""(async () => {{
        const {{ make }} = await import("gym-http-client");
        const env = await make("CartPole-v1", {{ url: {json.dumps(server.url)} }});
        addEventListener("pagehide", () => env.close({{ keepalive: true }}));
    }})()""")
    assert len(server.instance_folders()) == 1
    chromium.open(f"{origin}/examples/page/page.js")
    wait_until(lambda: not server.instance_folders(), 10.0, "the end of the instance")


def test_the_page_is_served_and_nothing_beside_it(origin: str) -> None:
    for path in ("/package.json", "/%2e%2e/python/README.md", "/examples/page/none.js"):
        with (
            pytest.raises(urllib.error.HTTPError),
            contextlib.closing(urllib.request.urlopen(origin + path, timeout=10)),
        ):
            pass
