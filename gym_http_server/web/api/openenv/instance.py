"""The instance of a connection: its create, its calls and its end."""

from __future__ import annotations

import contextlib
import functools
import math
import random
import socket
import time
from collections.abc import Callable
from typing import Any

import msgspec

from gym_http_server.config.env_commands import EXTERNAL
from gym_http_server.errors import (
    Draining,
    TooManyInstances,
    UnknownEnv,
    UnknownInstance,
)
from gym_http_server.web.api.exchange import Environ, caller_of, request_id_of
from gym_http_server.web.api.fleet.quotas import within_quota
from gym_http_server.web.api.instances import instance_in
from gym_http_server.web.api.openenv.spaces import keys_of
from gym_http_server.web.api.web import Web
from gym_http_server.web.backends.supervisor_client import Abandoned, Held
from gym_http_wire.messages import Op, RequestHead, problem_of, request
from gym_http_wire.problems import BadParameter, Problem

__all__ = ["LABEL", "HeldInstance", "create", "in_new_words"]

#: Label of the instances that connections have.
LABEL = "openenv"
#: Seconds between two tries to get a slot.
TRY_AGAIN_S = 0.25


class HeldInstance:
    """An instance that ends with its connection.

    Args:
        web: The collaborators of views.
        environ: The handshake.
        made: The answer to its create, and the connection with which it ends.

    Attributes:
        instance_id: The instance.
        described: Its description.
        action_keys: Keys of its action space if that is a Dict; else ``None``.
    """

    def __init__(self, web: Web, environ: Environ, made: Held) -> None:
        self.instance_id = instance_in(made.answer)
        self._connection = made.connection
        self._web = web
        self._environ = environ
        self._owner = caller_of(environ).only
        self._ended = False
        try:
            self.described = msgspec.json.decode(self.call(Op.DESCRIBE))
        except BaseException:
            self.end()
            raise
        self.action_keys = keys_of(self.described["action_space"])

    def check_form(self) -> None:
        """Check that this is a single environment; end it otherwise.

        Raises:
            BadParameter: OpenEnv has no form for it.
        """
        env_id, what = self.described["env_id"], ""
        if "num_envs" in self.described:
            what = "is a vector"
        elif "agents" in self.described:
            what = "has several agents"
        if what:
            self.end()
            raise BadParameter(
                f"{env_id!r:.80} {what}, for which OpenEnv has no form: expected an "
                "environment with one agent; docs/seats.md parts several agents"
            )

    def call(self, op: Op, body: bytes = b"", accept: tuple[str, ...] = ()) -> bytes:
        """Call the instance, and return the body of the answer.

        Raises:
            Problem: The answer is a problem.
        """
        head = RequestHead(accept=accept) if accept else None
        frame = request(op, body, head)
        try:
            answer = self._web.hosts.call(self.instance_id, frame, self._owner)
            if answer.status >= 400:
                raise problem_of(answer)
        except Problem as problem:
            self._web.log_failed_call(problem, self._environ, self.instance_id)
            raise
        # Also of a large one, which is no bytes.
        return bytes(answer.body)

    def end(self) -> None:
        """End the instance; it may have ended, or be in a call."""
        if not self._ended:
            self._ended = True
            with contextlib.suppress(Problem):
                request_id = request_id_of(self._environ)
                self._web.hosts.end(self.instance_id, "", request_id=request_id)
            self._connection.close()

    def note_end(self) -> None:
        """Note that the instance has ended, as another one took its place."""
        self._ended = True
        self._connection.close()


def in_new_words(problem: Problem) -> Problem:
    """Say of an unknown environment that there is none: no old client is told."""
    if problem.code == UnknownEnv.default_code:
        problem.message = problem.message.replace(UnknownEnv.OLD, UnknownEnv.WORDS, 1)
    return problem


def create(
    web: Web,
    environ: Environ,
    env_id: str,
    members: dict[str, Any] | None = None,
    *,
    wait_s: float = 0.0,
    client: socket.socket | None = None,
    gone: Callable[[], bool] = bool,
    replaced: HeldInstance | None = None,
) -> HeldInstance | None:
    """Create an instance, and wait for a slot if none is free.

    Args:
        web: The collaborators of views.
        environ: The request.
        env_id: The environment.
        members: Further members of the create.
        wait_s: Seconds to wait for a slot, or for an external environment.
        client: A socket that can be read once the client has left; ``None``: it waits.
        gone: Returns whether the client has left.
        replaced: An instance that ends first, and leaves its slot to the new one.

    Returns:
        The instance; ``None`` if the client has left.

    Raises:
        Problem: It cannot be created.
    """
    deadline = time.monotonic() + wait_s
    while not gone():
        left_s = max(0.0, deadline - time.monotonic())
        body = _body(web, env_id, members or {}, left_s)
        try:
            made = _create_once(web, environ, body, client, gone, replaced)
        except Abandoned:
            break
        except Problem as problem:
            if replaced is not None and problem.code == UnknownInstance.default_code:
                # It has ended by itself, and has no slot any more.
                replaced = None
                continue
            if problem.code != TooManyInstances.default_code or not left_s:
                raise in_new_words(problem) from None
        else:
            if replaced is not None:
                replaced.note_end()
            if not gone():
                return HeldInstance(web, environ, made)
            # The instance ends with it.
            made.connection.close()
            break
        # Connections that wait do not all ask at once.
        time.sleep(min(left_s, TRY_AGAIN_S * random.uniform(0.5, 1.5)))
    return None


def _body(web: Web, env_id: str, members: dict[str, Any], left_s: float) -> bytes:
    waits = {}
    if env_id.startswith(EXTERNAL):
        # It has to be less than the deadline.
        waits["wait_s"] = min(left_s, math.nextafter(web.settings.create_deadline, 0))
    return msgspec.json.encode({**members, **waits, "env_id": env_id, "label": LABEL})


def _create_once(
    web: Web,
    environ: Environ,
    body: bytes,
    client: socket.socket | None,
    gone: Callable[[], bool],
    replaced: HeldInstance | None,
) -> Held:
    """Create an instance.

    Raises:
        Abandoned: The client has left.
        UnknownInstance: The instance that it was to replace has ended.
        Problem: It cannot be created.
    """
    if web.draining:
        raise Draining("the server is stopping and makes no new instances")
    caller = caller_of(environ)
    send = functools.partial(
        web.supervisor.create_held,
        body,
        caller=caller,
        client=client,
        gone=gone,
        request_id=request_id_of(environ),
        replaces="" if replaced is None else replaced.instance_id,
    )
    made = within_quota(web, caller.name, send, replaces=replaced is not None)
    if made.status >= 400:
        made.connection.close()
        raise problem_of(made.answer)
    return made
