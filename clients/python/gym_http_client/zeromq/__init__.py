"""ZeroMQ between this process and a server: needs pyzmq, which is an extra.

It is imported only when an address of ZeroMQ is used.
"""

from __future__ import annotations

__all__ = ["check_installed"]


def check_installed() -> None:
    """Check that pyzmq is installed, and can be loaded.

    Raises:
        ModuleNotFoundError: It is not installed.
        ImportError: It is installed, and broken.
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
