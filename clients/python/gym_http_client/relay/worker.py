"""RolloutWorker: plays episodes with the newest weights, and sends them."""

from __future__ import annotations

import contextlib
import functools
import logging
import math
import os
import re
import secrets
import signal
import socket
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from types import FrameType, TracebackType
from typing import Any, Literal, Self

import gymnasium
import numpy as np

from gym_http_client.errors import ServerError
from gym_http_client.http.addresses import Address
from gym_http_client.http.retries import Retries
from gym_http_client.relay.batches import (
    COLUMNS_TYPE,
    Packing,
    encode_columns_in_parts,
    pack,
)
from gym_http_client.relay.calls import RelayCalls
from gym_http_client.relay.episodes import (
    Columns,
    EpisodePlay,
    Mode,
    Policy,
)
from gym_http_client.relay.newest_weights import NewestWeights, Weights
from gym_http_client.relay.progress import WorkerProgress
from gym_http_client.relay.sender import Sender, Stopped
from gym_http_client.relay.spool import MAX_BYTES, Spool, SpoolClosed, WhenFull
from gym_http_client.relay.weights import load_weights

__all__ = ["RolloutWorker"]

_PROGRESS_SECONDS = 10.0
_PART_STEPS = 1000
_EVALUATIONS = 5
_FLUSH_SECONDS = 60.0
_VERSION_SECONDS = 300.0
_GOODBYE_SECONDS = 5.0
_SERVER_SECONDS = 60.0
# Seconds between looks whether a wait is to end.
_CHECK = 0.2
_logger = logging.getLogger("gym_http_client")


class RolloutWorker:
    """Plays episodes with the newest weights, and sends them to the trainer.

    ::

        worker = RolloutWorker(url, "pendulum", env=env, policy=policy,
                               spool="spool", token=token)
        worker.run(episodes=1000, evaluate_every=20)

    Samples go to the spool first, and a thread sends them, so the environment never
    waits for the network. A worker that was killed and starts again with the same spool
    goes on with its next episode.

    Args:
        url: The server's address.
        run: Name of the run.
        env: The environment.
        policy: A function of weights, observation and random generator. It returns an
            action, or an action and a dict with further columns. The weights are a dict
            of arrays, or None before the first were published.
        spool: Folder of the spool, one for each worker.
        token: The run's token for workers, or a token of the server.
        worker: Name of the worker. By default it is the one in the spool, or made from
            the name of this machine.
        seed: Seed of the run. Each episode has a seed made of this one, the name of the
            worker and the number of the episode.
        synchronous: Play a number of episodes with each version, and then wait for the
            next version.
        episodes_per_version: That number.
        version_timeout: Seconds that a synchronous worker waits for a version.
        expert: Whether the policy is an expert that needs no weights.
        evaluation_policy: The policy of evaluations; by default the same.
        max_steps: Steps after which an episode is over; None for no limit.
        part_steps: Steps after which a part of an episode is sent. A synchronous worker
            sends whole episodes.
        before_sending: A function that is called with the columns of each batch, and
            returns them, others, or None to send nothing. The number of transitions is
            ``length``, or without that the number of rows of the first column.
        packing: How batches are packed: ``"deflate"``, ``"zstd"``, or not at all.
        spool_bytes: Size of the spool at most.
        when_full: What to do when the spool is full: ``"block"`` waits for the relay,
            ``"drop_oldest"`` drops and counts the oldest batches.
        flush_timeout: Seconds that the end of `run` waits until everything was sent.
            What was not sent stays in the spool, for the next start.
        progress: Seconds between printed lines of progress; None prints nothing.
        wait_s: Seconds to wait at the start for a server that is not up yet.
        retries: How requests are retried at the start. Samples are sent until the relay
            has them.

    Raises:
        SpoolError: The spool is in use, or belongs to another run or worker.
    """

    def __init__(
        self,
        url: str,
        run: str,
        *,
        env: gymnasium.Env[Any, Any],
        policy: Policy,
        spool: str | os.PathLike[str],
        token: str | None = None,
        worker: str | None = None,
        seed: int = 0,
        synchronous: bool = False,
        episodes_per_version: int = 1,
        version_timeout: float = _VERSION_SECONDS,
        expert: bool = False,
        evaluation_policy: Policy | None = None,
        max_steps: int | None = None,
        part_steps: int = _PART_STEPS,
        before_sending: Callable[[Columns], Columns | None] | None = None,
        packing: Packing = "",
        spool_bytes: int = MAX_BYTES,
        when_full: WhenFull = "block",
        flush_timeout: float = _FLUSH_SECONDS,
        progress: float | None = _PROGRESS_SECONDS,
        wait_s: float = _SERVER_SECONDS,
        retries: Retries | None = None,
    ) -> None:
        # A wrong packing or a missing library shows now, not after the first episode.
        pack(b"", packing)
        self._url, self._run_name, self._token = url, run, token
        self._env = env
        self._policy = policy
        self._evaluation_policy = evaluation_policy or policy
        self._seed = seed
        self._synchronous = synchronous
        self._episodes_per_version = episodes_per_version
        self._version_timeout = version_timeout
        self._expert = expert
        self._max_steps = math.inf if max_steps is None else max_steps
        self._part_steps = math.inf if synchronous else part_steps
        self._hook = before_sending
        self._packing = packing
        self._flush_timeout = flush_timeout
        self._wait_s = wait_s
        self._retries = retries or Retries()
        self._stopping = False
        self._sender: Sender | None = None
        self._weights: NewestWeights | None = None
        self._open_spool: Callable[[], Spool] = functools.partial(
            Spool,
            spool,
            run=run,
            worker=worker,
            default=_default_name(),
            max_bytes=spool_bytes,
            when_full=when_full,
        )
        self.spool = self._open_spool()
        self._progress = WorkerProgress(progress, lambda: self.spool)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections and the spool; what was not sent stays there."""
        self._end_threads()
        self.spool.close()

    @property
    def name(self) -> str:
        """Name of the worker."""
        return self.spool.worker

    @property
    def episodes(self) -> int:
        """Number of training episodes, those before a restart included."""
        return self.spool.progress.get("episodes", 0)

    @property
    def version(self) -> int:
        """Version of the newest weights known here; 0 before any."""
        return self._weights.get().version if self._weights else 0

    def stop(self) -> None:
        """End `run` after the current step; other threads may call this."""
        self._stopping = True
        self.spool.interrupted = True

    def run(
        self,
        episodes: int | None = None,
        *,
        evaluate_every: int | None = None,
        evaluations: int = _EVALUATIONS,
    ) -> None:
        """Play training episodes, and return when they were sent.

        SIGTERM ends it, if it runs on the main thread: it finishes the current step,
        sends what it has, and then the process ends as by SIGTERM.

        If it raises, it closes the spool, so that another worker may use the folder.
        The next `run` opens it again.

        Args:
            episodes: Number of episodes; None goes on until `stop` or SIGTERM.
            evaluate_every: Number of training episodes between evaluations.
            evaluations: Number of episodes of each evaluation.

        Raises:
            ServerError: The server refuses, for example an unknown run, or is not up
                after ``wait_s``.
            SpoolError: The spool belongs to another run or another server.
            TimeoutError: A synchronous worker waited in vain for a version.
            Exception: The environment or the policy raised it.
        """
        self._stopping = False
        with (
            _sigterm(self.stop),
            contextlib.suppress(Stopped),
            self._connected(),
        ):
            last = math.inf if episodes is None else self.episodes + episodes
            while True:
                if evaluate_every and not self.episodes % evaluate_every:
                    self._evaluate_after(self.episodes, evaluations)
                if self.episodes >= last or self._stopping:
                    break
                weights = self._weights_to_play()
                if weights is None:
                    break
                self._play_training(weights)

    def evaluate(
        self,
        episodes: int = _EVALUATIONS,
        version: int | Literal["best"] | None = None,
    ) -> list[Any]:
        """Play episodes that are recorded, but not sent; return their returns.

        Args:
            episodes: Number of episodes.
            version: Version of the weights; by default the newest.
        """
        with self._connected() as calls:
            weights = self._newest()
            if version is not None:
                blob = calls.weights(version)
                if blob is None:
                    raise ValueError(f"there are no weights of version {version!r}")
                weights = Weights(blob.version, load_weights(blob.data))
            return [self._play_evaluation(weights, {}) for _ in range(episodes)]

    def _evaluate_after(self, episodes: int, evaluations: int) -> None:
        """Evaluate after a training episode, unless this was done before a restart."""
        if not episodes or self.spool.progress.get("evaluated", 0) >= episodes:
            return
        weights = self._newest()
        for number in range(1, evaluations + 1):
            if self._stopping:
                return
            done = {"evaluated": episodes} if number == evaluations else {}
            self._play_evaluation(weights, done)

    def _play_evaluation(self, weights: Weights, progress: dict[str, int]) -> Any:
        number = self.spool.progress.get("evaluations", 0) + 1
        play = self._new_play(self._evaluation_policy, weights, number, "evaluation")
        while not play.step() and play.length < self._max_steps:
            if not play.length % _PART_STEPS:
                play.take()  # Frees the memory.
        progress = {**progress, "evaluations": number}
        records = self._records(play, weights.version, number, "evaluation")
        self.spool.add_records(records, progress)
        return play.total

    def _play_training(self, weights: Weights) -> None:
        mode: Mode = "expert" if self._expert else "training"
        number = self.episodes + 1
        play = self._new_play(self._policy, weights, number, mode)
        progress = {"episodes": number, "version": weights.version}
        if self.spool.progress.get("version") != weights.version:
            progress["version_began"] = number - 1
        over = False
        try:
            while not over and not self._stopping:
                over = play.step() or play.length >= self._max_steps
                if not over and play.count >= self._part_steps:
                    self._append(play, weights.version, progress, [])
        except BaseException:
            self._keep_unfinished(play, weights.version, progress)
            raise
        if not over:
            # A synchronous worker plays the episode again when it goes on.
            self._keep_unfinished(play, weights.version, progress)
            return
        records = self._records(play, weights.version, number, mode)
        self._append(play, weights.version, progress, records)
        self._progress.episode(play.total, play.length, weights.version)

    def _new_play(
        self, policy: Policy, weights: Weights, number: int, mode: Mode
    ) -> EpisodePlay:
        return EpisodePlay(
            self._env,
            policy,
            None if self._expert else weights.arrays,
            seed=self._seed,
            worker=self.name,
            number=number,
            mode=mode,
        )

    def _keep_unfinished(
        self, play: EpisodePlay, version: int, progress: dict[str, int]
    ) -> None:
        """Keep the steps of an episode that was not played to its end."""
        if self._synchronous or not play.count:
            return
        try:
            self._append(play, version, progress, [])
        except Exception as error:
            _logger.error("%d steps of an episode are lost: %s", play.count, error)

    def _append(
        self,
        play: EpisodePlay,
        version: int,
        progress: dict[str, int],
        records: list[dict[str, Any]],
    ) -> None:
        columns: Columns | None = play.take()
        if self._hook is not None and columns is not None:
            columns = self._hook(columns)
        if columns is None:
            self.spool.add_records(records, progress)
            return
        count = int(columns.get("length", len(next(iter(columns.values()), ()))))
        parts = encode_columns_in_parts(columns)
        packing, unpacked = self._packing, 0
        if packing:
            data = b"".join(parts)
            parts, unpacked = [pack(data, packing)], len(data)
        try:
            self.spool.append(
                *parts,
                policy=version,
                count=count,
                content_type=COLUMNS_TYPE,
                packing=packing,
                unpacked=unpacked,
                records=records,
                progress=progress,
            )
        except SpoolClosed:
            _logger.error(
                "a batch of %d transitions is lost: the spool is full, and the worker "
                "ends",
                count,
            )

    def _records(
        self, play: EpisodePlay, version: int, number: int, mode: Mode
    ) -> list[dict[str, Any]]:
        if np.ndim(play.total) or not math.isfinite(play.total):
            words = "episode %d has no record, which has one finite return, not %s"
            _logger.warning(words, number, play.total)
            return []
        record = {
            "type": "episode",
            "mode": mode,
            "return": play.total,
            "length": play.length,
            "version": version,
            "worker": self.name,
            "episode": number,
        }
        return [record]

    def _newest(self) -> Weights:
        """Return the newest weights; an expert needs only their version."""
        assert self._weights is not None  # noqa: S101 - it is connected
        assert self._sender is not None  # noqa: S101
        if self._sender.error is not None:
            raise self._sender.error
        found = self._weights.get()
        if self._expert:
            return found._replace(version=max(found.version, self._sender.version))
        return found

    def _weights_to_play(self) -> Weights | None:
        """Return the weights of the next episode; None if the worker is to end."""
        newest = self._newest()
        if not self._synchronous:
            return newest
        progress = self.spool.progress
        used = progress.get("version", 0)
        played = self.episodes - progress.get("version_began", 0)
        if used and used == newest.version and played < self._episodes_per_version:
            return newest
        assert self._weights is not None  # noqa: S101 - it is connected
        return self._weights.after(
            used, self._version_timeout, lambda: self._stopping or self._has_failed()
        )

    def _has_failed(self) -> bool:
        assert self._sender is not None  # noqa: S101 - it is connected
        if self._sender.error is not None:
            raise self._sender.error
        return False

    @contextlib.contextmanager
    def _connected(self) -> Iterator[RelayCalls]:
        """Send and fetch on threads during the block, and then say goodbye."""
        if self.spool.closed:
            self.spool = self._open_spool()
        self.spool.interrupted = False
        try:
            self._bind_spool()
            with self._threads() as calls:
                yield calls
        except BaseException:
            self.close()
            raise

    def _bind_spool(self) -> None:
        """Wait for the server, and check that the run is that of the spool.

        Raises:
            SpoolError: It is another run.
            Stopped: The worker was stopped while it waited.
        """
        spool = self.spool
        patient = replace(
            self._retries,
            total=max(self._retries.total, self._wait_s),
            first_contact=self._wait_s,
            sleep=self._pause,
        )
        with self._connect(patient) as calls:
            if not spool.session:
                spool.begin(calls.create_session(self.name)["session"], calls.url)
                return
            try:
                calls.session(spool.session)
            except ServerError as error:
                if error.code not in ("unknown-session", "unknown-run"):
                    raise
                raise spool.foreign_to(calls.url) from error
            spool.begin(spool.session, calls.url)

    def _pause(self, seconds: float) -> None:
        """Pause between two tries to reach the server, unless the worker is stopped."""
        # The address may have a token in it.
        self._progress.wait(Address.parse(self._url).url, self._wait_s)
        clock = self._retries.clock
        end = clock() + seconds
        while not self._stopping and (left := end - clock()) > 0:
            self._retries.sleep(min(left, _CHECK))
        if self._stopping:
            raise Stopped

    @contextlib.contextmanager
    def _threads(self) -> Iterator[RelayCalls]:
        with self._connect(self._retries) as calls:
            connect = self._connect
            self._weights = NewestWeights(connect, calls.weights(), self._retries)
            self._sender = Sender(self.spool, connect, retries=self._retries)
            self._sender.version = self._weights.get().version
            self._weights.start()
            self._sender.start()
            try:
                yield calls
            finally:
                try:
                    self._flush(self._sender)
                finally:
                    self._end_threads()
                    self._say_goodbye()

    def _connect(self, retries: Retries) -> RelayCalls:
        return RelayCalls(self._url, self._run_name, token=self._token, retries=retries)

    def _flush(self, sender: Sender) -> None:
        sent = sender.flush(self._flush_timeout)
        self._progress.show()
        if not sent:
            _logger.warning(
                "%d batches were not sent within %g s: they stay in %s, and the next "
                "start with this spool sends them",
                self.spool.waiting,
                self._flush_timeout,
                self.spool.folder,
            )

    def _end_threads(self) -> None:
        sender, self._sender = self._sender, None
        weights, self._weights = self._weights, None
        if weights is not None:
            weights.close()
        if sender is not None:
            sender.close()

    def _say_goodbye(self) -> None:
        retries = replace(self._retries, total=0.0)
        with (
            contextlib.suppress(ServerError),
            RelayCalls(
                self._url,
                self._run_name,
                token=self._token,
                time_limit=_GOODBYE_SECONDS,
                retries=retries,
            ) as calls,
        ):
            calls.end_session(self.spool.session)


@contextlib.contextmanager
def _sigterm(stop: Callable[[], None]) -> Iterator[None]:
    """Call a function at SIGTERM, and end the process by it after the block."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    received = False

    def handle(number: int, frame: FrameType | None) -> None:
        nonlocal received
        received = True
        stop()

    previous = signal.signal(signal.SIGTERM, handle)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL if previous is None else previous)
        if received:
            sys.stdout.flush()
            signal.raise_signal(signal.SIGTERM)


def _default_name() -> str:
    """Return a name for a new worker on this machine."""
    host = re.sub(r"[^A-Za-z0-9_.-]", "-", socket.gethostname())[:48].lstrip("_.-")
    return f"{host or 'worker'}-{secrets.token_hex(3)}"
