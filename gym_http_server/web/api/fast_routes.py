"""Fast routes: calls of instances and of training runs without Flask's dispatch.

Matching a route and making request and response objects takes Flask longer than all the
rest of a step. So a table has the routes whose only variable part is the ID of an
instance or the name of a run. It has the same
views as Flask's own, which dispatches all other requests.

Without them, a REST step takes at least 1.7 times as long (``rest_1_p50``; measure with
``python -m benchmarks --without fast-routes``).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable

import flask

from gym_http_server.operations.table import ENVS, INSTANCE, RUN
from gym_http_server.web.api.exchange import Environ, StartResponse, send
from gym_http_server.web.api.web import Route, Web

__all__ = ["FastRoutes"]

_PREFIX_LENGTH = len(ENVS)
# Flask sees other names, and how they are quoted.
_RUN_PATH = re.compile(r"/v1/runs/([A-Za-z0-9_.-]+)/([a-z/]*)", re.ASCII).fullmatch


class FastRoutes:
    """A WSGI application in front of Flask's.

    Args:
        app: The Flask application, with all its routes.
        web: The collaborators of views.

    Attributes:
        flask: Flask's own WSGI application, for the other requests.
    """

    def __init__(self, app: flask.Flask, web: Web) -> None:
        self._web = web
        self.flask: Callable[..., Iterable[bytes]] = app.wsgi_app
        self._views = _table(web, INSTANCE)
        self._run_views = _table(web, RUN)

    def __call__(
        self, environ: Environ, start_response: StartResponse
    ) -> Iterable[bytes]:
        """Answer a request."""
        path = environ["PATH_INFO"]
        if path.startswith(ENVS):
            instance_id, _, rest = path[_PREFIX_LENGTH:].partition("/")
            key = environ["REQUEST_METHOD"], rest.removesuffix("/")
            route = self._views.get(key)
            if route is not None and instance_id:
                answer = self._web.answer(environ, route, instance_id=instance_id)
                return send(answer, start_response)
        elif (match := _RUN_PATH(path)) is not None:
            key = environ["REQUEST_METHOD"], match[2].removesuffix("/")
            route = self._run_views.get(key)
            if route is not None:
                answer = self._web.answer(environ, route, run=match[1])
                return send(answer, start_response)
        return self.flask(environ, start_response)


def _table(web: Web, start: str) -> dict[tuple[str, str], Route]:
    """Return the routes below a path that have no argument besides its own.

    The keys are the method and the rest of the path.
    """
    found = {}
    for route in web.routes.values():
        rest = route.row.path.removeprefix(start)
        if route.row.path.startswith(start) and "<" not in rest:
            found[route.row.method, rest.removesuffix("/")] = route
    return found
