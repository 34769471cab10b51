"""Chooses the library by which MuJoCo draws on a machine without a display.

MuJoCo reads ``MUJOCO_GL`` when it is imported, and then cannot even make an environment
if the library that it names is missing.
"""

from __future__ import annotations

import ctypes
import os
import signal
from collections.abc import Callable, MutableMapping

__all__ = ["choose_opengl"]

#: Libraries by the values of ``MUJOCO_GL`` that need them, the best first.
_LIBRARIES = {
    "egl": ("libEGL.so.1", "libEGL.so"),
    "osmesa": ("libOSMesa.so.8", "libOSMesa.so.6", "libOSMesa.so"),
}
NONE = "disable"
#: Seconds that loading a library may take.
LOAD_SECONDS = 5


def choose_opengl(
    environ: MutableMapping[str, str] = os.environ,
    can_load: Callable[[str], bool] | None = None,
) -> None:
    """Set ``MUJOCO_GL`` for all hosts, unless it is set or there is a display.

    Args:
        environ: The environment variables.
        can_load: Whether a library can be loaded; by default tries it in a child.
    """
    if environ.get("DISPLAY") or environ.get("MUJOCO_GL"):
        return
    load = can_load or _can_load
    found = (name for name, files in _LIBRARIES.items() if any(map(load, files)))
    environ["MUJOCO_GL"] = next(found, NONE)


def _can_load(library: str) -> bool:
    """Whether a library can be loaded, in a child: it may start threads, or crash."""
    try:
        pid = os.fork()
    except OSError:
        return False
    if pid == 0:
        status = 1
        # A library of a broken driver may wait without end.
        signal.alarm(LOAD_SECONDS)
        try:
            ctypes.CDLL(library)
            status = 0
        except OSError:
            pass
        finally:
            os._exit(status)
    return os.waitpid(pid, 0)[1] == 0
