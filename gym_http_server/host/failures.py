"""Reports exceptions around an environment: to the client, and in the logs."""

from __future__ import annotations

import contextlib
import os
import re
import traceback

import msgspec

from gym_http_core.env_errors import env_error
from gym_http_server.host import plain_json, server_log
from gym_http_server.host.dead_workers import follow_dead_worker
from gym_http_server.linux import sandbox
from gym_http_wire import spaces
from gym_http_wire.frames import Frame
from gym_http_wire.messages import problem_answer
from gym_http_wire.problems import EnvError, Problem, UnsupportedSpace

__all__ = [
    "cannot_load",
    "note",
    "note_cause",
    "problem_frame",
    "problem_of_error",
    "refusal_of",
]

_MESSAGE_CHARS = 500
_MISSING = {"builtins.ImportError", "gymnasium.error.DependencyNotInstalled"}
_INSTALL = re.compile(r"pip install ([^`\n]+)`")
#: Words of MuJoCo, Gymnasium and dm_control, which each have their own.
_OPENGL = re.compile("MUJOCO_GL|GLContext|OpenGL")
#: Words of Python, for a relative path.
_NO_FILE = re.compile(r"No such file or directory: '(?P<path>[^'/][^']*)'")
_NO_MODULE = re.compile(r"No module named '(?P<name>[^']+)'")
# Packages whose names differ from their modules' names.
_PACKAGES = {
    "PIL": "Pillow",
    "ale_py": "ale-py",
    "cv2": "opencv-python-headless",
    "sklearn": "scikit-learn",
    "yaml": "PyYAML",
}


def note(error: BaseException) -> None:
    """Print an exception to the instance's log, for the environment's author."""
    # The environment may have closed standard error.
    with contextlib.suppress(Exception):
        traceback.print_exception(error)


def note_cause(error: BaseException) -> None:
    """Print an exception to the instance's log, or the cause of a `Problem`."""
    cause = error.__cause__ if isinstance(error, Problem) else error
    if cause is not None:
        note(cause)


def refusal_of(error: BaseException, *, tracebacks: bool) -> Frame:
    """Log an error and return the frame that reports it to the client.

    Args:
        error: A `Problem`, or any other exception.
        tracebacks: Whether clients may see the traceback of an environment's exception.
    """
    problem = problem_of_error(error)
    note_cause(error)
    frames = problem.extras.get("traceback")
    if frames:
        server_log.write(f"{problem.message.splitlines()[0]}\n{frames}")
    if not tracebacks:
        problem.extras.pop("traceback", None)
    _explain(problem)
    return problem_frame(problem)


def _explain(problem: Problem) -> None:
    """Add advice for the operator to a message, if the cause is known."""
    lineage = problem.extras.get("mro")
    if not isinstance(lineage, list):
        return
    words = str(problem.extras.get("text", ""))
    if not _MISSING.isdisjoint(lineage):
        problem.message += _cure(words)
    if _OPENGL.search(words) and os.environ.get("MUJOCO_GL") == "disable":
        problem.message += (
            "; the server has no display and no library to draw without one "
            "(MUJOCO_GL=disable): install libegl1, libopengl0 and libgl1-mesa-dri, or "
            "libosmesa6, and start it again"
        )
    if "builtins.FileNotFoundError" in lineage and (found := _NO_FILE.search(words)):
        problem.message += (
            "; environments that the server makes run in directories of their own: "
            "expected a path beside the module, as "
            f"Path(__file__).parent / {found['path']!r:.80}"
        )
    if "builtins.PermissionError" in lineage and sandbox.confined():
        problem.message += (
            "; the sandbox lets environments write only below their own working and "
            "temporary directories: the server's --writable PATH allows more"
        )


def cannot_load(error: BaseException) -> str:
    """Return why an environment of the registry cannot be made, and what to install."""
    found = env_error("", error).extras
    cure = "" if _MISSING.isdisjoint(found["mro"]) else _cure(found["text"])
    return f"{type(error).__name__}: {found['text']}"[:_MESSAGE_CHARS] + cure


def _cure(words: str) -> str:
    """Return the commands that install the packages that an exception names."""
    packages = _INSTALL.findall(words)
    if not packages and (found := _NO_MODULE.search(words)):
        module = found["name"].partition(".")[0]
        packages = [_PACKAGES.get(module, module)]
    commands = " && ".join(f"pip install {each}" for each in packages)
    return f"; on the server: {commands}" if commands else ""


def problem_frame(problem: Problem) -> Frame:
    """Return the frame with a problem, even if JSON cannot represent its text."""
    try:
        return problem_answer(problem)
    except Exception:
        # The text has half a character, or an extra is too large an integer.
        simple = Problem(
            problem.message.encode(errors="replace").decode(),
            status=problem.status,
            code=problem.code,
            extras=msgspec.json.decode(plain_json.dumps(problem.extras)),
        )
        return problem_answer(simple)


def problem_of_error(error: BaseException) -> Problem:
    """Return an exception as the problem that clients get; a `Problem` as it is.

    If a worker of a vector has died, this process ends in the same way.

    Environments may return a reward that is not a number, flags that are arrays or an
    info that contains itself. So other exceptions count as the environment's, not as
    the server's.
    """
    cause = error.__cause__ if isinstance(error, Problem) else error
    if cause is not None:
        follow_dead_worker(cause)
    if isinstance(error, Problem):
        return error
    if isinstance(error, spaces.UndescribableSpace):
        return UnsupportedSpace(str(error))
    name = type(error).__qualname__
    extras = {"error_type": name}
    text = ""
    with contextlib.suppress(Exception):
        extras = env_error("", error).extras
        text = f": {error}"
    message = f"a value of the environment is invalid: {name}{text}"
    return EnvError(message[:_MESSAGE_CHARS], extras=extras)
