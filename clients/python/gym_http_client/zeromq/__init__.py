"""ZeroMQ between this process and a server: needs pyzmq, which is an extra.

Nothing here is imported before somebody asks for it.
"""

from __future__ import annotations

__all__ = ["check_installed"]


def check_installed() -> None:
    """See to it that there is pyzmq, and that it can be loaded.

    Raises:
        ModuleNotFoundError: There is none.
        ImportError: It is there, and broken.
    """
    try:
        from zmq import DEALER  # noqa: F401
    except Exception as error:
        if isinstance(error, ModuleNotFoundError) and error.name == "zmq":
            raise ModuleNotFoundError(
                "ZeroMQ needs pyzmq, which is not installed: "
                "pip install 'gymnasium-http-client[zmq]'",
                name="zmq",
            ) from None
        # Of a library that is missing, as of files that are left of another version.
        raise ImportError(
            f"ZeroMQ needs pyzmq, which is installed but cannot be loaded: {error}: "
            "pip install --force-reinstall pyzmq",
            name="zmq",
        ) from error
