"""The web pages of the documents run in Chromium and become external environments."""

import http.server
import json
import re
import shutil
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import gymnasium
import pytest

from gym_http_client import RemoteEnv
from tests.support.drivers import CLIENTS, needs
from tests.support.peers.checked_page import CheckedPage
from tests.support.peers.chromium import Chromium
from tests.support.server import ROOT, Server

MakeServer = Callable[..., Server]
ADDRESS = "127.0.0.1:5000"
# The game that the page in docs/tour.md connects.
GAME = """<script>
  const observation = () => Array.from({ length: 6 }, () => Array(6).fill(1));
  globalThis.game = {
    restart: observation,
    move: (action) => ({ observation: observation(), reward: action, terminated: true })
  };
</script>"""
DOCUMENTS = ("docs/tour.md", "docs/connect.md", "docs/external.md")

pytestmark = [pytest.mark.live, pytest.mark.toolchain, pytest.mark.timeout(120)]


def page_in(document: str) -> str:
    """Return the one block of HTML in a document."""
    text = (ROOT / document).read_text(encoding="utf-8")
    (block,) = re.findall(r"^```html\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)
    return str(block)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return the folder that is served."""
    return tmp_path


@pytest.fixture
def origin(folder: Path) -> Iterator[str]:
    """Serve the pages of a folder."""

    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *_: object) -> None:
            """Write nothing."""

    def handler(*args: object) -> Quiet:
        return Quiet(*args, directory=str(folder))  # type: ignore[arg-type]

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as pages:
        thread = threading.Thread(target=pages.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{pages.server_port}"
        pages.shutdown()
        thread.join()


def test_documented_pages_are_environments(
    make_server: MakeServer, folder: Path, origin: str
) -> None:
    needs("chromium")
    server = make_server("--allow-origin", origin)
    with Chromium() as browser:
        for document in DOCUMENTS:
            block = page_in(document)
            block = block.replace(ADDRESS, server.url.removeprefix("http://"))
            (folder / "page.html").write_text(GAME + block, encoding="utf-8")
            browser.open(f"{origin}/page.html?{document}")
            name = re.search(r'name: "(\w+)"', block)
            assert name, document
            check(f"external/{name[1]}", server)


def test_a_page_that_is_reloaded_in_an_episode_goes_on_training(
    make_server: MakeServer, folder: Path, origin: str
) -> None:
    needs("chromium")
    server = make_server("--allow-origin", origin, "--external-grace", "5")
    block = page_in("docs/connect.md")
    (folder / "page.html").write_text(
        block.replace(ADDRESS, server.url.removeprefix("http://")), encoding="utf-8"
    )
    with Chromium() as browser:
        browser.open(f"{origin}/page.html")
        with RemoteEnv(server.url, "external/runner", wait_s=20) as env:
            for _ in range(3):
                assert env.reset()[0] == 0
                for place in (1, 2, 3):
                    assert env.step(1)[0] == place
                # Opening the page where it is open already loads it again.
                browser.open(f"{origin}/page.html")
                step = env.step(1)
                assert step == (3, 0.0, False, True, {"reconnected": True})
            env.reset()
            while not env.step(1)[2]:
                pass


def test_the_refusal_of_an_origin_is_shown_beside_its_cure(
    make_server: MakeServer, folder: Path, origin: str
) -> None:
    needs("chromium")
    server = make_server()
    shown = {ADDRESS: server.url.removeprefix("http://")}
    shown["127.0.0.1:8000"] = origin.removeprefix("http://")
    block = page_in("docs/connect.md")
    text = (ROOT / "docs/connect.md").read_text(encoding="utf-8")
    script, socket = re.findall(r"^    ((?:Access|WebSocket) .*)$", text, re.MULTILINE)
    own = re.sub('http://[^"]*/serve.js', "./src/serve.js", block)
    shutil.copytree(CLIENTS / "js/src", folder / "src")
    for page, message in ((block, script), (own, socket)):
        for documented, actual in shown.items():
            page, message = (x.replace(documented, actual) for x in (page, message))
        (folder / "page.html").write_text(page, encoding="utf-8")
        with CheckedPage() as browser:
            browser.open(f"{origin}/page.html?{len(page)}")
            browser.take_fault(json.dumps(message)[1:-1])
    assert f"start it with --allow-origin {origin}" in server.stderr


def check(env_id: str, server: Server) -> None:
    """Reset and step an environment that connected."""
    with RemoteEnv(server.url, env_id, wait_s=20) as env:
        observation, _ = env.reset()
        assert env.observation_space.contains(observation)
        assert isinstance(env.action_space, gymnasium.spaces.Discrete)
        observation, reward, *_ = env.step(1)
        assert env.observation_space.contains(observation)
        assert reward in (1.0, -1.0, 0.0)
