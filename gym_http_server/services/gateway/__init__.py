"""The gateway: the process that external environments and agents reach by ZeroMQ."""

from __future__ import annotations

from gym_http_server.errors import StartError

__all__ = ["check_installed"]


def check_installed() -> None:
    """Check that pyzmq is installed and can be loaded.

    Raises:
        StartError: It is not installed, or cannot be loaded.
    """
    try:
        from zmq import ROUTER  # noqa: F401
    except Exception as error:
        if isinstance(error, ModuleNotFoundError) and error.name == "zmq":
            raise StartError(
                "--zmq needs pyzmq, which is not installed: "
                "pip install 'gymnasium-http-server[zmq]'"
            ) from None
        # A library may be missing, or files of another version may be left.
        raise StartError(
            f"--zmq needs pyzmq, which is installed but cannot be loaded: {error}: "
            "pip install --force-reinstall pyzmq"
        ) from error
