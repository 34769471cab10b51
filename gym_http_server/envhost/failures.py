"""What went wrong around an environment, told whatever it put into its words."""

from __future__ import annotations

import contextlib
import traceback

import msgspec

from gym_http_server import sandbox
from gym_http_server.envhost import plain
from gym_http_wire import spaces
from gym_http_wire.blame import env_error
from gym_http_wire.frames import Frame
from gym_http_wire.messages import problem_answer
from gym_http_wire.problems import EnvError, Problem, UnsupportedSpace

__all__ = ["explain", "note", "problem_frame", "unforeseen"]

_MESSAGE_CHARS = 500


def note(error: BaseException) -> None:
    """Print an exception, for whoever wrote the environment to find in the log."""
    # The environment may have closed where this goes to.
    with contextlib.suppress(Exception):
        traceback.print_exception(error)


def explain(problem: Problem) -> None:
    """Add to the message of a refused write that the sandbox may be the reason."""
    lineage = problem.extras.get("mro")
    refused = isinstance(lineage, list) and "builtins.PermissionError" in lineage
    if refused and sandbox.confined():
        problem.message += (
            "; the sandbox lets environments write only below their own working and "
            "temporary directories: the server's --writable PATH allows more"
        )


def problem_frame(problem: Problem) -> Frame:
    """Give the frame that tells of a problem, also one that JSON has no words for."""
    try:
        return problem_answer(problem)
    except Exception:
        # Half of a character, or an integer that is too large.
        told = Problem(
            problem.message.encode(errors="replace").decode(),
            status=problem.status,
            code=problem.code,
            extras=msgspec.json.decode(plain.dumps(problem.extras)),
        )
        return problem_answer(told)


def unforeseen(error: Exception) -> Problem:
    """Tell of an exception that came of what an environment is or gave.

    A reward that is no number, flags that are arrays, an info that contains itself,
    a space that cannot be sampled, metadata that is no dict: environments may do
    everything, and that is no fault of the server's.
    """
    if isinstance(error, spaces.UnsupportedSpace):
        return UnsupportedSpace(str(error))
    name = type(error).__qualname__
    extras = {"error_type": name}
    text = ""
    with contextlib.suppress(Exception):
        extras = env_error("", error).extras
        text = f": {error}"
    what = f"what the environment is or gave cannot be dealt with: {name}{text}"
    return EnvError(what[:_MESSAGE_CHARS], extras=extras)
