"""The survey of the registry: environments that can be made, and why others cannot.

An environment can be made if its entry point can be loaded. Loading imports heavy
libraries that may start threads, so the survey runs in a child process.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import io
import logging
import math
import os
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Mapping
from typing import Any

import msgspec
from gymnasium.envs import registration

from gym_http_server.config.env_commands import EXTERNAL, EnvCommand
from gym_http_server.errors import SurveyFailed
from gym_http_server.host.agents import agent_rows
from gym_http_server.host.failures import cannot_load
from gym_http_server.host.pools import pool_rows
from gym_http_server.linux import prctl
from gym_http_server.processes.service_process import isolate
from gym_http_server.supervisor.forks import start_child

__all__ = ["Survey", "survey"]

#: Seconds that one import and the whole survey may take; less than clients wait.
IMPORT_SECONDS = 30.0
SURVEY_SECONDS = 50.0
MAX_BYTES = 64 * 1024 * 1024
READ_BYTES = 1 << 20
#: Items of a default that is a list.
MAX_ITEMS = 16
_BY_NAME = (inspect.Parameter.KEYWORD_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
#: Arguments that create requests have members for.
_OTHERWISE = ("render_mode",)


class _SurveyMessage(msgspec.Struct, omit_defaults=True):
    """A line that the child writes.

    Attributes:
        loading: The name of the next import.
        envs: The result.
    """

    loading: str = ""
    envs: msgspec.Raw = msgspec.Raw()


class Survey:
    """A child process that makes the survey, and its messages so far.

    Args:
        modules: Modules to import before.
        import_seconds: Seconds that one import may take, or one command to list its
            environments.
        commands: The commands of the settings.

    Attributes:
        pid: The child's process ID.
        reader: Descriptor to wait for.
        result: The survey, once it is complete.

    Raises:
        ForkFailed: No process can be started.
        SurveyFailed: No file can be opened.
    """

    def __init__(
        self,
        modules: tuple[str, ...],
        import_seconds: float,
        commands: Mapping[str, EnvCommand],
    ) -> None:
        seconds = self._import_seconds = min(import_seconds, IMPORT_SECONDS)
        self.result: bytes | None = None
        try:
            self.reader, writer = os.pipe()
        except OSError as error:
            raise SurveyFailed(
                "the server cannot look through the registered environments "
                f"({error.strerror}): close instances or connections, or raise its "
                "limit of open files; the next request begins anew"
            ) from None
        try:
            self.pid = start_child(
                [writer],
                lambda parent: _make(modules, commands, seconds, writer, parent),
                "registry",
            )
        except BaseException:
            os.close(self.reader)
            raise
        finally:
            os.close(writer)
        os.set_blocking(self.reader, False)
        self._loading = ""
        self._unread = bytearray()
        self._started = self._began_import = time.monotonic()

    def read(self) -> bool:
        """Read messages of the child; return whether more may come.

        Raises:
            SurveyFailed: The child ended without a result, or sent a malformed message.
        """
        try:
            data = os.read(self.reader, READ_BYTES)
        except BlockingIOError:
            return True
        *lines, rest = (self._unread + data).split(b"\n")
        self._unread = rest
        try:
            for line in lines:
                self._take(msgspec.json.decode(line, type=_SurveyMessage))
        except (msgspec.MsgspecError, ValueError):
            raise self._failed("sent malformed data") from None
        if self.result is None and (not data or len(rest) > MAX_BYTES):
            raise self._failed("ended early")
        return self.result is None

    def _take(self, message: _SurveyMessage) -> None:
        if bytes(message.envs):
            self.result = bytes(message.envs)
        self._loading = message.loading
        self._began_import = time.monotonic()

    def check_deadline(self, now: float) -> None:
        """Check the deadline of the child.

        Raises:
            SurveyFailed: The child takes too long.
        """
        for began, limit in (
            (self._began_import, self._import_seconds),
            (self._started, SURVEY_SECONDS),
        ):
            if now - began > limit:
                raise self._failed(f"took longer than {limit:g} s")

    def _failed(self, how: str) -> SurveyFailed:
        where = f" while loading {self._loading!r:.200}" if self._loading else ""
        return SurveyFailed(
            f"looking through the registered environments {how}{where}; "
            "the next request begins anew"
        )

    def close(self) -> None:
        """Close its descriptor in this process."""
        os.close(self.reader)


def _make(
    modules: tuple[str, ...],
    commands: Mapping[str, EnvCommand],
    seconds: float,
    writer: int,
    parent_pid: int,
) -> int:
    isolate(parent_pid)
    # Libraries have to say something when they are imported.
    logging.disable(logging.INFO)
    with os.fdopen(writer, "wb") as pipe:

        def send(message: _SurveyMessage) -> None:
            pipe.write(msgspec.json.encode(message) + b"\n")
            pipe.flush()

        def note(name: str) -> None:
            send(_SurveyMessage(loading=name))

        rows = survey(modules, note)
        for command in commands.values():
            note(f"{EXTERNAL}{command.name}")
            # A failure is reported before this process is ended for it.
            rows += _command_rows(command, 0.9 * seconds)
        send(_SurveyMessage(envs=msgspec.Raw(msgspec.json.encode(rows))))
    return 0


def survey(
    modules: tuple[str, ...], on_load: Callable[[str], None] = lambda name: None
) -> list[dict[str, Any]]:
    """Return every registered environment, and those of EnvPool and PettingZoo.

    Args:
        modules: Modules to import before.
        on_load: Called with each name before its import.

    Returns:
        Objects with ``env_id``, ``available``, ``reason``, ``arguments``,
        ``entry_point`` and ``max_episode_steps``, sorted by ID.
    """
    found: dict[str, tuple[Any, str | None]] = {}
    rows = []
    with (
        contextlib.redirect_stdout(io.StringIO()),
        contextlib.redirect_stderr(io.StringIO()),
        warnings.catch_warnings(),
    ):
        warnings.simplefilter("ignore")
        for module in modules:
            on_load(module)
            __import__(module)
        for env_id, spec in sorted(registration.registry.items()):
            entry = spec.entry_point or spec.vector_entry_point
            name = _name(entry)
            if name not in found:
                if name.partition(":")[0] not in sys.modules:
                    on_load(name)
                found[name] = _loaded(entry)
            creator, reason = found[name]
            rows.append(
                {
                    "arguments": _arguments(creator, spec.kwargs),
                    "available": reason is None,
                    "entry_point": name,
                    "env_id": env_id,
                    "max_episode_steps": spec.max_episode_steps,
                    "reason": reason,
                }
            )
        rows += pool_rows(on_load) + agent_rows(on_load)
    return sorted(rows, key=lambda row: str(row["env_id"]))


class _CommandEnv(msgspec.Struct):
    """An environment of a command, as `gym_serve_stdio.py` lists it."""

    env_id: str = ""
    entry_point: str | None = None
    max_episode_steps: int | None = None
    reason: str | None = None


def _command_rows(command: EnvCommand, seconds: float) -> list[dict[str, Any]]:
    """Return the environments of a command, or why it lists none.

    Args:
        command: The command.
        seconds: Seconds that it may take to list them.
    """
    envs, why = [_CommandEnv()], ""
    try:
        if command.lists:
            envs = _listed(command, seconds)
    except subprocess.CalledProcessError as error:
        last = error.stderr.decode(errors="replace").strip().rpartition("\n")[2]
        why = f"its exit status is {error.returncode}: {last:.300}"
    except (OSError, subprocess.SubprocessError, msgspec.MsgspecError) as error:
        why = str(error)
    if why:
        why = f"{command.words[0]} does not list its environments: {why}"
        envs = [_CommandEnv(reason=why)]
    # They are known when an instance has started it.
    spaces = {"action_space": None, "observation_space": None}
    return [
        {
            **msgspec.structs.asdict(each),
            "available": each.reason is None,
            "env_id": f"{EXTERNAL}{command.name}/{each.env_id}".rstrip("/"),
            "external": {"command": command.name, **spaces},
        }
        for each in envs
    ]


def _listed(command: EnvCommand, seconds: float) -> list[_CommandEnv]:
    done = subprocess.run(
        [*command.words, "--list"],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=seconds,
        check=True,
        preexec_fn=functools.partial(prctl.die_with_parent, os.getpid()),
    )
    return msgspec.json.decode(done.stdout, type=list[_CommandEnv])


def _name(entry: Any) -> str:
    if isinstance(entry, str) or entry is None:
        return str(entry)
    return f"{entry.__module__}:{getattr(entry, '__qualname__', type(entry).__name__)}"


def _loaded(entry: Any) -> tuple[Any, str | None]:
    """Return what makes an environment, and why it cannot be made, or ``None``."""
    try:
        if isinstance(entry, str):
            entry = registration.load_env_creator(entry)
        elif getattr(entry, "__name__", "").startswith("_raise"):
            # Gymnasium registers functions that raise for environments that moved away.
            entry()
    except (Exception, SystemExit) as error:
        return None, cannot_load(error)
    return entry, None


def _arguments(creator: Any, registered: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the keyword arguments of an environment, with the defaults that JSON has.

    Args:
        creator: Its class, or a function that makes it.
        registered: Arguments that it is registered with.
    """
    try:
        parameters = inspect.signature(creator).parameters
    except Exception:
        # A class may describe itself, with code that raises anything.
        return []
    arguments: list[dict[str, Any]] = []
    for name, parameter in parameters.items():
        if parameter.kind not in _BY_NAME or name in _OTHERWISE:
            continue
        default = registered.get(name, parameter.default)
        if default is parameter.empty:
            arguments.append({"name": name})
        elif _is_json(default):
            arguments.append({"default": default, "name": name})
    return arguments


def _is_json(value: Any) -> bool:
    try:
        # A string may have half a character, which only encoding notices.
        return _is_plain(value) and bool(msgspec.json.encode(value))
    except Exception:
        # A list may contain itself, or be of a class of the environment's.
        return False


def _is_plain(value: Any) -> bool:
    if isinstance(value, (list, tuple)):
        return len(value) <= MAX_ITEMS and all(map(_is_plain, value))
    if type(value) is float:
        return math.isfinite(value)
    return value is None or type(value) in (bool, int, str)
