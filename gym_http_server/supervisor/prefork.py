"""Prepares the supervisor for its first fork: imports, and memory that forks share.

Each import runs in a forked child first. A module that starts threads would make the
supervisor unfit to fork, so each of its environments gets a fresh interpreter.

A host shares all pages of the supervisor's memory until one of the two writes to them.
Python writes to each object that it uses, since it counts references: some 3 MiB a
host cannot be avoided. `arrange_memory`, and in the fork server trials, `gather_code`
and `suspend_fork_hooks`, avoid much of the rest.
"""

from __future__ import annotations

import gc
import importlib
import logging
import os
import sys
import threading
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from types import CodeType, FrameType, FunctionType
from typing import Any

import msgspec

from gym_http_core.env_errors import shortened
from gym_http_server.errors import StartError
from gym_http_server.processes.end_problems import signal_name
from gym_http_server.processes.log_lines import SUPERVISOR
from gym_http_server.processes.titles import set_title

__all__ = [
    "Modules",
    "arrange_memory",
    "gather_code",
    "resume_fork_hooks",
    "suspend_fork_hooks",
    "threads",
]


log = logging.getLogger(SUPERVISOR)


@dataclass(frozen=True)
class Modules:
    """The modules of --import that were imported.

    Attributes:
        imported: Modules that are imported here, and so in every forked host.
        apart: Modules that start threads; imported in fresh interpreters only.
        apart_ids: The env IDs that those register, as far as they are known.
    """

    imported: tuple[str, ...]
    apart: tuple[str, ...]
    apart_ids: frozenset[str]

    @classmethod
    def load(cls, names: tuple[str, ...]) -> Modules:
        """Import modules, each in a child first.

        Raises:
            StartError: A module cannot be imported.
        """
        imported, apart, apart_ids = [], [], set()
        for name in names:
            trial = _try_import(name)
            if trial["error"]:
                raise StartError(f"cannot import the module {name!r}: {trial['error']}")
            if not trial["env_ids"] and name not in sys.modules:
                # Not a warning: EnvPool, for example, has a registry of its own.
                log.info(
                    "the module %s is imported, and registers no environment with "
                    "Gymnasium, as gymnasium.register('my/Maze-v0', Maze) does",
                    name,
                )
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
        from gym_http_core.agents import factories

        set_title(f"import of {name}")
        known = {**registry, **factories}
        result: dict[str, Any] = {"error": "", "threads": 1, "env_ids": []}
        try:
            importlib.import_module(name)
            result["threads"] = threads()
            result["env_ids"] = sorted(
                env_id
                for env_id, registered in {**registry, **factories}.items()
                # One that was registered anew counts, too.
                if known.get(env_id) is not registered
            )
        except BaseException as error:
            result["error"] = _explained(error)
        os.write(writer, msgspec.json.encode(result))
        sys.stdout.flush()
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader, "rb") as pipe:
        report = pipe.read()
    _, status = os.waitpid(pid, 0)
    if not report:
        why = f"exit status {os.waitstatus_to_exitcode(status)}"
        if os.WIFSIGNALED(status):
            why = signal_name(os.WTERMSIG(status))
        return {"error": f"it ended the process ({why})"}
    return dict(msgspec.json.decode(report))


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
        words += _import_advice(error)
    # The message may contain surrogates, or be empty.
    return shortened(words.encode(errors="replace").decode())


def _import_advice(error: ModuleNotFoundError) -> str:
    module, dot, name = (error.name or "").rpartition(".")
    if dot and "is not a package" in str(error):
        return (
            f"; import {module} alone, in which gymnasium.register('my/{name}-v0', "
            f"{name}) registers a class"
        )
    return "; a file is imported by its path, as ./my_envs.py"


# Numbers of CPython's allocator. If they differ, only the number of objects changes.
_POOL_BYTES = 16 * 1024
_POOL_HEAD_BYTES = 48
_SIZES = range(48, 513, 16)
_MOST_HOLES = 10_000
_EMPTY_BYTES = sys.getsizeof(b"")

_fillings: list[object] = []


def arrange_memory() -> None:
    """Arrange the memory so that hosts write to few of its pages.

    To be called once, when everything has been imported.
    """
    global _fork_hooks
    gc.collect()
    _fork_hooks = _find_fork_hooks()
    # From now on, the collector ignores existing objects, and writes nothing to them.
    gc.freeze()
    _forget_lookups()
    _fill_holes()


def _forget_lookups() -> None:
    """Empty the cache of attributes of types.

    It holds names that were looked up while importing. A later name that replaces one
    of them releases it, which writes to its page.
    """
    clear = getattr(sys, "_clear_internal_caches", None)
    clear = clear or getattr(sys, "_clear_type_cache", None)
    if clear is not None:
        clear()


def _fill_holes() -> None:
    """Fill the gaps that imports have left in pages full of other objects.

    Objects of hosts are then allocated together, in separate pages. A gap of each size
    is filled until the next one is the first of a new pool.
    """
    makers: list[Callable[[], object]] = [object, lambda: float("1.5")]
    makers += [_maker(size) for size in _SIZES]
    for make in makers:
        for _ in range(_MOST_HOLES):
            _fillings.append(make())
            if id(_fillings[-1]) % _POOL_BYTES == _POOL_HEAD_BYTES:
                break


def _maker(size: int) -> Callable[[], bytes]:
    """Return a function that makes an object of a certain size."""
    return lambda: bytes(size - _EMPTY_BYTES)


# The modules whose hooks do nothing that a host needs: they renew locks that another
# thread may hold, and seed a generator that each host seeds by itself.
_IDLE_HOOKS = {"threading", "logging", "random"}
# Python's own list of what runs in each fork, and what was in it.
_fork_hooks: list[Any] = []
_idle_hooks: list[Any] = []


def _find_fork_hooks() -> list[Any]:
    """Return Python's list of what runs in each fork; an empty one if it is hidden."""
    holders = gc.get_referrers(threading._after_fork)  # type: ignore[attr-defined]
    return next((each for each in holders if type(each) is list), [])


def suspend_fork_hooks() -> None:
    """Let forks of this process do without Python's hooks, for it has one thread.

    Those of other modules remain. The hooks would write to 400 KiB of shared memory.
    """
    _idle_hooks[:] = [
        hook for hook in _fork_hooks if getattr(hook, "__module__", "") in _IDLE_HOOKS
    ]
    _fork_hooks[:] = [hook for hook in _fork_hooks if hook not in _idle_hooks]


def resume_fork_hooks() -> None:
    """Let forks of this process, which may get threads, run all hooks again."""
    _fork_hooks[:0] = _idle_hooks


def gather_code(run: Callable[[], object]) -> None:
    """Move the code of all functions that run in a call to pages of their own.

    A call of a function writes to the page of its code. There an import has put it,
    next to the code of others, most of which never run.

    Args:
        run: The call.
    """
    found: dict[CodeType, FunctionType | None] = {}

    def note(frame: FrameType, event: str, _: object) -> None:
        if event == "call" and frame.f_code not in found:
            found[frame.f_code] = _function_of(frame)

    sys.setprofile(note)
    try:
        run()
    finally:
        sys.setprofile(None)
    for code, function in found.items():
        if function is not None:
            function.__code__ = code.replace()
    # Kept, so that hosts allocate nothing in the gaps.
    _fillings.append(found)


def _function_of(frame: FrameType) -> FunctionType | None:
    """Return the function that runs in a frame; ``None`` if no module has it."""
    code = frame.f_code
    found: Any = None
    members: Any = frame.f_globals
    for name in code.co_qualname.split("."):
        found = members.get(name)
        members = getattr(found, "__dict__", {})
    for name in ("__func__", "fget"):
        found = getattr(found, name, found)
    if isinstance(found, FunctionType) and found.__code__ is code:
        return found
    return None
