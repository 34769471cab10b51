"""The member: the process that renews a node's record, and learns of the others.

It alone talks to the store regularly. Web workers and the supervisor read its page.
"""

from __future__ import annotations

import contextlib
import logging
import os
import select
import socket
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from urllib.parse import urlsplit

import msgspec

from gym_http_server.config.inherited_settings import Inherited, SettingsMemory
from gym_http_server.datadir.own_paths import DATABASE
from gym_http_server.fleet.callers import (
    CallerSignatures,
    ForwardedCaller,
    SignedParts,
)
from gym_http_server.fleet.joining import may_be_called, tls_context
from gym_http_server.fleet.page import Node, Nodes, Page, now_ns
from gym_http_server.fleet.records import BadRecord, Record, read, write
from gym_http_server.fleet.signatures import Signatures
from gym_http_server.fleet.store import Changes, FleetStore, NumberTaken, StoreAway
from gym_http_server.processes.frame_socket import FrameSocket
from gym_http_server.processes.service_process import (
    apply_reload,
    isolate,
    run_service,
)
from gym_http_wire.frames import FrameError
from gym_http_wire.messages import NODE_PROOF, Op, RequestHead, request

__all__ = ["run"]

RENEW_SECONDS = 1.0
#: Nanoseconds without record and connection after which a node is lost.
LOST_NS = 30 * 10**9
#: Nanoseconds between two renewals beyond which no time counts as a node's absence.
GAP_NS = 3 * 10**9
PROBE_SECONDS = 1.0
PROBED = "/healthz/"
MOST_PROBES = 16
SUPERVISOR_SECONDS = 2.0

log = logging.getLogger("gym_http_server.fleet")


class _Slots(msgspec.Struct):
    of: int
    taken: int
    owners: dict[str, int] = {}


class _External(msgspec.Struct):
    env_id: str
    free: int


class _Status(msgspec.Struct):
    slots: _Slots


class _NamedRun(msgspec.Struct):
    run: str


class _Runs(msgspec.Struct):
    runs: list[_NamedRun]


class FleetMember:
    """Keeps a node in its fleet.

    Args:
        inherited: The server's settings.
        control: The connection to the supervisor, for reloads.
        clock: Returns nanoseconds.
    """

    def __init__(
        self,
        inherited: Inherited,
        control: FrameSocket,
        clock: Callable[[], int] = now_ns,
    ) -> None:
        self._clock = clock
        self._settings = inherited.settings
        self._run = inherited.run
        self._page = Page(inherited.run_path)
        self._nodes = self._page.read()
        self._signatures = Signatures(inherited.fleet_token)
        self._callers = CallerSignatures(self._signatures, lambda: self._nodes.own)
        own = self._nodes.own
        self._store = FleetStore(self._settings.fleet, own.version, self._signatures)
        self._owner = f"{self._nodes.directory}:{own.boot}"
        self._control = control
        self._since = b"", b"0"
        self._renewed_ns = self._clock()
        self._gone = dict(self._nodes.gone)
        self._gone_names = dict(self._nodes.gone_names)
        # The last record of each number, since when it is away, and what was logged. A
        # member that was started again knows what the earlier one did: the store may
        # have come back empty meanwhile.
        self._records = {
            number: each.record
            for each in self._nodes.others
            for number in each.record.numbers
        }
        self._away: dict[str, int] = {}
        self._unreachable: dict[str, int] = {}
        self._failed = ""
        self._refused = b""
        # How often in a row the record of a number was ignored.
        self._ignored: Counter[str] = Counter()
        self._joined: tuple[str, ...] = ()
        self._threads = ThreadPoolExecutor(MOST_PROBES)
        self._probes: dict[str, Future[bool]] = {}
        self._binding: Future[None] | None = None
        self._tls = tls_context(self._settings.fleet_ca)

    def run(self) -> None:
        """Renew the record each second until an exception ends it."""
        while True:
            self._step()
            self._wait()

    def close_all(self) -> None:
        """Close the connection to the store, and the page."""
        self._threads.shutdown(wait=False, cancel_futures=True)
        self._store.close()
        self._page.close()

    def _wait(self) -> None:
        """Wait until the next renewal is due; apply reloads meanwhile."""
        poll = select.poll()
        poll.register(self._control.fileno(), select.POLLIN)
        due = time.monotonic() + RENEW_SECONDS
        while (left := due - time.monotonic()) > 0:
            if poll.poll(1000 * left):
                for frame in self._control.receive() or ():
                    apply_reload(self._control, frame, lambda gone: None)

    def _step(self) -> None:
        try:
            own = self._describe()
            record = write(own, self._signatures)
            changes = self._store.renew(self._owner, own.numbers, record, self._since)
        except StoreAway as away:
            self._log_once(str(away))
            return
        except NumberTaken as taken:
            self._join_anew(str(taken))
            return
        except (OSError, FrameError, msgspec.MsgspecError) as error:
            self._log_once(f"the supervisor does not answer: {error}")
            return
        self._log_once("")
        self._page.renew()
        self._learn(changes)
        self._probe()
        self._publish(own)
        self._log_number()
        if changes.runs_nonce and (self._binding is None or self._binding.done()):
            # It may take longer than a renewal may be late.
            self._binding = self._threads.submit(
                self._bind_runs, own, changes.runs_nonce
            )

    def _log_once(self, words: str) -> None:
        if words and words != self._failed:
            log.warning("%s; the known nodes of the fleet stay", words)
        elif self._failed and not words:
            log.info("this node's record is in the fleet's store again")
        self._failed = words

    def _log_number(self) -> None:
        """Log the number of this node when it has a new one."""
        own = self._nodes.own
        if own.numbers != self._joined:
            log.info(
                "joined the fleet at %s as %s, number %s; other nodes: %d",
                self._store.shown,
                own.name,
                own.numbers[-1],
                len(self._nodes.others),
            )
        self._joined = own.numbers

    def _describe(self) -> Record:
        """Return this node's record as it is now."""
        slots = self._ask(Op.STATUS)
        return msgspec.structs.replace(
            self._nodes.own,
            slots=slots.of,
            free=slots.of - slots.taken,
            owners=slots.owners,
            external=self._external(),
            draining=os.path.exists(self._run.draining),
        )

    def _external(self) -> dict[str, int]:
        """Return how many external environments are free, by their env IDs."""
        path = self._run.broker_socket
        if not os.path.exists(path):
            return {}
        with contextlib.suppress(OSError, FrameError, msgspec.MsgspecError):
            body = _call(path, Op.EXTERNAL_LIST)
            listed = msgspec.json.decode(body, type=list[_External])
            return {each.env_id: each.free for each in listed if each.free}
        return {}

    def _bind_runs(self, own: Record, nonce: str) -> None:
        """Bind this node's runs in the store, so that others need not ask for them."""
        with contextlib.suppress(OSError, FrameError, msgspec.MsgspecError, StoreAway):
            runs = _Runs([])
            if os.path.exists(f"{self._settings.relay_dir}/{DATABASE}"):
                body = _call(self._run.relay_socket, Op.RUN_LIST)
                runs = msgspec.json.decode(body, type=_Runs)
            names = [each.run for each in runs.runs]
            self._store.bind_runs(self._owner, own.numbers[-1], names, nonce)

    def _ask(self, op: Op, value: str = "") -> _Slots:
        """Send the supervisor a request."""
        body = _call(self._run.supervisor_socket, op, value)
        return msgspec.json.decode(body, type=_Status).slots

    def _join_anew(self, number: str) -> None:
        """End all instances, since others take them as lost, and claim a number."""
        log.error(
            "the number %s of this node was lost to the fleet; ending its instances, "
            "and joining anew",
            number,
        )
        self._page.fence()
        self._gone |= dict.fromkeys(self._nodes.own.numbers, "node-lost")
        with contextlib.suppress(OSError, FrameError, msgspec.MsgspecError):
            self._ask(Op.END_ALL, "node-lost")
            self._take_number(())
            self._renewed_ns = self._clock()

    def _take_number(self, earlier: tuple[str, ...]) -> None:
        """Claim another number for new instances.

        Args:
            earlier: Numbers that the node keeps for the instances that it has.
        """
        boot, directory = self._nodes.own.boot, self._nodes.directory
        try:
            number = self._store.claim(directory, boot, None)
        except StoreAway as away:
            self._log_once(str(away))
            return
        if number is None:
            self._log_once("all numbers of the fleet are taken")
            return
        numbers = (*earlier, number.number)
        own = msgspec.structs.replace(self._nodes.own, numbers=numbers)
        gone = dict(self._gone)
        self._nodes = msgspec.structs.replace(self._nodes, own=own, gone=gone)
        self._page.replace(self._nodes)
        self._page.issued = number.issued

    def _learn(self, changes: Changes) -> None:
        """Note the changes of a renewal."""
        if changes.epoch != self._since[0]:
            self._gone.clear()
            self._gone_names.clear()
        self._since = changes.epoch, changes.clock
        now = self._clock()
        gap = now - self._renewed_ns
        self._renewed_ns = now
        for number, data in changes.records.items():
            self._read_record(number, data)
            if changes.gone[number]:
                self._gone[number] = changes.gone[number]
                if record := self._records.pop(number, None):
                    self._gone_names[number] = record.name
            else:
                self._gone.pop(number, None)
                self._gone_names.pop(number, None)
        for number in self._records:
            if number in changes.alive:
                self._away.pop(number, None)
            elif number not in self._away or gap > GAP_NS:
                self._away[number] = now
        if changes.refused and changes.refused != self._refused:
            log.warning(
                "another server was not admitted to the fleet, for its version or its "
                "fleet token: %.200r",
                changes.refused,
            )
        self._refused = changes.refused

    def _read_record(self, number: str, data: bytes) -> None:
        self._records.pop(number, None)
        if not data:
            self._ignored.pop(number, None)
            return
        try:
            record = read(number, data, self._signatures)
            if not may_be_called(record.url, self._settings):
                raise BadRecord(f"{record.url} is plain HTTP, without --fleet-plain")
        except BadRecord as bad:
            self._ignored[number] += 1
            times = self._ignored[number]
            # It may be replaced each second, for weeks: logged at 1, 2, 4, 8…
            if times & (times - 1) == 0:
                log.warning(
                    "ignored the record %.10r in the fleet's store, %d in a row: %s",
                    number,
                    times,
                    bad,
                )
            return
        self._ignored.pop(number, None)
        if record.boot != self._nodes.own.boot:
            self._records[number] = record

    def _probe(self) -> None:
        """Try to connect to the nodes that are away; mark those that are lost."""
        now = self._clock()
        for number, since in list(self._away.items()):
            record = self._records.get(number)
            if record is None:
                del self._away[number]
                self._unreachable.pop(number, None)
                continue
            probe = self._probes.get(number)
            if probe is None:
                self._probes[number] = self._threads.submit(self._reach, record)
                continue
            if not probe.done():
                continue
            del self._probes[number]
            if probe.result():
                self._unreachable.pop(number, None)
                continue
            silent = self._unreachable.setdefault(number, now)
            if now - max(silent, since) > LOST_NS:
                with contextlib.suppress(StoreAway):
                    if self._store.lose(number, record.boot):
                        log.warning("the node %s is lost", record.name)
        for number in self._unreachable.keys() - self._away.keys():
            del self._unreachable[number]

    def _reach(self, node: Record) -> bool:
        """Whether a node answers at its URL.

        Another program may answer there, or the same server with another boot, which
        has none of the node's instances.
        """
        parts = urlsplit(node.url)
        made: HTTPConnection
        if parts.scheme == "https":
            made = HTTPSConnection(
                parts.netloc, timeout=PROBE_SECONDS, context=self._tls
            )
        else:
            made = HTTPConnection(parts.netloc, timeout=PROBE_SECONDS)
        try:
            signed = SignedParts("GET", PROBED, "", "")
            caller = self._callers.sign(node, ForwardedCaller(), signed)
            made.request("GET", PROBED, headers={"Authorization": caller})
            shown = made.getresponse().getheader(NODE_PROOF, "")
        except (OSError, HTTPException):
            return False
        finally:
            made.close()
        return shown == self._callers.proof(node.boot)

    def _publish(self, own: Record) -> None:
        """Write what is known to the page, if it has changed."""
        by_boot = {record.boot: number for number, record in self._records.items()}
        others = [
            Node(
                self._records[number],
                self._away.get(number, 0),
                self._unreachable.get(number, 0),
            )
            for number in sorted(by_boot.values())
        ]
        gone = dict(self._gone), dict(self._gone_names)
        nodes = Nodes(own, self._nodes.directory, others, *gone)
        if nodes != self._nodes or not self._page.state:
            with contextlib.suppress(OSError):
                self._page.replace(nodes)
                self._nodes = nodes
        if self._page.used_up:
            self._take_number(own.numbers)


def _call(path: str, op: Op, value: str = "") -> bytes:
    """Send a process of this server a request, and return the body of its answer."""
    with socket.socket(socket.AF_UNIX) as end:
        end.settimeout(SUPERVISOR_SECONDS)
        end.connect(path)
        connection = FrameSocket(end)
        connection.send(request(op, head=RequestHead(value=value)))
        frame = connection.receive_one()
    if frame is None:
        raise OSError("it has closed the connection")
    return bytes(frame.body)


def run(memory: int, control: socket.socket, parent_pid: int) -> int:
    """Run the member until it ends; return the exit status.

    Args:
        memory: Descriptor from which it reads the settings, with the fleet token.
        control: The connection to the supervisor.
        parent_pid: The supervisor; the process ends with it.
    """
    isolate(parent_pid)
    inherited = SettingsMemory(memory).read()
    control.setblocking(True)
    member = FleetMember(inherited, FrameSocket(control, max_descriptors=4))
    return run_service(member, "fleet")
