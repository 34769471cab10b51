"""Tango's agents: a REQ that asks for resets and actions, and knows no instances.

::

    {"type": "reset", "seed": 1, "options": null}
    {"type": "action", "action": "2"}
    {"type": "close"}

Each message is answered, whatever happens: a REQ without an answer is stuck for ever.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

import msgspec

from gym_http_server.access import Identity
from gym_http_server.gateway.context import Context
from gym_http_server.gateway.host_stream import HostStream
from gym_http_server.gateway.router import Outbox
from gym_http_server.gateway.supervisor_call import SupervisorCall
from gym_http_server.rundir.directory import open_plain_file
from gym_http_wire.frames import Frame
from gym_http_wire.handshakes import new_session
from gym_http_wire.messages import Op, RequestHead, problem_of, request
from gym_http_wire.problems import BadJSON, BadParameter, Problem

__all__ = ["KINDS", "TangoAgent", "end_left", "problem_answer"]

KINDS = frozenset({"reset", "action", "close"})
_GIVEN = {
    "reset": ("observation", "info"),
    "action": ("observation", "reward", "terminated", "truncated", "info"),
}
_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(dict[str, Any]).decode


def problem_answer(problem: Problem) -> bytes:
    """Write the answer that tells of a problem."""
    told = {"code": problem.code, "message": problem.message, "status": problem.status}
    return _encode({"error": told})


def end_left(context: Context) -> None:
    """End what an agent had of a gateway that died: nobody else knows of it."""
    with contextlib.suppress(OSError), open_plain_file(context.run.tango, "rb") as note:
        head = RequestHead(instance_id=note.read(8).decode("ascii", "replace"))
        SupervisorCall(context, request(Op.END, head=head), lambda answer: None)


class TangoAgent:
    """One of them, while it is the one.

    Args:
        context: What everybody needs.
        outbox: Where answers go out.
        identity: The identity of the token that it has shown.
        on_over: Called when it has closed its environment.
    """

    def __init__(
        self,
        context: Context,
        outbox: Outbox,
        identity: Identity,
        on_over: Callable[[], None],
    ) -> None:
        self._context = context
        self._identity = identity
        self._outbox = outbox
        self._on_over = on_over
        # What is to be answered: "" is nothing.
        self._asked = ""
        # What the host is asked once it can be.
        self._waiting: dict[str, Any] = {}
        self._instance_id = ""
        self._call: SupervisorCall | None = None
        self._stream: HostStream | None = None
        # Whether actions are texts, and not numbers written as such.
        self._texts = False

    def receive(self, payload: bytes) -> None:
        """Take what it asks."""
        if self._asked or self._outbox.full_since:
            # No REQ does so; its answers are counted.
            return
        try:
            asked = _read(payload)
        except Problem as problem:
            self._outbox.send(problem_answer(problem))
            return
        self._asked = asked["type"]
        if self._asked == "close":
            self._close()
            return
        self._waiting = asked
        if self._stream is None:
            self._make()
        else:
            self._ask()

    def resume(self) -> None:
        """Go on: there is nothing that it could have kept from coming."""

    def leave(self) -> None:
        """Take note that it is gone: so goes its environment."""
        if self._call is not None:
            made = self._call.cancel()
            if made is not None and made.status == 200:
                self._instance_id = _instance_in(made)
        self._asked = ""
        self._end(lambda answer: None)

    def _make(self) -> None:
        env_id = f"external/{self._context.settings.tango_name}"
        head = RequestHead(owner=self._identity.only, creator=self._identity.name)
        question = request(Op.CREATE, _encode({"env_id": env_id}), head)
        self._call = SupervisorCall(self._context, question, self._made)

    def _made(self, answer: Frame) -> None:
        self._call = None
        if answer.status != 200:
            self._fail(problem_of(answer))
            return
        self._instance_id = _instance_in(answer)
        path = self._context.run.tango
        with contextlib.suppress(OSError), open_plain_file(path, "wb") as note:
            note.write(self._instance_id.encode())
        self._stream = HostStream(
            self._context,
            self._instance_id,
            session=new_session(),
            text=True,
            on_open=lambda: None,
            on_message=self._told_space,
            on_end=self._lost,
        )
        self._stream.send(b'{"op":"action_space"}')

    def _told_space(self, payload: bytes) -> None:
        told = _decode(payload)
        if self._stream is not None:
            self._stream.on_message = self._told
        if told["status"] != 200:
            self._told(payload)
            return
        self._texts = told["body"]["info"]["name"] == "Text"
        self._ask()

    def _ask(self) -> None:
        asked, self._waiting = self._waiting, {}
        if self._asked == "reset":
            given = {"seed": asked.get("seed"), "options": asked.get("options")}
            op = {"op": "reset", **{k: v for k, v in given.items() if v is not None}}
        else:
            op = {"op": "step", "action": self._action(asked.get("action"))}
        if self._stream is not None:
            self._stream.send(_encode(op))

    def _action(self, action: Any) -> Any:
        """Give the action that stands in a text, as ``"2"`` does for 2."""
        if isinstance(action, str) and not self._texts:
            try:
                return msgspec.json.decode(action)
            except (msgspec.MsgspecError, ValueError, RecursionError):
                # The environment says what it expects.
                return action
        return action

    def _told(self, payload: bytes) -> None:
        told = _decode(payload)
        asked, self._asked = self._asked, ""
        body = told["body"]
        if told["status"] != 200:
            error = {"code": body["code"], "message": body["message"]}
            self._outbox.send(_encode({"error": error | {"status": told["status"]}}))
            return
        self._outbox.send(_encode({name: body[name] for name in _GIVEN[asked]}))

    def _lost(self, problem: Problem) -> None:
        """Take note that the instance has ended; the next message makes another."""
        self._stream = None
        self._instance_id = ""
        if self._asked:
            self._fail(problem)

    def _fail(self, problem: Problem) -> None:
        self._asked = ""
        self._outbox.send(problem_answer(problem))

    def _close(self) -> None:
        if not self._instance_id:
            self._closed()
            return
        self._end(lambda answer: self._closed())

    def _closed(self) -> None:
        self._asked = ""
        self._outbox.send(b'{"info":"closed"}')
        self._on_over()

    def _end(self, on_answer: Callable[[Frame], None]) -> None:
        instance_id, self._instance_id = self._instance_id, ""
        stream, self._stream = self._stream, None
        if stream is not None:
            stream.close()
        if instance_id:
            head = RequestHead(instance_id=instance_id)
            self._call = SupervisorCall(
                self._context, request(Op.END, head=head), on_answer
            )


def _read(payload: bytes) -> dict[str, Any]:
    try:
        asked = _decode(payload)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise BadJSON(str(error)) from None
    kind = asked.get("type")
    if not isinstance(kind, str) or kind not in KINDS:
        raise BadParameter(f"type is {kind!r:.80}: expected reset, action or close")
    if asked["type"] == "action" and "action" not in asked:
        raise BadParameter("there is no action in it")
    return asked


def _instance_in(made: Frame) -> str:
    return str(msgspec.json.decode(made.body)["instance_id"])
