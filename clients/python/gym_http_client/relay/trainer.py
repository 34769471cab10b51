"""Trainer: receives the samples of a run in order, and publishes weights."""

from __future__ import annotations

import contextlib
import logging
import math
import time
from collections.abc import Callable, Iterator, Mapping
from types import TracebackType
from typing import Any, NoReturn, Protocol, Self

import numpy.typing as npt

from gym_http_client.errors import ServerError
from gym_http_client.http.retries import Retries
from gym_http_client.relay.batches import BadBatch, Batch
from gym_http_client.relay.calls import RelayCalls
from gym_http_client.relay.progress import Progress
from gym_http_client.relay.read_ahead import ReadAhead
from gym_http_client.relay.replay import Limiter
from gym_http_client.relay.weights import NPZ, Arrays, load_weights, save_weights

__all__ = ["NoBatch", "Trainer", "TrainerReplaced"]

# A server may be away for as long as an upgrade takes.
_RETRIES = Retries(total=600.0, repeated=frozenset({408, 429, 503, 507}))
_READ_AHEAD = 64 << 20
_PROGRESS_SECONDS = 10.0
_REPORT_SECONDS = 1.0
_QUICK_SECONDS = 2.0
_logger = logging.getLogger("gym_http_client")

_Values = Mapping[str, npt.ArrayLike]


class TrainerReplaced(ServerError):
    """Another trainer has published or committed since this one began."""


class NoBatch(TimeoutError):
    """No batch arrived within the time limit."""


class CountsDraws(Protocol):
    """A replay buffer, as far as a trainer needs it."""

    limiter: Limiter | None

    @property
    def draws(self) -> int:
        """Number of transitions that were drawn."""


class Trainer:
    """Receives the batches of a run in order, and publishes weights.

    ::

        with Trainer(url, "pendulum", token=token) as trainer:
            state = trainer.resume()
            for batch in trainer:
                replay.add(batch)
                if replay.ready(256):
                    train(replay.draw(256))
                    trainer.publish(weights, state=state)

    A batch counts as used as soon as the loop has received it. `publish` commits the
    position together with the state. So a trainer that is killed, and started anew
    anywhere, goes on from its last state with the first batch that is not in it.

    A batch that cannot be decoded, such as a pickle, is left out with a warning.

    Args:
        url: The server's address.
        run: Name of the run.
        token: The run's token for trainers, or a token of the server.
        reader: Name under which the position is stored; one for each consumer of the
            run that reads all batches.
        replay: The replay buffer, whose draws are reported to the run's limiter. It is
            needed if the run has one.
        after_receiving: A function that is called with each batch, and returns it, a
            changed one, or None to leave it out.
        timeout: Seconds that the loop waits for the next batch; None for no limit.
        read_ahead: Bytes of batches that are received before the loop needs them.
        form: Media type of published weights and states: `NPZ` or `SAFETENSORS`.
        progress: Seconds between printed lines of progress; None prints nothing.
        retries: How requests are retried. By default a server may be away for ten
            minutes.

    Attributes:
        run: Name of the run.
        version: Version of the newest weights known here; 0 before any.
        position: Position of the last batch that the loop has received.
        received: Number of batches that the loop has received.
        transitions: Number of their transitions.
        refused: Number of batches that were left out because of their bytes.
    """

    def __init__(
        self,
        url: str,
        run: str,
        *,
        token: str | None = None,
        reader: str = "trainer",
        replay: CountsDraws | None = None,
        after_receiving: Callable[[Batch], Batch | None] | None = None,
        timeout: float | None = None,
        read_ahead: int = _READ_AHEAD,
        form: str = NPZ,
        progress: float | None = _PROGRESS_SECONDS,
        retries: Retries = _RETRIES,
    ) -> None:
        self.run = run
        self.version = 0
        self.position = 0
        self.received = 0
        self.transitions = 0
        self.refused = 0
        self._url, self._token, self._retries = url, token, retries
        self._name = reader
        self._replay = replay
        self._hook = after_receiving
        self._timeout = timeout
        self._max_ahead = read_ahead
        self._form = form
        self._calls = RelayCalls(url, run, token=token, retries=retries)
        self._ahead: ReadAhead | None = None
        self._weights_etag: str | None = None
        self._state_etag: str | None = None
        self._committed = 0
        self._base_draws = self._reported_draws = 0
        self._reported_at = -math.inf
        self._records: list[dict[str, Any]] = []
        # For what is not worth waiting: without retries.
        self._quick_calls = RelayCalls(
            url,
            run,
            token=token,
            time_limit=_QUICK_SECONDS,
            retries=Retries(total=0.0),
        )
        self._progress = Progress(run, progress, self._quick_calls.status)

    def __enter__(self) -> Self:
        self._attach()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Stop reading. Batches that were not committed come again to the next one."""
        if self._ahead is not None:
            self._ahead.close()
            self._ahead = None
        with contextlib.suppress(ServerError):
            self._send_records(self._quick_calls)
        self._quick_calls.close()
        self._calls.close()

    @property
    def missed(self) -> int:
        """Number of batches that the server had removed before they were read."""
        return 0 if self._ahead is None else self._ahead.missed

    @property
    def waiting(self) -> int:
        """Number of batches that were read ahead: receiving them takes no time."""
        return 0 if self._ahead is None else len(self._ahead)

    def resume(self) -> Arrays | None:
        """Return the last state that was published, or None if there is none.

        Raises:
            RuntimeError: The loop has received a batch already.
            BadWeights: The state is not arrays.
        """
        if self._ahead is not None:
            raise RuntimeError("call resume before the first batch is received")
        while True:
            found = self._calls.state()
            if (found.etag if found else None) == self._state_etag:
                return load_weights(found.data) if found else None
            # Another trainer committed meanwhile; its position belongs to its state.
            self._attach()

    def weights(self) -> Arrays | None:
        """Return the newest weights, or None if there are none."""
        found = self._calls.weights()
        return load_weights(found.data) if found else None

    def __iter__(self) -> Iterator[Batch]:
        """Iterate over the batches, in the order of their positions, without end.

        Raises:
            NoBatch: None arrived within the time limit.
        """
        while True:
            batch = self.receive(self._timeout)
            if batch is None:
                raise NoBatch(self._no_batch_message())
            yield batch

    def receive(self, timeout: float | None = 0.0) -> Batch | None:
        """Return the next batch, or None if there is none in time.

        Args:
            timeout: Seconds to wait at most; 0 returns at once, None waits for ever.
        """
        if self._ahead is None:
            self._ahead = ReadAhead(
                self._url,
                self.run,
                token=self._token,
                reader=self._name,
                after=self.position,
                max_bytes=self._max_ahead,
                retries=self._retries,
            )
        end = None if timeout is None else time.monotonic() + timeout
        while True:
            self._report()
            left = _REPORT_SECONDS
            if end is not None:
                left = min(left, max(0.0, end - time.monotonic()))
            batch = self._ahead.take(left)
            if batch is None:
                if end is not None and time.monotonic() >= end:
                    return None
                continue
            self.position = batch.position
            accepted = self._accepted(batch)
            if accepted is not None:
                self.received += 1
                self.transitions += accepted.count
                self._progress.received(accepted.count, accepted.lag)
                return accepted

    def publish(self, weights: _Values, *, state: _Values | None = None) -> int:
        """Publish weights, and commit the batches that the loop has received.

        Args:
            weights: Arrays by name.
            state: Arrays from which a trainer that is started anew goes on, such as
                weights, those of the optimizer, and numbers. The position is stored
                in the same commit.

        Returns:
            The version of the weights. Weights that equal the newest ones keep its
            version.

        Raises:
            TrainerReplaced: Another trainer has published meanwhile.
            BadWeights: A value is not an array of numbers, booleans or strings.
        """
        data = save_weights(weights, self._form)
        saved = None if state is None else save_weights(state, self._form, what="state")
        try:
            answer = self._calls.put_weights(
                data,
                etag=self._weights_etag,
                content_type=self._form,
                **({} if state is not None else self._commit_arguments()),
            )
            self.version = answer["version"]
            self._weights_etag = answer["etag"]
            if saved is not None:
                # After the weights: if this trainer dies in between, the next one goes
                # on from the earlier state, and publishes the same or later weights.
                self._put_state(saved)
        except ServerError as error:
            self._raise(error)
        self._committed_now()
        return self.version

    def commit(self, *, state: _Values | None = None) -> None:
        """Commit the batches that the loop has received, without new weights.

        Args:
            state: As for `publish`.

        Raises:
            TrainerReplaced: Another trainer has committed meanwhile.
        """
        try:
            if state is not None:
                self._put_state(save_weights(state, self._form, what="state"))
            else:
                self._calls.commit(self._name, self.position, self._draws())
        except ServerError as error:
            self._raise(error)
        self._committed_now()

    def record(self, step: int, **numbers: float) -> None:
        """Record numbers of training, such as the loss, for the status and exports.

        Args:
            step: Number of the training step.
            numbers: The numbers by name.
        """
        self._records.append(
            {"type": "training", "step": step, "version": self.version, **numbers}
        )

    def _attach(self) -> None:
        """Read the state of the run, from which this trainer goes on."""
        # The ETags first: if another trainer commits before the position is read, the
        # next publication is refused.
        status = self._calls.status()
        weights, state = status["weights"], status["state"]
        self._weights_etag = weights["etag"] if weights else None
        self.version = weights["version"] if weights else 0
        self._state_etag = state["etag"] if state else None
        reader = self._calls.reader(self._name) or {}
        self.position = self._committed = reader.get("after", 0)
        self._reported_draws = self._base_draws = reader.get("draws") or 0
        if status["limiter"] is not None:
            self._limit(status)

    def _limit(self, status: dict[str, Any]) -> None:
        if self._replay is None:
            raise ValueError(
                f"run {self.run!r} has a limiter, which needs the number of draws: "
                "expected Trainer(..., replay=replay)"
            )
        settings, limiter = status["limits"]["limiter"], status["limiter"]
        ratio = settings["samples_per_insert"]
        self._replay.limiter = Limiter(ratio, settings["min_size"], limiter["min_diff"])
        # Transitions that an earlier trainer received are in no buffer any more. They
        # count as drawn, or the relay would hold back those that this one needs.
        used = limiter["inserts"] - status["samples"]["transitions_waiting"]
        self._base_draws = max(self._base_draws, math.ceil(used * ratio))
        self._base_draws -= self._replay.draws

    def _draws(self) -> int | None:
        if self._replay is None:
            return None
        return self._base_draws + self._replay.draws

    def _commit_arguments(self) -> dict[str, Any]:
        return {
            "reader": self._name,
            "after": self.position,
            "draws": self._draws(),
        }

    def _put_state(self, data: bytes) -> None:
        answer = self._calls.put_state(
            data,
            etag=self._state_etag,
            content_type=self._form,
            **self._commit_arguments(),
        )
        self._state_etag = answer["etag"]

    def _committed_now(self) -> None:
        self._committed = self.position
        self._reported_draws = self._draws() or 0
        self._reported_at = time.monotonic()
        self._send_records(self._calls)
        self._progress.show(self.version, self.waiting)

    def _report(self) -> None:
        """Report draws and records about once a second, and print progress."""
        now = time.monotonic()
        if now < self._reported_at + _REPORT_SECONDS:
            return
        self._reported_at = now
        draws = self._draws()
        if draws is not None and draws != self._reported_draws:
            try:
                self._calls.commit(self._name, self._committed, draws)
            except ServerError as error:
                self._raise(error)
            self._reported_draws = draws
        self._send_records(self._calls)
        self._progress.show(self.version, self.waiting)

    def _send_records(self, calls: RelayCalls) -> None:
        if self._records:
            records, self._records = self._records, []
            calls.put_records(records)

    def _accepted(self, batch: Batch) -> Batch | None:
        try:
            # Decoded here, since a worker that sends nonsense must not end a training.
            batch.check()
        except BadBatch as error:
            self.refused += 1
            _logger.warning(
                "run %s: the batch at position %d, of worker %s, is left out: %s",
                self.run,
                batch.position,
                batch.worker,
                error,
            )
            return None
        return batch if self._hook is None else self._hook(batch)

    def _raise(self, error: ServerError) -> NoReturn:
        if error.code not in ("version-conflict", "position-passed"):
            raise error
        raise TrainerReplaced(
            f"another trainer of run {self.run!r} has published or committed since "
            f"this one began, which is refused now ({error.message}). End this one. To "
            "take over, start a trainer anew, which resumes from the last state",
            error.status_code,
            code=error.code,
            url=error.url,
            body=error.body,
        ) from error

    def _no_batch_message(self) -> str:
        return (
            f"no batch of run {self.run!r} arrived for {self._timeout:g} s after "
            f"position {self.position}. {self._progress.workers()}"
        )
