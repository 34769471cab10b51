"""Lists of all nodes of a fleet, and what is on a node that has to be found."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable
from typing import Any
from urllib.parse import quote

import gevent  # type: ignore[import-untyped]
import msgspec

from gym_http_server.errors import NodeAway
from gym_http_server.fleet.numbers import number_of
from gym_http_server.fleet.records import Record
from gym_http_server.operations.table import OPERATIONS
from gym_http_server.web.api import recordings
from gym_http_server.web.api.exchange import (
    SAME_HEAD,
    Answer,
    json_answer,
    with_body,
)
from gym_http_server.web.api.fleet.forwarding import FleetCall, decoded, joined
from gym_http_server.web.backends.nodes.fleet import TOGETHER_SECONDS, ask_each
from gym_http_wire.problems import Problem

__all__ = ["LISTS", "node_header", "recorder"]

#: Names nodes that did not answer in time, in answers about all of them.
MISSING = "Gym-Missing-Nodes"
#: Ended instances, recordings, and events in one list.
MOST_ENDED = 100
MOST_RECORDINGS = 1000
MOST_EVENTS = 500

# Of all nodes that answered, with their names; this one's is the first.
_Answers = list[tuple[str, Answer]]


class _Place(msgspec.Struct):
    """What decides the place of an instance, an event or a recording in a list."""

    age_s: float = 0.0
    ended_s_ago: float = 0.0
    began_at: float | None = None
    directory: str = ""
    number: int = 0


class _Recording(msgspec.Struct):
    """A recording that a node has."""

    instance_id: str | None


class _Rows(msgspec.Struct):
    """A list of a node; its rows are put together without being read."""

    ended: list[msgspec.Raw] = []
    events: list[msgspec.Raw] = []
    instances: list[msgspec.Raw] = []
    recordings: list[msgspec.Raw] = []
    next: int = 0
    slots: dict[str, int] = {}
    total: int = 0


def node_header(name: str) -> tuple[str, str]:
    """Return the header with the node that has, or has answered, what was requested."""
    return "Gym-Node", name


def _ask(call: FleetCall, node: Record, timeout_s: float) -> Answer | None:
    """Return the answer of another node; ``None`` if it is silent."""
    try:
        return call.fetch(node, b"", timeout_s)
    except Problem:
        return None


def _ask_others(call: FleetCall) -> list[tuple[Record, Answer | None]]:
    """Return the answers of the other nodes, ``None`` for those that are too slow."""
    nodes = [each.record for each in call.fleet.nodes.others]
    return ask_each(nodes, lambda node: _ask(call, node, TOGETHER_SECONDS))


def _together(merge: Callable[[_Answers], Any], call: FleetCall) -> Answer:
    """Answer with what all nodes have, put together."""
    own = call.here()
    if call.is_forwarded or own.status != 200:
        return own
    name = call.fleet.nodes.own.name
    answers, missing = [(name, own)], []
    for node, answer in _ask_others(call):
        if answer is None or answer.status != 200:
            missing.append(node.name)
        else:
            answers.append((node.name, answer))
    merged = json_answer(msgspec.json.encode(merge(answers)) + b"\n")
    merged.headers.append(node_header(name))
    if missing:
        merged.headers.append((MISSING, ",".join(sorted(missing))))
    return merged


def _envs(answers: _Answers) -> Any:
    envs: dict[str, str] = {}
    for _, answer in answers:
        envs |= decoded(answer)["all_envs"]
    return {"all_envs": dict(sorted(envs.items()))}


def _instances(answers: _Answers) -> Any:
    present, ended = [], []
    slots = {"of": 0, "taken": 0}
    for name, answer in answers:
        rows = _rows_of(answer)
        for each in rows.instances:
            present.append((-_place(each).age_s, _with_node(each, name, "num_envs")))
        for each in rows.ended:
            ended.append((_place(each).ended_s_ago, _with_node(each, name, "owner")))
        for key, count in rows.slots.items():
            slots[key] = slots.get(key, 0) + count
    return {
        "ended": [each for _, each in sorted(ended, key=_first)[:MOST_ENDED]],
        "instances": [each for _, each in sorted(present, key=_first)],
        "slots": slots,
    }


def _events(answers: _Answers) -> Any:
    """Join the events of all nodes; none is left out if `next` is requested next.

    Events of nodes whose clocks are ahead may be listed again then.
    """
    found, following = [], []
    for name, answer in answers:
        rows = _rows_of(answer)
        following.append(rows.next)
        for each in rows.events:
            found.append((_place(each).number, _with_node(each, name, "number")))
    listed = sorted(found, key=_first)[-MOST_EVENTS:]
    return {"events": [each for _, each in listed], "next": min(following)}


def _recordings(answers: _Answers) -> Any:
    found, total = [], 0
    for name, answer in answers:
        rows = _rows_of(answer)
        total += rows.total
        for each in rows.recordings:
            place = _place(each)
            key = -(place.began_at or 0.0), place.directory
            found.append((key, _with_node(each, name, "num_envs")))
    listed = sorted(found, key=_first)[:MOST_RECORDINGS]
    return {"recordings": [each for _, each in listed], "total": total}


def _runs(answers: _Answers) -> Any:
    runs = [each for _, answer in answers for each in decoded(answer)["runs"]]
    return {"runs": sorted(runs, key=lambda each: str(each["run"]))}


def _registry(answers: _Answers) -> Any:
    envs: dict[str, dict[str, Any]] = {}
    for _, answer in answers:
        for each in decoded(answer)["envs"]:
            before = envs.setdefault(each["env_id"], each)
            if before is not each:
                envs[each["env_id"]] = _merged_env(before, each)
    return {"count": len(envs), "envs": list(envs.values())}


def _merged_env(first: dict[str, Any], second: dict[str, Any]) -> dict[str, Any]:
    """Return an environment that two nodes have."""
    better = second if second["available"] and not first["available"] else first
    counts = [each.get("external") for each in (first, second)]
    if not all(counts):
        return better
    external = dict(better["external"])
    for name in ("free", "taken"):
        external[name] = sum(each[name] for each in counts if each)
    return {**better, "external": external}


_rows_of_json = msgspec.json.Decoder(_Rows).decode
_recording = msgspec.json.Decoder(_Recording).decode
_place = msgspec.json.Decoder(_Place).decode


def _rows_of(answer: Answer) -> _Rows:
    return _rows_of_json(joined(answer))


def _first(pair: tuple[Any, msgspec.Raw]) -> Any:
    return pair[0]


def _with_node(row: msgspec.Raw, name: str, before: str) -> msgspec.Raw:
    """Return a row with the name of its node, in front of another member."""
    # The last one: arguments of environments, which come before, may have this name.
    # In a text of the row, a backslash would be in front of the quote.
    start, mark, end = bytes(row).rpartition(b',"%b":' % before.encode())
    return msgspec.Raw(b'%b,"node":"%b"%b%b' % (start, name.encode(), mark, end))


def _with_nodes(call: FleetCall) -> Answer:
    """Describe this node, and name all of them, of which a create may choose one."""
    nodes, ended = call.fleet.nodes, call.fleet.nodes.ended()
    if call.web.stopping:
        ended[nodes.own.name] = "node-drained"
    # One that is away may have been started again, under another number.
    others = sorted(nodes.others, key=lambda each: not each.away_ns)
    named = {each.record.name: _node(each.record, away=each.away_ns) for each in others}
    named[nodes.own.name] = _node(nodes.own)
    described = decoded(call.here()) | {
        "ended_nodes": [
            {"node": name, "reason": reason} for name, reason in sorted(ended.items())
        ][:MOST_ENDED],
        "nodes": [named[name] for name in sorted(named)],
    }
    return json_answer(msgspec.json.encode(described, order="sorted") + b"\n")


def _node(node: Record, *, away: int = 0) -> dict[str, Any]:
    return {
        "away": bool(away),
        "draining": node.draining,
        "free": node.free,
        "node": node.name,
        "slots": node.slots,
    }


def _anywhere(call: FleetCall, directory: str, **arguments: str) -> Answer:
    """Answer as this node, or another one, that has a recording.

    Raises:
        NodeAway: A node that may have it does not answer.
    """
    try:
        return call.here(directory=directory, **arguments)
    except Problem as problem:
        if call.is_forwarded or problem.status != 404:
            raise
        if answer := _elsewhere(call, directory):
            return answer
        raise


def _elsewhere(call: FleetCall, directory: str) -> Answer | None:
    """Return the answer of the first node that has it; ``None`` if none has.

    Raises:
        NodeAway: A node that may have it does not answer.
    """
    finding = _finding(call, directory)
    silent = [each.record for each in call.fleet.nodes.others]
    tasks = {
        gevent.spawn(_ask, finding, each, TOGETHER_SECONDS): each for each in silent
    }
    try:
        for task in gevent.iwait(list(tasks), timeout=2 * TOGETHER_SECONDS):
            if _says(task.value):
                silent.remove(tasks[task])
            if task.value is not None and task.value.status == 200:
                answer = call.forward(tasks[task], b"")
                if answer.status != 404:
                    return answer
    finally:
        gevent.killall(list(tasks), block=False)
    _check_all_answered(directory, silent)
    return None


def _says(answer: Answer | None) -> bool:
    """Whether a node has answered whether it has something."""
    return answer is not None and answer.status < 500


def _check_all_answered(directory: str, silent: list[Record]) -> None:
    """Check that all nodes have answered, so that none has a recording.

    Raises:
        NodeAway: Some have not.
    """
    if silent:
        raise NodeAway(
            f"the recording {directory:.100} may be on a node that does not answer, as "
            f"{silent[0].name}; send the request again"
        )


def _finding(call: FleetCall, directory: str) -> FleetCall:
    """Return the call that asks a node whether it has a recording."""
    # Whoever may resume it need not be able to read it.
    row = OPERATIONS["recording_find"]
    path = row.path.replace("<path:directory>", quote(directory))
    asking = with_body(call.environ, b"")
    asking |= {"REQUEST_METHOD": "GET", "RAW_URI": path, "QUERY_STRING": ""}
    for name in (
        *("HTTP_IDEMPOTENCY_KEY", "CONTENT_TYPE", "HTTP_CONTENT_ENCODING"),
        SAME_HEAD,
    ):
        asking.pop(name, None)
    return call._replace(row=row, environ=asking)


def recorder(call: FleetCall, directory: str) -> Record:
    """Return the node that has a recording, best the one that made it.

    Raises:
        NodeAway: This node has not, and one that may have it does not answer.
    """
    nodes = call.fleet.nodes
    found, silent = [], []
    for node, answer in _ask_others(_finding(call, directory)):
        if not _says(answer):
            silent.append(node)
        if answer is not None and answer.status == 200:
            with contextlib.suppress(msgspec.MsgspecError):
                found.append((node, _recording(joined(answer)).instance_id or ""))
    if found and nodes.is_own(found[0][1]):
        return nodes.own
    for node, instance_id in found:
        if number_of(instance_id) in node.numbers:
            return node
    if found:
        return found[0][0]
    if not _has(call, directory):
        _check_all_answered(directory, silent)
    return nodes.own


def _has(call: FleetCall, directory: str) -> bool:
    """Whether this node has a recording that the caller may resume."""
    finding = _finding(call, directory)._replace(view=recordings.VIEWS["recording"])
    try:
        return finding.here(directory=directory).status == 200
    except Problem:
        return False


#: What answers lists, and requests for what any node may have.
LISTS: dict[str, Callable[..., Answer]] = {
    "env_list_all": functools.partial(_together, _envs),
    "events": functools.partial(_together, _events),
    "instances": functools.partial(_together, _instances),
    "recordings": functools.partial(_together, _recordings),
    "registry": functools.partial(_together, _registry),
    "run_list": functools.partial(_together, _runs),
    "server_info": _with_nodes,
    "recording": _anywhere,
    "recording_file": _anywhere,
    "recording_delete": _anywhere,
}
