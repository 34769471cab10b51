"""The gateway: the process where far sides and agents come in by ZeroMQ."""

from __future__ import annotations

from gym_http_server.errors import StartError

__all__ = ["check_installed"]


def check_installed() -> None:
    """See to it that there is pyzmq, and that it can be loaded.

    Raises:
        StartError: There is none, or it cannot.
    """
    try:
        from zmq import ROUTER  # noqa: F401
    except Exception as error:
        if isinstance(error, ModuleNotFoundError) and error.name == "zmq":
            raise StartError(
                "--zmq needs pyzmq, which is not installed: "
                "pip install 'gymnasium-http-server[zmq]'"
            ) from None
        # Of a library that is missing, as of files that are left of another version.
        raise StartError(
            f"--zmq needs pyzmq, which is installed but cannot be loaded: {error}: "
            "pip install --force-reinstall pyzmq"
        ) from error
