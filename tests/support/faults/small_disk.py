"""Small disks that a test can fill: tmpfs mounts, for which it must be root."""

import contextlib
import itertools
import os
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.wait import wait_until


class Disk:
    """A mounted tmpfs.

    Attributes:
        path: Where it is mounted; short, since sockets lie below it.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    def fill_bytes(self) -> None:
        """Use all blocks."""
        with (self.path / "filling").open("wb", buffering=0) as file:
            with contextlib.suppress(OSError):
                while file.write(bytes(1 << 16)):
                    pass
            with contextlib.suppress(OSError):
                while file.write(b"x"):
                    pass

    def fill_inodes(self) -> None:
        """Use all inodes."""
        folder = self.path / "many"
        folder.mkdir()
        with contextlib.suppress(OSError):
            for number in itertools.count():
                (folder / str(number)).touch()

    def free(self) -> None:
        """Remove the files that fill it."""
        subprocess.run(
            ["rm", "-rf", self.path / "filling", self.path / "many"], check=True
        )


@contextlib.contextmanager
def small_disk(size: str = "1m", inodes: int = 200) -> Iterator[Disk]:
    """Mount a disk; skip the test if that is not possible here, or fail with CI."""
    path = tempfile.mkdtemp(prefix="ghst-", dir="/tmp")
    options = f"size={size},nr_inodes={inodes},mode=700"
    mount = ["mount", "-t", "tmpfs", "-o", options, "tmpfs", path]
    done = subprocess.run(mount, capture_output=True, text=True)
    try:
        if done.returncode:
            words = f"no tmpfs can be mounted here: {done.stderr}"
            assert not os.environ.get("CI"), words
            pytest.skip(words)
        try:
            yield Disk(Path(path))
        finally:
            wait_until(lambda: _unmounted(path), 5.0, f"{path} to be unmounted")
    finally:
        os.rmdir(path)


def _unmounted(path: str) -> bool:
    # Lazily: a sandboxed server holds the entries beside its run directory.
    done = subprocess.run(["umount", "--lazy", path], capture_output=True)
    return done.returncode == 0
