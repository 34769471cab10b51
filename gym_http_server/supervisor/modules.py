"""The modules that bring environments, and whether a process may fork after them.

Importing runs in a forked child first: a module that starts threads would make the
supervisor unfit to fork, so its environments get a fresh interpreter each.
"""

from __future__ import annotations

import importlib
import os
import signal
import sys
import traceback
from dataclasses import dataclass
from typing import Any

import msgspec

from gym_http_core.env_errors import shortened
from gym_http_server.errors import StartError
from gym_http_server.titles import set_title

__all__ = ["Modules", "threads"]


@dataclass(frozen=True)
class Modules:
    """What was imported.

    Attributes:
        imported: Modules that are imported here, and so in every forked host.
        apart: Modules that start threads; imported in fresh interpreters only.
        apart_ids: The env IDs that those brought, as far as they are known.
    """

    imported: tuple[str, ...]
    apart: tuple[str, ...]
    apart_ids: frozenset[str]

    @classmethod
    def load(cls, names: tuple[str, ...]) -> Modules:
        """Import modules, each in a child first.

        Raises:
            StartError: One cannot be imported.
        """
        imported, apart, apart_ids = [], [], set()
        for name in names:
            trial = _try_import(name)
            if trial["error"]:
                raise StartError(f"cannot import the module {name!r}: {trial['error']}")
            if trial["threads"] > 1:
                apart.append(name)
                apart_ids |= set(trial["env_ids"])
            else:
                importlib.import_module(name)
                imported.append(name)
        return cls(tuple(imported), tuple(apart), frozenset(apart_ids))


def threads() -> int:
    """Count the threads of this process."""
    return len(os.listdir("/proc/self/task"))


def _try_import(name: str) -> dict[str, Any]:
    from gymnasium.envs.registration import registry

    reader, writer = os.pipe()
    try:
        pid = os.fork()
    except OSError as error:
        os.close(reader)
        os.close(writer)
        return {"error": f"no process can be started to try it out ({error.strerror})"}
    if pid == 0:
        os.close(reader)
        set_title(f"import of {name}")
        known = set(registry)
        result: dict[str, Any] = {"error": "", "threads": 1, "env_ids": []}
        try:
            importlib.import_module(name)
            result["threads"] = threads()
            result["env_ids"] = sorted(set(registry) - known)
        except BaseException as error:
            result["error"] = _explained(error)
        os.write(writer, msgspec.json.encode(result))
        sys.stdout.flush()
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader, "rb") as pipe:
        told = pipe.read()
    _, status = os.waitpid(pid, 0)
    if not told:
        why = f"exit status {os.waitstatus_to_exitcode(status)}"
        if os.WIFSIGNALED(status):
            why = signal.Signals(os.WTERMSIG(status)).name
        return {"error": f"it ended the process ({why})"}
    return dict(msgspec.json.decode(told))


def _explained(error: BaseException) -> str:
    """Describe an exception of an import, with file and line of each frame."""
    *above, words = traceback.format_exception_only(error)
    words = words.strip()
    frames = [
        frame
        for frame in traceback.extract_tb(error.__traceback__)
        if frame.filename not in (__file__, importlib.__file__)
        and not frame.filename.startswith("<frozen importlib")
    ]
    if isinstance(error, SyntaxError) and error.filename:
        words += f" ({error.filename}, line {error.lineno})\n{''.join(above).rstrip()}"
    elif frames:
        place = f"{frames[-1].filename}, line {frames[-1].lineno}"
        words += f" ({place})\n{''.join(traceback.format_list(frames)).rstrip()}"
    elif isinstance(error, ModuleNotFoundError):
        words += "; a file is imported by its path, as ./my_envs.py"
    # Its words may have half characters in them, or be none.
    return shortened(words.encode(errors="replace").decode())
