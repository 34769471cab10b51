"""Training runs in a fleet: each lives on one node, and any node answers for it.

The store has the number of a run's node. If it does not know the run, or the node has
another number now, the nodes are asked. One that does not answer has no run that the
store does not know, if the store has all of its runs. A run is durable: while its node
is away, its name is not free, until a day has passed.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator

import msgspec

from gym_http_server.errors import (
    FleetAway,
    NodeAway,
    NotFound,
    RunTokenRefused,
    Unauthorized,
    UnknownRun,
)
from gym_http_server.fleet.records import Record
from gym_http_server.fleet.store import StoreAway
from gym_http_server.operations.row import Operation
from gym_http_server.operations.runs import RUN_CREATE
from gym_http_server.operations.table import OPERATIONS, RUN
from gym_http_server.services.relay.files import INLINE_BYTES
from gym_http_server.services.relay.messages import ADMITTED, RelayHead
from gym_http_server.web.api.exchange import (
    Answer,
    Environ,
    caller_of,
    check_size,
    empty_answer,
    read_body,
    read_some,
)
from gym_http_server.web.api.fleet.forwarding import FleetCall, joined
from gym_http_server.web.api.web import View, Web
from gym_http_server.web.backends.nodes.connection import ArrivingBody
from gym_http_server.web.backends.nodes.fleet import Fleet
from gym_http_wire.messages import Op
from gym_http_wire.problems import BadParameter, Problem

__all__ = ["RunViews", "find_run"]

#: Runs whose node a web worker remembers.
MOST_KNOWN = 4096
#: Seconds for which it does: each look into the store keeps the run's name there.
KNOWN_SECONDS = 3600.0
_UNKNOWN = UnknownRun.default_code
_PIECE_BYTES = 256 * 1024


class _RunName(msgspec.Struct):
    run: str = ""


class RunViews:
    """What a node of a fleet answers for training runs.

    Args:
        fleet: The fleet.
    """

    def __init__(self, fleet: Fleet) -> None:
        self._fleet = fleet
        # Number of the node by name of the run, and until when it is not looked up.
        self._known: dict[str, tuple[str, float]] = {}

    def answer_of(self, row: Operation, view: View) -> Callable[..., Answer] | None:
        """Return what answers an operation; ``None`` if it is not about one run."""
        if row.name == "run_create":
            return self._create
        return self._answer if row.path.startswith(RUN) else None

    def _create(self, call: FleetCall) -> Answer:
        """Create a run on the node that has its name, else here."""
        most = min(call.web.settings.max_body, INLINE_BYTES)
        body = read_body(call.environ, most, "")
        here = call.with_body(body).here
        try:
            run = msgspec.json.decode(body, type=_RunName).run
        except msgspec.MsgspecError:
            run = ""
        if call.is_forwarded or not _is_name(run):
            return here()
        own = self._fleet.nodes.own
        try:
            node, bound = self._bound(run)
            if node is None:
                node = self._search(call, run, bound=bound)
            if node.boot == own.boot:
                # Another node may have bound it meanwhile.
                node, _ = self._bound(run, own.numbers[-1])
        except StoreAway as away:
            raise FleetAway(f"new runs wait: {away}") from None
        if node is None:
            raise _away(run)
        return here() if node.boot == own.boot else call.forward(node, body)

    def _answer(self, call: FleetCall, run: str, **arguments: str) -> Answer:
        """Answer for a run of this node, or forward the request to its node."""
        if call.is_forwarded:
            return call.here(run=run, **arguments)
        if not caller_of(call.environ).run_token:
            return self._answer_there(call, run, arguments)
        refused = Unauthorized.default_status
        try:
            answer = self._answer_there(call, run, arguments)
            if answer.status != refused:
                return answer
        except Problem as problem:
            if problem.status != refused:
                raise
        # The node of the run does not know the token: another node may.
        call.web.check_run_token(call.environ)
        raise RunTokenRefused

    def _answer_there(
        self, call: FleetCall, run: str, arguments: dict[str, str]
    ) -> Answer:
        if not _is_name(run):
            return call.here(run=run, **arguments)
        known = run in self._known
        node = self._find(call, run)
        try:
            answer = self._send(call, node, run, arguments)
        except Problem as problem:
            if known and problem.code == _UNKNOWN and self._has_moved(call, run, node):
                return self._send_again(call, run, arguments)
            raise
        unknown = answer.status == 404 and _UNKNOWN.encode() in joined(answer)
        if known and unknown and self._has_moved(call, run, node):
            return self._send_again(call, run, arguments)
        if call.row.name == "run_delete" and answer.status < 400:
            self._known.pop(run, None)
            with contextlib.suppress(StoreAway):
                for number in node.numbers:
                    self._fleet.store.free_run(run, number)
        return answer

    def _has_moved(self, call: FleetCall, run: str, node: Record) -> bool:
        """Whether another node has a run now, as it was deleted and made anew."""
        self._known.pop(run, None)
        # It is known again if one has it.
        return self._find(call, run).boot != node.boot and run in self._known

    def _send_again(
        self, call: FleetCall, run: str, arguments: dict[str, str]
    ) -> Answer:
        """Send a request to the node that has a run now; its body may have been read.

        Raises:
            NodeAway: It has a body, so the client has to send it again.
        """
        if call.environ["REQUEST_METHOD"] not in ("GET", "HEAD"):
            raise NodeAway(
                f"another node has the run {run} now; send the request again"
            )
        return self._send(call, self._find(call, run), run, arguments)

    def _send(
        self, call: FleetCall, node: Record, run: str, arguments: dict[str, str]
    ) -> Answer:
        """Send a request to the node that has the run, or answer it here."""
        if node.boot == self._fleet.nodes.own.boot:
            return call.here(run=run, **arguments)
        if call.row.op not in ADMITTED:
            return call.forward(node, call.read_body())
        environ = call.environ
        size = int(environ.get("CONTENT_LENGTH") or 0)
        check_size(size, call.web.settings.max_upload, "--max-upload")
        upload = ArrivingBody(
            _pieces(environ),
            size if "CONTENT_LENGTH" in environ else None,
            # This node wants the body once the other one does.
            expected="HTTP_EXPECT" in environ,
        )
        return call.forward_upload(node, upload)

    def _find(self, call: FleetCall, run: str) -> Record:
        """Return the node of a run; this one if none has it.

        Raises:
            NodeAway: It is away.
        """
        number, until = self._known.get(run, ("", 0.0))
        node = self._fleet.nodes.numbered(number)
        if node is not None and time.monotonic() < until:
            return node
        try:
            node, bound = self._bound(run)
        except StoreAway:
            # The one that had it has it still, or all are asked.
            bound = False
        return node or self._search(call, run, bound=bound)

    def _bound(self, run: str, number: str = "") -> tuple[Record | None, bool]:
        """Return the node that the store has for a run; bind it to a number if none.

        Returns:
            The node, if it is here, and whether the run is bound.
        """
        bound = self._fleet.store.bind_run(run, number)
        node = self._fleet.nodes.numbered(bound or "")
        if node is not None:
            self._remember(run, node.numbers[-1])
        return node, bound is not None

    def _search(self, call: FleetCall, run: str, *, bound: bool) -> Record:
        """Return the node of a run that the store does not know, else this one.

        Args:
            call: The call.
            run: Name of the run.
            bound: Whether the store has a node for it, which is not here.

        Raises:
            NodeAway: Its node is away, or one that may have it does not answer.
            Unauthorized: The request has a token of no run.
        """
        if caller_of(call.environ).run_token:
            call.web.check_run_token(call.environ)
        node = self._fleet.nodes.own
        if not _has(call.web, run):
            path = OPERATIONS["run_find"].path.replace("<run>", run)
            answers = self._fleet.ask_others(path)
            found = [x for x, a in answers if a is not None and a.status < 400]
            if not found and bound:
                raise _away(run)
            if not found:
                self._check_silent(run, [x for x, a in answers if a is None])
                return node
            node = found[0]
        self._remember(run, node.numbers[-1])
        with contextlib.suppress(StoreAway):
            self._fleet.store.bind_run(run, node.numbers[-1], anew=True)
        return node

    def _check_silent(self, run: str, silent: list[Record]) -> None:
        """Check that no node that does not answer has a run that the store lacks.

        Raises:
            NodeAway: One may have it: the store has not got its runs.
        """
        if not silent:
            return
        with contextlib.suppress(StoreAway):
            if self._fleet.store.has_all_runs([each.boot for each in silent]):
                return
        raise NodeAway(
            f"the node {silent[0].name} does not answer, and may have the run {run}, "
            "since the fleet's store has not got its runs; send the request again "
            "until it answers, or is lost, within a minute after its end"
        )

    def _remember(self, run: str, number: str) -> None:
        if len(self._known) >= MOST_KNOWN:
            self._known.clear()
        self._known[run] = number, time.monotonic() + KNOWN_SECONDS


def _away(run: str) -> NodeAway:
    return NodeAway(
        f"the node that has the run {run} is away; send the request again, or choose "
        "another name for a new run"
    )


def _is_name(run: str) -> bool:
    """Whether a run may have a name; other nodes and the store see no other ones."""
    try:
        RUN_CREATE["run"].kind.read(run, "run")
    except BadParameter:
        return False
    return True


def find_run(web: Web, environ: Environ, run: str) -> Answer:
    """Answer another node whether this one has a run.

    Raises:
        NotFound: It has not.
    """
    if not _has(web, run):
        raise NotFound(f"this node has no run {run!r:.80}")
    return empty_answer()


def _has(web: Web, run: str) -> bool:
    """Whether this node has a run."""
    try:
        web.relay.call(Op.RUN_STATUS, RelayHead(run=run))
    except Problem as problem:
        if problem.status != UnknownRun.default_status:
            raise
        return False
    return True


def _pieces(environ: Environ) -> Iterator[bytes]:
    """Yield the body of an upload, as it arrives."""
    while piece := read_some(environ, _PIECE_BYTES):
        yield piece
