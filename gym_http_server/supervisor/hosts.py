"""All hosts: started, watched, ended and buried here; who asked is others' business."""

from __future__ import annotations

import contextlib
import logging
import os
import secrets
import signal
import time
from collections.abc import Callable, Container, Iterable, Iterator

from gym_http_server.envhost import server_log
from gym_http_server.envhost.create_request import CreateRequest
from gym_http_server.envhost.fork_guard import RETURNED
from gym_http_server.envhost.host import CLOSE, PING
from gym_http_server.errors import ForkFailed, TooManyInstances
from gym_http_server.log_lines import SUPERVISOR, write
from gym_http_server.rundir.directory import RunDir, is_full
from gym_http_server.rundir.sockets import close_at_once
from gym_http_server.rundir.status import Status
from gym_http_server.sandbox import Sandbox
from gym_http_server.settings import Settings
from gym_http_server.supervisor import limits, processes
from gym_http_server.supervisor.heartbeats import AwakeClock
from gym_http_server.supervisor.instance import Ended, Idle, Instance, Tombstones
from gym_http_server.supervisor.memory import MemoryLimit
from gym_http_server.supervisor.modules import Modules
from gym_http_server.supervisor.monitors import open_monitor
from gym_http_server.supervisor.oom import OomKills
from gym_http_server.supervisor.output import KeptLogs, last_words
from gym_http_server.supervisor.starts import start_host
from gym_http_wire.frames import Frame, FrameError
from gym_http_wire.messages import Op
from gym_http_wire.problems import DiskFull

__all__ = ["Hosts"]

CLOSE_SECONDS = 2.0
#: Limit for one instance: a host requests one file at a time, unless it is hostile.
MAX_OPENERS = 4
TERM_SECONDS = 0.5
#: Reasons of which no client gets the log; there may be 10,000 tombstones.
TOLD_WITHOUT_LOG = frozenset({"closed", "idle", "orphaned", "shutdown"})
#: Status by which a host says that its environment has left.
GONE = 410

FORK_RETURNED = (
    "a process that its environment forked returned from the environment's call; such "
    "a process must end with os._exit()"
)
OUT_OF_MEMORY = "memory ran out and the kernel killed its process"

log = logging.getLogger(SUPERVISOR)


class Hosts:
    """The instances and their host processes.

    Args:
        run: The run directory.
        settings: The limits.
        modules: What has been imported for hosts to have.
        earlier_ids: IDs that earlier servers gave out, and that are not used again.
        remove: Called with a directory that is to be removed.
        sandbox: The sandbox that hosts enter.
        on_made: Called with an instance and what its host said of the making.
        on_end: Called with an instance whose process has ended, and how.

    Attributes:
        tombstones: The instances that have ended.
        kept_logs: The logs of the last ones.
        spared: Child processes that no host started, and that no end of a host ends.
        on_spared: Called with the process ID of such a one that has ended.
    """

    def __init__(
        self,
        run: RunDir,
        settings: Settings,
        modules: Modules,
        *,
        earlier_ids: Container[str],
        remove: Callable[[str], None],
        sandbox: Sandbox,
        on_made: Callable[[Instance, Frame], None],
        on_end: Callable[[Instance, Ended], None],
    ) -> None:
        self.tombstones = Tombstones()
        self.kept_logs = KeptLogs()
        # What modules have started when they were imported.
        self.spared = set(processes.children(os.getpid()))
        self.on_spared: Callable[[int], None] = lambda pid: None
        self._run = run
        self._settings = settings
        self._modules = modules
        self._earlier_ids = earlier_ids
        self._remove = remove
        self._sandbox = sandbox
        self._on_made = on_made
        self._on_end = on_end
        self._instances: dict[str, Instance] = {}
        self._by_pid: dict[int, Instance] = {}
        self._clock = AwakeClock()
        self._memory = MemoryLimit(settings.host_memory)
        self._oom_kills = OomKills()
        self._strays = processes.Strays()
        self._stray = False

    def __len__(self) -> int:
        """How many slots are taken."""
        return len(self._instances)

    def __iter__(self) -> Iterator[Instance]:
        """Go through all instances; they may end meanwhile."""
        return iter(list(self._instances.values()))

    def serving(self) -> list[Instance]:
        """List the instances that are made and not about to end."""
        return [each for each in self if each.live and not each.reason]

    def get(self, instance_id: str) -> Instance | None:
        """Give an instance that is made, even if it is about to end."""
        instance = self._instances.get(instance_id)
        return instance if instance is not None and instance.live else None

    def find(self, instance_id: str) -> Instance | None:
        """Return an instance, even one that is being made or about to end."""
        return self._instances.get(instance_id)

    def full(self) -> TooManyInstances | None:
        """Return the problem of a create request if no slot is free."""
        most = self._settings.max_instances
        if len(self._instances) < most:
            return None
        return TooManyInstances(
            f"all {most} instances that this server may have are taken; "
            "close one, or raise --max-instances"
        )

    def oldest_orphan(self, owner: str | None) -> Instance | None:
        """Return the instance that has been orphaned longest, and for long enough.

        Args:
            owner: Owner that it must have; ``None`` is any.
        """
        timeout, now_ns = self._settings.orphan_timeout, time.monotonic_ns()
        if not timeout:
            return None
        found: list[tuple[float, Instance]] = []
        for each in self.serving():
            if owner in (None, each.owner):
                orphaned = limits.orphaned_for(each.page.read(), now_ns)
                if orphaned is not None and orphaned >= timeout:
                    found.append((orphaned, each))
        return max(found, key=lambda each: each[0], default=(0.0, None))[1]

    def longest_idle(self, among: Iterable[Instance]) -> Idle | None:
        """Return the instance that nobody has used for longest, if one is idle.

        Args:
            among: Instances to choose from.
        """
        now_ns = time.monotonic_ns()
        found = []
        for each in among:
            status = each.page.read()
            idle = limits.idle_for(status, now_ns)
            if idle is not None:
                ends_in = limits.ends_in(status, now_ns, self._settings)
                found.append(Idle(each.instance_id, each.env_id, idle, ends_in))
        return max(found, key=lambda each: each.idle_s, default=None)

    def start(self, request: CreateRequest) -> Instance:
        """Take a slot and start a host, which will say how the making went.

        Raises:
            TooManyInstances: No slot is free, or the machine has no room.
            ForkFailed: No process can be started.
            DiskFull: The disk of the run directory has no room.
        """
        if (full := self.full()) is not None:
            raise full
        if self._run.shortage():
            # Room for a new instance is worth more than logs of ended ones.
            self.kept_logs.clear()
            if shortage := self._run.shortage():
                raise DiskFull(shortage)
        instance_id = self._new_id()
        try:
            instance = start_host(
                instance_id,
                request,
                run=self._run,
                settings=self._settings,
                modules=self._modules,
                sandbox=self._sandbox,
            )
        except ForkFailed:
            self._remove(self._run.instance(instance_id))
            raise
        except OSError as error:
            self._remove(self._run.instance(instance_id))
            if is_full(error):
                raise DiskFull(
                    f"the disk of the run directory {self._run.path} has no room for "
                    f"another instance: {error.strerror}"
                ) from None
            raise TooManyInstances(
                f"the machine has no room for another instance: {error}"
            ) from None
        self._instances[instance_id] = self._by_pid[instance.pid] = instance
        return instance

    def _new_id(self) -> str:
        while True:
            instance_id = secrets.token_hex(4)
            if (
                instance_id not in self._instances
                and instance_id not in self.tombstones
                and instance_id not in self._earlier_ids
            ):
                return instance_id

    def hear(self, instance: Instance) -> bool:
        """Take what a host says; whether it may say more."""
        try:
            frames = instance.channel.receive()
            return frames is not None and self._take(instance, frames)
        except FrameError as error:
            log.warning("the host of %s sent nonsense: %s", instance.instance_id, error)
            # Nothing that comes after it, until the process is gone, is believed.
            instance.told = True
            self.kill(instance, "crashed")
            return False
        finally:
            instance.channel.close_descriptors()

    def _take(self, instance: Instance, frames: list[Frame]) -> bool:
        """Act on what a host sent; return whether it may send more."""
        for frame in frames:
            if frame.kind == Op.SERVER_LOG:
                self._write_log(instance, frame)
                continue
            if frame.status == RETURNED:
                instance.detail = FORK_RETURNED
                self.kill(instance, "crashed")
                return False
            if not instance.told:
                self._told(instance, frame)
            elif frame.kind == Op.MONITOR_FILE:
                self._open_monitor(instance, frame)
            elif frame.status == GONE and not instance.reason:
                # It ends by itself: its environment, which lives elsewhere, is gone.
                instance.reason = "external-gone"
                instance.kill_at = time.monotonic() + CLOSE_SECONDS
        return True

    def _write_log(self, instance: Instance, frame: Frame) -> None:
        """Write what a host has for the server's log, unless it is too much."""
        if instance.log_allowance.take():
            first, rest = server_log.read(bytes(frame.body))
            place = instance.instance_id, instance.env_id
            log.warning("%s (%s): %s", *place, first, extra={"trace": rest})

    def _open_monitor(self, instance: Instance, frame: Frame) -> None:
        """Have a child open the file of a monitor, since a disk may be slow."""
        line = instance.channel.take_descriptor()
        if line is None:
            return
        try:
            self._open_file(instance, frame, line)
        finally:
            close_at_once(line)

    def _open_file(self, instance: Instance, frame: Frame, line: int) -> None:
        instance.openers &= self.spared
        if instance.pid not in self._by_pid or len(instance.openers) >= MAX_OPENERS:
            return
        try:
            pid = open_monitor(self._settings.data_dir, frame, line, instance.owner)
        except ForkFailed as error:
            log.warning("no process can be started to open a file: %s", error)
            return
        instance.openers.add(pid)
        self.spared.add(pid)

    def _told(self, instance: Instance, frame: Frame) -> None:
        # Of all that it may say later nothing is meant for us.
        instance.told = True
        instance.live = frame.status == 200
        if not instance.live and not instance.reason:
            # It ends by itself now, unless a thread of the environment's holds it.
            instance.reason = "refused"
            instance.kill_at = time.monotonic() + CLOSE_SECONDS
        # Whoever waits for it comes before the log.
        self._on_made(instance, frame)
        if instance.live:
            words = f"{instance.instance_id} made, an instance of {instance.env_id}"
            write(logging.INFO, SUPERVISOR, words, instance.request_id)

    def close(self, instance: Instance, reason: str) -> None:
        """Ask a host to close its environment and end; insist later."""
        if instance.reason:
            return
        instance.reason = reason
        instance.kill_at = time.monotonic() + CLOSE_SECONDS
        try:
            instance.channel.socket.send(CLOSE)
        except OSError:
            instance.kill_at = 0.0

    def kill(self, instance: Instance, reason: str) -> None:
        """End a host, and what it started, at once."""
        instance.reason = instance.reason or reason
        instance.kill_at = float("inf")
        if instance.pid in self._by_pid:
            processes.kill_tree(instance.pid)

    def tick(self) -> None:
        """Look at all limits; to be called a few times a second."""
        now, now_ns = time.monotonic(), time.monotonic_ns()
        self._clock.advance(now)
        for instance in self:
            if instance.reason:
                if now >= instance.kill_at:
                    self._insist(instance, now)
            else:
                self._check(instance, now, now_ns)
        if self._stray:
            self._kill_strays()
        self._check_memory()

    def _insist(self, instance: Instance, now: float) -> None:
        instance.kills += 1
        if instance.kills == 1:
            instance.kill_at = now + TERM_SECONDS
            os.kill(instance.pid, signal.SIGTERM)
        else:
            self.kill(instance, instance.reason)

    def _check(self, instance: Instance, now: float, now_ns: int) -> None:
        status = instance.page.read()
        reason = self._overdue(instance, status, now, now_ns)
        if reason is not None:
            # The reader may be interrupted within a number: that happens once.
            status = instance.page.read()
            reason = self._overdue(instance, status, now, now_ns)
        if instance.live and reason is None and not status.busy_since_ns:
            reason = self._unresponsive(instance)
        if reason == "idle":
            self.close(instance, reason)
        elif reason is not None:
            self.kill(instance, reason)
        instance.output.tick()

    def _overdue(
        self, instance: Instance, status: Status, now: float, now_ns: int
    ) -> str | None:
        awake, heartbeat = self._clock.now, instance.heartbeat
        heartbeat.look(status.marks, awake)
        settings = self._settings
        reason = limits.overdue(
            status,
            live=instance.live,
            age=now - instance.started,
            now_ns=now_ns,
            settings=settings,
        )
        deadlines = {
            "create-deadline": settings.create_deadline,
            "step-deadline": settings.step_deadline,
        }
        if reason in deadlines and not heartbeat.had(awake, deadlines[reason]):
            # This process was suspended, and probably the host was, too.
            return None
        return reason

    def _unresponsive(self, instance: Instance) -> str | None:
        """Ping a host between calls, and return the reason to end one that is stuck."""
        awake, heartbeat = self._clock.now, instance.heartbeat
        if heartbeat.ping_due(awake):
            with contextlib.suppress(OSError):
                instance.channel.socket.send(PING)
        lost = heartbeat.lost(awake, self._settings.step_deadline)
        return "unresponsive" if lost else None

    def _check_memory(self) -> None:
        self._oom_kills.tick()
        running = [each.pid for each in self if not each.reason]
        for pid in self._memory.tick(running):
            self.kill(self._by_pid[pid], "memory")

    def reap(self) -> None:
        """Take leave of every process that has ended."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                break
            if pid == 0:
                break
            self._strays.forget(pid)
            if pid in self.spared:
                self.spared.discard(pid)
                self.on_spared(pid)
                self._stray = True
            instance = self._by_pid.pop(pid, None)
            if instance is not None:
                self._bury(instance, status)
                self._stray = True
        if self._stray:
            self._kill_strays()

    def end_spared(self, pid: int) -> None:
        """End a child process that no host started, and its descendants."""
        if pid in self.spared:
            processes.kill_tree(pid)
        self._stray = True

    def _kill_strays(self) -> None:
        # What forks without end may slip through once, so until none is seen.
        hosts = {each.instance_id: each.pid for each in self}
        self._stray = self._strays.kill(hosts, self.spared)

    def _bury(self, instance: Instance, wait_status: int) -> None:
        # The last that it said may not have been read yet.
        self.hear(instance)
        instance_id = instance.instance_id
        del self._instances[instance_id]
        if not instance.reason and _is_killed(wait_status) and self._oom_kills.recent():
            instance.reason = "memory"
            instance.detail = OUT_OF_MEMORY
        log_tail = instance.output.finish()
        page = instance.page.read()
        now = time.monotonic()
        untold = instance.reason in TOLD_WITHOUT_LOG or self._settings.no_tracebacks
        ended = Ended(
            instance.env_id,
            instance.reason or "crashed",
            wait_status,
            "" if untold else log_tail,
            now,
            instance.end_key,
            instance.owner,
            instance.detail,
            instance.label,
            now - instance.started,
            page.steps,
            page.episodes,
            last_words=last_words(log_tail),
            private=self._settings.no_tracebacks,
        )
        self._remove(self._run.instance(instance_id))
        if instance.live:
            self.tombstones.add(instance_id, ended)
            self.kept_logs.add(instance_id, instance.output)
            level = logging.INFO if ended.wanted else logging.WARNING
            write(level, SUPERVISOR, f"{instance_id} ended: {ended.summary}")
        else:
            instance.output.close_log()
        self._on_end(instance, ended)
        instance.release()


def _is_killed(wait_status: int) -> bool:
    return os.WIFSIGNALED(wait_status) and os.WTERMSIG(wait_status) == signal.SIGKILL
