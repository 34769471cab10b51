"""The archiver: a process that writes ended instances to the data directory.

A disk may be slow, or stand still, and the supervisor must not wait for it. So it sends
the facts of an instance, and the descriptor of the memory with its episodes, to the
archiver, one instance after the other. It keeps both until the archiver has confirmed
that the file is written.
"""

from __future__ import annotations

import contextlib
import logging
import os
import socket
import time
from collections import OrderedDict
from collections.abc import Callable
from typing import NamedTuple

import msgspec

from gym_http_server.access.shares import share_used_up
from gym_http_server.datadir.archive import (
    LOG_BYTES,
    Archive,
    Facts,
)
from gym_http_server.datadir.own_paths import ARCHIVE, DataDir
from gym_http_server.processes.frame_socket import FrameSocket
from gym_http_server.processes.log_lines import SUPERVISOR
from gym_http_server.processes.poller import Poller
from gym_http_server.processes.service_process import isolate
from gym_http_server.rundir.episode_ring import read_ring
from gym_http_server.supervisor.instance import Instance, Tombstone
from gym_http_server.supervisor.services import ServiceProcess
from gym_http_wire.frames import Frame, FrameError
from gym_http_wire.messages import Op, RequestHead, answer, request, request_head
from gym_http_wire.problems import DiskFull

__all__ = ["ArchiverProcess"]

#: Instances that wait for the archiver at most; each has a descriptor.
MAX_WAITING = 256
#: Times that an instance is sent, if the archiver ends meanwhile.
MAX_ATTEMPTS = 2
#: Seconds without progress after which the end of the server waits no longer.
PATIENCE_SECONDS = 1.0
#: Bytes of the facts of all archived instances.
MAX_FACTS_BYTES = 16 * 1024 * 1024
NICENESS = 5

log = logging.getLogger(SUPERVISOR)


class _Waiting(NamedTuple):
    """An instance that the archiver has not confirmed."""

    frame: Frame
    memory: int
    owner: str


class ArchiverProcess(ServiceProcess):
    """The supervisor's handle of the archiver.

    Args:
        data_dir: The data directory.
        poller: The supervisor's poller.
        no_logs: Whether clients must not see logs, so that none are kept.
        on_found: Called with the facts of the instances that it has found.

    Attributes:
        kept: IDs of instances in the archive.
    """

    name = "archiver"

    def __init__(
        self,
        data_dir: DataDir,
        poller: Poller,
        *,
        no_logs: bool,
        on_found: Callable[[list[Facts]], None],
    ) -> None:
        super().__init__()
        # Without an archive it is not needed before the first instance has ended.
        self.wanted = os.path.isdir(f"{data_dir.path}/{ARCHIVE}")
        self._data_dir = data_dir
        self._poller = poller
        self._no_logs = no_logs
        self._on_found = on_found
        self.kept: set[str] = set()
        self._waiting: OrderedDict[str, _Waiting] = OrderedDict()
        self._channel: FrameSocket | None = None
        self._attempts = 0
        self._progress = time.monotonic()
        self._dropped = False

    def __contains__(self, instance_id: object) -> bool:
        """Whether an instance is not in the archive yet, but will be."""
        return instance_id in self._waiting

    @property
    def busy(self) -> bool:
        """Whether instances wait that will soon be in the archive."""
        patient = time.monotonic() < self._progress + PATIENCE_SECONDS
        return bool(self._waiting and self.pid and patient)

    def add(self, instance: Instance, ended: Tombstone) -> None:
        """Archive an ended instance, unless it was closed before its first step."""
        if ended.wanted and not ended.steps:
            return
        if len(self._waiting) >= MAX_WAITING:
            if not self._dropped:
                log.warning(
                    "the disk of %s is too slow: episodes of instances that end now "
                    "are not kept",
                    self._data_dir.path,
                )
            self._dropped = True
            return
        held = sum(each.owner == ended.owner for each in self._waiting.values())
        if share_used_up(
            ended.owner,
            "ended instances that wait for the disk",
            held=held,
            taken=len(self._waiting),
            most=MAX_WAITING,
        ):
            return
        body = msgspec.json.encode(self._facts(instance, ended))
        try:
            memory = os.dup(instance.page.file)
        except OSError as error:
            log.warning("cannot keep %s: %s", instance.instance_id, error.strerror)
            return
        self.wanted = True
        if not self._waiting:
            self._progress = time.monotonic()
        head = RequestHead(value=instance.recording)
        waiting = _Waiting(request(Op.ARCHIVE, body, head), memory, ended.owner)
        self._waiting[instance.instance_id] = waiting
        if len(self._waiting) == 1:
            self._send()

    def start(self) -> None:
        """Start the process, and send it what waits.

        Raises:
            ForkFailed: No process can be started.
            OSError: There are too many open files.
        """
        self._close()
        ours, theirs = socket.socketpair()
        try:
            self._fork([theirs.fileno()], lambda parent: self._run(theirs, parent))
        except BaseException:
            ours.close()
            raise
        finally:
            theirs.close()
        ours.setblocking(False)
        channel = self._channel = FrameSocket(ours, MAX_FACTS_BYTES)
        self._poller.add(ours, lambda events: self._receive(channel))
        self._progress = time.monotonic()
        if self._waiting and self._attempts >= MAX_ATTEMPTS:
            self._confirm(next(iter(self._waiting)))
        else:
            self._send()

    def _close(self) -> None:
        if self._channel is not None:
            self._poller.remove(self._channel)
            self._channel.close()

    def _facts(self, instance: Instance, ended: Tombstone) -> Facts:
        log_start, log_tail = 0, b""
        # Episodes count more than the log, if the disk fails.
        with contextlib.suppress(OSError):
            if not self._no_logs:
                log_start, log_tail = instance.output.read_end(LOG_BYTES)
        return Facts(
            instance.instance_id,
            ended.env_id,
            ended.reason,
            ended.wait_status,
            time.time(),
            round(ended.age_s, 3),
            ended.steps,
            ended.episodes,
            owner=ended.owner,
            label=ended.label,
            detail=ended.detail,
            log_tail=log_tail.decode("utf-8", "replace"),
            log_start=log_start,
        )

    def _send(self) -> None:
        """Send the instance that has waited longest."""
        if self._waiting and self._channel is not None and not self._channel.closed:
            instance_id, (frame, memory, _) = next(iter(self._waiting.items()))
            try:
                copy = os.dup(memory)
            except OSError as error:
                self._give_up(instance_id, error)
                return
            self._attempts += 1
            self._channel.queue(frame, [copy])

    def _give_up(self, instance_id: str, error: OSError) -> None:
        log.warning("cannot keep %s: %s", instance_id, error.strerror)
        self._confirm(instance_id)

    def _receive(self, channel: FrameSocket) -> None:
        try:
            frames = channel.receive()
        except FrameError:
            frames = None
        if frames is None:
            self._close()
        for frame in frames or ():
            self._progress = time.monotonic()
            if frame.kind == Op.ARCHIVED:
                found = msgspec.json.decode(frame.body, type=list[Facts])
                self.kept = {each.instance_id for each in found}
                self._on_found(found)
                continue
            instance_id, *removed = bytes(frame.body).decode().split()
            if frame.status == 200:
                self.kept.add(instance_id)
                self.kept.difference_update(removed)
            self._confirm(instance_id)

    def _confirm(self, instance_id: str) -> None:
        waiting = self._waiting.pop(instance_id, None)
        if waiting is not None:
            os.close(waiting.memory)
        self._attempts, self._dropped = 0, False
        self._send()

    def _run(self, end: socket.socket, parent: int) -> int:
        isolate(parent)
        os.nice(NICENESS)
        channel = FrameSocket(end, max_descriptors=1)
        archive = Archive(self._data_dir)
        found = archive.load()
        channel.send(Frame(Op.ARCHIVED, body=msgspec.json.encode(found)))
        failure = 0
        while (frame := channel.receive_one()) is not None:
            memory = channel.take_descriptor()
            if memory is None:
                return 1
            facts = msgspec.json.decode(frame.body, type=Facts)
            status, removed = 200, list[str]()
            try:
                removed = archive.add(
                    facts, read_ring(memory), request_head(frame).value or ""
                )
                failure = 0
            except OSError as error:
                status = DiskFull.default_status
                if error.errno != failure:
                    log.warning(
                        "cannot keep the episodes of ended instances in %s: %s",
                        f"{self._data_dir.path}/{ARCHIVE}",
                        error.strerror,
                    )
                failure = error.errno or 0
            os.close(memory)
            names = " ".join([facts.instance_id, *removed])
            channel.send(answer(status, names.encode()))
        return 0
