"""Training runs in a fleet: each lives on one node, and any node answers for it.

The store has the number of a run's node. If it does not know the run, or not any more,
the nodes are asked.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterator

import msgspec

from gym_http_server.errors import FleetAway, NodeAway
from gym_http_server.fleet.records import Record
from gym_http_server.fleet.store import StoreAway
from gym_http_server.operations.row import Operation
from gym_http_server.operations.table import OPERATIONS, RUN
from gym_http_server.services.relay.files import INLINE_BYTES
from gym_http_server.services.relay.messages import ADMITTED
from gym_http_server.web.api.exchange import (
    Answer,
    Environ,
    check_size,
    read_body,
    read_some,
    with_body,
)
from gym_http_server.web.api.fleet_guard import FORWARDED
from gym_http_server.web.api.passing import answer_of, headers_for, pass_on
from gym_http_server.web.api.together import ask_others, for_path
from gym_http_server.web.api.web import View, Web
from gym_http_server.web.backends.peers import Peers
from gym_http_wire.problems import Problem

__all__ = ["RunViews"]

#: Runs whose node a web worker remembers.
MOST_KNOWN = 4096
_PIECE_BYTES = 256 * 1024


class _RunName(msgspec.Struct):
    run: str = ""


class RunViews:
    """The views of training runs on a node of a fleet.

    Args:
        peers: The other nodes.
    """

    def __init__(self, peers: Peers) -> None:
        self._peers = peers
        # Number of the node by name of the run.
        self._known: dict[str, str] = {}
        # Those of this node alone, by the name of the operation.
        self._views: dict[str, View] = {}

    def view_of(self, row: Operation, view: View) -> View | None:
        """Return the view of an operation; ``None`` if it is not about one run."""
        self._views[row.name] = view
        if row.name == "run_create":
            return functools.partial(self._create, row, view)
        if row.path.startswith(RUN):
            return functools.partial(self._call, row, view)
        return None

    def _create(self, row: Operation, view: View, web: Web, environ: Environ) -> Answer:
        """Create a run on the node that has its name, else here."""
        body = read_body(environ, min(web.settings.max_body, INLINE_BYTES), "")
        again = with_body(environ, body)
        try:
            run = msgspec.json.decode(body, type=_RunName).run
        except msgspec.MsgspecError:
            run = ""
        if FORWARDED in environ or not run:
            return view(web, again)
        own = self._peers.nodes.own
        try:
            node = self._bound(run, own.numbers[-1])
        except StoreAway as away:
            raise FleetAway(f"new runs wait: {away}") from None
        node = node or self._search(web, environ, run)
        if node.boot == own.boot:
            return view(web, again)
        return pass_on(self._peers, row, web, environ, node, body)

    def _call(
        self,
        row: Operation,
        view: View,
        web: Web,
        environ: Environ,
        run: str,
        **arguments: str,
    ) -> Answer:
        """Answer for a run of this node, or pass the request on to its node."""
        if FORWARDED in environ:
            return view(web, environ, run=run, **arguments)
        node = self._find(web, environ, run)
        if node.boot == self._peers.nodes.own.boot:
            return view(web, environ, run=run, **arguments)
        if row.op not in ADMITTED:
            body = read_body(environ, web.settings.max_body)
            return pass_on(self._peers, row, web, environ, node, body)
        size = int(environ.get("CONTENT_LENGTH") or 0)
        check_size(size, web.settings.max_upload, "--max-upload")
        answer = self._peers.upload(
            *(node, environ["REQUEST_METHOD"], environ["RAW_URI"]),
            headers_for(self._peers, environ, node, ""),
            _pieces(environ),
            size if "CONTENT_LENGTH" in environ else None,
            web.hosts.budget,
        )
        return answer_of(answer, node)

    def _find(self, web: Web, environ: Environ, run: str) -> Record:
        """Return the node of a run; this one if none has it.

        Raises:
            NodeAway: It is away.
        """
        if node := self._peers.numbered(self._known.get(run, "")):
            return node
        try:
            node = self._bound(run, "")
        except StoreAway:
            node = None
        return node or self._search(web, environ, run)

    def _bound(self, run: str, number: str) -> Record | None:
        """Return the node that the store has for a run; bind it to a number if none."""
        bound = self._peers.store.bind_run(run, number)
        node = self._peers.numbered(bound)
        if node is not None:
            self._remember(run, bound)
        elif bound and bound not in self._peers.nodes.gone:
            raise NodeAway(
                f"the server that has the run {run} is away; send the request again"
            )
        return node

    def _search(self, web: Web, environ: Environ, run: str) -> Record:
        """Return the node of a run that the store does not know, else this one."""
        peers, row = self._peers, OPERATIONS["run_status"]
        asking = for_path(environ, f"/v1/runs/{run}/")
        node = peers.nodes.own
        if not self._has(web, asking, run):
            for each, answer in ask_others(peers, row, web, asking):
                if answer is not None and answer.status in (200, 403):
                    node = each
                    break
            else:
                return node
        self._remember(run, node.numbers[-1])
        with contextlib.suppress(StoreAway):
            peers.store.bind_run(run, node.numbers[-1], anew=True)
        return node

    def _has(self, web: Web, asking: Environ, run: str) -> bool:
        """Whether this node has a run."""
        try:
            return self._views["run_status"](web, asking, run=run).status == 200
        except Problem as problem:
            return problem.status == 403

    def _remember(self, run: str, number: str) -> None:
        if len(self._known) >= MOST_KNOWN:
            self._known.clear()
        self._known[run] = number


def _pieces(environ: Environ) -> Iterator[bytes]:
    """Yield the body of an upload, as it arrives."""
    while piece := read_some(environ, _PIECE_BYTES):
        yield piece
