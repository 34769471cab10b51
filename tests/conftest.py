"""Fixtures for servers, and a check that each test leaves nothing behind."""

import contextlib
import functools
import gc
import os
import signal
from collections.abc import Callable, Generator, Iterable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.support import processes, run_locks
from tests.support.api import Api, Instance
from tests.support.drivers import Program, prepare
from tests.support.peers import chromium
from tests.support.server import Server
from tests.support.tls import secure_server
from tests.support.wait import wait_until


@pytest.fixture(scope="session")
def server() -> Iterator[Server]:
    """A server with default settings, shared by all tests that do not change it."""
    with Server("--workers", "2") as shared:
        # The broker and the relay start when they are first needed, and stay.
        Api(shared).post("/v1/external/")
        Api(shared).get("/v1/runs/")
        yield shared


@pytest.fixture(scope="session")
def toy_server() -> Iterator[Server]:
    """A shared server with the environments of ``tests.support.envs.toys``."""
    with Server("--workers", "2", "--import", "tests.support.envs.toys") as shared:
        yield shared


@pytest.fixture(scope="session")
def relaying_server() -> Iterator[Server]:
    """A server with toys whose web workers relay streams."""
    flags = ("--workers", "2", "--stream-relay", "--import", "tests.support.envs.toys")
    with Server(*flags) as started:
        yield started


@pytest.fixture
def launch_server() -> Iterator[Callable[..., Server]]:
    """Return a factory of servers that are started without waiting for them."""
    with contextlib.ExitStack() as stack:

        def launch(*args: str, **options: Any) -> Server:
            prepared = Server(*args, **options)
            stack.callback(_end_clean, prepared)
            prepared.launch()
            return prepared

        yield launch


@pytest.fixture
def make_server(launch_server: Callable[..., Server]) -> Callable[..., Server]:
    """Return a factory of running servers with the settings of its arguments."""

    def make(*args: str, **options: Any) -> Server:
        started = launch_server(*args, **options)
        started.wait_listening()
        started.wait_complete()
        return started

    return make


@pytest.fixture
def api(server: Server) -> Api:
    """A client of the shared server."""
    return Api(server)


@pytest.fixture
def create(api: Api) -> Iterator[Callable[..., Instance]]:
    """Return a factory of instances on the shared server, closed after the test."""
    with contextlib.ExitStack() as stack:
        yield functools.partial(_create, stack, api)


@pytest.fixture
def create_toy(toy_server: Server) -> Iterator[Callable[..., Instance]]:
    """Return a factory of instances on the server with toys, closed after the test."""
    with contextlib.ExitStack() as stack:
        yield functools.partial(_create, stack, Api(toy_server))


@pytest.fixture(scope="module")
def secured_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server with toys and TLS."""
    folder = tmp_path_factory.mktemp("tls")
    with secure_server(folder, "--import", "tests.support.envs.toys") as started:
        # As for the shared one.
        Api(started).post("/v1/external/")
        yield started


@pytest.fixture(params=["handed over", "relayed"])
def create_either(
    request: pytest.FixtureRequest, toy_server: Server, relaying_server: Server
) -> Iterator[Callable[..., Instance]]:
    """Return a factory of instances on either kind of server, closed after the test."""
    handed_over = request.param == "handed over"
    with contextlib.ExitStack() as stack:
        api = Api(toy_server if handed_over else relaying_server)
        yield functools.partial(_create, stack, api)


@pytest.fixture
def create_secured(secured_server: Server) -> Iterator[Callable[..., Instance]]:
    """Return a factory of instances on a server with TLS, closed after the test."""
    with contextlib.ExitStack() as stack:
        yield functools.partial(_create, stack, Api(secured_server))


@pytest.fixture
def instance(create: Callable[..., Instance]) -> Instance:
    """A CartPole on the shared server, for one test alone."""
    return create()


@pytest.fixture(scope="session")
def driver() -> Callable[[str], Program]:
    """Return a function that builds a client's driver, once, and returns it."""
    built: dict[str, Program] = {}

    def get(name: str) -> Program:
        if name not in built:
            with run_locks.exclusive(f"build-{name}"):
                built[name] = prepare(name, run_locks.folder() / name)
        return built[name]

    return get


@pytest.fixture(scope="module", autouse=True)
def nothing_listed() -> Iterator[list[Server]]:
    """Check that the servers that outlive a module run, and list no instance after it.

    The instances of one test are found by their folders, without a request. The value
    is the list of servers that ran before the module.
    """
    yield list(Server.running)
    for running in Server.running:
        if running.url:
            # Else tests of other modules would fail.
            assert running.returncode is None, f"was ended:\n{running.log()}"
            wait_until(functools.partial(_lists_nothing, running), 3.0, "no instances")


@pytest.fixture(autouse=True)
def nothing_left_behind(
    request: pytest.FixtureRequest, nothing_listed: list[Server]
) -> Iterator[None]:
    """Check that a test leaves no process, descriptor, folder or instance.

    Shared servers exist before and after the test. Fixtures of a wider scope are set up
    before this one, so a server started for a test's module is counted at the start.
    """
    live = request.node.get_closest_marker("live") is not None
    before = _Remains(live=live or Server.running != nothing_listed)
    yield
    left = _left_behind(before)
    assert not left, f"the test left behind:\n{left}"


def pytest_configure(config: pytest.Config) -> None:
    """Create the folder that the processes of this run share."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        # As a shell sets it for background processes; tests interrupt.
        signal.signal(signal.SIGINT, signal.default_int_handler)
    # Hundreds of servers and clients are started, which need not compile it anew.
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    if not _is_worker(config):
        run_locks.begin()


def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    """Run three workers on two cores: tests wait for half of their time."""
    cores = len(os.sched_getaffinity(0))
    return cores + (cores + 1) // 2


def pytest_sessionfinish() -> None:
    """End the browser that tests of pages leave to each other."""
    chromium.end_idle()


def pytest_unconfigure(config: pytest.Config) -> None:
    """Remove the folder that the processes of this run share."""
    if not _is_worker(config):
        run_locks.end()


def _is_worker(config: pytest.Config) -> bool:
    return hasattr(config, "workerinput")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(
    config: pytest.Config, items: list[pytest.Item]
) -> None:
    """Mark the tests that need a server as live, and put files in order for workers."""
    starters = {"server", "toy_server", "launch_server", "make_server"}
    starters |= {"relaying_server", "secured_server"}
    for item in items:
        if starters & set(getattr(item, "fixturenames", ())):
            item.add_marker("live")
    if _is_worker(config):
        marked = {name: _files_with(name, items) for name in ("alone", "slow")}
        # Long ones first, so that workers end together; last, those that run alone.
        items.sort(
            key=lambda i: (i.path in marked["alone"], i.path not in marked["slow"])
        )


def pytest_collection_finish() -> None:
    """Leave what was collected out of garbage collections; it stays to the end.

    Half a million objects took each a quarter of a second, and many tests start one.
    """
    gc.collect()
    gc.freeze()


def _files_with(marker: str, items: list[pytest.Item]) -> set[Path]:
    return {item.path for item in items if item.get_closest_marker(marker)}


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, bool, bool]:
    """Wait for the locks of a test before its timeout starts."""
    with run_locks.turn(alone=item.get_closest_marker("alone") is not None):
        return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Show the logs of the running servers beside a failure."""
    report = yield
    if report.failed:
        for running in Server.running:
            title = f"log of the server at {running.url or running.base}"
            report.sections.append((title, running.log()[-8000:]))
    return report


def _create(
    stack: contextlib.ExitStack,
    api: Api,
    env_id: str = "CartPole-v1",
    **options: Any,
) -> Instance:
    instance = api.create(env_id, **options)
    # A test may have closed it already; then this is answered with 400.
    stack.callback(instance.close)
    return instance


class _Remains:
    """What exists outside the tests' own memory at one moment.

    Args:
        live: Whether the test may use servers, and so start processes below others
            that stay. Else this process's children are enough, and found more quickly.
    """

    def __init__(self, *, live: bool) -> None:
        self.live = live
        self.looked = processes.now()
        self.servers = list(Server.running)
        self.processes = (
            processes.running_below(os.getpid()) if live else processes.children()
        )
        self.descriptors = processes.open_descriptors()
        up = [s for s in self.servers if s.url and s.returncode is None]
        self.folders = {s: s.instance_folders() for s in up}

    def more_than(self, before: "_Remains") -> str:
        """List the differences from an earlier moment."""
        new: list[str] = []
        new += [f"server {s.base}" for s in self.servers if s not in before.servers]
        if started := self.started_after(before):
            left = [e for e in _still_there(started) if not self._stays(e)]
            new += [processes.describe(left)] if left else []
        for fd in self.descriptors.items() - before.descriptors.items():
            new.append(f"descriptor {fd[0]} on {fd[1]}")
        for running, now in self.folders.items():
            more = now - before.folders.get(running, set())
            new += [f"folder {path}" for path in more]
        return "\n".join(new)

    def started_after(self, before: "_Remains") -> set[processes.Seen]:
        """Return the processes that started after an earlier moment."""
        more = self.processes - before.processes
        # Others had been overlooked. Both times are rounded.
        return {each for each in more if each.started >= before.looked - 1}

    def _stays(self, process: psutil.Process) -> bool:
        """Return whether a process is part of a running server, and ends with it.

        Or of the browser for the next test of a page.
        """
        servers = {running.pid for running in self.folders}
        with contextlib.suppress(psutil.Error, ProcessLookupError):
            if os.getsid(process.pid) in chromium.idle():
                return True
            above = {each.pid for each in process.parents()}
            return bool(above & servers) and processes.belongs_to_server(process)
        return True


def _left_behind(before: _Remains) -> str:
    """Return what still exists after a grace time, or nothing."""

    def more() -> str:
        return _Remains(live=before.live).more_than(before)

    left = more()
    if left:
        with contextlib.suppress(AssertionError):
            wait_until(lambda: not more(), 3.0)
        left = more()
        _clean_up(before)
    return left


def _clean_up(before: _Remains) -> None:
    # One test's leak must not become the next test's failure.
    for running, known_folders in before.folders.items():
        for folder in running.instance_folders() - known_folders:
            Instance(Api(running), folder.name).close()
    left = _Remains(live=before.live).started_after(before)
    for running in Server.running:
        left -= processes.running_below(running.pid)
    for each in set(left):
        left |= processes.running_below(each.pid)
    processes.kill(_still_there(left))


def _lists_nothing(running: Server) -> bool:
    return not Api(running).instances()


def _still_there(seen: Iterable[processes.Seen]) -> list[psutil.Process]:
    return [process for each in seen if (process := each.found())]


def _end_clean(running: Server) -> None:
    left = running.end()
    assert not left, f"left behind by the server:\n{left}"
