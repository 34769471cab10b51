"""Makes an environment of ``tests.support.envs.intruder`` try an action."""

from typing import Any

from tests.support.api import Instance

INTRUDER = "intruder/Intruder-v0"


def attempt(instance: Instance, deed: str, *arguments: Any) -> Any:
    """Make an environment try an action; return its result, or the errno's name."""
    options = {"deed": deed, "arguments": arguments}
    info = instance.reset(options=options, return_info=True)["info"]
    return info.get("failed", info.get("result"))
