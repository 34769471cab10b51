"""Commands that use a running server: ``ls``, ``close``, ``envs``, ``watch``, ``logs``.

They use the Python client, which is imported late, since it imports Gymnasium.
"""

from __future__ import annotations

import functools
import json
import math
import os
import sys
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from gym_http_server.access import tokens
from gym_http_server.commands import terminal_output
from gym_http_server.commands.terminal_output import (
    Column,
    WatchOutput,
    amount,
    duration,
    size,
)
from gym_http_server.config.units import read_duration, show_duration
from gym_http_server.errors import StartError

if TYPE_CHECKING:
    from gym_http_client import Client, Server

__all__ = [
    "COMMANDS",
    "Duration",
    "Place",
    "Url",
    "as_json_option",
    "on_recording",
    "on_server",
    "print_json",
]

#: Seconds that each wait for output of an instance takes at most.
LOG_WAIT_S = 25.0

#: Longest time from the loss of its streams until the server lists an end.
_END_SECONDS = 2.0
# These tell instances apart, so a narrow terminal leaves out others first.
_ENV = Column("ENV", least=11, middle=True)
_LABEL = Column("LABEL", least=16, weight=2, optional=True, middle=True)
_OWNER = Column("OWNER", least=8, optional=True, middle=True, leave=7)
_STEPS = Column("STEPS", right=True, leave=6)
_EPISODES = Column("EPIS", right=True, leave=5)
_INSTANCES = (
    Column("ID"),
    _ENV,
    Column("PROGRAM", least=5, optional=True, leave=3),
    _LABEL,
    _OWNER,
    Column("STATE"),
    Column("FOR", right=True),
    Column("AGE", right=True, leave=4),
    _STEPS,
    _EPISODES,
    Column("STREAMS", right=True, optional=True, leave=1),
    Column("MEM", right=True, leave=2),
)
_ENDED = (
    Column("ID"),
    _ENV,
    _LABEL,
    _OWNER,
    Column("ENDED"),
    Column("LIVED", right=True, leave=4),
    _STEPS,
    _EPISODES,
    Column("REASON", least=17),
)
_ENVS = (Column("ENV", least=20), Column("STEPS", right=True), Column("", least=8))


class Duration(click.ParamType):  # type: ignore[type-arg]
    """A time, as ``90``, ``90s``, ``10m``, ``2h`` or ``1d``; its value is in seconds.

    Args:
        least: The shortest.
        most: The longest; any if it is infinite.
    """

    name = "time"

    def __init__(self, least: float, most: float = math.inf) -> None:
        self._least = least
        self._most = most

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        """Return the seconds."""
        try:
            seconds = read_duration(str(value))
        except ValueError:
            seconds = math.nan
        if math.isfinite(seconds) and self._least <= seconds <= self._most:
            return seconds
        span = ""
        if math.isfinite(self._most):
            span = f" from {show_duration(self._least)} to {show_duration(self._most)}"
        self.fail(f"{value!r}: expected a time{span}, as 90, 90s or 10m", param, ctx)


class Url(click.ParamType):  # type: ignore[type-arg]
    """The address of a server; a command without one says what it looks like."""

    name = "url"

    def get_missing_message(
        self, param: click.Parameter, ctx: click.Context | None = None
    ) -> str:
        """Return what to write instead of nothing."""
        return "Name the server, as http://127.0.0.1:5000"


class Place:
    """The server that a command uses.

    Args:
        url: Its address.
        token: The token to send, or ``None``.

    Attributes:
        url: Its address.
        token: The token to send, or ``None``.
    """

    def __init__(self, url: str, token: str | None) -> None:
        self.url = url
        self.token = token

    def client(self) -> Client:
        """Return a client that does not retry: a command fails at once."""
        from gym_http_client import Client, Retries

        return Client(self.url, token=self.token, retries=Retries(total=0.0))

    def server(self) -> Server:
        """Return the object that opens streams."""
        from gym_http_client import Server

        return Server(self.url, token=self.token)


def on_server(command: Callable[..., None]) -> Callable[..., None]:
    """Add the argument URL to a command, and the options that reach a server."""
    return click.argument("url", type=Url())(_with_place("url", command))


def on_recording(command: Callable[..., None]) -> Callable[..., None]:
    """Add the argument SOURCE: a directory, file, or address of a recording."""
    return click.argument("source")(_with_place("source", command))


def _with_place(name: str, command: Callable[..., None]) -> Callable[..., None]:
    """Pass a `Place` to a command, made of an argument and options; report errors."""

    @functools.wraps(command)
    def run(token: str, token_file: str, cafile: str, **more: Any) -> None:
        if cafile:
            # Requests and the streams of the client read these.
            os.environ["REQUESTS_CA_BUNDLE"] = os.environ["SSL_CERT_FILE"] = cafile
        from gym_http_client import ServerError

        try:
            command(_place(more.pop(name), token, token_file), **more)
        except (ServerError, StartError, ValueError) as error:
            _complain(_explained(error))
            sys.exit(1)
        except BrokenPipeError:
            # As in `… | head`. Python would write the rest, and fail again, at exit.
            os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
            sys.exit(1)
        except KeyboardInterrupt:
            sys.exit(130)

    for option in (
        click.option(
            "--cafile",
            default="",
            metavar="FILE",
            help="Certificate to trust, for https://. [SSL_CERT_FILE]",
        ),
        click.option(
            "--token-file",
            default="",
            metavar="FILE",
            help="File whose first line is the token. [GHS_TOKEN_FILE]",
        ),
        click.option(
            "--token",
            default="",
            metavar="TEXT",
            help="The server's token; others on this machine may see it here. "
            "[GHS_TOKEN]",
        ),
    ):
        run = option(run)
    return run


def _explained(error: Exception) -> str:
    """Return the words of an error, and how to find an instance that is unknown."""
    if getattr(error, "code", "") == "unknown-instance":
        return f"{error}; gym-http-server ls lists those that there are"
    return str(error)


def _place(url: str, token: str, token_file: str) -> Place:
    from gym_http_client.http.addresses import Address

    inside = Address.parse(url).token if "://" in url else None
    shown = tokens.to_show(token, token_file, {}) or inside
    return Place(url, shown or tokens.to_show("", "", os.environ) or None)


#: Adds the option --json to a command.
as_json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON.")


@click.command()
@on_server
@click.option(
    "--ended", is_flag=True, help="List the last 100 ended instances instead."
)
@as_json_option
def ls(place: Place, ended: bool, as_json: bool) -> None:
    """List the instances of a server, and their present activity.

    FOR is the time for which an instance waits or is stuck, EPIS counts ended episodes,
    and in STREAMS, 2+1w is two streams and one that watches. A narrow terminal shows
    less; a file or pipe gets all columns, and labels in full.
    """
    with place.client() as client:
        listed = client.instances()
        url = client.remote_base
    if as_json:
        print_json(listed)
    elif ended:
        rows = [_row_of_ended(each) for each in listed["ended"]]
        click.echo(
            terminal_output.table(_ENDED, rows) if rows else "None has ended yet."
        )
    elif listed["instances"]:
        rows = [_row_of_instance(each) for each in listed["instances"]]
        click.echo(terminal_output.table(_INSTANCES, rows))
    else:
        count = len(listed["ended"])
        more = f" --ended lists the last that ended ({count})." if count else ""
        click.echo(f"There are no instances at {url}.{more}")


def _row_of_instance(each: dict[str, Any]) -> list[str]:
    watchers = f"+{each['watchers']}w" if each["watchers"] else ""
    streams = f"{each['streams']}{watchers}" if each["streams"] or watchers else ""
    of_state = {"making": "age_s", "stuck": "busy_s", "waiting": "idle_s"}
    since = each.get(of_state.get(each["state"], ""))
    return [
        each["instance_id"],
        each["env_id"],
        each.get("program") or "",
        each["label"] or "",
        each["owner"] or "",
        each["state"],
        duration(since),
        duration(each["age_s"]),
        amount(each["steps"]),
        amount(each["episodes"]),
        streams,
        size(each["memory_bytes"]),
    ]


def _row_of_ended(each: dict[str, Any]) -> list[str]:
    return [
        each["instance_id"],
        each["env_id"],
        each["label"] or "",
        each["owner"] or "",
        f"{duration(each['ended_s_ago'])} ago",
        duration(each["age_s"]),
        amount(each["steps"]),
        amount(each["episodes"]),
        _reason(each),
    ]


def _reason(ended: dict[str, Any]) -> str:
    """Return why an instance ended, in a few words."""
    if ended["detail"]:
        return f"{ended['reason']}: {ended['detail']}"
    if ended["reason"] != "crashed":
        return str(ended["reason"])
    return f"crashed ({ended['signal'] or 'exit status ' + str(ended['exit_status'])})"


@click.command()
@on_server
@click.argument("instance_ids", nargs=-1, metavar="[ID]...")
@click.option("--all", "every", is_flag=True, help="Close all instances.")
@click.option(
    "--idle",
    type=Duration(0),
    metavar="TIME",
    help="Close the instances that were idle for this long, as 90s, 10m or 2h.",
)
@as_json_option
def close(
    place: Place,
    instance_ids: tuple[str, ...],
    every: bool,
    idle: float | None,
    as_json: bool,
) -> None:
    """Close instances: by ID, or with --all or --idle.

    The exit status is 1 if one of the IDs could not be closed.
    """
    if bool(instance_ids) + every + (idle is not None) != 1:
        raise click.UsageError(
            "name the instances to close: their IDs, or --all, or --idle 10m"
        )
    with place.client() as client:
        named = list(instance_ids)
        if not named:
            named = _closable(client, 0.0 if idle is None else idle, busy=every)
        closed, failed = _close(client, named)
    if not instance_ids:
        # They ended by themselves meanwhile.
        failed = {}
    if as_json:
        print_json({"closed": closed, "failed": failed})
    else:
        for each in closed:
            click.echo(f"closed {each}")
        if not named:
            click.echo("There is nothing to close.")
    for words in failed.values() if not as_json else ():
        _complain(words)
    sys.exit(1 if failed else 0)


def _closable(client: Client, idle_s: float, *, busy: bool) -> list[str]:
    """List the instances that were idle for some seconds, and the busy ones too."""
    return [
        each["instance_id"]
        for each in client.instances()["instances"]
        if each["state"] not in ("making", "ending")
        and (busy if each["idle_s"] is None else each["idle_s"] >= idle_s)
    ]


def _close(client: Client, named: list[str]) -> tuple[list[str], dict[str, str]]:
    """Close instances; return the closed ones, and why others were not."""
    from gym_http_client import ServerError, ServerUnreachable

    closed, failed = [], {}
    for instance_id in dict.fromkeys(named):
        try:
            client.env_close(instance_id)
        except ServerUnreachable:
            raise
        except ServerError as error:
            failed[instance_id] = _explained(error)
        else:
            closed.append(instance_id)
    return closed, failed


@click.command()
@on_server
@click.argument("search", default="")
@click.option("--available", is_flag=True, help="Only those that can be made there.")
@as_json_option
def envs(place: Place, search: str, available: bool, as_json: bool) -> None:
    """List the environments that are registered on a server.

    With SEARCH, list those with this text in their ID. STEPS is the number of steps
    after which an episode is truncated. The last column has the reason if an
    environment cannot be made.
    """
    with place.client() as client:
        found = client.registry(search or None, True if available else None)
    if as_json:
        print_json(found)
        return
    if not found:
        words = f"with {search!r} in its name " if search else ""
        click.echo(f"No environment {words}is registered on the server.")
        return
    rows = [
        [
            each["env_id"],
            str(each["max_episode_steps"] or "-"),
            "" if each["available"] else f"not available: {_why_not(each)}",
        ]
        for each in sorted(found, key=lambda each: str(each["env_id"]))
    ]
    click.echo(terminal_output.table(_ENVS, rows))


def _why_not(env: dict[str, Any]) -> str:
    """Return why an environment cannot be made, with the missing module's name early.

    A narrow table cuts the end of a reason.
    """
    return str(env["reason"]).removeprefix("ModuleNotFoundError: ")


@click.command()
@on_server
@click.argument("instance_id", metavar="ID")
@as_json_option
def watch(place: Place, instance_id: str, as_json: bool) -> None:
    """Print the answers of an instance, until it ends or Ctrl-C.

    Each line is an answer of the instance. If it is faster than this command prints,
    answers are left out and counted. With --json, each line is an object.
    """
    from gym_http_client import ServerUnreachable

    try:
        with place.server().watch(instance_id, plain=as_json) as watching:
            if not as_json:
                click.echo(f"Watching {instance_id}; Ctrl-C stops.")
            writer = WatchOutput()
            for copy in watching:
                if as_json:
                    print_json(copy._asdict())
                    continue
                for line in writer.lines(copy):
                    click.echo(line)
        how = "closed"
    except ServerUnreachable:
        # The connections of an instance may end with it.
        found = _how_it_ended(place, instance_id)
        if found is None:
            raise
        how = found
    if not as_json:
        click.echo(f"{instance_id} ended: {terminal_output.printable(how)}")


def _how_it_ended(place: Place, instance_id: str) -> str | None:
    """Return why an instance ended; ``None`` if it has not, or is not known."""
    # Its connections may be lost before the server knows that its process has ended.
    deadline = time.monotonic() + _END_SECONDS
    with place.client() as client:
        while True:
            listed = client.instances()
            for each in listed["ended"]:
                if each["instance_id"] == instance_id:
                    return _reason(each)
            lives = any(e["instance_id"] == instance_id for e in listed["instances"])
            if not lives or time.monotonic() > deadline:
                return None
            time.sleep(0.05)


@click.command()
@on_server
@click.argument("instance_id", metavar="ID")
@click.option("--follow", "-f", is_flag=True, help="Continue until it ends, or Ctrl-C.")
def logs(place: Place, instance_id: str, follow: bool) -> None:
    """Print the output of an instance's environment.

    This works for running instances, and for the last 20 that ended.
    """
    start = 0
    output = sys.stdout.buffer
    with place.client() as client:
        while True:
            wait_s = LOG_WAIT_S if follow else 0.0
            part = client.env_log(instance_id, start, wait_s=wait_s)
            if part.cut:
                _complain(f"{part.cut} bytes of this log were cut here")
            output.write(part.data)
            output.flush()
            start = part.next
            if not part.data and (part.ended or not follow):
                return


def print_json(value: Any) -> None:
    """Print a value in one line of JSON."""
    click.echo(json.dumps(value, ensure_ascii=False))


def _complain(words: str) -> None:
    lines = map(terminal_output.printable, words.split("\n"))
    click.echo("gym-http-server: " + "\n".join(lines), err=True)


#: The commands, for the command line.
COMMANDS = (ls, close, envs, watch, logs)
