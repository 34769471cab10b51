"""The command ``ray``: keeps the servers of a fleet running on the machines of Ray.

Ray starts and watches servers. It is in no step, and no environment is an actor. It is
imported late, since not everybody has it.
"""

from __future__ import annotations

import contextlib
import dataclasses
import importlib
import os
import queue
import signal
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any, NamedTuple, cast

import click

from gym_http_server.access.tokens import AUTO
from gym_http_server.config.setting_type import PREFIX
from gym_http_server.config.settings import TABLE, Settings, from_mapping
from gym_http_server.errors import StartError

__all__ = ["Keeper", "Order", "ServerEvent", "order_of", "ray"]

#: Settings that name files. This command reads them, and sends their texts to the
#: servers, which keep them in memory.
FILES = ("fleet_token_file", "tokens", "token_file")
#: Time until a server that did not listen is started again.
PAUSE_SECONDS = 5.0
#: Time for Ray to start an actor, before a line says that it has not.
PATIENCE_SECONDS = 60.0
#: Lines of a server that are shown when it has ended.
SHOWN_LINES = 3
# The command "serve", which drains when its actor is killed.
_SERVE = """
import signal, sys
from gym_http_server.commands.cli import main
from gym_http_server.linux import prctl
prctl.die_with_parent(int(sys.argv[1]), signal.SIGTERM)
main(["serve", "--port", sys.argv[2]], prog_name="gym-http-server")
"""


@click.command()
@click.option(
    "--nodes",
    required=True,
    type=click.IntRange(1, 4096),
    metavar="N",
    help="Servers to run, spread over the machines of the cluster.",
)
@click.option(
    "--cpus",
    default=1.0,
    show_default=True,
    type=click.FloatRange(0.0),
    metavar="N",
    help="Cores that Ray reserves for each server.",
)
@click.option(
    "--address",
    default="",
    metavar="TEXT",
    help="The cluster; by default RAY_ADDRESS, that of this machine, or a new one.",
)
@click.argument("options", nargs=-1, type=click.UNPROCESSED, metavar="-- OPTIONS")
@click.pass_context
def ray(
    ctx: click.Context,
    nodes: int,
    cpus: float,
    address: str,
    options: tuple[str, ...],
) -> None:
    """Run N servers of a fleet on a Ray cluster until Ctrl-C.

    SIGTERM ends it, too. OPTIONS are those of serve, from --fleet and
    --fleet-token-file on. Each server listens on its machine's address and a free port,
    has a data directory, and is started again if it ends. At the end all are drained. A
    second Ctrl-C ends them at once.
    """
    group = cast(click.Group, ctx.find_root().command)
    given = group.commands["serve"].make_context("serve", list(options)).params
    try:
        order = order_of(from_mapping(os.environ, given))
        try:
            library = importlib.import_module("ray")
        except ImportError as error:
            raise StartError(
                f"this command needs Ray ({error}): pip install "
                "'gymnasium-http-server[fleet,ray]', here and on the cluster's machines"
            ) from None
        _Cluster(library, cpus, address).run(nodes, order)
    except StartError as error:
        click.echo(f"gym-http-server: {error}", err=True)
        sys.exit(1)


@dataclasses.dataclass(frozen=True, repr=False)
class Order:
    """What a server is started with. It has secrets, so it has no representation.

    Attributes:
        name: The name of the fleet's nodes, before their numbers.
        data_dir: Below it each server has its data directory; "": the usual one.
        variables: Environment variables.
        files: Texts of files, by the variable that names the file.
    """

    name: str
    data_dir: str
    variables: Mapping[str, str]
    files: Mapping[str, str]


def order_of(settings: Settings) -> Order:
    """Return what servers are started with; read the files of secrets.

    Raises:
        StartError: A setting is missing, or a file cannot be read.
    """
    for field in ("fleet", "fleet_token_file"):
        if not getattr(settings, field):
            flag = "--" + field.replace("_", "-")
            raise StartError(f"{flag} is not set: expected after --, as for serve")
    if settings.token == AUTO:
        raise StartError(
            "--token auto would make another token for each server: name a file with "
            "--token-file or --tokens"
        )
    variables, files = {}, {}
    for setting in TABLE:
        value = getattr(settings, setting.field)
        if value == setting.default:
            continue
        if setting.field not in FILES:
            variables[setting.variable] = setting.show(value)
            continue
        try:
            files[setting.variable] = Path(value).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise StartError(f"cannot read {setting.flag} {value}: {error}") from None
    name = settings.node_name or "ray"
    return Order(name, settings.data_dir, variables, files)


class ServerEvent(NamedTuple):
    """What happened to a server.

    Attributes:
        words: For the user.
        over: Whether nothing more will happen to it.
    """

    words: str
    over: bool = False


class Keeper:
    """Runs a server: starts it, watches it, and starts it again if it ends.

    An actor of Ray for each server. It knows nothing of environments.

    Args:
        address: The address of this machine; by default the one that Ray uses.
    """

    def __init__(self, address: str = "") -> None:
        if not address:
            address = importlib.import_module("ray").util.get_node_ip_address()
        self._address = address
        self._port = "0"
        self._listened = False
        self._process: subprocess.Popen[str] | None = None
        self._events: queue.SimpleQueue[ServerEvent] = queue.SimpleQueue()
        self._stopping = threading.Event()

    def start(self, order: Order, number: int) -> None:
        """Begin to run a server.

        Args:
            order: What it is started with.
            number: Its number among all of the command.
        """
        threading.Thread(target=self._keep, args=(order, number), daemon=True).start()

    def event(self) -> ServerEvent:
        """Wait for the next event, and return it."""
        return self._events.get()

    def stop(self) -> None:
        """Have the server drain and end; for the second time, end at once."""
        self._stopping.set()
        if self._process:
            self._process.terminate()

    def _keep(self, order: Order, number: int) -> None:
        files = {name: _in_memory(name, text) for name, text in order.files.items()}
        variables = self._variables(order, number)
        variables |= {name: f"/proc/self/fd/{file}" for name, file in files.items()}
        while not self._stopping.is_set():
            self._listened = False
            self._serve(variables, tuple(files.values()))
            if not self._listened:
                self._stopping.wait(PAUSE_SECONDS)
        for file in files.values():
            os.close(file)
        self._events.put(ServerEvent("stopped", over=True))

    def _variables(self, order: Order, number: int) -> dict[str, str]:
        """Return the environment of the server."""
        # Its environments have no business with the cluster.
        kept = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith((PREFIX, "RAY_"))
        }
        name = f"{order.name}-{number}"
        base = order.data_dir or Path.home() / ".local/share/gym_http_server"
        data_dir = Path(base, name)
        data_dir.mkdir(parents=True, exist_ok=True)
        return {
            **kept,
            **order.variables,
            "GHS_LISTEN": self._address,
            "GHS_NODE_NAME": name,
            "GHS_DATA_DIR": str(data_dir),
        }

    def _serve(self, variables: dict[str, str], files: tuple[int, ...]) -> None:
        """Run the server until it ends."""
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-c", _SERVE, str(os.getpid()), self._port],
            env=variables,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            pass_fds=files,
            text=True,
            errors="replace",
            # Ctrl-C in a terminal is for the command, which stops the servers.
            start_new_session=True,
        )
        if self._stopping.is_set():
            self._process.terminate()
        last: deque[str] = deque(maxlen=SHOWN_LINES)
        output = cast(IO[str], self._process.stdout)
        reader = threading.Thread(target=self._read, args=(output, last), daemon=True)
        reader.start()
        status = self._process.wait()
        # A process of an environment may keep the pipe.
        reader.join(1.0)
        if not self._stopping.is_set():
            shown = "".join(f"\n  {line}" for line in last)
            words = f"its server ended with status {status}, and is started again"
            self._events.put(ServerEvent(words + shown))

    def _read(self, output: IO[str], last: deque[str]) -> None:
        """Pass the output of a server on to Ray's log of this actor."""
        with output:
            for line in output:
                print(line, end="", flush=True)
                last.append(line.rstrip())
                if line.startswith("Listening on "):
                    url = line.split()[-1]
                    # It is there again when the server is started again.
                    self._port = url.rpartition(":")[2]
                    self._listened = True
                    self._events.put(ServerEvent(f"listening on {url}"))


def _in_memory(name: str, text: str) -> int:
    """Return the descriptor of a file that is on no disk, and ends with its users."""
    file = os.memfd_create(name)
    # Servers refuse tokens that others could change.
    os.fchmod(file, 0o600)
    os.write(file, text.encode())
    return file


class _Cluster:
    """Keeps an actor for each server.

    Args:
        library: The module ``ray``.
        cpus: Cores for each server.
        address: Of the cluster; "": as Ray finds it.
    """

    def __init__(self, library: Any, cpus: float, address: str) -> None:
        self._ray = library
        try:
            library.init(address=address or None, log_to_driver=False)
        except (ConnectionError, RuntimeError, ValueError) as error:
            raise StartError(f"cannot use the Ray cluster: {error}") from None
        # Ray has set its own handler.
        signal.signal(signal.SIGTERM, signal.default_int_handler)
        options = {"num_cpus": cpus, "scheduling_strategy": "SPREAD"}
        # One call waits for events while others stop the server.
        self._keeper = library.remote(max_concurrency=4, **options)(Keeper)
        self._actors: dict[int, Any] = {}
        # The event that is awaited of each server.
        self._awaited: dict[Any, int] = {}
        self._silent: set[int] = set()

    def run(self, nodes: int, order: Order) -> None:
        """Run servers until Ctrl-C."""
        click.echo(f"Starting {nodes} servers; Ctrl-C stops them.")
        stopping = False
        while True:
            try:
                for number in range(0 if stopping else nodes):
                    if number not in self._actors:
                        self._place(number, order)
                while self._awaited:
                    self._follow(order, stopping=stopping)
                return
            except KeyboardInterrupt:
                click.echo(
                    "ending all at once"
                    if stopping
                    else "stopping all; Ctrl-C again ends them at once"
                )
                stopping = True
                for actor in self._actors.values():
                    actor.stop.remote()

    def _place(self, number: int, order: Order) -> None:
        """Start an actor, and a server on its machine."""
        actor = self._actors[number] = self._keeper.remote()
        self._silent.add(number)
        actor.start.remote(order, number)
        self._awaited[actor.event.remote()] = number

    def _follow(self, order: Order, *, stopping: bool) -> None:
        """Wait for an event of any server, and print it."""
        done, _ = self._ray.wait(
            list(self._awaited), num_returns=1, timeout=PATIENCE_SECONDS
        )
        if not done and self._silent:
            names = ", ".join(f"{order.name}-{each}" for each in sorted(self._silent))
            click.echo(f"Ray has not started yet: {names}; is there a free core?")
        for ref in done:
            number = self._awaited.pop(ref)
            self._silent.discard(number)
            try:
                event = self._ray.get(ref)
            except self._ray.exceptions.RayActorError as error:
                self._replace(number, order, error, stopping=stopping)
                continue
            click.echo(f"{order.name}-{number}: {event.words}")
            if not event.over:
                self._awaited[self._actors[number].event.remote()] = number

    def _replace(
        self, number: int, order: Order, error: Exception, *, stopping: bool
    ) -> None:
        """Start another actor for one that ended, as with its machine."""
        reason = str(error).strip().partition("\n")[0]
        click.echo(f"{order.name}-{number}: its actor ended: {reason}")
        with contextlib.suppress(Exception):
            self._ray.kill(self._actors[number])
        if not stopping:
            self._place(number, order)
