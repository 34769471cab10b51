"""The supervisor process: ``python -m gym_http_server.supervisor DESCRIPTOR``.

Started by the launcher. DESCRIPTOR is of a file in memory that holds a
`SupervisorStart` as JSON: no settings are in the command line, which every user can
read. When the
supervisor is ready, or has failed to start, it writes a line to the report descriptor.
"""

import os

# Before NumPy is imported: its libraries start a thread a core otherwise, and a
# process with threads is not fit to fork.
os.environ["OPENBLAS_NUM_THREADS"] = "1"
os.environ["OMP_NUM_THREADS"] = "1"

import signal
import socket
import sys

import msgspec

from gym_http_server.config import inherited_settings
from gym_http_server.config.settings import Settings
from gym_http_server.errors import StartError
from gym_http_server.host import env_versions
from gym_http_server.linux import prctl
from gym_http_server.linux.sandbox import prepare
from gym_http_server.processes import log_lines
from gym_http_server.processes.service_process import limit_waits
from gym_http_server.processes.titles import set_title
from gym_http_server.rundir.directory import RunDir
from gym_http_server.supervisor import prefork
from gym_http_server.supervisor.opengl import choose_opengl
from gym_http_server.supervisor.prefork import Modules
from gym_http_server.supervisor.supervisor import Supervisor


class SupervisorStart(msgspec.Struct):
    """The descriptors and parameters that the launcher passes to the supervisor.

    Attributes:
        launcher: Descriptor that ends when the launcher does.
        heartbeat: Descriptor to write to as long as the supervisor works.
        report: Descriptor to write the report to.
        importable: Directories to look for modules in.
        addresses: Names of the addresses on which the server listens.
        external: Descriptor of the socket on which external environments connect by
            plain TCP, or -1.
        zmq: Descriptor of the socket on which peers connect by ZeroMQ, or -1.
        settings_fd: Descriptor from which broker, gateway and member read the
            tokens.
        quotas: Instances that each token may own at a time, by its name.
        fleet: Whether the server is in a fleet.
        secrets: Files that environments in the sandbox may not read.
    """

    launcher_pid: int
    launcher: int
    heartbeat: int
    report: int
    run_path: str
    importable: tuple[str, ...]
    settings: Settings
    addresses: tuple[str, ...] = ()
    external: int = -1
    zmq: int = -1
    secrets: tuple[str, ...] = ()
    settings_fd: int = -1
    quotas: dict[str, int | None] = {}
    fleet: bool = False


def main(descriptor: int) -> int:
    """Run the supervisor until SIGTERM; return its exit status."""
    start = msgspec.json.decode(
        inherited_settings.read_and_close(descriptor), type=SupervisorStart
    )
    # Hosts inherit it, and some environments parse it.
    del sys.argv[1:]
    set_title("supervisor")
    log_lines.configure(start.settings)
    signals, waker = socket.socketpair()
    signals.setblocking(False)
    waker.setblocking(False)
    for number in (signal.SIGTERM, signal.SIGCHLD):
        signal.signal(number, lambda number, frame: None)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.set_wakeup_fd(waker.fileno())
    prctl.die_with_parent(start.launcher_pid, signal.SIGTERM)
    prctl.become_subreaper()
    prctl.set_dumpable(False)
    sys.path.extend(start.importable)
    try:
        _check_tango(start.settings)
        modules = Modules.load(_modules(start.settings))
        choose_opengl()
        sandbox = prepare(start.settings, RunDir(start.run_path), start.secrets)
    except StartError as error:
        _report(start.report, {"error": str(error)})
        return 1
    for descriptor in (start.launcher, start.heartbeat, start.settings_fd):
        # Not for the interpreters of some hosts.
        if descriptor >= 0:
            os.set_inheritable(descriptor, False)
    try:
        supervisor = Supervisor(
            RunDir(start.run_path),
            start.settings,
            modules,
            sandbox=sandbox,
            signals=signals,
            launcher=start.launcher,
            heartbeat=start.heartbeat,
            addresses=start.addresses,
            external_sockets=_sockets(start, start.external),
            zmq_sockets=_sockets(start, start.zmq),
            quotas=start.quotas,
            fleet=start.settings_fd if start.fleet else None,
        )
    except OSError as error:
        message = (
            f"cannot listen in the run directory {start.run_path}: {error.strerror}"
        )
        _report(start.report, {"error": message})
        return 1
    envs = _count(modules)
    env_versions.read_versions()
    prefork.arrange_memory()
    _report(start.report, {"envs": envs})
    limit_waits()
    supervisor.run()
    # A signal that arrives while the interpreter ends would find the socket closed.
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.set_wakeup_fd(-1)
    return 0


def _sockets(start: SupervisorStart, listener: int) -> tuple[int, int] | None:
    if listener < 0:
        return None
    # Not for the interpreters of some hosts.
    os.set_inheritable(listener, False)
    return listener, start.settings_fd


def _check_tango(settings: Settings) -> None:
    """Check the spaces of Tango's pages; the supervisor has already imported NumPy.

    Raises:
        StartError: A space is malformed.
    """
    from gym_http_wire.space_parsing import BadDescription, parse_space

    for flag, text in (
        ("--tango-observation-space", settings.tango_observation_space),
        ("--tango-action-space", settings.tango_action_space),
    ):
        try:
            if text:
                parse_space(msgspec.json.decode(text), settings.max_observation)
        except (msgspec.MsgspecError, ValueError, RecursionError, BadDescription) as e:
            raise StartError(
                f"{flag} is {text!r:.80}: expected a space as JSON, as "
                f'{{"type":"Discrete","n":4}} ({e})'
            ) from None


def _modules(settings: Settings) -> tuple[str, ...]:
    import importlib.util

    names = settings.import_
    if "ale_py" not in names and importlib.util.find_spec("ale_py") is not None:
        names = ("ale_py", *names)
    return names


def _count(modules: Modules) -> int:
    # Imported once, here, since every host needs them at its start. The environments
    # import nothing else: they cost 0.5 MiB, and save a host 8 ms.
    import gymnasium.envs.classic_control
    import gymnasium.envs.registration
    import gymnasium.envs.toy_text
    import gymnasium.wrappers

    return len(set(gymnasium.envs.registration.registry) | modules.apart_ids)


def _report(descriptor: int, report: dict[str, object]) -> None:
    os.write(descriptor, msgspec.json.encode(report) + b"\n")
    os.close(descriptor)


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1])))
