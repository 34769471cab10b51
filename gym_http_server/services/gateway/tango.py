"""Tango's agents: REQ sockets that send resets and actions, without instance IDs.

::

    {"type": "reset", "seed": 1, "options": null}
    {"type": "action", "action": "2"}
    {"type": "close"}

Each message is answered in any case, since a REQ socket without an answer is stuck.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

import msgspec

from gym_http_server.access.identities import Identity
from gym_http_server.rundir.directory import open_plain_file
from gym_http_server.services.gateway.context import Context
from gym_http_server.services.gateway.host_stream import HostStream
from gym_http_server.services.gateway.router import Outbox
from gym_http_server.services.gateway.supervisor_call import SupervisorCall
from gym_http_wire.frames import Frame
from gym_http_wire.handshakes import new_session
from gym_http_wire.messages import Op, RequestHead, problem_of, request
from gym_http_wire.problems import BadJSON, BadParameter, Problem

__all__ = ["KINDS", "TangoAgent", "end_orphaned", "problem_answer"]

KINDS = frozenset({"reset", "action", "close"})
_GIVEN = {
    "reset": ("observation", "info"),
    "action": ("observation", "reward", "terminated", "truncated", "info"),
}
_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(dict[str, Any]).decode


def problem_answer(problem: Problem) -> bytes:
    """Return the answer for a problem."""
    error = {"code": problem.code, "message": problem.message, "status": problem.status}
    return _encode({"error": error})


def end_orphaned(context: Context) -> None:
    """End the instance of an agent whose gateway died; no other process does."""
    with contextlib.suppress(OSError), open_plain_file(context.run.tango, "rb") as note:
        head = RequestHead(instance_id=note.read(8).decode("ascii", "replace"))
        SupervisorCall(context, request(Op.END, head=head), lambda answer: None)


class TangoAgent:
    """The one Tango agent that may be connected.

    Args:
        context: The state that all peers share.
        outbox: Sends answers to it.
        identity: The identity of its token.
        on_close: Called when it has closed its environment.
    """

    def __init__(
        self,
        context: Context,
        outbox: Outbox,
        identity: Identity,
        on_close: Callable[[], None],
    ) -> None:
        self._context = context
        self._identity = identity
        self._outbox = outbox
        self._on_close = on_close
        # Type of the message that is to be answered, or "".
        self._pending = ""
        # The message that is sent on once the host can be reached.
        self._waiting: dict[str, Any] = {}
        self._instance_id = ""
        self._call: SupervisorCall | None = None
        self._stream: HostStream | None = None
        # Whether the action space is known, and has texts.
        self._space_known = False
        self._texts = False

    def receive(self, payload: bytes) -> None:
        """Process a message of the agent."""
        if self._pending or self._outbox.full_since:
            # A REQ socket never does this: it waits for each answer.
            return
        try:
            message = _read(payload)
        except Problem as problem:
            self._outbox.send(problem_answer(problem))
            return
        self._pending = message["type"]
        if self._pending == "close":
            self._close()
            return
        self._waiting = message
        if self._stream is None:
            self._make()
        else:
            self._request()

    def resume(self) -> None:
        """Continue: nothing was held back."""

    def leave(self) -> None:
        """End its environment after the agent has disconnected."""
        if self._call is not None:
            made = self._call.cancel()
            if made is not None and made.status == 200:
                self._instance_id = _instance_in(made)
        self._pending = ""
        self._end(lambda answer: None)

    def _make(self) -> None:
        env_id = f"external/{self._context.settings.tango_name}"
        head = RequestHead(owner=self._identity.only, creator=self._identity.name)
        frame = request(Op.CREATE, _encode({"env_id": env_id}), head)
        self._call = SupervisorCall(self._context, frame, self._made)

    def _made(self, answer: Frame) -> None:
        self._call = None
        if answer.status != 200:
            self._fail(problem_of(answer))
            return
        self._instance_id = _instance_in(answer)
        path = self._context.run.tango
        with contextlib.suppress(OSError), open_plain_file(path, "wb") as note:
            note.write(self._instance_id.encode())
        self._space_known = False
        self._stream = HostStream(
            self._context,
            self._instance_id,
            session=new_session(),
            text=True,
            token=self._identity.name,
            on_open=lambda: None,
            on_message=self._receive_message,
            on_end=self._lost,
        )
        self._stream.send(b'{"op":"action_space"}')

    def _receive_space(self, payload: bytes) -> None:
        """Process the description of the action space, the first message."""
        self._space_known = True
        answer = _decode(payload)
        if answer["status"] != 200:
            self._send_answer(payload)
            return
        self._texts = answer["body"]["info"]["name"] == "Text"
        self._request()

    def _receive_message(self, payload: bytes) -> None:
        if self._space_known:
            self._send_answer(payload)
        else:
            self._receive_space(payload)

    def _request(self) -> None:
        message, self._waiting = self._waiting, {}
        if self._pending == "reset":
            given = {"seed": message.get("seed"), "options": message.get("options")}
            op = {"op": "reset", **{k: v for k, v in given.items() if v is not None}}
        else:
            op = {"op": "step", "action": self._action(message.get("action"))}
        if self._stream is not None:
            self._stream.send(_encode(op))

    def _action(self, action: Any) -> Any:
        """Return the action that a text stands for, as ``"2"`` for 2."""
        if isinstance(action, str) and not self._texts:
            try:
                return msgspec.json.decode(action)
            except (msgspec.MsgspecError, ValueError, RecursionError):
                # The environment raises the error.
                return action
        return action

    def _send_answer(self, payload: bytes) -> None:
        """Send the answer to the message under way, in Tango's form."""
        answer = _decode(payload)
        kind, self._pending = self._pending, ""
        body = answer["body"]
        if answer["status"] != 200:
            error = {"code": body["code"], "message": body["message"]}
            self._outbox.send(_encode({"error": error | {"status": answer["status"]}}))
            return
        self._outbox.send(_encode({name: body[name] for name in _GIVEN[kind]}))

    def _lost(self, problem: Problem) -> None:
        """Record that the instance has ended; the next message creates another."""
        self._stream = None
        self._instance_id = ""
        if self._pending:
            self._fail(problem)

    def _fail(self, problem: Problem) -> None:
        self._pending = ""
        self._outbox.send(problem_answer(problem))

    def _close(self) -> None:
        if not self._instance_id:
            self._closed()
            return
        self._end(lambda answer: self._closed())

    def _closed(self) -> None:
        self._pending = ""
        self._outbox.send(b'{"info":"closed"}')
        self._on_close()

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
        message = _decode(payload)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise BadJSON(str(error)) from None
    kind = message.get("type")
    if not isinstance(kind, str) or kind not in KINDS:
        raise BadParameter(f"type is {kind!r:.80}: expected reset, action or close")
    if message["type"] == "action" and "action" not in message:
        raise BadParameter("there is no action in it")
    return message


def _instance_in(made: Frame) -> str:
    return str(msgspec.json.decode(made.body)["instance_id"])
