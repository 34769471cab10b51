"""`make docs` builds the site and the documents of the clients without warnings."""

import json
import os
import re
import shutil
import subprocess
from urllib.parse import unquote

import pytest

from tests.support import run_locks
from tests.support.drivers import needs
from tests.support.peers.checked_page import CheckedPage
from tests.support.server import ROOT

API = ROOT / "gym_http_server" / "web" / "api"


def make(target: str) -> subprocess.CompletedProcess[str]:
    # The tests may run under make itself, whose variables would be passed on.
    own = {k: v for k, v in os.environ.items() if not k.startswith(("MAKE", "MFLAGS"))}
    return subprocess.run(
        ["make", "--no-print-directory", target],
        cwd=ROOT,
        env=own,
        capture_output=True,
        text=True,
        timeout=250,
    )


@pytest.mark.toolchain
@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    ("name", "tools", "page", "word"),
    [
        ("lua", ("ldoc",), "index.html", "gym_http_client"),
        ("cpp", ("doxygen",), "html/index.html", "gym_http"),
        ("js", ("node", "npm"), "index.html", "gym-http-client"),
    ],
)
def test_documents_are_made_without_a_warning(
    name: str, tools: tuple[str, ...], page: str, word: str
) -> None:
    needs("make", *tools)
    if name == "js":
        with run_locks.exclusive("npm"):
            done = make("clients/js/node_modules/.installed")
        if done.returncode:
            assert not os.environ.get("CI"), done.stderr
            pytest.skip(f"typedoc is not installed: {done.stderr[-200:]}")
    folder = ROOT / "build" / "docs" / name
    shutil.rmtree(folder, ignore_errors=True)
    done = make(f"build/docs/{name}")
    assert done.returncode == 0, done.stdout + done.stderr
    assert word in (folder / page).read_text(encoding="utf-8")


@pytest.mark.toolchain
@pytest.mark.slow
@pytest.mark.timeout(300)
def test_the_site_is_complete_and_needs_no_network() -> None:
    needs("make", "chromium")
    done = make("build/docs/site")
    assert done.returncode == 0, done.stdout + done.stderr
    site = ROOT / "build" / "docs" / "site"
    pages = {path: path.read_text(encoding="utf-8") for path in site.rglob("*.html")}
    for document in (ROOT / "docs").rglob("*.md"):
        assert site / document.relative_to(ROOT).with_suffix(".html") in pages
    for path, text in pages.items():
        for link in re.findall(r'(?:href|src)="([^"#?:]+)[^":]*"', text):
            assert (path.parent / unquote(link)).exists(), f"{path}: {link}"
    shown = {
        "README": "trust it",
        "docs/dashboard": "Look at",
        "docs/site/index": "Begin",
        "docs/operations": "Create an instance",
    }
    with CheckedPage() as page:
        for name, words in shown.items():
            page.open((site / f"{name}.html").as_uri())
            page.shows(words)
            assert (page.hosts, page.faults) == (set(), [])
        # Written into the page, with all that it shows, and found at once.
        openapi = json.loads((API / "openapi.json").read_text(encoding="utf-8"))
        count = sum(
            "responses" in m for p in openapi["paths"].values() for m in p.values()
        )
        closed = "document.querySelectorAll('details.operation:not([hidden])').length"
        assert page.run(closed) == count
        page.write("input.operations", "post rollout")
        assert page.run(closed) == 1
