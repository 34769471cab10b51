"""External environments that are commands, as the settings have them."""

from __future__ import annotations

import functools
import shlex
from collections.abc import Mapping

import msgspec

from gym_http_server.errors import SettingError
from gym_http_server.external.provider import PATH as PROVIDER
from gym_http_wire.external.handshake import is_name

__all__ = ["EXTERNAL", "EnvCommand", "command_of", "read_commands"]

#: Beginning of the IDs of external environments.
EXTERNAL = "external/"


class EnvCommand(msgspec.Struct, frozen=True):
    """A command that each instance of ``external/NAME`` starts.

    Attributes:
        name: The name.
        words: The program and its arguments.
        lists: Whether it makes the environment whose ID follows the name, and lists
            the IDs that it knows.
    """

    name: str
    words: tuple[str, ...]
    lists: bool = False


@functools.cache
def read_commands(
    commands: tuple[str, ...], pythons: tuple[str, ...]
) -> Mapping[str, EnvCommand]:
    """Return the commands by name.

    Args:
        commands: The values of ``--env-command``.
        pythons: The values of ``--env-python``.

    Raises:
        SettingError: A value is malformed, or two have the same name.
    """
    found: dict[str, EnvCommand] = {}
    for flag, given, read in (
        ("--env-command", commands, _read_words),
        ("--env-python", pythons, _read_python),
    ):
        for each in given:
            name, equals, value = each.partition("=")
            wrong = f"{flag} is {each!r}"
            if not equals or not is_name(name):
                raise SettingError(
                    f"{wrong}: expected NAME={flag.removeprefix('--env-').upper()}, "
                    "where NAME is a letter or digit, then up to 63 of A-Z, a-z, 0-9, "
                    "_, . and -"
                )
            if name in found:
                raise SettingError(f"{wrong}: {name} is a command already")
            found[name] = read(name, value, wrong)
    return found


def _read_words(name: str, value: str, wrong: str) -> EnvCommand:
    try:
        words = tuple(shlex.split(value))
    except ValueError as error:
        raise SettingError(f"{wrong}: {error}; quote as in a shell") from None
    if not words or not words[0]:
        raise SettingError(f"{wrong}: expected a command after {name}=")
    return EnvCommand(name, words)


def _read_python(name: str, value: str, wrong: str) -> EnvCommand:
    python, colon, factory = value.partition(":")
    if not python or (colon and not all(factory.partition(":"))):
        raise SettingError(
            f"{wrong}: expected NAME=PYTHON or NAME=PYTHON:MODULE:FACTORY, as "
            "old=/opt/venv37/bin/python"
        )
    words = (python, PROVIDER, factory) if factory else (python, PROVIDER)
    return EnvCommand(name, words, lists=not factory)


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
