"""The views of operations on a node of a fleet, around those of a server alone.

The ID of an instance or of a connection begins with the number of its node, and so does
a ticket.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from gym_http_server.errors import TicketRefused, UnknownInstance
from gym_http_server.fleet.numbers import number_of
from gym_http_server.operations.row import Operation
from gym_http_server.operations.table import OPERATIONS
from gym_http_server.web.api import recordings
from gym_http_server.web.api.exchange import (
    SWITCHED,
    Answer,
    Environ,
    caller_of,
    json_answer,
    json_object,
    read_body,
)
from gym_http_server.web.api.fleet import external
from gym_http_server.web.api.fleet.batches import split_batch
from gym_http_server.web.api.fleet.creates import create
from gym_http_server.web.api.fleet.forwarding import FleetCall, answer_of
from gym_http_server.web.api.fleet.lists import LISTS, node_header
from gym_http_server.web.api.fleet.runs import RunViews, find_run
from gym_http_server.web.api.service import ticket_request
from gym_http_server.web.api.streams import check_framing
from gym_http_server.web.api.web import View, Web
from gym_http_server.web.backends.nodes.answers import NodeAnswer
from gym_http_server.web.backends.nodes.fleet import Fleet

__all__ = ["FleetViews"]


class FleetViews:
    """The views of a node.

    Args:
        fleet: The fleet.
    """

    def __init__(self, fleet: Fleet) -> None:
        self._fleet = fleet
        self._runs = RunViews(fleet)

    def view_of(self, row: Operation, view: View) -> View:
        """Return the view of an operation on a node of a fleet.

        Args:
            row: The operation.
            view: Its view on a server alone.
        """
        answer = self._answer_of(row, view)
        if answer is None:
            return view

        def in_fleet(web: Web, environ: Environ, **arguments: str) -> Answer:
            return answer(FleetCall(self._fleet, row, view, web, environ), **arguments)

        return in_fleet

    @property
    def own(self) -> dict[str, View]:
        """The views of operations that a server alone does not have."""
        return {
            "recording_find": recordings.VIEWS["recording"],
            "run_find": find_run,
            "ticket_take": _take_ticket,
        }

    def _answer_of(self, row: Operation, view: View) -> Callable[..., Answer] | None:
        """Return what answers an operation; ``None``: the view of a server alone."""
        if row.name in _ANSWERS:
            return _ANSWERS[row.name]
        if of_run := self._runs.answer_of(row, view):
            return of_run
        return _of_instance if "<instance_id>" in row.path else None


def _is_of_this_node(call: FleetCall, instance_id: str) -> bool:
    """Whether this node has an instance, or has to refuse its ID."""
    if call.is_forwarded or len(instance_id) != 8:
        return True
    return call.fleet.nodes.is_own(instance_id)


def _of_instance(call: FleetCall, instance_id: str, **arguments: str) -> Answer:
    if _is_of_this_node(call, instance_id):
        return call.here(instance_id=instance_id, **arguments)
    try:
        node = call.fleet.find(instance_id)
    except UnknownInstance:
        # As on a server alone, which reads the body first.
        return call.here(instance_id=instance_id, **arguments)
    return call.forward(node, call.read_body())


def _describe(call: FleetCall, instance_id: str) -> Answer:
    """Describe an instance, and name its node, so that clients connect to that."""
    answer = _of_instance(call, instance_id)
    if call.fleet.nodes.is_own(instance_id):
        answer.headers.append(node_header(call.fleet.nodes.own.name))
    return answer


def _stream(call: FleetCall, instance_id: str) -> Answer:
    """Relay a stream of another node's instance."""
    if _is_of_this_node(call, instance_id):
        return call.here(instance_id=instance_id)
    environ = call.environ
    check_framing(environ)
    node = call.fleet.find(instance_id)
    opened = call.open_stream(node)
    if isinstance(opened, NodeAnswer):
        return answer_of(opened, node)
    client = environ["gunicorn.socket"]

    def take() -> None:
        early = environ["wsgi.input"].reader.unreader.take_buffered()
        opened.socket.sendall(early)
        call.relay(opened)

    call.web.count_stream(caller_of(environ), client, take)
    return SWITCHED


def _issue_ticket(call: FleetCall) -> Answer:
    """Issue a ticket on the node of its instance."""
    body = call.read_body()
    instance_id = ticket_request(body).instance_id
    if not instance_id or _is_of_this_node(call, instance_id):
        return call.with_body(body).here()
    return call.forward(call.fleet.find(instance_id), body)


def _take_ticket(web: Web, environ: Environ) -> Answer:
    """Use up a ticket that this node issued, for a stream of another one."""
    row = OPERATIONS["ticket_take"]
    given = row.read_body(json_object(read_body(environ, web.settings.max_body)))
    holder = web.tickets.take(given["ticket"])
    if holder is None:
        raise TicketRefused("the ticket was used, or is too old")
    return json_answer(msgspec.json.encode(holder))


def _of_connection(call: FleetCall, connection: str) -> Answer:
    """Answer an external environment that is connected to any node by long polling."""
    nodes = call.fleet.nodes
    body = read_body(call.environ, call.web.settings.max_answer, "--max-answer")
    node = None if call.is_forwarded else nodes.other_of(connection)
    if node is not None:
        return call.forward(node, body)
    return call.with_body(body).here(
        connection=connection.removeprefix(number_of(connection))
    )


_ANSWERS: dict[str, Callable[..., Answer]] = {
    "env_create": create,
    "env_describe": _describe,
    "env_stream": _stream,
    "batch_step": split_batch,
    "external_answer": _of_connection,
    "external_request": _of_connection,
    "ticket_issue": _issue_ticket,
    **external.ANSWERS,
    **LISTS,
}
