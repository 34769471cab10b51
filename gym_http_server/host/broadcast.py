"""Sends copies of the environment's results to the clients that watch it.

Each watcher gets the copies in the form that it chose, whatever the form and the route
of the request were.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from gym_http_core.env_errors import env_exceptions
from gym_http_core.operations import Operations
from gym_http_core.session_log import SessionLog
from gym_http_server.host import plain_json
from gym_http_server.host.codec import fitting, value_frame
from gym_http_server.host.failures import problem_frame, problem_of_error
from gym_http_server.host.watcher import Watcher
from gym_http_wire.frames import Frame, Pieces
from gym_http_wire.messages import Form, Op, problem_of
from gym_http_wire.values import binary
from gym_http_wire.values.writing import Writing

if TYPE_CHECKING:
    from gym_http_server.host.show.showing import Showing

__all__ = ["Broadcast"]

_PLAIN = int(Form.PLAIN)
_RENDER = int(Op.RENDER)


class Broadcast:
    """Sends copies of an instance's answers to its watchers.

    Args:
        operations: The environment.
        sessions: Keeps the answers of fast steps, which are not published while
            there are no watchers.
        max_answer: Bytes that an answer's body may have.
        watch_share: Part of the host's time that drawing for watchers may take.
        away: Returns whether a part of the environment cannot be reached now.
        count_shown: Called with the nanoseconds that drawing a picture took.

    Attributes:
        watchers: All watchers; always the same list.
        showing: Shows the newest state to the watchers that get no copies; ``None``
            without any.
        pending: Watchers whose output waits, until the host polls them for writing;
            always the same set.
    """

    def __init__(
        self,
        operations: Operations,
        sessions: SessionLog,
        max_answer: int,
        *,
        watch_share: float = 0.1,
        away: Callable[[], bool] = lambda: False,
        count_shown: Callable[[int], None] = lambda took_ns: None,
    ) -> None:
        self.watchers: list[Watcher] = []
        self.pending: set[Watcher] = set()
        self.showing: Showing | None = None
        self._copied: list[Watcher] = []
        self._watch_share = watch_share
        self._away = away
        self._count_shown = count_shown
        self._operations = operations
        self._sessions = sessions
        self._max_answer = max_answer
        self._writing = Writing()
        # The last operation, its value and request, and the number of steps after it.
        self._latest: tuple[int, Any, Any] | None = None
        self._steps = 0

    def add(self, watcher: Watcher) -> None:
        """Add a watcher, and send it the latest reset or step."""
        self.watchers.append(watcher)
        latest = self._find_latest()
        if watcher.wanted is not None:
            self._open_showing().add(watcher, latest)
            return
        self._copied.append(watcher)
        if latest is not None:
            copy = self._copy(*latest, watcher.form, watcher.asks)
            watcher.show_earlier(copy)

    def remove(self, watcher: Watcher) -> None:
        """Remove a watcher whose stream has ended."""
        self.watchers.remove(watcher)
        self.pending.discard(watcher)
        if watcher.wanted is None:
            self._copied.remove(watcher)
        elif self.showing is not None and not self.showing.remove(watcher):
            # Steps are noted no more, and the last picture is freed.
            self.showing = None

    def attend(self, until_ns: int | None = None) -> None:
        """Send the updates that are due to the watchers to be shown the instance.

        Args:
            until_ns: When the next tick is due; ``None``: there is none.
        """
        if self.showing is not None:
            self.pending.update(self.showing.attend(until_ns))

    def note_actor(self, session: str) -> None:
        """Note which session resets or steps the environment now; "": one without."""
        if self.showing is not None:
            self.showing.note_actor(session)

    def publish(
        self, op: int, value: Any, request: dict[str, Any] | None = None
    ) -> None:
        """Send copies of a result of the environment.

        Args:
            op: The operation: reset, step or render.
            value: The value that `LosslessCalls` returns for it.
            request: The ``action`` of a step, or ``seed`` and ``options`` of a reset.
        """
        if op != _RENDER:
            self._latest = op, value, request
            self._steps = self._operations.steps
            if self.showing is not None:
                self.showing.note(op, value, request)
        if not self._copied:
            return
        copies: dict[tuple[int, bool], Frame] = {}
        for watcher in self._copied:
            form = watcher.form, watcher.asks
            copy = copies.get(form)
            if copy is None:
                copy = copies[form] = self._copy(op, value, request, *form)
            self._show(watcher, copy)

    def publish_problem(self, op: int, refusal: Frame) -> None:
        """Send copies of the problem with which an operation was answered."""
        if not self.watchers:
            return
        # A traceback shows code, which watchers without further scopes must not see.
        problem = problem_of(refusal)
        problem.extras.pop("traceback", None)
        if self.showing is not None:
            self.showing.note_problem(op, problem.message)
        copy = problem_frame(problem)._replace(kind=op, number=refusal.number, head=b"")
        for watcher in self._copied:
            head = b"null" if watcher.asks else b""
            self._show(watcher, copy._replace(head=head))

    def _open_showing(self) -> Showing:
        if self.showing is None:
            self.showing = self._new_showing()
        return self.showing

    def _new_showing(self) -> Showing:
        # Imported late, since most hosts show nothing.
        from gym_http_server.host.show.showing import Showing

        return Showing(
            self._operations, self._watch_share, self._away, self._count_shown
        )

    def _show(self, watcher: Watcher, copy: Frame) -> None:
        watcher.show(copy)
        if watcher.unsent:
            self.pending.add(watcher)

    def _find_latest(self) -> tuple[int, Any, Any] | None:
        if self._operations.steps == self._steps:
            return self._latest
        # Fast steps were executed since then, and not published.
        last = self._sessions.last_step()
        if last is None:
            return None
        return Op.STEP, binary.decode(last.body.join()), None

    def _copy(self, op: int, value: Any, request: Any, form: int, asks: bool) -> Frame:
        """Return the answer that a request in this form would get.

        Its head is the request as JSON, if the watcher asks for it.
        """
        try:
            if form == _PLAIN:
                value = self._plain(op, value)
            answer = value_frame(Frame(op, form=form << 4), value, self._writing)
            reply = fitting(answer, self._max_answer)
        except env_exceptions() as error:
            reply = problem_frame(problem_of_error(error))
        body = reply.body
        if isinstance(body, Pieces) and not body.lasting:
            body = Pieces(body.signature, [b"".join(body.leaves)], body.size)
        head = _request_text(request) if asks else b""
        return reply._replace(kind=op, body=body, head=head)

    def _plain(self, op: int, value: Any) -> Any:
        if op == _RENDER:
            return value["rendered"]
        self._operations.check_plain()
        if op == Op.STEP:
            value = dict(value)
            self._operations.make_plain(value)
        return value


def _request_text(request: Any) -> bytes:
    try:
        return plain_json.dumps(request).rstrip()
    except env_exceptions():
        # A lossless form carries actions that JSON does not.
        return b"null"
