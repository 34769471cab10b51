"""Resumes recorded environments."""

from __future__ import annotations

from typing import Any

from gym_http_client.envs.remote import Remote
from gym_http_client.envs.remote_env import RemoteEnv
from gym_http_client.envs.remote_vector_env import RemoteVectorEnv
from gym_http_client.envs.server import Server, first_argument

__all__ = ["resume"]


def resume(
    server: str | Server,
    recording: str,
    *,
    verify: bool = True,
    step: int | None = None,
    label: str | None = None,
    node: str | None = None,
) -> Any:
    """Make an environment that goes on where a recorded one was.

    The server makes the environment again, and repeats every recorded call. It goes on
    recording in the same directory.

    Args:
        server: URL of the server, or a `Server` with a token.
        recording: The directory that was the ``record`` of an environment whose
            instance has ended.
        verify: Whether each observation, reward, flag and info must be the recorded
            one, bit by bit.
        step: The number of steps after which to stop; ``None``: all that are recorded.
        label: Up to 64 printable characters, which lists of instances show; ``None``:
            the recorded one.
        node: Name of the server of a fleet that has the recording; ``None``: any.

    Returns:
        A `RemoteEnv`, `RemoteVectorEnv`, `RemoteParallelEnv` or `RemoteAECEnv`, as it
        was recorded. Its attribute ``last`` is the last recorded reset or step, as a
        dict: ``op``, which is ``"reset"`` or ``"step"``, its arguments and its results.
        An agent that never received this answer learns by it that the step counts.
        ``last`` is ``None`` if nothing was recorded. A `RemoteAECEnv` has it as
        ``last_recorded``, since ``last`` is a method of PettingZoo's.

    Raises:
        ServerError: The environment did something else than was recorded
            (``resume-differs``); the recording is being written, or began after its
            instance (``cannot-resume``); there is none (``not-found``); or the server
            is too old (``unsupported``).
    """
    server = first_argument("resume", server, recording=recording)
    request: dict[str, Any] = {"resume": recording, "verify": verify}
    options = {"step": step, "label": label, "node": node}
    request |= {name: each for name, each in options.items() if each is not None}
    handle = server.create(request)
    try:
        return _kind_of(handle.call("GET", "")).taking(server, handle)
    except BaseException:
        handle.end()
        raise


def _kind_of(described: dict[str, Any]) -> type[Remote]:
    """Return the class of environments for the description of an instance."""
    api = described.get("api")
    if api is not None:
        # Needs PettingZoo, which not everybody has.
        from gym_http_client.pettingzoo import RemoteAECEnv, RemoteParallelEnv

        return RemoteAECEnv if api == RemoteAECEnv.API else RemoteParallelEnv
    return RemoteVectorEnv if "num_envs" in described else RemoteEnv
