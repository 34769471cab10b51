"""A headless Chromium, controlled over its debugging protocol."""

import atexit
import contextlib
import functools
import itertools
import json
import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from websockets.sync.client import ClientConnection, connect

from tests.support.wait import wait_until

_COMMAND = (
    # It waits for the next page, which does not come if this process is killed.
    *("setpriv", "--pdeathsig", "KILL"),
    "chromium",
    "--headless=new",
    # Debian's sandbox does not work for root, the user of containers.
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-breakpad",
    "--disable-crash-reporter",
    # It starts a helper after three minutes, which a test would seem to leave behind.
    "--disable-features=OptimizationGuideOnDeviceModel",
    "--no-first-run",
    "--remote-debugging-port=0",
)
_SECONDS = 40.0


class _Browser:
    """A running Chromium, whose pages are opened by its debugging protocol."""

    def __init__(self) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="ghst-chromium-"))
        # Chromium, ended by a signal, leaves folders in the one for temporary files.
        temporary = self._folder / "tmp"
        temporary.mkdir()
        self._process = subprocess.Popen(
            [*_COMMAND, f"--user-data-dir={self._folder}", "about:blank"],
            env={**os.environ, "TMPDIR": str(temporary)},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        self.pid = self._process.pid
        try:
            self._port, self._path = self._wait_for_address()
        except BaseException:
            self.end()
            raise

    @property
    def running(self) -> bool:
        return self._process.poll() is None

    @contextlib.contextmanager
    def page(self) -> Iterator[ClientConnection]:
        """Open a page with a separate profile; yield the connection to its debugger."""
        with self._connection(self._path) as browser:
            called = functools.partial(_call, browser, itertools.count(1))
            profile = called("Target.createBrowserContext")
            page = called("Target.createTarget", url="about:blank", **profile)
            try:
                path = f"/devtools/page/{page['targetId']}"
                with self._connection(path) as connection:
                    yield connection
            finally:
                called("Target.disposeBrowserContext", **profile)

    def end(self) -> None:
        # Its helpers are in its session, and nothing of the profile is worth keeping.
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)
        self._process.wait()
        shutil.rmtree(self._folder, ignore_errors=True)

    def _connection(self, path: str) -> ClientConnection:
        url = f"ws://127.0.0.1:{self._port}{path}"
        return connect(url, max_size=None, open_timeout=_SECONDS)

    def _wait_for_address(self) -> list[str]:
        """Wait for the port and the path of the browser's debugger."""
        file = self._folder / "DevToolsActivePort"

        def lines() -> list[str] | None:
            found = file.read_text().splitlines() if file.exists() else []
            return found if len(found) == 2 else None

        return wait_until(lines, _SECONDS, "Chromium") or []


# A page takes a third of the time of a browser.
_idle: list[_Browser] = []


def idle() -> list[int]:
    """Return the browsers that wait for the next page, each the ID of its session."""
    return [browser.pid for browser in _idle]


def end_idle() -> None:
    """End the browsers that wait for the next page."""
    while _idle:
        _idle.pop().end()


atexit.register(end_idle)


def _call(
    connection: ClientConnection,
    numbers: Iterator[int],
    method: str,
    **params: Any,
) -> dict[str, Any]:
    """Call a method of a debugger that sends no events, and return its result."""
    number = next(numbers)
    words = {"id": number, "method": method, "params": params}
    connection.send(json.dumps(words))
    body = json.loads(connection.recv(timeout=_SECONDS))
    assert body["id"] == number, body
    assert "error" not in body, body
    return dict(body["result"])


class Chromium:
    """A page of a headless browser, alone in it, with a separate profile."""

    def __enter__(self) -> Self:
        while _idle and not _idle[-1].running:
            _idle.pop().end()
        browser = _idle.pop() if _idle else _Browser()
        self._numbers = itertools.count(1)
        with contextlib.ExitStack() as stack:
            stack.callback(_leave, browser)
            self._websocket = stack.enter_context(browser.page())
            self._stack = stack.pop_all()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stack.close()

    def open(self, url: str) -> None:
        """Load a page, and wait until its scripts have run."""
        self.run("globalThis.isThePageBefore = true")
        self._call("Page.navigate", url=url)
        loaded = "!globalThis.isThePageBefore && document.readyState === 'complete'"
        wait_until(lambda: self.run(loaded), _SECONDS, f"{url} to load")

    def run(self, program: str) -> Any:
        """Run an expression in the page, wait if it is a promise, and return its value.

        Raises:
            AssertionError: The expression throws.
        """
        answer = self._call(
            "Runtime.evaluate",
            expression=program,
            awaitPromise=True,
            returnByValue=True,
            userGesture=True,
        )
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    def _call(self, method: str, **params: Any) -> dict[str, Any]:
        number = next(self._numbers)
        self._websocket.send(
            json.dumps({"id": number, "method": method, "params": params})
        )
        while True:
            body = json.loads(self._websocket.recv(timeout=_SECONDS))
            if body.get("id") == number:
                assert "error" not in body, body
                return dict(body["result"])
            self._heard(body)

    def _heard(self, message: dict[str, Any]) -> None:
        """Receive an event, which only some pages look at."""


def _leave(browser: _Browser) -> None:
    """Keep one browser for the next page."""
    if _idle or not browser.running:
        browser.end()
    else:
        _idle.append(browser)
