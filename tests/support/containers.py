"""Containers of Podman or Docker that have this Python, without a registry's image."""

import contextlib
import io
import os
import shlex
import subprocess
import sys
import tarfile
import uuid
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

#: Folders of programs and libraries, most of which are links to /usr. Docker puts its
#: init into /sbin.
_FOLDERS = ("bin", "lib", "lib64", "usr")


class Engine:
    """A program that runs containers, and an image with nothing but links.

    Args:
        name: ``podman`` or ``docker``.
        image: Name of the image, and label of all containers.
    """

    def __init__(self, name: str, image: str) -> None:
        self._name = name
        self._image = image

    def command(self, places: Mapping[str, Path], *words: str) -> str:
        """Return a command that runs this Python in a container, as the documents do.

        Args:
            places: Folders and files for the container to read, by their paths in it.
            words: Arguments of Python.
        """
        python = [sys.executable, *words]
        return shlex.join([self._name, *self._run(places), self._image, *python])

    def _run(self, places: Mapping[str, Path]) -> Iterator[str]:
        """Yield the arguments for a container that sees only what it needs."""
        yield from ("run", "-i", "--rm", "--init", "--memory", "2g")
        yield from ("--network", "none", "--label", self._image)
        here = [Path(f"/{each}") for each in _FOLDERS]
        here = [each for each in here if each.is_dir() and not each.is_symlink()]
        here += {Path(sys.prefix), Path(sys.base_prefix)}
        seen = {str(each): each for each in here} | dict(places)
        for inside, outside in seen.items():
            yield from ("--volume", f"{outside}:{inside}:ro")

    def containers(self) -> list[str]:
        """Return the IDs of all containers, also of those that ended."""
        only = ("--filter", f"label={self._image}")
        return self.call("ps", "--all", "--quiet", *only).split()

    def call(self, *words: str, given: bytes = b"") -> str:
        """Return what the engine prints; skip the test if it fails.

        No test depends on an engine, which not even continuous integration has.
        """
        try:
            done = subprocess.run(
                [self._name, *words], input=given, capture_output=True
            )
        except FileNotFoundError:
            pytest.skip(f"{self._name} is not installed")
        if done.returncode:
            why = done.stderr.decode().strip()
            pytest.skip(f"{self._name} {words[0]} does not work here: {why}")
        return done.stdout.decode()

    def try_out(self) -> None:
        """Run a container; skip the test if there can be none."""
        self.call(*self._run({}), self._image, sys.executable, "-c", "import numpy")


@contextlib.contextmanager
def engine(name: str) -> Iterator[Engine]:
    """Make the image, for the name of an engine; skip if it does not work here."""
    made = Engine(name, f"gym-http-test-{uuid.uuid4().hex[:8]}")
    made.call("import", "-", made._image, given=_links())
    try:
        made.try_out()
        yield made
    finally:
        made.call("rmi", "--force", made._image)


def _links() -> bytes:
    """Return an archive of the links in the root folder to /usr."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for name in _FOLDERS:
            if os.path.islink(f"/{name}"):
                entry = tarfile.TarInfo(name)
                entry.type, entry.linkname = tarfile.SYMTYPE, os.readlink(f"/{name}")
                archive.addfile(entry)
    return buffer.getvalue()
