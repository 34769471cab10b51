"""External environments that are commands, as the settings have them."""

from __future__ import annotations

import functools
import shlex
from collections.abc import Mapping

import msgspec

from gym_http_server.errors import SettingError
from gym_http_wire.external.handshake import is_name

__all__ = ["EXTERNAL", "EnvCommand", "command_of", "read_commands"]

#: Beginning of the IDs of external environments.
EXTERNAL = "external/"


class EnvCommand(msgspec.Struct, frozen=True):
    """A command that each instance of ``external/NAME`` starts.

    Attributes:
        name: The name.
        words: The program and its arguments.
    """

    name: str
    words: tuple[str, ...]


@functools.cache
def read_commands(given: tuple[str, ...]) -> Mapping[str, EnvCommand]:
    """Return the commands of ``--env-command``, by name.

    Args:
        given: The values of the setting.

    Raises:
        SettingError: A value is malformed, or two have the same name.
    """
    commands: dict[str, EnvCommand] = {}
    for each in given:
        name, equals, command = each.partition("=")
        wrong = f"--env-command is {each!r}"
        if not equals or not is_name(name):
            raise SettingError(
                f"{wrong}: expected NAME=COMMAND, where NAME is a letter or digit, "
                "then up to 63 of A-Z, a-z, 0-9, _, . and -"
            )
        try:
            words = tuple(shlex.split(command))
        except ValueError as error:
            raise SettingError(f"{wrong}: {error}; quote as in a shell") from None
        if not words or not words[0]:
            raise SettingError(f"{wrong}: expected a command after {name}=")
        if name in commands:
            raise SettingError(
                f"{wrong}: {name} is a command already; use each name once"
            )
        commands[name] = EnvCommand(name, words)
    return commands


def command_of(commands: Mapping[str, EnvCommand], env_id: str) -> EnvCommand | None:
    """Return the command that an env ID names; ``None`` if it names no command.

    Args:
        commands: The commands by name.
        env_id: The ID: ``external/NAME``, or ``external/NAME/ID`` with an ID for the
            command.
    """
    if not env_id.startswith(EXTERNAL):
        return None
    return commands.get(env_id.removeprefix(EXTERNAL).partition("/")[0])
