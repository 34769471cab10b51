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
from gym_http_server.web.api.batches import (
    BatchItem,
    json_forms,
    keys_of,
    read_batch,
    read_batch_body,
    result_of_problem,
)
from gym_http_server.web.api.exchange import (
    FORWARDED,
    Answer,
    caller_of,
    key_of,
    request_id_of,
)
from gym_http_server.web.api.fleet.forwarding import FleetCall, decoded, joined
from gym_http_wire.problems import Problem

__all__ = ["split_batch"]

log = logging.getLogger("gym_http_server.api")

#: Requests under way for one batch.
MOST_REQUESTS = 256


class _NodeResults(msgspec.Struct):
    """A node's answer to its steps of a batch; its results are passed on unread."""

    results: list[msgspec.Raw]


class _Named(msgspec.Struct):
    instance_id: str


_decode_results = msgspec.json.Decoder(_NodeResults).decode
_name_of = msgspec.json.Decoder(_Named).decode


def split_batch(call: FleetCall) -> Answer:
    """Take the steps on their nodes, and answer as one server does."""
    json_forms(call.environ)
    body = read_batch_body(call.environ, call.web.settings.max_body)
    items, first = read_batch(body)
    is_own = call.fleet.nodes.is_own
    if call.is_forwarded or all(is_own(each.instance_id) for each in items):
        return call.with_body(body).here()
    # The same keys, if the client sends the batch again.
    for item, key in zip(items, keys_of(items, key_of(call.environ)), strict=True):
        item.key = key
    return _SplitBatch(call, first).run(items, apart=first < len(items))


class _SplitBatch:
    """A batch that is under way on several nodes.

    Args:
        call: The call.
        first: Results that the client waits for.
    """

    def __init__(self, call: FleetCall, first: int) -> None:
        self._call = call
        self._first = first
        self._results: dict[str, msgspec.Raw] = {}
        self._content_type = ""
        self._enough = Event()

    def run(self, items: list[BatchItem], *, apart: bool) -> Answer:
        """Take the steps, and answer when enough are done."""
        requests: dict[str, list[BatchItem]] = {}
        for item in items:
            name = item.instance_id if apart else number_of(item.instance_id)
            requests.setdefault(name, []).append(item)
        pool = Pool(MOST_REQUESTS)
        for steps in requests.values():
            pool.spawn(self._take, steps)
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
        owner = caller_of(self._call.environ).only
        held = self._call.web.hosts.budget.hold(encoded, owner)
        return Answer(200, [("Content-Type", self._content_type)], held)

    def _take(self, steps: list[BatchItem]) -> None:
        """Take the steps of one node."""
        try:
            answer = self._answer(steps)
            results = _decode_results(joined(answer)).results
            named = {_name_of(each).instance_id: each for each in results}
            # All of them, since the client waits for each.
            found = [(step.instance_id, named[step.instance_id]) for step in steps]
            self._content_type = dict(answer.headers)["Content-Type"]
        except Problem as problem:
            self._put_problem(steps, problem)
        except Exception as error:
            extra = {"request_id": request_id_of(self._call.environ)}
            log.exception("steps of a batch failed", extra=extra)
            failure = Problem(f"the server failed with {type(error).__name__}")
            self._put_problem(steps, failure)
        else:
            for instance_id, result in found:
                self._put(instance_id, result)

    def _answer(self, steps: list[BatchItem]) -> Answer:
        body = msgspec.json.encode({"steps": steps})
        call = self._call.with_body(body)
        # Each step has its key.
        call.environ.pop("HTTP_IDEMPOTENCY_KEY", None)
        nodes, instance_id = call.fleet.nodes, steps[0].instance_id
        if nodes.is_own(instance_id):
            # The keys need room, as on another node.
            call.environ[FORWARDED] = True
            return call.here()
        answer = call.fetch(call.fleet.find(instance_id), body)
        if answer.status != 200:
            refused = decoded(answer)
            raise Problem(
                refused["message"], status=answer.status, code=refused["code"]
            )
        return answer

    def _put_problem(self, steps: list[BatchItem], problem: Problem) -> None:
        self._content_type = self._content_type or "application/json"
        for step in steps:
            named = {"instance_id": step.instance_id, "key": step.key}
            reason = result_of_problem(problem, self._call.environ)
            result: dict[str, Any] = named | reason
            self._put(step.instance_id, msgspec.Raw(msgspec.json.encode(result)))

    def _put(self, instance_id: str, result: msgspec.Raw) -> None:
        self._results[instance_id] = result
        if len(self._results) >= self._first:
            self._enough.set()
