"""The life cycle of hosts: start, messages, limits, exit, tombstone.

This module does not depend on the requests that start and end hosts.
"""

from __future__ import annotations

import contextlib
import logging
import os
import secrets
import signal
import socket
import time
from collections.abc import Callable, Container, Iterable, Iterator

import msgspec

from gym_http_server.config.env_commands import EXTERNAL, command_of
from gym_http_server.config.settings import Settings
from gym_http_server.datadir.own_paths import DataDir
from gym_http_server.datadir.recording_files import MAX_PATH_CHARS, About
from gym_http_server.errors import ForkFailed, TooManyInstances
from gym_http_server.host import server_log
from gym_http_server.host.create_request import CreateRequest
from gym_http_server.host.fork_guard import RETURNED
from gym_http_server.host.host import AGENT_LOST, CLOSE, DRAIN
from gym_http_server.host.mark import DRAWING, SPARE
from gym_http_server.host.monitor_files import FILE_SECONDS, FileRequest, answer_file
from gym_http_server.linux import prctl
from gym_http_server.linux.sandbox import Sandbox
from gym_http_server.processes.log_lines import ACCESS, SUPERVISOR, write
from gym_http_server.rundir.directory import RunDir, is_full
from gym_http_server.rundir.sockets import close_at_once
from gym_http_server.supervisor import processes, time_limits
from gym_http_server.supervisor.events import Events
from gym_http_server.supervisor.figures import Figures
from gym_http_server.supervisor.fork_server import ForkServer
from gym_http_server.supervisor.forks import start_child
from gym_http_server.supervisor.instance import Idle, Instance, Tombstone, Tombstones
from gym_http_server.supervisor.memory import MemoryLimit, OomKills
from gym_http_server.supervisor.output import KeptLogs, last_words
from gym_http_server.supervisor.prefork import Modules
from gym_http_server.supervisor.starts import start_host
from gym_http_server.supervisor.time_limits import TimeLimits
from gym_http_server.supervisor.turns import InstanceTurns
from gym_http_server.supervisor.usage import Usages, read_usage
from gym_http_wire.frames import Frame, FrameError
from gym_http_wire.messages import Op
from gym_http_wire.problems import DiskFull

__all__ = ["Hosts", "random_id"]

CLOSE_SECONDS = 2.0
#: Instances that one round of checks looks at, at least.
FEW = 64
#: Ticks in which each of many instances at rest is looked at, about a second.
LOOK_ROUNDS = 5
#: Rounds, at every second tick, in which its memory and permissions are: 20 seconds.
UPKEEP_ROUNDS = 50
#: Limit for one instance: a host requests one file at a time, unless it is hostile.
MAX_OPENERS = 4
TERM_SECONDS = 0.5
#: Reasons whose tombstones keep no log, since there may be 10,000 tombstones.
REASONS_WITHOUT_LOG = frozenset({"closed", "idle", "node-lost", "orphaned", "shutdown"})
#: Seconds for a web worker to name the request during which an instance ended.
UNNAMED_SECONDS = 0.5
#: Status of a host's message that its external environment did not reconnect.
GONE = 410

FORK_RETURNED = (
    "a process that its environment forked returned from the environment's call; such "
    "a process must end with os._exit()"
)
#: Bytes kept of the versions of an external environment's program.
MAX_PROGRAM = 800
OUT_OF_MEMORY = "memory ran out and the kernel killed its process"

log = logging.getLogger(SUPERVISOR)


def random_id() -> str:
    """Return any instance ID."""
    return secrets.token_hex(4)


class Hosts:
    """The instances and their host processes.

    Args:
        run: The run directory.
        settings: The limits.
        modules: The modules that are imported for hosts.
        earlier_ids: IDs that earlier servers issued, and that are not used again.
        remove: Called with a directory to remove.
        sandbox: The sandbox that hosts enter.
        fork_server: Has the spare hosts.
        on_made: Called with an instance and its host's report of the making.
        on_end: Called with an instance whose process has ended, and how.
        on_revoked: Called with an instance whose host has ended the streams of tokens
            that are gone.
        on_spared_end: Called with the process ID of an ended child process that no
            host started.
        pass_to_broker: Called with the descriptor of a host's connection to the broker.
        new_id: Returns an instance ID that may be free.

    Attributes:
        tombstones: The instances that have ended.
        kept_logs: The logs of the last ended instances.
        events: The last instances that were made or ended, and creates refused.
        figures: What all instances did, by env ID.
        usages: Reads memory and processor time of the instances.
        exempt: Child processes that no host started; they outlive the ends of hosts.
        upkeep: Instances whose turn it is, at this tick, for checks that cost more.
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
        fork_server: ForkServer,
        on_made: Callable[[Instance, Frame], None],
        on_end: Callable[[Instance, Tombstone], None],
        on_revoked: Callable[[Instance], None],
        on_spared_end: Callable[[int], None],
        pass_to_broker: Callable[[int], None],
        new_id: Callable[[], str] = random_id,
    ) -> None:
        self.tombstones = Tombstones()
        self.kept_logs = KeptLogs()
        self.events = Events()
        self.figures = Figures()
        self.usages = Usages()
        # Processes that modules started when they were imported.
        self.exempt = set(processes.children(os.getpid()))
        self._run = run
        self._settings = settings
        self._data_dir = DataDir(settings, run.path)
        self._modules = modules
        self._earlier_ids = earlier_ids
        self._remove = remove
        self._sandbox = sandbox
        self._fork_server = fork_server
        self._on_made = on_made
        self._on_end = on_end
        self._on_revoked = on_revoked
        self._on_spared_end = on_spared_end
        self._pass_to_broker = pass_to_broker
        self._make_id = new_id
        self._instances: dict[str, Instance] = {}
        self._by_pid: dict[int, Instance] = {}
        # Those in the making, and some that have just been made.
        self._making: list[Instance] = []
        self.upkeep: list[Instance] = []
        self._time_limits = TimeLimits(settings)
        self._looks = InstanceTurns(LOOK_ROUNDS, FEW)
        self._upkeeps = InstanceTurns(UPKEEP_ROUNDS, FEW)
        self._ticks = 0
        self._memory = MemoryLimit(settings.host_memory)
        self._oom_kills = OomKills()
        self._strays = processes.Strays()
        self._stray = False
        # Ended instances of commands, and until when their processes may end alone.
        self._ending: dict[str, float] = {}
        self._told_to_drain = False
        # Instances whose end is not logged yet, and when they ended.
        self._unlogged: dict[str, float] = {}

    def __len__(self) -> int:
        """Return the number of occupied slots."""
        return len(self._instances)

    def __iter__(self) -> Iterator[Instance]:
        """Iterate over all instances; they may end meanwhile."""
        return iter(list(self._instances.values()))

    def making(self, since: float) -> int:
        """Count the hosts that have not reported yet how the making went.

        Args:
            since: Monotonic seconds; hosts that were started earlier are left out.
        """
        self._making = [
            each
            for each in self._making
            if not each.reported and each.instance_id in self._instances
        ]
        return sum(each.started >= since for each in self._making)

    def serving(self) -> list[Instance]:
        """List the instances that are made and not about to end."""
        return [each for each in self if each.live and not each.reason]

    def get(self, instance_id: str) -> Instance | None:
        """Return an instance that is made, even if it is about to end."""
        instance = self._instances.get(instance_id)
        return instance if instance is not None and instance.live else None

    def find(self, instance_id: str) -> Instance | None:
        """Return an instance; it may be in the making, or about to end."""
        return self._instances.get(instance_id)

    def full(self) -> TooManyInstances | None:
        """Return the problem of a create request if no slot is free."""
        most = self._settings.max_instances
        if len(self._instances) < most:
            return None
        return TooManyInstances(
            f"all {most} instances that this server may have are taken; "
            "close one, or raise --max-instances",
            extras={"instances": len(self._instances), "max_instances": most},
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
                orphaned = time_limits.orphaned_for(each.page.read(), now_ns)
                if orphaned is not None and orphaned >= timeout:
                    found.append((orphaned, each))
        return max(found, key=lambda each: each[0], default=(0.0, None))[1]

    def longest_idle(self, among: Iterable[Instance]) -> Idle | None:
        """Return the instance that has been idle longest; ``None`` if none is idle.

        Args:
            among: Instances to choose from.
        """
        now_ns = time.monotonic_ns()
        found = []
        for each in among:
            status = each.page.read()
            idle = time_limits.idle_for(status, now_ns)
            if idle is not None:
                ends_in = time_limits.ends_in(status, now_ns, self._settings)
                found.append(Idle(each.instance_id, each.env_id, idle, ends_in))
        return max(found, key=lambda each: each.idle_s, default=None)

    def start(
        self, request: CreateRequest, memory: int | None = None
    ) -> Instance | None:
        """Take a slot and start a host, which reports later how the making went.

        Args:
            request: The create request.
            memory: Descriptor of the memory with its arguments; ``None`` if they are in
                it.

        Returns:
            The instance; ``None`` if no spare host is ready.

        Raises:
            TooManyInstances: No slot is free, or the machine has no room.
            DiskFull: The disk of the run directory has no room.
        """
        if (full := self.full()) is not None:
            raise full
        if self._run.shortage():
            # A new instance is worth more than the logs of ended ones.
            self.kept_logs.clear()
            if shortage := self._run.shortage():
                raise DiskFull(shortage)
        if not self._fork_server.ready:
            return None
        instance_id = self._new_id()
        instance = None
        try:
            instance = start_host(
                instance_id,
                request,
                run=self._run,
                settings=self._settings,
                modules=self._modules,
                sandbox=self._sandbox,
                fork_server=self._fork_server,
                memory=memory,
            )
        except OSError as error:
            if is_full(error):
                raise DiskFull(
                    f"the disk of the run directory {self._run.path} has no room for "
                    f"another instance: {error.strerror}"
                ) from None
            raise TooManyInstances(
                f"the machine has no room for another instance: {error}"
            ) from None
        finally:
            if instance is None:
                self._remove(self._run.instance(instance_id))
        if instance is None:
            return None
        self._instances[instance_id] = self._by_pid[instance.pid] = instance
        self._making.append(instance)
        return instance

    def _new_id(self) -> str:
        while True:
            instance_id = self._make_id()
            if (
                instance_id not in (SPARE, DRAWING)
                and instance_id not in self._instances
                and instance_id not in self.tombstones
                and instance_id not in self._earlier_ids
            ):
                return instance_id

    def drain(self) -> None:
        """Tell hosts that the server is about to stop, so that no request waits."""
        if self._told_to_drain:
            return
        self._told_to_drain = True
        for instance in self.serving():
            with contextlib.suppress(OSError):
                instance.channel.socket.send(DRAIN)

    def receive(self, instance: Instance) -> bool:
        """Read and execute messages of a host; return whether more may come."""
        try:
            frames = instance.channel.receive()
            return frames is not None and self._take(instance, frames)
        except FrameError as error:
            log.warning(
                "the host of %s sent malformed data: %s", instance.instance_id, error
            )
            # Its later messages are ignored until the process has ended.
            instance.reported = True
            self.kill(instance, "crashed")
            return False
        finally:
            instance.channel.close_descriptors()

    def _take(self, instance: Instance, frames: list[Frame]) -> bool:
        """Execute a message of a host; return whether the host may send more."""
        for frame in frames:
            if frame.kind == Op.SERVER_LOG:
                self._write_log(instance, frame)
                continue
            if frame.kind == Op.STREAM_LOG:
                self._log_stream(instance, frame)
                continue
            if frame.kind == Op.PROGRAM:
                instance.program = bytes(frame.body[:MAX_PROGRAM]).decode(
                    "utf-8", "replace"
                )
                continue
            if frame.status == RETURNED:
                instance.detail = FORK_RETURNED
                self.kill(instance, "crashed")
                return False
            if frame.kind == Op.EXTERNAL_HOST:
                self._connect_to_broker(instance)
            elif frame.kind == Op.RELOAD:
                self._on_revoked(instance)
            elif frame.kind == Op.MONITOR_FILE:
                self._open_monitor(instance, frame)
            elif not instance.reported:
                self._on_report(instance, frame)
            elif frame.status == GONE and not instance.reason:
                # It ends by itself: its external environment did not reconnect, or
                # its agent was silent too long.
                lost = frame.body == AGENT_LOST
                instance.reason = "agent-lost" if lost else "external-gone"
                instance.kill_at = time.monotonic() + CLOSE_SECONDS
        return True

    def _write_log(self, instance: Instance, frame: Frame) -> None:
        """Write an entry of a host to the server's log, within its rate limit."""
        if instance.log_allowance.take():
            first, rest = server_log.read(bytes(frame.body))
            log.warning(
                "%s (%s): %s",
                instance.instance_id,
                instance.env_id,
                first,
                extra={"trace": rest},
            )

    def _log_stream(self, instance: Instance, frame: Frame) -> None:
        """Log that a stream was opened or closed, within a rate limit.

        Raises:
            FrameError: The line is malformed.
        """
        if not self._settings.access_log or not instance.stream_allowance.take():
            return
        try:
            line = msgspec.json.decode(bytes(frame.body), type=server_log.StreamLine)
        except msgspec.MsgspecError as error:
            raise FrameError(f"a line about a stream: {error}") from None
        named = f"{instance.instance_id} ({instance.env_id})"
        words = f"{'watching ' if line.watch else ''}stream to {named}"
        fields = {"instance": instance.instance_id, "watch": line.watch}
        if line.seconds is None:
            words += " opened"
        else:
            words += f" closed after {line.seconds:.3f} s, {line.steps} steps"
            fields |= {"seconds": line.seconds, "steps": line.steps}
        if instance.stream_allowance.dropped:
            words += f"; {instance.stream_allowance.dropped} lines before were dropped"
            instance.stream_allowance.dropped = 0
        write(logging.INFO, ACCESS, words, line.request_id, fields)

    def _connect_to_broker(self, instance: Instance) -> None:
        """Pass the connection of a host with an external environment to the broker."""
        descriptor = instance.channel.take_descriptor()
        if descriptor is None:
            return
        try:
            if instance.env_id.startswith(EXTERNAL):
                self._pass_to_broker(descriptor)
        finally:
            close_at_once(descriptor)

    def _open_monitor(self, instance: Instance, frame: Frame) -> None:
        """Open the file of a monitor in a child process, since a disk may be slow."""
        descriptor = instance.channel.take_descriptor()
        if descriptor is None:
            return
        try:
            self._open_file(instance, frame, descriptor)
        finally:
            close_at_once(descriptor)

    def _open_file(self, instance: Instance, frame: Frame, descriptor: int) -> None:
        instance.openers &= self.exempt
        if instance.pid not in self._by_pid:
            return
        # A host may open many files, one after the other.
        if len(instance.openers) >= MAX_OPENERS and all(map(_runs, instance.openers)):
            return
        try:
            pid = _open_monitor_file(
                self._data_dir,
                frame,
                descriptor,
                About(
                    instance.env_id,
                    instance.instance_id,
                    instance.label,
                    instance.owner,
                ),
                self._settings.recordings_disk,
            )
        except ForkFailed as error:
            log.warning("no process can be started to open a file: %s", error)
            return
        instance.openers.add(pid)
        self.exempt.add(pid)
        # A host could request anything: whether it may is checked where that is opened.
        with contextlib.suppress(msgspec.MsgspecError, ValueError, RecursionError):
            instance.recording = msgspec.json.decode(
                frame.body, type=FileRequest
            ).directory[:MAX_PATH_CHARS]

    def _on_report(self, instance: Instance, frame: Frame) -> None:
        """Record how the making of an instance went."""
        instance.reported = True
        instance.live = frame.status == 200
        if not instance.live and not instance.reason:
            # It ends by itself now, unless a thread of the environment keeps it.
            instance.reason = "refused"
            instance.kill_at = time.monotonic() + CLOSE_SECONDS
        # Its creators are answered before the log is written.
        self._on_made(instance, frame)
        if instance.live:
            now = time.monotonic()
            instance.usage = read_usage(instance.pid, instance.usage, now)
            self.figures.add_made(instance.env_id, instance.owner)
            self._add_event("made", instance)
            words = f"{instance.instance_id} made, an instance of {instance.env_id}"
            if (arguments := instance.arguments) is not None:
                words += (
                    f", from a request of {arguments.size} bytes with the SHA-256 "
                    f"{arguments.digest}"
                )
            write(logging.INFO, SUPERVISOR, words, instance.request_id)

    def close(self, instance: Instance, reason: str) -> None:
        """Order a host to close its environment and end; kill it if it does not."""
        if instance.reason:
            return
        instance.reason = reason
        instance.kill_at = time.monotonic() + CLOSE_SECONDS
        try:
            instance.channel.socket.send(CLOSE)
        except OSError:
            instance.kill_at = 0.0

    def kill(self, instance: Instance, reason: str) -> None:
        """Kill a host, and the processes that it started."""
        instance.reason = instance.reason or reason
        instance.kill_at = float("inf")
        if instance.pid in self._by_pid:
            processes.kill_tree(instance.pid)

    def tick(self) -> None:
        """Check all limits; to be called a few times a second."""
        now, now_ns = time.monotonic(), time.monotonic_ns()
        self._time_limits.advance(now)
        self._ticks += 1
        instances = list(self)
        looked_at = set(self._looks.take(instances))
        self.upkeep = [] if self._ticks % 2 else self._upkeeps.take(instances)
        for instance in instances:
            if instance.reason:
                if now >= instance.kill_at:
                    self._signal_end(instance, now)
            elif not instance.at_rest or instance in looked_at:
                self._check(instance, now, now_ns)
        if self._stray:
            self._kill_strays()
        self.log_ends(now - UNNAMED_SECONDS)
        self._check_memory()
        self.usages.tick()

    def _signal_end(self, instance: Instance, now: float) -> None:
        instance.kills += 1
        if instance.kills == 1:
            instance.kill_at = now + TERM_SECONDS
            os.kill(instance.pid, signal.SIGTERM)
        else:
            self.kill(instance, instance.reason)

    def _check(self, instance: Instance, now: float, now_ns: int) -> None:
        reason = self._time_limits.exceeded(instance, now, now_ns)
        if reason == "idle":
            self.close(instance, reason)
        elif reason is not None:
            self.kill(instance, reason)
        instance.output.tick()

    def _check_memory(self) -> None:
        self._oom_kills.tick()
        due: set[int] = set()
        if self.upkeep:
            due |= {each.pid for each in self.upkeep if not each.reason}
            due |= {e.pid for e in self if not e.at_rest and not e.reason}
        for pid in self._memory.tick(self._by_pid.keys(), due):
            self.kill(self._by_pid[pid], "memory")

    def reap(self) -> None:
        """Collect every child process that has ended."""
        while True:
            try:
                pid, status, used = os.wait4(-1, os.WNOHANG)
            except ChildProcessError:
                break
            if pid == 0:
                break
            self._strays.forget(pid)
            self._fork_server.forget(pid)
            if pid in self.exempt:
                self.exempt.discard(pid)
                self._on_spared_end(pid)
                self._stray = True
            instance = self._by_pid.pop(pid, None)
            if instance is not None:
                self._record_end(instance, status, used.ru_utime + used.ru_stime)
                self._stray = True
        if self._stray:
            self._kill_strays()

    def end_spared(self, pid: int) -> None:
        """End a child process that no host started, and its descendants."""
        if pid in self.exempt:
            processes.kill_tree(pid)
        self._stray = True

    def _kill_strays(self) -> None:
        # A process that forks without end can escape one pass: repeat until all end.
        now = time.monotonic()
        self._ending = {each: t for each, t in self._ending.items() if t > now}
        hosts = {each.instance_id: each.pid for each in self}
        hosts |= dict.fromkeys(self._ending, 0)
        exempt = {*self.exempt, *self._fork_server.spare_pids}
        found = self._strays.kill(hosts, exempt)
        self._stray = found or bool(self._ending)

    def _record_end(self, instance: Instance, wait_status: int, cpu_s: float) -> None:
        # Its last messages may not have been read yet.
        self.receive(instance)
        instance_id = instance.instance_id
        del self._instances[instance_id]
        if not instance.reason and _is_killed(wait_status) and self._oom_kills.recent():
            instance.reason = "memory"
            instance.detail = OUT_OF_MEMORY
        log_tail = instance.output.finish()
        page = instance.page.read()
        now = time.monotonic()
        if command_of(self._settings.env_commands, instance.env_id) is not None:
            self._ending[instance_id] = now + processes.COMMAND_SECONDS
        no_log = instance.reason in REASONS_WITHOUT_LOG or self._settings.no_tracebacks
        ended = Tombstone(
            instance.env_id,
            instance.reason or "crashed",
            wait_status,
            "" if no_log else log_tail,
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
            # No counter may fall: the time of descendants was read, if of any process.
            cpu_s = max(cpu_s, instance.usage.cpu_s)
            self.figures.add_ended(ended.env_id, ended.owner, ended.reason, page, cpu_s)
            words = ended.as_json()["last_words"]
            self._add_event("ended", instance, ended.summary(words))
            self.kept_logs.add(instance_id, instance.output, instance.owner)
            self._unlogged[instance_id] = now
            if ended.wanted or not page.busy_since_ns or instance.end_request_id:
                self.log_end(instance_id, instance.end_request_id)
        else:
            instance.output.close_log()
        self._on_end(instance, ended)
        instance.release()

    def _add_event(self, event: str, instance: Instance, reason: str = "") -> None:
        self.events.add(
            event,
            instance.env_id,
            instance.owner,
            instance_id=instance.instance_id,
            label=instance.label,
            reason=reason,
        )

    def log_end(self, instance_id: str, request_id: str = "") -> None:
        """Log the end of an instance, unless it has been logged.

        Args:
            instance_id: The instance.
            request_id: ID of the request that ended it, or during which it ended.
        """
        ended = self.tombstones.get(instance_id)
        if self._unlogged.pop(instance_id, None) is not None and ended is not None:
            level = logging.INFO if ended.wanted else logging.WARNING
            words = f"{instance_id} ended: {ended.summary(ended.last_words)}"
            write(level, SUPERVISOR, words, request_id)

    def log_ends(self, before: float = float("inf")) -> None:
        """Log the ends of instances for which no request was named.

        Args:
            before: Monotonic seconds; instances that ended later are left out.
        """
        for instance_id, ended_at in list(self._unlogged.items()):
            if ended_at < before:
                self.log_end(instance_id)


def _open_monitor_file(
    data_dir: DataDir, frame: Frame, answer_to: int, about: About, recordings_disk: int
) -> int:
    """Fork a child that opens the file which a host has requested.

    Args:
        data_dir: The directory below which monitors write.
        frame: The request.
        answer_to: Descriptor of the socket to send the answer to.
        about: The instance.
        recordings_disk: Size of all recordings of steps, at most.

    Returns:
        The child's process ID; it ends by itself.

    Raises:
        ForkFailed: No process can be started.
    """

    def run(parent: int) -> int:
        for number in (signal.SIGTERM, signal.SIGALRM):
            signal.signal(number, signal.SIG_DFL)
        prctl.die_with_parent(parent)
        signal.alarm(FILE_SECONDS)
        request = msgspec.json.decode(frame.body, type=FileRequest)
        with socket.socket(fileno=answer_to) as end:
            answer_file(end, data_dir, request, about, recordings_disk)
        return 0

    return start_child([answer_to], run, "monitor file")


def _runs(pid: int) -> bool:
    """Whether a child process has not ended; its end is collected later."""
    flags = os.WEXITED | os.WNOHANG | os.WNOWAIT
    return os.waitid(os.P_PID, pid, flags) is None


def _is_killed(wait_status: int) -> bool:
    return os.WIFSIGNALED(wait_status) and os.WTERMSIG(wait_status) == signal.SIGKILL
