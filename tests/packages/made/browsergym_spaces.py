"""The spaces of BrowserGym, with observations as it makes them but for the browser."""

from typing import Any

import gymnasium
import numpy as np
from browsergym.core.env import BrowserEnv


class Spaces(BrowserEnv):
    """A `BrowserEnv` whose pages are made up."""

    def __init__(self) -> None:
        super().__init__(task_entrypoint=None)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Return the first page."""
        gymnasium.Env.reset(self, seed=seed)
        return self._observe(""), {"task_info": {}}

    def step(self, action: str) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Return the next page; the action is its chat."""
        return self._observe(action), 0, False, False, {"action": action}

    def close(self) -> None:
        """Do nothing: no browser runs."""

    def _observe(self, action: str) -> dict[str, Any]:
        height, width = self.np_random.integers(1, 40, 2)
        number = int(self.np_random.integers(1000))
        url = f"https://example.org/{number}?q=ä€𝄞"
        node = {"nodeId": str(number), "role": {"type": "role", "value": "button"}}
        box = {"visibility": 1.0, "bbox": [0.5, 1.5, 2.0, 3.0], "clickable": True}
        return {
            "chat_messages": (
                {"role": "assistant", "timestamp": 0.5 + number, "message": action},
            ),
            "goal": "Find “ä€𝄞”",
            "goal_object": ({"type": "text", "text": "Find “ä€𝄞”"},),
            "open_pages_urls": (url, "about:blank"),
            "open_pages_titles": ("A page", ""),
            "active_page_index": np.asarray([0]),
            "url": url,
            "screenshot": self.np_random.integers(0, 256, (height, width, 3), np.uint8),
            "dom_object": {"documents": [{"nodes": list(range(number % 7))}]},
            "axtree_object": {"nodes": [node]},
            "extra_element_properties": {str(number): {**box, "set_of_marks": False}},
            "focused_element_bid": str(number),
            "last_action": action,
            "last_action_error": "",
            "elapsed_time": np.asarray([float(number)]),
        }


gymnasium.register("made/BrowserGymSpaces-v0", Spaces)
