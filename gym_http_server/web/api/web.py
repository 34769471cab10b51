"""The collaborators of all routes (guard, hosts, supervisor, broker); adding routes."""

from __future__ import annotations

import functools
import logging
import os
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import flask

from gym_http_server.access.identities import EVERYONE, RUN_ROLE, Identity
from gym_http_server.access.shares import Shares
from gym_http_server.config.inherited_settings import SettingsMemory
from gym_http_server.config.settings import Settings
from gym_http_server.datadir.own_paths import DataDir
from gym_http_server.errors import (
    EnvCrashed,
    HostRefused,
    OriginRefused,
    RunTokenRefused,
    ScopeMissing,
    StepDeadline,
    TicketRefused,
    TooManyWrongTokens,
    Unauthorized,
)
from gym_http_server.operations.row import Operation
from gym_http_server.operations.table import OPERATIONS
from gym_http_server.processes.log_lines import LimitedLog
from gym_http_server.rundir.directory import RunDir
from gym_http_server.rundir.requests import RequestCounts
from gym_http_server.web.api.exchange import (
    CALLER,
    FORWARDED,
    NOSNIFF,
    REQUEST_ID,
    STATUS_LINES,
    SWITCHED,
    Answer,
    Environ,
    address_of,
    parts_of,
    request_id_of,
)
from gym_http_server.web.api.fleet.guard import FleetGuard
from gym_http_server.web.api.fleet.run_tokens import check_elsewhere
from gym_http_server.web.api.guard import Guard
from gym_http_server.web.api.problems import problem_answer
from gym_http_server.web.api.tickets import Tickets
from gym_http_server.web.api.websockets import KeptSockets
from gym_http_server.web.backends.broker import BrokerClient
from gym_http_server.web.backends.host_client import HostClient
from gym_http_server.web.backends.nodes.fleet import Fleet
from gym_http_server.web.backends.relay import RelayClient
from gym_http_server.web.backends.supervisor_client import SupervisorClient
from gym_http_wire.messages import NODE_PROOF
from gym_http_wire.problems import Problem

__all__ = ["MOST_UNDER_WAY", "Route", "View", "Web", "add_route"]

#: Requests under way in a web worker, one on each of its connections.
MOST_UNDER_WAY = 1000

log = logging.getLogger("gym_http_server.api")

_REFUSALS = (
    HostRefused,
    OriginRefused,
    RunTokenRefused,
    ScopeMissing,
    TicketRefused,
)
#: Problems that the check of tokens has already logged.
_LOGGED = (Unauthorized, TooManyWrongTokens)

_METHODS = frozenset({"DELETE", "GET", "HEAD", "OPTIONS", "POST", "PUT"})

View = Callable[..., Answer]


class Route(NamedTuple):
    """A view, and the operation that it executes.

    Attributes:
        view: Called with the WSGI environment and the arguments in the path.
        row: The operation.
    """

    view: View
    row: Operation


class Web:
    """The collaborators of views.

    Attributes:
        settings: The settings.
        data_dir: The data directory.
        tickets: Tickets that open streams instead of the token.
        guard: Access control.
        hosts: Calls hosts of instances.
        supervisor: Sends requests to the supervisor.
        broker: Reaches the broker of external environments.
        relay: Sends requests to the relay of training runs.
        requests: Counts requests.
        under_way: Counts the requests under way in this web worker by token.
        tls_streams: Counts the streams that this web worker relays for TLS by token.
        kept: The connections of OpenEnv that this web worker keeps.
        routes: The routes by the name of the operation.
        fleet: The server's fleet; ``None`` without one.
    """

    def __init__(
        self,
        settings: Settings,
        run: RunDir,
        memory: SettingsMemory | None = None,
        fleet: Fleet | None = None,
    ) -> None:
        self.settings = settings
        self.run = run
        self.data_dir = DataDir(settings, run.path)
        self.tickets = Tickets(run.tickets)
        self.fleet = fleet
        self.guard = (
            Guard(settings, self.tickets, memory)
            if fleet is None
            else FleetGuard(fleet, settings, self.tickets, memory)
        )
        self.hosts = HostClient(
            run, settings.max_answer, settings.max_waiting, settings.answer_budget
        )
        self.supervisor = SupervisorClient(run)
        self.broker = BrokerClient(run, self.supervisor)
        self.relay = RelayClient(run, self.supervisor)
        self.kept = KeptSockets()
        self.routes: dict[str, Route] = {}
        self.requests = RequestCounts(run.requests)
        self.under_way = Shares("requests under way in a web worker", MOST_UNDER_WAY)
        self.tls_streams = Shares("streams over TLS in a web worker", MOST_UNDER_WAY)
        self._refusals: dict[str, LimitedLog] = {}

    @property
    def number(self) -> str:
        """The number of this server in its fleet; "" without one."""
        return "" if self.fleet is None else self.fleet.nodes.own.numbers[-1]

    @property
    def draining(self) -> bool:
        """Whether the server makes no new instances, as it will stop."""
        return os.path.exists(self.run.draining)

    @property
    def stopping(self) -> bool:
        """Whether no request may wait any more."""
        return os.path.exists(self.run.stopping)

    def proof(self, environ: Environ, accept: str = "") -> str:
        """Return what shows another node that this one answers; "" for clients.

        Args:
            environ: The request.
            accept: Sec-WebSocket-Accept of an answer that begins a stream, or "".
        """
        if self.fleet is None or FORWARDED not in environ:
            return ""
        return self.fleet.callers.own_proof(accept)

    def answer(self, environ: Environ, route: Route, **arguments: Any) -> Answer:
        """Call a view behind the guard; turn exceptions into answers."""
        began = time.perf_counter()
        answer = self._answer(environ, route, arguments)
        took = time.perf_counter() - began
        method = environ["REQUEST_METHOD"]
        # A client may send any method.
        method = method if method in _METHODS else "other"
        self.requests.count(route.row.path, method, answer.status, took)
        return answer

    def _answer(
        self, environ: Environ, route: Route, arguments: dict[str, Any]
    ) -> Answer:
        view, row = route
        try:
            answer = self.guard.preflight(environ)
            if answer is None:
                caller = environ[CALLER] = self.guard.check(environ, row)
                if caller is not EVERYONE and not caller.may(row.scopes):
                    if caller.run_token:
                        self.check_run_token(environ)
                        raise RunTokenRefused
                    shown = sorted(row.scopes - {RUN_ROLE})
                    raise ScopeMissing(caller.name, " or ".join(shown))
                answer = self._called(caller, view, environ, arguments)
        except Problem as raised:
            problem = self._counted(raised, environ)
            self.log_refusal(problem, environ, row)
            self.log_failed_call(problem, environ, arguments.get("instance_id", ""))
            # These refer to the body, and to frames that refer to the problem. So the
            # memory of many bodies would wait for the garbage collector.
            for each in (raised, problem):
                each.__traceback__ = each.__context__ = each.__cause__ = None
            answer = problem_answer(problem, environ)
        except Exception as error:
            extra = {"request_id": request_id_of(environ)}
            method = environ["REQUEST_METHOD"]
            log.exception("%s %s failed", method, row.name, extra=extra)
            failure = Problem(f"the server failed with {type(error).__name__}")
            answer = problem_answer(failure, environ)
        # Another node has the ID; without it, the heads of its answers repeat.
        named = "HTTP_X_REQUEST_ID" in environ and FORWARDED not in environ
        wanted = named or self.settings.access_log
        if wanted and answer.status < 400:
            field = (REQUEST_ID, request_id_of(environ))
            answer = answer._replace(headers=[*answer.headers, field])
        if proof := self.proof(environ):
            answer = answer._replace(headers=[*answer.headers, (NODE_PROOF, proof)])
        cors = self.guard.cors_headers(environ)
        if cors:
            answer = answer._replace(headers=[*answer.headers, *cors])
        return answer

    def check_run_token(self, environ: Environ) -> None:
        """Check that a request's token is one of a run, on any node of a fleet.

        Raises:
            Unauthorized: It is not.
            NodeAway: A node that may have its run does not answer.
        """
        digest = environ[CALLER].run_token
        try:
            self.relay.check_token(digest)
        except Problem as problem:
            unknown = problem.status == Unauthorized.default_status
            if not unknown or self.fleet is None or FORWARDED in environ:
                raise
            if not self.guard.may_try(environ):
                # Guesses shall not cost each node a request.
                raise
            check_elsewhere(self.fleet, digest)

    def _called(
        self,
        caller: Identity,
        view: View,
        environ: Environ,
        arguments: dict[str, Any],
    ) -> Answer:
        """Call a view, unless the caller's token has too many calls under way."""
        # All tokens of runs have one name.
        token = caller.run_token or caller.name
        self.under_way.take(token, caller.name)
        try:
            return view(environ, **arguments)
        finally:
            self.under_way.release(token)

    def accepts(self, name: str) -> bool:
        """Whether a token has a name, after the last reload."""
        self.guard.refresh()
        return self.guard.named(name) is not None

    def end_removed(self) -> None:
        """End connections, and streams to other nodes, of tokens that were removed."""
        self.kept.note_endings()
        if self.fleet is not None:
            self.fleet.relayed.end_removed(self.accepts)

    def count_stream(
        self, caller: Identity, client: Any, take: Callable[[], None]
    ) -> None:
        """Open a stream, which counts until its connection ends if it is over TLS.

        Args:
            caller: The client.
            client: The client's connection.
            take: Opens it.

        Raises:
            ShareUsedUp: The caller's token has too many of them.
        """
        at_end = client.at_relay_end
        if at_end is None:
            take()
            return
        token = caller.name
        self.tls_streams.take(token, token)
        try:
            take()
        except BaseException:
            self.tls_streams.release(token)
            raise
        at_end(lambda ended: self.tls_streams.release(token))

    def log_failed_call(
        self, problem: Problem, environ: Environ, instance_id: str
    ) -> None:
        """Log the request's ID with the end of the instance that it called.

        Args:
            problem: How the call failed.
            environ: The request.
            instance_id: The instance.
        """
        if isinstance(problem, EnvCrashed | StepDeadline):
            self.hosts.name_call(instance_id, request_id_of(environ))

    def _counted(self, problem: Problem, environ: Environ) -> Problem:
        """Return the problem to answer with; count a token that the relay refused.

        A node that has forwarded the request counts it, for the client's address.
        """
        caller = environ.get(CALLER)
        refused = problem.status == Unauthorized.default_status
        counts = refused and FORWARDED not in environ
        if counts and caller is not None and caller.run_token:
            try:
                self.guard.refuse(environ)
            except Problem as counted:
                return counted
        return problem

    def log_refusal(self, problem: Problem, environ: Environ, row: Operation) -> None:
        """Log a refused host, origin, ticket, scope or handshake of a stream."""
        handshake = row.takes_ticket and problem.status < 500
        if isinstance(problem, _LOGGED):
            return
        if handshake or isinstance(problem, _REFUSALS):
            limited = self._refusals.setdefault(problem.code, LimitedLog(log))
            what = "the handshake" if handshake else environ["REQUEST_METHOD"]
            words = f"refused {what} {environ['PATH_INFO']:.100} from "
            words += f"{address_of(environ)}: "
            limited.warning(words + problem.message, request_id=request_id_of(environ))


def add_route(app: flask.Flask, web: Web, name: str, view: View) -> None:
    """Add the route of an operation.

    Args:
        app: The application.
        web: The collaborators of views.
        name: The operation.
        view: Called with ``web``, the WSGI environment and the arguments in the path.
    """
    row = OPERATIONS[name]
    route = web.routes[name] = Route(functools.partial(view, web), row)

    def flask_view(**arguments: Any) -> flask.Response:
        return flask_response(web.answer(flask.request.environ, route, **arguments))

    # Two rules: with only one, Flask reports a wrong method in the other form as a
    # wrong path.
    for form in dict.fromkeys((row.path, row.path.removesuffix("/") or row.path)):
        endpoint = f"{row.method} {form}".replace(".", "_")
        app.add_url_rule(
            form,
            endpoint=endpoint,
            view_func=flask_view,
            methods=[row.method],
            provide_automatic_options=False,
        )


class _Switched(flask.Response):
    """Leaves the connection alone, which another process has."""

    def __call__(self, environ: Environ, start_response: Any) -> Any:
        raise StopIteration


def flask_response(answer: Answer) -> flask.Response:
    """Turn an answer into a response of Flask."""
    if answer.status == SWITCHED.status:
        return _Switched()
    line = STATUS_LINES[answer.status]
    headers = [*answer.headers, NOSNIFF]
    if not isinstance(answer.body, bytes):
        headers.append(("Content-Length", str(len(answer.body))))
        return flask.Response(parts_of(answer.body), line, headers)
    return flask.Response(answer.body, line, headers)
