"""Batches with instances of several nodes: each node gets the steps of its own.

If only the first answers are wanted, each step is a batch by itself, so that no node
holds back an answer until it has others.
"""

from __future__ import annotations

import logging
from typing import Any

import msgspec
from gevent.event import Event  # type: ignore[import-untyped]
from gevent.pool import Pool  # type: ignore[import-untyped]

from gym_http_server.fleet.numbers import number_of
from gym_http_server.fleet.records import Record
from gym_http_server.operations.row import Operation
from gym_http_server.web.api.batches import (
    BatchItem,
    json_forms,
    keys_of,
    read_batch,
    read_batch_body,
    result_of_problem,
)
from gym_http_server.web.api.exchange import (
    Answer,
    Environ,
    caller_of,
    key_of,
    request_id_of,
    with_body,
)
from gym_http_server.web.api.fleet_guard import FORWARDED
from gym_http_server.web.api.passing import decoded, joined, pass_on
from gym_http_server.web.api.web import View, Web
from gym_http_server.web.backends.peers import Peers
from gym_http_wire.problems import Problem

__all__ = ["split_batch"]

log = logging.getLogger("gym_http_server.api")

#: Requests under way for one batch.
MOST_REQUESTS = 256


class _Part(msgspec.Struct):
    """The answer to a part of a batch, whose results are passed on as they are."""

    results: list[msgspec.Raw]


class _Named(msgspec.Struct):
    instance_id: str


_decode_part = msgspec.json.Decoder(_Part).decode
_name_of = msgspec.json.Decoder(_Named).decode


def split_batch(
    peers: Peers, row: Operation, view: View, web: Web, environ: Environ
) -> Answer:
    """Take the steps on their nodes, and answer as one server does."""
    json_forms(environ)
    body = read_batch_body(environ, web.settings.max_body)
    items, first = read_batch(body)
    if FORWARDED in environ or all(peers.is_own(each.instance_id) for each in items):
        return view(web, with_body(environ, body))
    # The same keys, if the client sends the batch again.
    for item, key in zip(items, keys_of(items, key_of(environ)), strict=True):
        item.key = key
    call = _Call(peers, row, view, web, environ, first)
    return call.run(items, apart=first < len(items))


class _Call:
    """A batch that is under way.

    Args:
        first: Results that the client waits for.
    """

    def __init__(
        self,
        peers: Peers,
        row: Operation,
        view: View,
        web: Web,
        environ: Environ,
        first: int,
    ) -> None:
        self._peers = peers
        self._row = row
        self._view = view
        self._web = web
        self._environ = environ
        self._first = first
        self._results: dict[str, msgspec.Raw] = {}
        self._content_type = ""
        self._enough = Event()

    def run(self, items: list[BatchItem], *, apart: bool) -> Answer:
        """Take the steps, and answer when enough are done."""
        parts: dict[str, list[BatchItem]] = {}
        for item in items:
            name = item.instance_id if apart else number_of(item.instance_id)
            parts.setdefault(name, []).append(item)
        pool = Pool(MOST_REQUESTS)
        for part in parts.values():
            pool.spawn(self._take, part)
        self._enough.wait()
        # Later results are left with the hosts, which keep them.
        given, self._results = self._results, {}
        pending = [
            {"instance_id": each.instance_id, "key": each.key}
            for each in items
            if each.instance_id not in given
        ]
        results = [given[i.instance_id] for i in items if i.instance_id in given]
        encoded = msgspec.json.encode({"pending": pending, "results": results}) + b"\n"
        owner = caller_of(self._environ).only
        held = self._web.hosts.budget.hold(encoded, owner)
        return Answer(200, [("Content-Type", self._content_type)], held)

    def _take(self, part: list[BatchItem]) -> None:
        """Take the steps of one node."""
        try:
            answer = self._answer(part)
            results = _decode_part(joined(answer)).results
            named = {_name_of(each).instance_id: each for each in results}
            # All of them, since the client waits for each.
            found = [(item.instance_id, named[item.instance_id]) for item in part]
            self._content_type = dict(answer.headers)["Content-Type"]
        except Problem as problem:
            self._put_problem(part, problem)
        except Exception as error:
            extra = {"request_id": request_id_of(self._environ)}
            log.exception("a part of a batch failed", extra=extra)
            failure = Problem(f"the server failed with {type(error).__name__}")
            self._put_problem(part, failure)
        else:
            for instance_id, result in found:
                self._put(instance_id, result)

    def _answer(self, part: list[BatchItem]) -> Answer:
        body = msgspec.json.encode({"steps": part})
        environ = with_body(self._environ, body)
        # Each step has its key.
        environ.pop("HTTP_IDEMPOTENCY_KEY", None)
        instance_id = part[0].instance_id
        if self._peers.is_own(instance_id):
            # The keys need room, as on another node.
            environ[FORWARDED] = True
            return self._view(self._web, environ)
        node: Record = self._peers.find(instance_id)
        answer = pass_on(self._peers, self._row, self._web, environ, node, body)
        if answer.status != 200:
            refused = decoded(answer)
            raise Problem(
                refused["message"], status=answer.status, code=refused["code"]
            )
        return answer

    def _put_problem(self, part: list[BatchItem], problem: Problem) -> None:
        self._content_type = self._content_type or "application/json"
        for item in part:
            named = {"instance_id": item.instance_id, "key": item.key}
            result: dict[str, Any] = named | result_of_problem(problem, self._environ)
            self._put(item.instance_id, msgspec.Raw(msgspec.json.encode(result)))

    def _put(self, instance_id: str, result: msgspec.Raw) -> None:
        self._results[instance_id] = result
        if len(self._results) >= self._first:
            self._enough.set()
