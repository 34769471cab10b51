"""Records an instance from its beginning, and resumes such a recording.

The header of the recording has the create request, by which a web worker makes the
instance again; `gym_http_server.host.resume` then brings it to the recorded state.
"""

from __future__ import annotations

import functools
import hashlib
import inspect
import os
import secrets
from collections.abc import Callable
from typing import Any

from gym_http_server.datadir.recording_files import named_by
from gym_http_server.errors import CannotResume, NotFound
from gym_http_server.host import env_warnings
from gym_http_server.host.activity import Activity
from gym_http_server.host.create_request import CreateRequest, ResumeRequest
from gym_http_server.host.dispatch import Dispatch
from gym_http_server.host.monitor_files import FileRequest
from gym_http_server.host.resume import replay
from gym_http_server.operations.create_bodies import ARGUMENTS, INLINE_BYTES
from gym_http_server.operations.instances import AUTO
from gym_http_wire.problems import Problem
from gym_http_wire.values import binary

__all__ = ["begin", "resume"]

Json = dict[str, Any]
_MEMBERS = (
    *("api", "disable_env_checker", "exact_id", "label", "max_episode_steps"),
    *("realtime", "render_mode", "seed", "wait_s"),
)
_DEFAULTS = CreateRequest("")
# Versions that are compared; those of Python and the server change no results.
_COMPARED = ("gymnasium", "numpy", "package", "program")


def begin(directory: str, wanted: CreateRequest, dispatch: Dispatch) -> None:
    """Begin to record an instance that was just made.

    Args:
        directory: The new directory of the recording.
        wanted: The create request, with all of its arguments.
        dispatch: Executes the requests of the instance.

    Raises:
        BadParameter: The directory cannot be used.
        DiskFull: There is no room.
    """
    recording, request = dispatch.handlers.recording, _recorded(wanted)
    arguments = binary.encode({name: request[name] for name in ARGUMENTS})
    first = FileRequest(
        *(directory, False, False), num_envs=_count(dispatch), new=True, large=True
    )
    with named_by("record"):
        monitor = recording.open_file(first)
    if len(arguments) > INLINE_BYTES:
        for name in ARGUMENTS:
            del request[name]
        digest = hashlib.sha256(arguments).hexdigest()
        request["arguments"] = {"bytes": len(arguments), "sha256": digest}
        beyond = FileRequest(directory, False, True, arguments=digest)
        file = recording.open_file(beyond)
        with os.fdopen(file, "wb") as beside:
            beside.write(arguments)
    recording.begin(directory, request, monitor)
    _draw_seed(wanted, dispatch)


def resume(
    source: ResumeRequest,
    wanted: CreateRequest,
    dispatch: Dispatch,
    activity: Activity,
) -> None:
    """Bring an instance that was just made to a recorded state, and record it further.

    Args:
        source: The recording, and what is wanted of it.
        wanted: The create request, with all of its arguments.
        dispatch: Executes the requests of the instance.
        activity: Records its calls.

    Raises:
        CannotResume: The recording does not lead to a state, or is being written.
        ResumeDiffers: The environment did something else than was recorded.
        BadParameter: The recording has fewer steps.
        DiskFull: There is no room.
    """
    if wanted.clocked:
        raise CannotResume(
            "the recorded instance has a clock, and its world cannot be played again: "
            "expected the recording of one without realtime"
        )
    directory, recording = source.directory, dispatch.handlers.recording
    monitor = recording.open_file(FileRequest(directory, False, True, goes_on=True))
    # From now on, there is a limit for each call.
    activity.finish()
    resumed = replay(
        dispatch.operations,
        dispatch.exact,
        functools.partial(_open_part, directory, recording.open_file, activity),
        step=source.step,
        verify=source.verify,
        on_call=activity.begin_next,
    )
    _warn_of_versions(resumed.header, dispatch.inspection.recorded())
    request = resumed.header["request"]
    recording.begin(directory, request, monitor, after=resumed.records)
    dispatch.inspection.resumed = {
        "last": resumed.last,
        "recording": directory,
        "steps": resumed.steps,
    }
    if not resumed.reset:
        _draw_seed(wanted, dispatch)


def _open_part(
    directory: str,
    open_file: Callable[[FileRequest], int],
    activity: Activity,
    index: int,
) -> int | None:
    """Open a part of a recording; return ``None`` if there are fewer."""
    # Each has a limit, as each call has, and not all parts together.
    activity.begin_next()
    try:
        return open_file(FileRequest(directory, False, True, part=index))
    except Problem as problem:
        if problem.status != NotFound.default_status:
            raise
        return None


def _recorded(request: CreateRequest) -> Json:
    """Return a create request without the name of a token, as `CREATE` has it."""
    members = {
        name: getattr(request, name)
        for name in _MEMBERS
        if getattr(request, name) != getattr(_DEFAULTS, name)
    }
    wrappers = [{"name": each.name, "kwargs": each.kwargs} for each in request.wrappers]
    members |= {
        "env_id": request.env_id,
        "kwargs": request.kwargs,
        "wrappers": wrappers,
    }
    vector = request.vector
    if vector is not None:
        members |= {
            "num_envs": vector.num_envs,
            "vectorization_mode": vector.mode,
            "vector_kwargs": vector.kwargs,
            "hosts": AUTO if vector.auto else vector.hosts,
        }
    return members


def _count(dispatch: Dispatch) -> int | None:
    count: int | None = getattr(dispatch.operations.env, "num_envs", None)
    return count


def _draw_seed(wanted: CreateRequest, dispatch: Dispatch) -> None:
    """Draw a seed for the first reset, unless the client gives one.

    External environments and worlds with a clock get what the client sends.
    """
    operations = dispatch.operations
    if wanted.external or wanted.clocked or operations.first_seed is not None:
        return
    if not _takes_seed(operations.env):
        return
    # The environments of a vector have this seed and those that follow.
    drawn = secrets.randbelow(2**31 - (_count(dispatch) or 1))
    operations.first_seed = dispatch.handlers.recording.drawn_seed = drawn


def _takes_seed(env: Any) -> bool:
    try:
        parameters = inspect.signature(env.unwrapped.reset).parameters.values()
    except (AttributeError, TypeError, ValueError):
        return True
    return any(
        each.name == "seed" or each.kind == each.VAR_KEYWORD for each in parameters
    )


def _warn_of_versions(recorded: Json, present: Json) -> None:
    """Warn if what may change results has another version than recorded."""
    earlier, now = recorded.get("versions"), present["versions"]
    if not isinstance(earlier, dict):
        return
    others = [
        f"{name} {earlier.get(name)} and now {now.get(name)}"
        for name in _COMPARED
        if earlier.get(name) != now.get(name)
    ]
    before, after = (_spec_id(each) for each in (recorded, present))
    if before != after:
        others.append(f"environment {before} and now {after}")
    if others:
        env_warnings.add(
            "UserWarning",
            f"the recording was made with {', '.join(others)}: results may differ",
        )


def _spec_id(header: Json) -> Any:
    spec = header.get("spec")
    return spec.get("id") if isinstance(spec, dict) else None
