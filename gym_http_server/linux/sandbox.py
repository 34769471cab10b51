"""The sandbox of hosts: restricts their files, system calls, network and user.

The launcher decides once which parts are on (`resolve_sandbox`), the supervisor
prepares them once (`prepare`), and each host enters the result before it makes an
environment (`Sandbox.enter`). Landlock rules can only allow. So to hide files, rules
allow the siblings of those files and of their parent directories.
"""

from __future__ import annotations

import contextlib
import dataclasses
import errno
import fcntl
import functools
import glob
import logging
import os
import pwd
import socket
import struct
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from importlib.machinery import ModuleSpec, all_suffixes
from importlib.util import spec_from_file_location
from pathlib import Path

import msgspec

from gym_http_server.config.settings import Settings
from gym_http_server.errors import SettingError
from gym_http_server.linux import landlock, prctl, seccomp
from gym_http_server.rundir.directory import NAME_PREFIX, RunDir

__all__ = ["Sandbox", "confined", "prepare", "resolve_sandbox", "warn_of_root"]

#: Written by graphics, shared memory and programs that throw output away.
_DEVICES = (
    "/dev/null",
    "/dev/zero",
    "/dev/shm",  # noqa: S108
    "/dev/dri",
    "/dev/kfd",
    "/dev/nvidia*",
)
#: Limit on rules for the entries of one directory: each costs a host 2 µs.
MAX_SIBLINGS = 256
# Ways to leave the network; the second one needs no privileges.
_PLAIN, _IN_USER_NAMESPACE = "plain", "user"
_SET_INTERFACE_FLAGS, _INTERFACE_UP = 0x8914, 1
_ALL = landlock.READ | landlock.WRITE

log = logging.getLogger("gym_http_server.sandbox")


class User(msgspec.Struct, frozen=True):
    """The user that hosts run as, if it is not the server's."""

    name: str
    uid: int
    gid: int
    groups: tuple[int, ...]
    home: str

    @classmethod
    def named(cls, name: str) -> User:
        """Look a user up.

        Raises:
            KeyError: There is no such user.
        """
        entry = pwd.getpwnam(name)
        groups = tuple(os.getgrouplist(name, entry.pw_gid))
        return cls(name, entry.pw_uid, entry.pw_gid, groups, entry.pw_dir)

    def become(self) -> None:
        """Run this process as this user, for good."""
        os.setgroups(self.groups)
        os.setresgid(self.gid, self.gid, self.gid)
        os.setresuid(self.uid, self.uid, self.uid)
        # A change of user clears it, and /proc/self belongs to root without it.
        prctl.set_dumpable(True)
        os.environ.update(HOME=self.home, LOGNAME=self.name, USER=self.name)


class Sandbox(msgspec.Struct, frozen=True):
    """The restrictions that a host enters.

    Attributes:
        files: Whether files are restricted to `rules` and the host's own directories.
        network: How the host leaves the server's network; "" if it does not.
        rules: Concatenated rules for Landlock; the supervisor holds their descriptors.
            They are one object, since each object that a host uses costs a page of
            the memory that hosts share.
        unlisted: Directories that no rule allows to list.
        user: The user that the host runs as; ``None`` is the server's.
    """

    files: bool = False
    network: str = ""
    rules: bytes = b""
    unlisted: tuple[str, ...] = ()
    user: User | None = None

    @property
    def descriptors(self) -> list[int]:
        """The descriptors that `enter` needs."""
        return landlock.descriptors_of(self.rules)

    def own(self, path: str) -> None:
        """Make the user of hosts the owner of a file or folder."""
        if self.user is not None:
            os.chown(path, self.user.uid, self.user.gid)

    def open(self, folder: str) -> None:
        """Allow the user of hosts to traverse a folder, not to list or change it."""
        if self.user is not None:
            os.chown(folder, -1, self.user.gid)
            os.chmod(folder, 0o710)  # noqa: S103

    def enter(self, own: Sequence[str], parent_pid: int) -> None:
        """Confine this process and all processes that it will start.

        Leaves descriptors open, its own and those of the rules.

        Args:
            own: Directories that it may write to.
            parent_pid: The supervisor; the process ends with it.

        Raises:
            OSError: The kernel refuses a part of it.
        """
        global _confined
        if self.network == _PLAIN:
            _leave_network(self.network)
        if self.user is not None:
            self.user.become()
            # A change of user clears this, too.
            prctl.die_with_parent(parent_pid)
        if self.network == _IN_USER_NAMESPACE:
            _leave_network(self.network)
        prctl.set_no_new_privs()
        if self.files:
            if os.geteuid() == 0:
                # Some of root's bypass Landlock: those for memory, devices and modules.
                prctl.drop_capabilities()
            landlock.restrict(self.rules + _rules(own, _ALL), signals=True)
            sys.meta_path.append(_UnlistedFolders(self.unlisted))
            _confined = True


_confined = False


class _UnlistedFolders:
    """Finds modules in folders that this process cannot list.

    Python's own finder lists the folders of ``sys.path``. This one tries file names
    instead, so it finds modules beside the run directory or the data directory.
    """

    def __init__(self, folders: Collection[str]) -> None:
        self._folders = folders

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: object = None
    ) -> ModuleSpec | None:
        """Find a module that is in no package; see `importlib.abc.MetaPathFinder`."""
        if path is not None:
            return None
        for folder in sys.path:
            if os.path.realpath(folder) in self._folders:
                package = os.path.join(folder, name)
                for tail in ("/__init__.py", *all_suffixes()):
                    if os.path.isfile(package + tail):
                        return spec_from_file_location(name, package + tail)
        return None


def confined() -> bool:
    """Whether the files of this process are restricted."""
    return _confined


def resolve_sandbox(settings: Settings) -> Settings:
    """Check the settings of the sandbox, and replace ``auto`` by on or off.

    Raises:
        SettingError: This machine does not support a value.
    """
    _check_user(settings)
    sandbox = settings.sandbox
    if sandbox == "auto":
        local = settings.external_loopback and settings.zmq_loopback
        sandbox = "off" if settings.loopback and local else "on"
    if sandbox == "on" and not landlock.abi():
        if settings.sandbox == "on":
            raise SettingError(
                "--sandbox is 'on', but this kernel has no Landlock (Linux 5.13 or "
                "later, with landlock among the security modules): use --sandbox off"
            )
        log.warning(
            "this kernel has no Landlock: environments can read and write every file "
            "that this user can"
        )
        sandbox = "off"
    if sandbox == "on" and not landlock.scopes_signals():
        log.warning(
            "this kernel's Landlock is older than Linux 6.12: environments can send "
            "signals to every process of this user"
        )
    if sandbox == "on" and not seccomp.supported():
        log.warning(
            "this kernel or architecture has no filter of system calls (seccomp): "
            "environments can change limits and priorities of every process of this "
            "user"
        )
    for path in settings.writable:
        if not os.path.exists(path):
            raise SettingError(f"--writable is {path!r}, which does not exist")
    return dataclasses.replace(
        settings,
        sandbox=sandbox,
        writable=tuple(map(os.path.realpath, settings.writable)),
    )


def _check_user(settings: Settings) -> None:
    root = os.geteuid() == 0
    name = settings.host_user
    if name and not root:
        raise SettingError(
            f"--host-user is {name!r}, but only root can run environments as another "
            "user: start the server as root, or as that user without --host-user"
        )
    if name:
        try:
            user = User.named(name)
        except KeyError:
            raise SettingError(
                f"--host-user is {name!r}: expected the name of a user of this machine"
            ) from None
        if user.uid == 0:
            raise SettingError(
                f"--host-user is {name!r}, which is root: expected another user"
            )


def warn_of_root(settings: Settings) -> None:
    """Log a warning if environments run as root."""
    if os.geteuid() == 0 and not settings.host_user:
        log.warning(
            "SERVING AS ROOT: environments run as root, too; name another user for "
            "them with --host-user, or start the server as one"
        )


def prepare(settings: Settings, run: RunDir, secrets: Sequence[str]) -> Sandbox:
    """Check that hosts can enter the sandbox, and open the files that rules allow.

    Also filters the system calls of this process: hosts inherit the filter, so they do
    not build it.

    Args:
        settings: The settings of the sandbox.
        run: The run directory.
        secrets: Files that hosts must not read.

    Raises:
        SettingError: The system does not permit it, or a path that hosts may write
            contains a path that they must not read.
    """
    user = User.named(settings.host_user) if settings.host_user else None
    network = _try_network() if settings.network == "none" else ""
    if user is not None:
        Sandbox(user=user).open(run.path)
        _try_user(user, run)
    if settings.sandbox != "on":
        return Sandbox(network=network, user=user)
    hidden = _hidden(settings, run, secrets)
    writable = [path for pattern in _DEVICES for path in glob.glob(pattern)]
    for path in (*writable, *settings.writable):
        inside = [each for each in hidden if _is_within(each, path)]
        if inside:
            raise SettingError(
                f"environments in the sandbox may write to {path}, but {inside[0]} in "
                "it is the server's own: choose another place with --run-dir, "
                "--data-dir, --relay-dir or --writable, or for that file"
            )
    if seccomp.supported():
        prctl.set_no_new_privs()
        seccomp.install()
    rules = _rules(_readable("/", hidden), landlock.READ)
    rules += _rules([*writable, *settings.writable], _ALL)
    return Sandbox(
        files=True,
        network=network,
        rules=rules,
        unlisted=tuple(
            {str(folder) for path in hidden for folder in Path(path).parents}
        ),
        user=user,
    )


def _try_user(user: User, run: RunDir) -> None:
    """Check in a child that a user can read the files that a host needs.

    Raises:
        SettingError: The user cannot read one of them.
    """

    def check(path: str) -> None:
        user.become()
        if not os.access(path, os.X_OK if path == run.path else os.R_OK):
            raise PermissionError

    # The standard library, the packages that are installed, the server, its folder.
    for path in (os.__file__, msgspec.__file__, landlock.__file__, run.path):
        if not _succeeds(functools.partial(check, path)):
            raise SettingError(
                f"--host-user is {user.name!r}, who cannot reach {path}: let that user "
                "read the Python installation and pass through the folder of --run-dir"
            )


def _try_network() -> str:
    """Return how a process can leave the network, found by trials in child processes.

    Raises:
        SettingError: It cannot leave the network.
    """
    for way in (_PLAIN, _IN_USER_NAMESPACE):
        if _succeeds(functools.partial(_leave_network, way)):
            return way
    raise SettingError(
        "--network is 'none', but this user may make no network namespace: run the "
        "server with CAP_SYS_ADMIN, permit user namespaces, or use --network host"
    )


def _leave_network(way: str) -> None:
    uid, gid = os.geteuid(), os.getegid()
    if not prctl.leave_network(in_user_namespace=way == _IN_USER_NAMESPACE):
        raise OSError(errno.EPERM, "no network namespace can be made")
    if way == _IN_USER_NAMESPACE:
        # A process without privileges may map only its own user, and no groups.
        for name, line in (
            ("uid_map", f"{uid} {uid} 1"),
            ("setgroups", "deny"),
            ("gid_map", f"{gid} {gid} 1"),
        ):
            with open(f"/proc/self/{name}", "w") as file:
                file.write(line)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        # Some environments connect over loopback to programs that they start.
        request = struct.pack("16sh14x", b"lo", _INTERFACE_UP)
        fcntl.ioctl(sock, _SET_INTERFACE_FLAGS, request)


def _succeeds(deed: Callable[[], object]) -> bool:
    """Return whether a call succeeds in a child of this process."""
    pid = os.fork()
    if pid == 0:
        with contextlib.suppress(BaseException):
            # Otherwise /proc/self belongs to root.
            prctl.set_dumpable(True)
            deed()
            os._exit(0)
        os._exit(1)
    return os.waitpid(pid, 0)[1] == 0


def _hidden(settings: Settings, run: RunDir, secrets: Sequence[str]) -> frozenset[str]:
    """Return the real paths that hosts must not read."""
    runs = os.path.join(os.path.dirname(run.path), NAME_PREFIX + "*")
    data = (settings.data_dir, settings.relay_dir)
    paths = [run.path, *data, *secrets, *glob.glob(runs)]
    return frozenset(os.path.realpath(path) for path in paths if path)


def _readable(path: str, hidden: frozenset[str]) -> Iterator[str]:
    """Yield hierarchies that together cover a path except for the hidden paths."""
    if path in hidden:
        return
    within = [each for each in hidden if _is_within(each, path)]
    if not within:
        yield path
        return
    for name in _names(path, within):
        inner = os.path.join(path, name)
        if not os.path.islink(inner):
            yield from _readable(inner, hidden)


def _names(path: str, within: Sequence[str]) -> list[str]:
    """List the entries of a directory, those that lead to hidden paths in any case."""
    leading = {os.path.relpath(each, path).split(os.sep)[0] for each in within}
    try:
        with os.scandir(path) as entries:
            found = sorted(entries, key=lambda each: (not each.is_dir(), each.name))
    except OSError:
        found = []
    names = [each.name for each in found if each.name not in leading]
    if len(names) > MAX_SIBLINGS:
        log.warning(
            "environments in the sandbox can read %d of the %d entries of %s, which "
            "holds files of the server's own; choose another place for those",
            MAX_SIBLINGS,
            len(names),
            path,
        )
    return [*leading, *names[:MAX_SIBLINGS]]


def _is_within(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder.rstrip("/") + "/")


def _rules(paths: Iterable[str], access: int) -> bytes:
    rules = (landlock.rule(path, access) for path in paths)
    return b"".join(rule for rule in rules if rule is not None)
