"""An environment whose every text holds HTML and script.

A server loads it with ``--import tests.support.envs.markup``.
"""

from typing import Any, ClassVar

import gymnasium
from gymnasium import spaces

#: What a page must show letter by letter.
MARKUP = "<img src=x onerror=alert(1)><script>alert(2)</script>"


class Markup(gymnasium.Env[Any, Any]):
    """Renders, prints, returns and raises `MARKUP`."""

    metadata: ClassVar[dict[str, Any]] = {"render_modes": ["ansi"]}
    action_space = spaces.Discrete(2)
    observation_space = spaces.Text(200, charset=frozenset(MARKUP))

    def __init__(self, render_mode: str | None = None) -> None:
        self.render_mode = render_mode

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Begin an episode."""
        print(f"reset {MARKUP}", flush=True)
        return MARKUP, {MARKUP: MARKUP}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Return `MARKUP`, or raise it for the action 1.

        Raises:
            ValueError: The action is 1.
        """
        if action == 1:
            raise ValueError(f"raised {MARKUP}")
        return MARKUP, 1.0, False, False, {MARKUP: [MARKUP]}

    def render(self) -> Any:
        """Return a text."""
        return f"drawn {MARKUP}"


gymnasium.register("markup/Markup-v0", Markup, disable_env_checker=True)
