"""Resumes recorded environments."""

from __future__ import annotations

from typing import Any

from gym_http_client.envs.remote_env import RemoteEnv
from gym_http_client.envs.remote_vector_env import RemoteVectorEnv
from gym_http_client.envs.server import Server

__all__ = ["resume"]


def resume(
    server: str | Server,
    recording: str,
    *,
    verify: bool = True,
    step: int | None = None,
) -> RemoteEnv | RemoteVectorEnv:
    """Make an environment that goes on where a recorded one was.

    The server makes the environment again, and repeats every recorded call. It goes on
    recording in the same directory.

    Args:
        server: URL of the server, or a `Server` with a token.
        recording: The directory that was the ``record`` of a `RemoteEnv` or a
            `RemoteVectorEnv`, whose instance has ended.
        verify: Whether each observation, reward, flag and info must be the recorded
            one, bit by bit.
        step: The number of steps after which to stop; ``None``: all that are recorded.

    Returns:
        The environment. Its attribute ``last`` is the last recorded reset or step, as a
        dict: ``op``, which is ``"reset"`` or ``"step"``, its arguments and its results.
        An agent that never received this answer learns by it that the step counts.
        ``last`` is ``None`` if nothing was recorded.

    Raises:
        ServerError: The environment did something else than was recorded
            (``resume-differs``); the recording is being written, or began after its
            instance (``cannot-resume``); there is none (``not-found``); or the server
            is too old (``unsupported``).
    """
    server = Server.of(server)
    request: dict[str, Any] = {"resume": recording, "verify": verify}
    if step is not None:
        request["step"] = step
    handle = server.create(request)
    try:
        is_vector = "num_envs" in handle.call("GET", "")
        kind = RemoteVectorEnv if is_vector else RemoteEnv
        return kind.taking(server, handle)
    except BaseException:
        handle.end()
        raise
