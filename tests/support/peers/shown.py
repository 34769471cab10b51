"""A watcher that is shown an instance: texts, and pictures right behind them."""

import io
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from tests.support.api import Instance
from tests.support.strict_json import parse_strictly
from tests.support.websocket import TEXT, WebSocket


class Update(NamedTuple):
    """An update: its text, and the pixels of its picture, if it has one."""

    text: dict[str, Any]
    pixels: NDArray[np.uint8] | None


class Shown(WebSocket):
    """A watcher in the form ``show``."""

    def update(self) -> Update:
        """Read the next update."""
        opcode, payload = self.read_frame()
        assert opcode == 1, (opcode, payload[:80])
        text: dict[str, Any] = parse_strictly(payload.decode())
        about = text["picture"]
        if about is None:
            return Update(text, None)
        opcode, payload = self.read_frame()
        assert opcode == 2, (opcode, payload[:80])
        image = Image.open(io.BytesIO(payload))
        assert about == {
            "type": "image/jpeg",
            "width": image.width,
            "height": image.height,
        }
        assert image.format == "JPEG"
        return Update(text, np.asarray(image))

    def until(self, steps: int, *, picture: bool = False) -> Update:
        """Read updates until one counts these steps, if wanted with a picture."""
        while True:
            update = self.update()
            if update.text["steps"] >= steps and (
                not picture or update.pixels is not None
            ):
                return update


def open_shown(instance: Instance, more: str = "") -> Shown:
    """Open a watcher in the form ``show``."""
    path = instance.path(f"stream?watch=1&form=show{more}")
    shown = Shown.to(instance, path=path, sec_websocket_protocol=TEXT)
    assert shown.response.status == 101, shown.response
    return shown
