"""Listeners create, lock and remove the file of a Unix socket correctly."""

import fcntl
import os
import socket
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from gym_http_server.commands.listeners import address, open_listeners
from gym_http_server.config.settings import Settings
from gym_http_server.errors import SettingError, StartError


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "s.sock"


def alone(path: Path, mode: str = "600") -> Settings:
    """Return the settings of a server that listens on this path only."""
    return Settings(unix=str(path), unix_mode=mode, no_tcp=True, no_token=True)


def stale(path: Path) -> None:
    """Leave a socket behind as a server does that is killed."""
    with socket.socket(socket.AF_UNIX) as left:
        left.bind(str(path))
        left.listen()


@pytest.fixture
def stranger(path: Path) -> Iterator[socket.socket]:
    """A server of another kind, which holds no lock."""
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        listener.listen(0)
        yield listener


def test_tcp_comes_first(path: Path) -> None:
    with open_listeners(Settings(port=0, unix=str(path))) as (tcp, unix):
        port = tcp.getsockname()[1]
        assert address(tcp) == f"http://127.0.0.1:{port}"
        assert address(unix) == "http+unix://" + str(path).replace("/", "%2F")
        for place, family in ((("127.0.0.1", port), 2), (str(path), 1)):
            with socket.socket(family) as caller:
                caller.connect(place)
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", port))


def test_an_address_of_ipv6_has_brackets() -> None:
    with open_listeners(Settings(port=0, listen="::1")) as (tcp,):
        assert address(tcp) == f"http://[::1]:{tcp.getsockname()[1]}"


@pytest.mark.parametrize(
    ("text", "mode"), [("600", 0o600), ("660", 0o660), ("0666", 0o666)]
)
def test_the_mode_is_there_at_once_and_the_files_go(
    text: str, mode: int, path: Path
) -> None:
    before = os.umask(0o022)
    try:
        with open_listeners(alone(path, text)):
            found = path.lstat().st_mode
            assert stat.S_ISSOCK(found)
            assert stat.S_IMODE(found) == mode
            assert os.umask(0o022) == 0o022, "ours is as it was"
    finally:
        os.umask(before)
    assert list(path.parent.iterdir()) == []


def test_a_relative_path_counts_from_here(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with open_listeners(alone(Path("here.sock"))) as (unix,):
        assert unix.getsockname() == str(tmp_path / "here.sock")


def test_a_socket_that_a_killed_server_left_is_replaced(path: Path) -> None:
    stale(path)
    before = path.lstat().st_ino, path.lstat().st_ctime_ns
    (path.parent / "s.sock.lock").touch()
    with open_listeners(alone(path)), socket.socket(socket.AF_UNIX) as caller:
        caller.connect(str(path))
        assert (path.lstat().st_ino, path.lstat().st_ctime_ns) != before
    assert list(path.parent.iterdir()) == []


def test_two_servers_do_not_share(path: Path) -> None:
    with open_listeners(alone(path)) as (unix,):
        before = path.lstat()
        with pytest.raises(StartError, match=r"another server listens on .*--unix"):
            open_listeners(alone(path)).__enter__()
        assert os.path.samestat(path.lstat(), before)
        with socket.socket(socket.AF_UNIX) as caller:
            caller.connect(str(path))
            unix.accept()[0].close()


def test_the_lock_counts_while_no_process_listens(path: Path) -> None:
    with open_listeners(alone(path)) as (unix,):
        unix.close()
        with pytest.raises(StartError, match="another server listens"):
            open_listeners(alone(path)).__enter__()


def test_a_removed_lock_blocks_no_server(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lock = path.parent / "s.sock.lock"
    flock, tries = fcntl.flock, []

    def end_before(descriptor: int, how: int) -> None:
        if not tries:
            # As a server does that ends between our opening and our locking.
            lock.unlink()
        tries.append(descriptor)
        flock(descriptor, how)

    monkeypatch.setattr(fcntl, "flock", end_before)
    with open_listeners(alone(path)):
        assert len(tries) == 2
        assert lock.exists()
        with pytest.raises(StartError, match="another server listens"):
            open_listeners(alone(path)).__enter__()
    assert list(path.parent.iterdir()) == []


def test_another_program_keeps_its_socket(path: Path, stranger: socket.socket) -> None:
    with pytest.raises(StartError, match="another server listens"):
        open_listeners(alone(path)).__enter__()
    assert [each.name for each in path.parent.iterdir()] == ["s.sock"]
    stranger.accept()[0].close()


def test_another_program_with_a_full_backlog_keeps_its_socket(
    path: Path, stranger: socket.socket
) -> None:
    callers = []
    try:
        while True:
            callers.append(socket.socket(socket.AF_UNIX))
            callers[-1].setblocking(False)
            callers[-1].connect(str(path))
    except BlockingIOError:
        pass
    with pytest.raises(StartError, match="another server listens"):
        open_listeners(alone(path)).__enter__()
    for caller in callers:
        caller.close()
    assert path.exists()


@pytest.mark.parametrize("kind", ["file", "folder", "link"])
def test_files_other_than_sockets_stay(kind: str, path: Path, tmp_path: Path) -> None:
    if kind == "file":
        path.write_text("precious")
    elif kind == "folder":
        path.mkdir()
    else:
        stale(tmp_path / "other.sock")
        path.symlink_to(tmp_path / "other.sock")
    with pytest.raises(StartError, match="is there and is no socket"):
        open_listeners(alone(path)).__enter__()
    assert path.lstat()
    assert not (tmp_path / "s.sock.lock").exists()


def test_a_datagram_socket_is_not_ours(path: Path) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as other:
        other.bind(str(path))
        with pytest.raises(StartError, match="cannot listen on the Unix socket"):
            open_listeners(alone(path)).__enter__()
        assert path.exists()


def test_a_file_that_replaced_the_socket_stays(path: Path) -> None:
    with open_listeners(alone(path)):
        path.unlink()
        path.write_text("precious")
    assert path.read_text() == "precious"


def test_107_bytes_are_possible_and_no_more(tmp_path: Path) -> None:
    rest = 107 - len(os.fsencode(tmp_path)) - 1
    with open_listeners(alone(tmp_path / ("x" * rest))) as (unix,):
        assert len(unix.getsockname()) == 107
    # Bytes, not characters.
    longer = tmp_path / ("x" * (rest - 1) + "ü")
    with pytest.raises(StartError, match=r"has 108 bytes, 107 are possible.*--unix"):
        open_listeners(alone(longer)).__enter__()
    assert list(tmp_path.iterdir()) == []


def test_there_must_be_a_folder(tmp_path: Path) -> None:
    with pytest.raises(StartError, match=r"/s\.sock: No such file or directory"):
        open_listeners(alone(tmp_path / "nowhere" / "s.sock")).__enter__()


@pytest.mark.parametrize("mode", ["", "6", "888", "rw-", "1600", "0o600"])
def test_a_mode_is_three_octal_digits(mode: str, path: Path) -> None:
    with pytest.raises(SettingError, match="expected three octal digits") as caught:
        open_listeners(alone(path, mode)).__enter__()
    assert repr(mode) in str(caught.value)


def test_without_tcp_there_must_be_a_socket() -> None:
    with pytest.raises(SettingError, match="add --unix PATH"):
        open_listeners(Settings(no_tcp=True)).__enter__()


def test_connections_notice_that_their_network_is_lost() -> None:
    with open_listeners(Settings(port=0)) as (listener,):
        place = listener.getsockname()
        with socket.create_connection(place), listener.accept()[0] as accepted:
            assert accepted.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) == 1
            options = (socket.TCP_KEEPIDLE, socket.TCP_KEEPINTVL, socket.TCP_KEEPCNT)
            found = [accepted.getsockopt(socket.IPPROTO_TCP, each) for each in options]
            assert found == [60, 10, 6]
