"""Runs a server as another user."""

import os
import shutil

import pytest

#: A user without other processes, so that none of them counts.
USER = 50_000 + os.getpid() % 10_000


def as_another_user(capability: str = "dac_override") -> tuple[str, ...]:
    """Return a command that executes one as `USER`, with one capability.

    The checkout may be root's alone, and so may the server's folders.

    Args:
        capability: By default `USER` may read and write all files.
    """
    if os.getuid() != 0 or shutil.which("setpriv") is None:
        assert not os.environ.get("CI"), "CI runs as root and has setpriv"
        pytest.skip("root and setpriv are needed to run a server as another user")
    return (
        "setpriv",
        f"--reuid={USER}",
        f"--regid={USER}",
        "--clear-groups",
        f"--inh-caps=+{capability}",
        f"--ambient-caps=+{capability}",
    )
