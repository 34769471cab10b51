"""The client of docs/clients/write-your-own.md, extracted from the page and run."""

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.drivers import VECTORS
from tests.support.server import ROOT, Server

PAGE = (ROOT / "docs" / "clients" / "write-your-own.md").read_text(encoding="utf-8")
BLOCK = re.compile(r"^```python\n# (\w+)\.py\n(.*?)^```$", re.DOTALL | re.MULTILINE)
CLIENT = ("tiny_json", "tiny_values", "tiny_writing", "tiny_client")
KINDS = ("numbers", "values", "malformed", "errors", "transcripts")
PROGRAM = "import sys, tiny_vectors; tiny_vectors.run(*sys.argv[1:])"


@pytest.fixture
def client(tmp_path: Path) -> Path:
    """Save the modules of the page in a folder."""
    for name, text in BLOCK.findall(PAGE):
        (tmp_path / f"{name}.py").write_text(text, encoding="utf-8")
    return tmp_path


def run(client: Path, vectors: Path, url: str) -> str:
    # Isolated from this project and from what is installed: -S and -P.
    done = subprocess.run(
        [sys.executable, "-S", "-c", PROGRAM, str(vectors), url],
        cwd=client,
        env={},
        capture_output=True,
        text=True,
        timeout=50,
        check=True,
    )
    return done.stdout


def test_page_has_a_client_of_python_alone(client: Path) -> None:
    names = [name for name, _ in BLOCK.findall(PAGE)]
    assert names == [*CLIENT, "tiny_vectors"]
    for path in client.glob("*.py"):
        found = re.findall(r"^(?:import|from) (\w+)", path.read_text(), re.MULTILINE)
        assert set(found) <= sys.stdlib_module_names | set(names)


def test_its_vectors_pass(client: Path, server: Server) -> None:
    *failures, last = run(client, VECTORS, server.url).splitlines()
    assert not failures
    passed, words = last.split(" ", 1)
    assert words == "passed, 0 failed"
    assert int(passed) > 2000


def test_it_sees_wrong_vectors(client: Path, server: Server, tmp_path: Path) -> None:
    spoilt = tmp_path / "vectors"
    shutil.copytree(VECTORS, spoilt)
    for kind, old, new in (
        ("numbers", '"int": "9007199254740993"', '"int": "9007199254740992"'),
        ("values", "3fb999999999999a", "3fb999999999999b"),
        (
            "malformed",
            r"{\"$t\":\"int\",\"v\":\"+1\"}",
            r"{\"$t\":\"int\",\"v\":\"11\"}",
        ),
        ("errors", '"code": "env-refused"', '"code": "env-refusal"'),
        ("transcripts", '"terminated": false', '"terminated": true'),
    ):
        path = spoilt / f"{kind}.json"
        text = path.read_text(encoding="utf-8")
        assert old in text, kind
        path.write_text(text.replace(old, new, 1), encoding="utf-8")
    *failures, last = run(client, spoilt, server.url).splitlines()
    assert {line.split()[1] for line in failures} == {f"{kind}.json" for kind in KINDS}
    assert json.loads(last.split()[2]) == len(failures)
