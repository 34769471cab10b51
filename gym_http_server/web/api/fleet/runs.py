"""Training runs in a fleet: each lives on one node, and any node answers for it.

The store has the number of a run's node. If it does not know the run, or not any more,
the nodes are asked.
"""

from __future__ import annotations

import contextlib
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
from gym_http_server.web.api.fleet.forwarding import FleetCall
from gym_http_server.web.api.web import View, Web
from gym_http_server.web.backends.nodes.connection import ArrivingBody
from gym_http_server.web.backends.nodes.fleet import Fleet
from gym_http_wire.messages import Op
from gym_http_wire.problems import BadParameter, Problem

__all__ = ["RunViews", "find_run"]

#: Runs whose node a web worker remembers.
MOST_KNOWN = 4096
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
        # Number of the node by name of the run.
        self._known: dict[str, str] = {}

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
            node = self._bound(run, own.numbers[-1])
        except StoreAway as away:
            raise FleetAway(f"new runs wait: {away}") from None
        node = node or self._search(call, run)
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
        node = self._find(call, run)
        if node.boot == self._fleet.nodes.own.boot:
            return call.here(run=run, **arguments)
        if call.row.op not in ADMITTED:
            return call.forward(node, call.read_body())
        environ = call.environ
        size = int(environ.get("CONTENT_LENGTH") or 0)
        check_size(size, call.web.settings.max_upload, "--max-upload")
        known = "CONTENT_LENGTH" in environ
        upload = ArrivingBody(_pieces(environ), size if known else None)
        return call.forward_upload(node, upload)

    def _find(self, call: FleetCall, run: str) -> Record:
        """Return the node of a run; this one if none has it.

        Raises:
            NodeAway: It is away.
        """
        if node := self._fleet.nodes.numbered(self._known.get(run, "")):
            return node
        try:
            node = self._bound(run, "")
        except StoreAway:
            node = None
        return node or self._search(call, run)

    def _bound(self, run: str, number: str) -> Record | None:
        """Return the node that the store has for a run; bind it to a number if none."""
        bound = self._fleet.store.bind_run(run, number)
        node = self._fleet.nodes.numbered(bound)
        if node is not None:
            self._remember(run, bound)
        elif bound and not self._fleet.nodes.is_gone(bound):
            raise NodeAway(
                f"the node that has the run {run} is away; send the request again"
            )
        return node

    def _search(self, call: FleetCall, run: str) -> Record:
        """Return the node of a run that the store does not know, else this one.

        Raises:
            NodeAway: A node that may have it does not answer.
            Unauthorized: The request has a token of no run.
        """
        if caller_of(call.environ).run_token:
            call.web.check_run_token(call.environ)
        node = self._fleet.nodes.own
        if not _has(call.web, run):
            path = OPERATIONS["run_find"].path.replace("<run>", run)
            answers = self._fleet.ask_others(path)
            found = [x for x, a in answers if a is not None and a.status < 400]
            silent = [x.name for x, a in answers if a is None]
            if not found and silent:
                raise NodeAway(
                    f"the run {run} may be on a node that does not answer, as "
                    f"{silent[0]}; send the request again"
                )
            if not found:
                return node
            node = found[0]
        self._remember(run, node.numbers[-1])
        with contextlib.suppress(StoreAway):
            self._fleet.store.bind_run(run, node.numbers[-1], anew=True)
        return node

    def _remember(self, run: str, number: str) -> None:
        if len(self._known) >= MOST_KNOWN:
            self._known.clear()
        self._known[run] = number


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
