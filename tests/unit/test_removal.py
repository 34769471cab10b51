"""Directories that environments have written to are removed with any content."""

import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from gym_http_server.rundir.removal import LOCK, empty, move, remove

DEEP = 1200
NOBODY = 65534


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """A directory that anybody can reach, and is gone in the end."""
    made = tmp_path / "folder"
    made.mkdir()
    yield made
    remove(str(made))


def nest(folder: Path, depth: int) -> None:
    """Make directories nested so deeply, a file in each."""
    inner = os.open(folder, os.O_RDONLY)
    for _ in range(depth):
        os.close(os.open("file", os.O_CREAT, dir_fd=inner))
        os.mkdir("d", dir_fd=inner)
        outer, inner = inner, os.open("d", os.O_RDONLY, dir_fd=inner)
        os.close(outer)
    os.close(inner)


def without_privileges(do: Callable[[], None]) -> None:
    """Do something in a child process that permissions bind."""
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            if os.getuid() == 0:
                os.setgroups([])
                os.setgid(NOBODY)
                os.setuid(NOBODY)
            do()
            status = 0
        finally:
            sys.stderr.flush()
            os._exit(status)
    assert os.waitpid(pid, 0)[1] == 0


def test_directories_deeper_than_python_recurses_are_removed(folder: Path) -> None:
    for name, depth in (("deep", DEEP), ("shallow", 3)):
        (folder / name).mkdir()
        nest(folder / name, depth)
    empty(str(folder))
    assert os.listdir(folder) == []


@pytest.mark.parametrize("mode", [0o555, 0o444, 0o000])
def test_directories_without_permissions_are_removed(mode: int) -> None:
    made = Path("/tmp", f"ghst-removal-{os.getpid()}")

    def check() -> None:
        made.mkdir()
        (made / "moved").mkdir()
        for name in ("a", "moved/b"):
            nest((made / name).parent, 1)
            (made / name).mkdir()
            (made / name / "file").touch()
            (made / name).chmod(mode)
        (made / "moved").chmod(mode)
        move(f"{made}/moved", f"{made}/elsewhere")
        made.chmod(mode)
        remove(str(made))

    without_privileges(check)
    assert not made.exists()


def test_links_are_removed_and_never_followed(folder: Path, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir(mode=0o755)
    (outside / "file").touch()
    (folder / "directory").symlink_to(outside)
    (folder / "file").symlink_to(outside / "file")
    (folder / "loop").symlink_to(folder)
    os.mkfifo(folder / "pipe")
    remove(str(folder))
    assert not folder.exists()
    assert (outside / "file").exists()
    assert outside.stat().st_mode & 0o777 == 0o755
    folder.symlink_to(outside)
    remove(str(folder))
    assert (outside / "file").exists()
    folder.unlink()


def test_the_lock_file_goes_last(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("a", LOCK, "z"):
        (folder / name).touch()
        (folder / f"{name}.d").mkdir()
        (folder / f"{name}.d" / LOCK).touch()
    left: list[set[str]] = []
    unlink = os.unlink

    def note_and_unlink(path: str, *, dir_fd: int | None = None) -> None:
        left.append(set(os.listdir(folder)))
        unlink(path, dir_fd=dir_fd)

    monkeypatch.setattr(os, "unlink", note_and_unlink)
    remove(str(folder))
    assert not folder.exists()
    assert len(left) == 6
    assert all(LOCK in names for names in left)
    assert left[-1] == {LOCK}


def test_the_lock_file_stays_with_directories_that_cannot_be_removed(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / LOCK).touch()
    (folder / "stays").mkdir()

    def refuse(path: str, *, dir_fd: int | None = None) -> None:
        raise OSError("busy")

    with monkeypatch.context() as patched:
        patched.setattr(os, "rmdir", refuse)
        remove(str(folder))
    assert set(os.listdir(folder)) == {LOCK, "stays"}
