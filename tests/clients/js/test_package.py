"""The JavaScript client's npm package in a separate project: bundled and typed."""

import functools
import http.server
import json
import shutil
import subprocess
import tarfile
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import gymnasium
import pytest

from tests.support import made_packages, npm
from tests.support.drivers import CLIENTS, needs
from tests.support.peers.chromium import Chromium
from tests.support.server import Server

BUNDLERS = ("esbuild", "webpack", "vite")
#: A program in TypeScript, whose compiler looks into all declarations of the client.
PROGRAM = """
import { make, type Env } from "gym-http-client";
import { serveEnv } from "gym-http-client/serve";

export const serve: typeof serveEnv = serveEnv;
const env: Env = await make("CartPole-v1", { url: "http://127.0.0.1:5000" });
const { observation } = await env.reset({ seed: 42 });
console.log(observation);
await env[Symbol.asyncDispose]();
"""
PROJECT = {
    "compilerOptions": {
        "target": "ES2022",
        "module": "ES2022",
        "moduleResolution": "bundler",
        "strict": True,
        "noEmit": True,
        "skipLibCheck": False,
        # TypeScript's own declarations take two seconds.
        "skipDefaultLibCheck": True,
        "types": [],
    },
    "files": ["program.ts"],
}

pytestmark = [pytest.mark.toolchain, pytest.mark.timeout(300)]


def run(*words: str | Path, cwd: Path) -> str:
    """Run a command in a folder, check that it succeeds, and return what it prints."""
    done = subprocess.run(
        words, cwd=cwd, capture_output=True, text=True, timeout=250, check=False
    )
    assert done.returncode == 0, done.stdout[-8000:] + done.stderr[-8000:]
    return done.stdout


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project in which the packed client is installed, without a network."""
    needs("node", "npm")
    folder = tmp_path_factory.mktemp("project")
    (packed,) = made_packages.make(folder / "dist", "js")
    with tarfile.open(packed) as archive:
        names = {each.removeprefix("package/") for each in archive.getnames()}
    assert names >= {"LICENSE", "README.md", "package.json", "src/index.js"}
    (folder / "package.json").write_text('{"private": true, "type": "module"}')
    flags = ("--offline", "--no-audit", "--no-fund", "--ignore-scripts")
    run("npm", "install", *flags, packed, cwd=folder)
    return folder


@pytest.fixture(scope="module")
def pages(project: Path) -> Path:
    """The folder with a page from each bundler."""
    bundling = npm.tools() / "bundling"
    for name in ("app.js", "index.html"):
        shutil.copy(bundling / name, project / name)
    run("node", bundling / "bundle.mjs", project, cwd=project)
    return project / "pages"


@pytest.fixture(scope="module")
def origin(pages: Path) -> Iterator[str]:
    """Serve the pages."""

    class Handler(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *_: object) -> None:
            pass

    handler = functools.partial(Handler, directory=str(pages))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as serving:
        thread = threading.Thread(target=serving.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{serving.server_port}"
        serving.shutdown()
        thread.join()


def expected() -> str:
    """Play the program's episode, and return its expected output."""
    env = gymnasium.make("CartPole-v1")
    env.reset(seed=42)
    steps, done = 0, False
    while not done:
        _, _, terminated, truncated, _ = env.step(steps % 2)
        done = terminated or truncated
        steps += 1
    env.close()
    return f"{steps} steps over stream, function"


@pytest.mark.live
@pytest.mark.slow
def test_pages_play_with_bundles(
    pages: Path, origin: str, make_server: Callable[..., Server]
) -> None:
    needs("chromium")
    server = make_server("--allow-origin", origin)
    with Chromium() as browser:
        for bundler in BUNDLERS:
            browser.open(f"{origin}/{bundler}/")
            # A module runs before the page is complete.
            assert browser.run("typeof play") == "function"
            assert browser.run(f"play({json.dumps(server.url)})") == expected()
            scripts = list((pages / bundler).rglob("*.js"))
            assert scripts
            for script in scripts:
                # The bundle imports no modules that only Node has.
                assert "node:" not in script.read_text(encoding="utf-8"), script


@pytest.mark.live
@pytest.mark.slow
def test_node_plays_with_a_bundle(pages: Path, server: Server) -> None:
    bundle = pages / "esbuild" / "node.mjs"
    assert run("node", bundle, server.url, cwd=pages) == f"{expected()}\n"


def test_its_types_compile_at_es2022(project: Path, packages: Path) -> None:
    (project / "program.ts").write_text(PROGRAM, encoding="utf-8")
    (project / "tsconfig.json").write_text(json.dumps(PROJECT), encoding="utf-8")
    run(packages / ".bin/tsc", "--project", project, cwd=project)


def test_it_has_the_metadata_of_registries() -> None:
    output = json.loads((CLIENTS / "js/package.json").read_text(encoding="utf-8"))
    assert {"description", "keywords", "license", "repository"} <= output.keys()
    assert output["repository"]["directory"] == "clients/js"
    ours = CLIENTS.parent / "LICENSE"
    assert (CLIENTS / "js/LICENSE").read_bytes() == ours.read_bytes()


def test_the_lock_file_names_no_registry() -> None:
    locked = json.loads(npm.LOCK.read_text(encoding="utf-8"))
    assert len(locked["packages"]) > 3
    for name, package in locked["packages"].items():
        assert "resolved" not in package, name
        assert not name or "integrity" in package, name
