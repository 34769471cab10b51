"""The configuration of gunicorn, from the settings that the launcher passes."""

from __future__ import annotations

import contextlib
import gc
import os
import signal
from typing import Any

from gunicorn.glogging import Logger  # type: ignore[import-untyped]

from gym_http_server.access.authentication import shared_count
from gym_http_server.config import inherited_settings
from gym_http_server.linux import prctl
from gym_http_server.processes import log_lines
from gym_http_server.processes.titles import set_title
from gym_http_server.web.backends.queues import Queues
from gym_http_server.web.gunicorn_worker.balance import Balance
from gym_http_server.web.gunicorn_worker.worker import Worker

_memory = inherited_settings.SettingsMemory.inherited()
_inherited = _memory.read()
_settings = _inherited.settings
log_lines.configure(_settings)
prctl.die_with_parent(int(os.environ[inherited_settings.LAUNCHER_PID]), signal.SIGKILL)
prctl.set_dumpable(False)
Worker.access_log = _settings.access_log
Worker.memory = _memory
Worker.request_deadline_s = _settings.request_deadline
# Before workers are forked, so that they share it.
shared_count()
# Created here, since all workers share it.
# A reload starts as many new workers before the old ones end.
_most_workers = 2 * _settings.workers
_queues = Queues(_settings.max_waiting, _most_workers)
_log_queues = Queues(_settings.max_waiting, _most_workers, "wait for the log of")
_balance = Balance(_most_workers)

wsgi_app = "gym_http_server.web.app:from_launcher()"
# The launcher has bound them: it reports a port in use at once, and no connection is
# lost while workers start.
bind = [
    f"fd://{descriptor}"
    for descriptor in os.environ[inherited_settings.LISTENER_FDS].split(",")
]
workers = _settings.workers
certfile = _settings.certfile or None
keyfile = _settings.keyfile or None
worker_class = "gym_http_server.web.gunicorn_worker.worker.Worker"
worker_connections = 1000
# An agent may think for a while between steps.
keepalive = 75
# Only for a worker whose main loop is dead: requests have separate deadlines.
timeout = 60
graceful_timeout = max(1, int(_settings.drain_timeout))
# Any process of this user could stop the server through it.
control_socket_disable = True
# In memory, so that a slow or full disk does not delay the heartbeat of workers; else
# in a directory in which files can certainly be created.
_shared = "/dev/shm"  # noqa: S108
worker_tmp_dir = (
    _shared if os.access(_shared, os.W_OK | os.X_OK) else _inherited.run_path
)
accesslog = None
errorlog = "-"


class logger_class(Logger):  # type: ignore[misc]
    """Writes gunicorn's lines in the format of the server's log."""

    def setup(self, cfg: Any) -> None:
        """Set the level, and leave the lines to the handler of this process."""
        super().setup(cfg)
        log_lines.set_level(_settings.log_level)
        self.error_log.handlers.clear()
        self.error_log.propagate = True


def on_starting(arbiter: Any) -> None:
    """Mark the sockets as inherited, as from systemd.

    Otherwise, gunicorn would remove the file of a Unix socket, even another server's.
    """
    arbiter.systemd = True
    # Garbage collections, also the one at exit, need not look at what was imported.
    gc.freeze()


def pre_fork(arbiter: Any, worker: Any) -> None:
    """Set the title, since gunicorn has set its own; reserve a place for the worker."""
    set_title("gunicorn")
    worker.balance, worker.place = _balance, _balance.reserve()


def child_exit(arbiter: Any, worker: Any) -> None:
    """Free the place of a worker, also of one that was killed."""
    worker.balance.release(worker.place)
    if worker.place is not None:
        _memory.forget(worker.place)


def post_fork(arbiter: Any, worker: Any) -> None:
    """Set the title; gunicorn has set its own before."""
    if worker.place is not None:
        # Of no state yet: a reload waits until this worker has begun to serve.
        _memory.confirm(worker.place, 0)
    set_title("web worker")


def post_worker_init(worker: Any) -> None:
    """Report that a worker serves, and set up its queues and its pool."""
    import gevent  # type: ignore[import-untyped]

    with contextlib.suppress(
        BrokenPipeError
    ):  # the launcher reads only the first report
        os.write(int(os.environ[inherited_settings.REPORT_FD]), b"worker\n")
    web = worker.app.callable.extensions["gym_http_server"]
    web.under_way.most = worker.most_connections
    web.tls_streams.most = worker.most_files
    worker.after_reload = web.end_removed
    # As in `on_starting`; full collections during requests are shorter, too.
    gc.freeze()

    # A worker that raised here would end gunicorn. If no counters are free, for example
    # after several SIGTTIN, it counts only its own requests.
    with contextlib.suppress(OSError):
        _queues.claim(int(os.environ[inherited_settings.SETTINGS_FD]))
        web.hosts.queues = _queues
        # The lock on the file also reserves the same counters here.
        _log_queues.claim(int(os.environ[inherited_settings.SETTINGS_FD]))
        web.hosts.log_queues = _log_queues

    def sweep() -> None:
        while True:
            gevent.sleep(1.0)
            web.hosts.pool.sweep()
            if web.fleet is not None:
                web.fleet.client.sweep()

    gevent.spawn(sweep)
