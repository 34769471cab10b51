"""The environments that the settings allow to be made, by their IDs."""

from __future__ import annotations

import fnmatch

from gym_http_server.config.settings import Settings
from gym_http_server.errors import EnvRefused

__all__ = ["WORLDS", "check_allowed"]

#: Beginnings of env IDs that name worlds, also before MODULE:CLASS.
WORLDS = ("interface/", "world/")


def check_allowed(env_id: str, settings: Settings) -> None:
    """Check that an environment may be made, and its module be imported.

    Raises:
        EnvRefused: ``--allow-env`` or ``--allow-module`` does not have it.
    """
    module, colon, _ = env_id.rpartition(":")
    for prefix in WORLDS:
        if module.startswith(prefix):
            module = module.removeprefix(prefix)
            break
    if colon and module not in settings.allow_module:
        raise EnvRefused(
            f"the env ID {env_id!r} names a module to import, and {module!r} is not "
            "allowed here; start the server with --allow-module, or import the module "
            "at start with --import"
        )
    allowed = settings.allow_env
    if allowed and not any(fnmatch.fnmatchcase(env_id, glob) for glob in allowed):
        raise EnvRefused(
            f"the environment {env_id!r} is not allowed here; "
            f"allowed are {list(allowed)}"
        )
