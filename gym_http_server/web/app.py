"""The Flask application."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import Any

import flask
from werkzeug.exceptions import HTTPException
from werkzeug.routing import MapAdapter, PathConverter, Rule

from gym_http_server.access.identities import EVERYONE
from gym_http_server.config.inherited_settings import SettingsMemory
from gym_http_server.config.settings import Settings
from gym_http_server.errors import NotFound
from gym_http_server.operations.table import NOTHING, OPERATIONS
from gym_http_server.processes.log_lines import access
from gym_http_server.rundir.directory import RunDir
from gym_http_server.web.api import (
    batches,
    external,
    instances,
    metrics,
    realtime,
    recordings,
    runs,
    service,
    streams,
    tango,
)
from gym_http_server.web.api.exchange import (
    CALLER,
    Answer,
    Environ,
    StartResponse,
    address_of,
    empty_answer,
    request_id_of,
    trace_id_of,
)
from gym_http_server.web.api.fast_routes import FastRoutes
from gym_http_server.web.api.fleet.views import FleetViews
from gym_http_server.web.api.openenv import routes as openenv
from gym_http_server.web.api.web import Route, Web, add_route, flask_response
from gym_http_server.web.backends.nodes.fleet import Fleet
from gym_http_server.web.dashboard import routes as dashboard
from gym_http_wire.problems import Problem

__all__ = ["create_app", "from_launcher"]

#: Methods in the answer to ``OPTIONS *``.
_SERVER = "DELETE, GET, HEAD, OPTIONS, POST, PUT"


class _Rule(Rule):
    """A route without the functions that write its URLs.

    Nothing calls them. To compile two for each route took as long as to import Flask.
    """

    def _compile_builder(self, append_unknown: bool = True) -> Callable[..., Any]:
        return _no_url


def _no_url(*_: object, **__: object) -> tuple[str, str]:
    raise NotImplementedError("this server's routes write no URLs")


class _Application(flask.Flask):
    """A Flask application whose routes ignore Upgrade, unless they are streams."""

    url_rule_class = _Rule

    def create_url_adapter(self, request: flask.Request | None) -> MapAdapter | None:
        """Return the adapter that finds the route of a request."""
        adapter = super().create_url_adapter(request)
        if adapter is not None:
            adapter.websocket = False
        return adapter


class AccessLog:
    """A WSGI application that logs requests and passes them to another one.

    Args:
        application: The other application.
    """

    def __init__(self, application: Callable[..., Iterable[bytes]]) -> None:
        self._application = application

    def __call__(
        self, environ: Environ, start_response: StartResponse
    ) -> Iterable[bytes]:
        """Pass on a request, and log it."""
        began = time.perf_counter()
        status, size = 500, 0

        def start(line: str, headers: list[tuple[str, str]], *more: Any) -> Any:
            nonlocal status, size
            status = int(line[:3])
            lengths = (value for name, value in headers if name == "Content-Length")
            size = int(next(lengths, 0))
            return start_response(line, headers, *more)

        try:
            return self._application(environ, start)
        except StopIteration:
            # The connection is a stream now.
            status = 101
            raise
        finally:
            access(
                peer=address_of(environ),
                method=environ["REQUEST_METHOD"],
                path=environ["PATH_INFO"],
                status=status,
                request_id=request_id_of(environ),
                trace_id=trace_id_of(environ),
                token=environ.get(CALLER, EVERYONE).name,
                size=size,
                ms=1000 * (time.perf_counter() - began),
            )


class _AnyPath(PathConverter):
    """A part of a path with slashes, which may have line breaks as any other part."""

    regex = r"[^/](?:.|\n)*?"


class _RecordingPath(_AnyPath):
    """The directory of a recording; the path of a file of one does not match."""

    regex = rf"(?!(?:.|\n)*/files/[^/]+/?\Z){_AnyPath.regex}"


def create_app(
    settings: Settings,
    run: RunDir,
    memory: SettingsMemory | None = None,
    *,
    fast_routes: bool = True,
    fleet_token: str = "",
) -> flask.Flask:
    """Make the WSGI application of the server.

    Args:
        settings: The settings.
        run: The run directory of the server, with or without a running supervisor.
        memory: Where the launcher replaces settings; ``None``: no process does.
        fast_routes: Whether calls of instances bypass the dispatch of Flask.
        fleet_token: The token of the server's fleet, or "".
    """
    app = _Application("gym_http_server", static_folder=None)
    # Never a redirect: it costs old clients their method or their body.
    app.url_map.merge_slashes = False
    app.url_map.strict_slashes = False
    app.url_map.converters |= {"path": _AnyPath, "recording": _RecordingPath}
    fleet = Fleet(settings, fleet_token, run) if settings.fleet else None
    web = Web(settings, run, memory, fleet)
    fleet_views = None if fleet is None else FleetViews(fleet)
    app.extensions["gym_http_server"] = web
    for views in (
        instances.VIEWS,
        realtime.VIEWS,
        batches.views(web),
        runs.VIEWS,
        service.VIEWS,
        metrics.VIEWS,
        recordings.VIEWS,
        streams.VIEWS,
        external.VIEWS,
        tango.VIEWS,
        openenv.VIEWS,
        dashboard.views(settings),
        {} if fleet_views is None else fleet_views.own,
    ):
        for name, view in views.items():
            if fleet_views is not None:
                view = fleet_views.view_of(OPERATIONS[name], view)
            add_route(app, web, name, view)
    app.register_error_handler(HTTPException, lambda error: _refuse(web, error))
    if fast_routes:
        app.wsgi_app = FastRoutes(app, web)  # type: ignore[method-assign]
    if settings.access_log:
        app.wsgi_app = AccessLog(app.wsgi_app)  # type: ignore[method-assign]
    return app


def from_launcher() -> flask.Flask:
    """Make the application in a web worker, from the settings of the launcher."""
    memory = SettingsMemory.inherited()
    inherited = memory.read()
    return create_app(
        inherited.settings, inherited.run, memory, fleet_token=inherited.fleet_token
    )


def _refuse(web: Web, error: HTTPException) -> flask.Response:
    """Answer a request without a route, behind the guard."""

    def view(environ: Environ) -> Answer:
        if environ["REQUEST_METHOD"] == "OPTIONS":
            allowed = _SERVER if environ["PATH_INFO"] == "*" else _allowed(error)
            if allowed:
                answer = empty_answer()
                answer.headers.append(("Allow", allowed))
                return answer
        raise _problem_of(error, environ)

    return flask_response(web.answer(flask.request.environ, Route(view, NOTHING)))


def _allowed(error: HTTPException) -> str:
    """Return the methods of the path as Allow has them; "" if it has no routes."""
    methods = set(getattr(error, "valid_methods", None) or ())
    return ", ".join(sorted({*methods, "OPTIONS"})) if methods else ""


def _problem_of(error: HTTPException, environ: Environ) -> Problem:
    method, path = environ["REQUEST_METHOD"], environ["PATH_INFO"]
    advice = runs.misdirected_upload(method, path)
    if advice:
        return NotFound(advice)
    if error.code == 404:
        return NotFound(f"there is nothing at {path:.200}; GET /openapi.json lists all")
    if error.code == 405:
        allowed = _allowed(error)
        return Problem(
            f"{path:.200} does not take {method:.20}; it takes {allowed}",
            status=405,
            code="method-not-allowed",
            headers={"Allow": allowed},
        )
    if error.code == 400:
        # Such as a Host that is no name.
        words = error.description or "the request is malformed"
        return Problem(words, status=400, code="malformed-request")
    name = (error.name or "error").lower().replace(" ", "-")
    return Problem(error.description or name, status=error.code or 500, code=name)
