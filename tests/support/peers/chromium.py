"""A headless Chromium, controlled over its debugging protocol."""

import contextlib
import itertools
import json
import os
import shutil
import signal
import subprocess
import tempfile
import urllib.request
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from websockets.sync.client import connect

from tests.support.wait import wait_until

_FLAGS = (
    "--headless=new",
    # Debian's sandbox does not work for root, the user of containers.
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-breakpad",
    "--disable-crash-reporter",
    "--no-first-run",
    "--remote-debugging-port=0",
)
_SECONDS = 40.0


class Chromium:
    """A headless browser with one page and a separate profile."""

    def __enter__(self) -> Self:
        self._folder = Path(tempfile.mkdtemp(prefix="ghst-chromium-"))
        # Chromium, ended by a signal, leaves folders in the one for temporary files.
        temporary = self._folder / "tmp"
        temporary.mkdir()
        self._process = subprocess.Popen(
            ["chromium", *_FLAGS, f"--user-data-dir={self._folder}", "about:blank"],
            env={**os.environ, "TMPDIR": str(temporary)},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        self._numbers = itertools.count(1)
        with contextlib.ExitStack() as stack:
            stack.callback(self._end)
            self._websocket = stack.enter_context(
                connect(self._page(), max_size=None, open_timeout=_SECONDS)
            )
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

    def _page(self) -> str:
        """Wait for the browser, and return the address of its page's debugger."""
        result = self._folder / "DevToolsActivePort"
        wait_until(
            lambda: result.exists() and result.read_text().count("\n"),
            _SECONDS,
            "Chromium",
        )
        port = result.read_text().splitlines()[0]

        def page() -> str | None:
            url = f"http://127.0.0.1:{port}/json/list"
            with urllib.request.urlopen(url, timeout=10) as answer:
                targets = json.load(answer)
            pages = (each for each in targets if each["type"] == "page")
            return next((each["webSocketDebuggerUrl"] for each in pages), None)

        found = wait_until(page, _SECONDS, "a page of Chromium's")
        assert found
        return found

    def _end(self) -> None:
        # Its helpers are in its session, and nothing of the profile is worth keeping.
        os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        shutil.rmtree(self._folder, ignore_errors=True)
