"""The ZeroMQ transport; it needs pyzmq, which is an extra.

It is imported only for a ZeroMQ address.
"""

from __future__ import annotations

__all__ = ["check_installed"]


def check_installed() -> None:
    """Check that pyzmq is installed and can be imported.

    Raises:
        ModuleNotFoundError: pyzmq is not installed.
        ImportError: pyzmq is installed, but broken.
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
        # For example a missing library, or files left from another version.
        raise ImportError(
            f"ZeroMQ needs pyzmq, which is installed but cannot be loaded: {error}: "
            "pip install --force-reinstall pyzmq",
            name="zmq",
        ) from error
