"""ZeroMQ between this process and a server: needs pyzmq, which is an extra.

Nothing here is imported before somebody asks for it.
"""

from __future__ import annotations

import importlib.util

__all__ = ["check_installed"]


def check_installed() -> None:
    """See to it that there is pyzmq.

    Raises:
        ModuleNotFoundError: There is none.
    """
    if importlib.util.find_spec("zmq") is None:
        raise ModuleNotFoundError(
            "ZeroMQ needs pyzmq, which is not installed: "
            "pip install 'gymnasium-http-client[zmq]'",
            name="zmq",
        )
