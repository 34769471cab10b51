"""A page in Chromium, used by keyboard, whose violations and errors are collected."""

import base64
import contextlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Self
from urllib.parse import urlsplit

from tests.support.peers.chromium import Chromium
from tests.support.server import ROOT
from tests.support.wait import wait_until

_SECONDS = 20.0
_SCREENSHOTS = ROOT / "build" / "screenshots"
_FAULTS = ("Log.entryAdded", "Runtime.exceptionThrown", "Runtime.consoleAPICalled")
#: Virtual codes of keys that do something by themselves.
_CODES = {"Tab": 9, "Enter": 13, "Escape": 27, "Space": 32, "ArrowLeft": 37}


class CheckedPage(Chromium):
    """A page that keeps the errors of its console and the hosts that it requested."""

    def __enter__(self) -> Self:
        self.faults: list[str] = []
        super().__enter__()
        for domain in ("Log", "Runtime"):
            self._call(f"{domain}.enable")
        return self

    def resize(self, width: int, height: int) -> None:
        """Set the size of the window, in pixels of CSS."""
        size = {"width": width, "height": height, "deviceScaleFactor": 1}
        self._call("Emulation.setDeviceMetricsOverride", mobile=False, **size)

    def touch_screen(self, width: int, height: int) -> None:
        """Become a telephone, whose owner points by finger."""
        self._call("Emulation.setTouchEmulationEnabled", enabled=True)
        size = {"width": width, "height": height, "deviceScaleFactor": 1}
        self._call("Emulation.setDeviceMetricsOverride", mobile=True, **size)

    @contextlib.contextmanager
    def touching(self, selector: str, x: float = 0.5, y: float = 0.5) -> Iterator[None]:
        """Keep a finger on an element, at a part of its width and height."""
        found = f"document.querySelector({json.dumps(selector)})"
        wait_until(lambda: self.run(f"!!{found}"), _SECONDS, selector)
        self.run(f"{found}.scrollIntoView({{ block: 'center' }})")
        box = self.run(f"Object.assign({{}}, {found}.getBoundingClientRect().toJSON())")
        point = {
            "x": box["x"] + max(1.0, x * box["width"]),
            "y": box["y"] + max(1.0, y * box["height"]),
        }
        self._call("Input.dispatchTouchEvent", type="touchStart", touchPoints=[point])
        try:
            yield
        finally:
            self._call("Input.dispatchTouchEvent", type="touchEnd", touchPoints=[])

    def touch(self, selector: str) -> None:
        """Touch an element for a moment."""
        with self.touching(selector):
            pass

    def prefer(self, scheme: str) -> None:
        """Set the colour scheme that the person prefers: light or dark."""
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        self._call("Emulation.setEmulatedMedia", features=features)

    def screenshot(self) -> bytes:
        """Return a picture of the window as PNG."""
        answer = self._call("Page.captureScreenshot", optimizeForSpeed=True)
        return base64.b64decode(answer["data"])

    def save_whole(self, path: Path, tallest: int) -> None:
        """Save a picture of the whole page as PNG, down to a height."""
        whole = "document.documentElement.scrollHeight"
        size = {
            "width": self.run("innerWidth"),
            "height": min(self.run(whole), tallest),
        }
        clip = {"x": 0, "y": 0, "scale": 1, **size}
        answer = self._call(
            "Page.captureScreenshot", captureBeyondViewport=True, clip=clip
        )
        path.write_bytes(base64.b64decode(answer["data"]))

    def save_screenshot(self, name: str) -> None:
        """Save a picture of the window in ``build/screenshots``, to look at it."""
        _SCREENSHOTS.mkdir(parents=True, exist_ok=True)
        (_SCREENSHOTS / f"{name}.png").write_bytes(self.screenshot())

    @property
    def hosts(self) -> set[str]:
        """The hosts that the page has requested files or data from."""
        # Not the network's events, which copy each message of a stream.
        urls = self.run("performance.getEntries().map((each) => each.name)")
        return {urlsplit(url).netloc for url in urls if url.startswith("http")}

    def text(self) -> str:
        """Return the visible text."""
        return str(self.run("document.body?.innerText ?? ''"))

    def shows(self, words: str, seconds: float = _SECONDS) -> None:
        """Wait until the page shows some words."""
        wait_until(lambda: words in self.text(), seconds, f"{words!r} on the page")

    def take_fault(self, words: str) -> None:
        """Wait for a fault with these words, which is expected, and remove it."""

        def found() -> str | None:
            self.run("0")
            return next((each for each in self.faults if words in each), None)

        self.faults.remove(wait_until(found, _SECONDS, f"a fault: {words}") or "")

    def focus(self, selector: str) -> None:
        """Move the focus to the first element of a CSS selector."""
        found = f"document.querySelector({json.dumps(selector)})"
        wait_until(lambda: self.run(f"!!{found}"), _SECONDS, selector)
        self.run(f"{found}.focus()")
        assert self.run(f"document.activeElement === {found}"), selector

    def press(self, selector: str, code: str = "Enter") -> None:
        """Focus an element and strike a key."""
        self.focus(selector)
        self.strike(code)

    def strike(self, code: str) -> None:
        """Press a key and release it."""
        self.hold(code)
        self.release(code)

    def hold(self, code: str) -> None:
        """Press a key."""
        text = {"text": "\r"} if code == "Enter" else {}
        self._key("keyDown" if text else "rawKeyDown", code, **text)

    def release(self, code: str) -> None:
        """Release a key."""
        self._key("keyUp", code)

    def point(self, x: float, y: float, kind: str = "mouseMoved") -> None:
        """Move the mouse to a point of the window, or press or release its button."""
        button = "none" if kind == "mouseMoved" else "left"
        where = {"x": x, "y": y, "button": button, "clickCount": 1}
        self._call("Input.dispatchMouseEvent", type=kind, **where)

    def drag(self, start: tuple[float, float], end: tuple[float, float]) -> None:
        """Drag the mouse from one point of the window to another."""
        self.point(*start)
        self.point(*start, "mousePressed")
        self.point(*end)
        self.point(*end, "mouseReleased")

    def choose_tab(self, name: str) -> None:
        """Show one of the panels of an instance's page."""
        self.press(f"#tab-{name.lower().replace(' ', '-')}")

    def write(self, selector: str, text: str) -> None:
        """Replace the text of a field."""
        self.focus(selector)
        self.run("document.activeElement.select()")
        self._call("Input.insertText", text=text)

    def _key(self, kind: str, code: str, **more: Any) -> None:
        key = code.removeprefix("Key").lower() if code.startswith("Key") else code
        key = " " if code == "Space" else key
        number = _CODES.get(code, 0)
        self._call(
            "Input.dispatchKeyEvent",
            type=kind,
            code=code,
            key=key,
            windowsVirtualKeyCode=number,
            **more,
        )

    def _heard(self, message: dict[str, Any]) -> None:
        method, params = message.get("method", ""), message.get("params", {})
        level = params.get("entry", params).get("level", params.get("type", "error"))
        if method in _FAULTS and level in ("error", "assert"):
            self.faults.append(json.dumps(params)[:1000])
