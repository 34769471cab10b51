"""The server serves the JavaScript client to web pages."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.api import Api, error
from tests.support.server import ROOT, Server

SOURCES = ROOT / "clients/js/src"
PATH = "/v1/external/client/"
IMPORT = re.compile(r"""(?:from |import\()"(\.[^"]+)""")
TOKEN = "a-token-for-imports-only"
MakeServer = Callable[..., Server]


def test_a_page_needs_one_import(api: Api) -> None:
    todo, seen = [Path("serve.js")], set[Path]()
    while todo:
        path = todo.pop()
        seen.add(path)
        answer = api.get(f"{PATH}{path}")
        assert answer.status == 200, path
        assert answer.header("content-type") == "text/javascript; charset=utf-8"
        assert answer.header("cache-control") == "max-age=300"
        assert answer.text == (SOURCES / path).read_text(encoding="utf-8")
        for found in IMPORT.findall(answer.text):
            wanted = (SOURCES / path.parent / found).resolve()
            wanted = wanted.relative_to(SOURCES.resolve())
            if wanted not in seen:
                todo.append(wanted)
    assert len(seen) > 20


@pytest.mark.parametrize(
    "name", ["none.js", "../README.md", "%2e%2e/package.json", "serve.d.ts", "spaces"]
)
def test_nothing_else_is_served(api: Api, name: str) -> None:
    error(api.get(PATH + name), 404, "not-found")


def test_no_token_is_needed_but_all_else_holds(make_server: MakeServer) -> None:
    page = "https://game.example"
    server = make_server("--token", TOKEN, "--allow-origin", page)
    api = Api(server)
    assert api.get(f"{PATH}serve.js").status == 200
    given = api.get(f"{PATH}serve.js", headers={"Origin": page})
    assert given.header("access-control-allow-origin") == page
    refused = api.get(f"{PATH}serve.js", headers={"Origin": "https://other.example"})
    error(refused, 403, "origin-refused")
    error(api.get("/v1/"), 401, "unauthorized")
    for path in (PATH, f"{PATH}serve", "/v1/external/client", f"{PATH}../registry.js"):
        error(api.get(path), 401, "unauthorized")
    error(api.post(f"{PATH}serve.js", {}), 401, "unauthorized")
