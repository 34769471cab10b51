"""The command line: ``gym-http-server serve``, ``bench``, ``validate`` and more."""

from __future__ import annotations

import dataclasses
import importlib.metadata
import importlib.util
import logging
import os
import shlex
import shutil
import sys
import tempfile
import urllib.parse
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

import gym_http_server
from gym_http_server.access import tokens
from gym_http_server.access.identities import MAX_INSTANCES, line_of
from gym_http_server.commands.client_commands import COMMANDS, Duration, Url
from gym_http_server.commands.export_commands import export
from gym_http_server.commands.launcher import Launcher
from gym_http_server.commands.listeners import (
    address,
    open_listener,
    open_listeners,
)
from gym_http_server.commands.ray_command import ray
from gym_http_server.commands.reload import request_reload
from gym_http_server.commands.run_commands import runs
from gym_http_server.config.certificates import check_paths, read_certificate
from gym_http_server.config.setting_type import Setting
from gym_http_server.config.settings import GROUPS, TABLE, Settings, from_mapping
from gym_http_server.errors import StartError
from gym_http_server.external.provider import PATH as PROVIDER
from gym_http_server.fleet.joining import prepare
from gym_http_server.linux import machine, sandbox
from gym_http_server.processes import log_lines
from gym_http_server.processes.titles import extend_title, set_title
from gym_http_server.rundir.directory import RunDir
from gym_http_server.services.gateway import check_installed

__all__ = ["main"]

BENCH = "gym_http_client.bench"
JITTER = "gym_http_client.jitter"
TRIAL = "gym_http_client.myrtle"

log = logging.getLogger("gym_http_server.launcher")


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(gym_http_server.__version__, prog_name="gym-http-server")
def main() -> None:
    """Serve Gymnasium environments over HTTP."""


for _command in (*COMMANDS, runs, export, ray):
    main.add_command(_command)


def _options(command: Callable[..., None]) -> Callable[..., None]:
    for setting in reversed(TABLE):
        command = _option(setting)(command)
    return command


def _option(setting: Setting) -> Callable[..., Any]:
    names = [name for name in (setting.flag, setting.short) if name]
    kinds: dict[str, Any] = {"metavar": setting.metavar}
    if setting.kind is bool:
        kinds = {"is_flag": True}
    elif setting.kind is tuple:
        kinds["multiple"] = True
    return click.option(*names, setting.field, default=None, help=setting.help, **kinds)


class _Serve(click.Command):
    """Shows the common settings by topic, with their defaults."""

    def format_options(
        self, ctx: click.Context, formatter: click.HelpFormatter
    ) -> None:
        """Write them."""
        for group in GROUPS:
            if group.common:
                with formatter.section(group.title):
                    formatter.write_dl([_row(setting) for setting in group.common])
        formatter.write_paragraph()
        formatter.write_text(
            "'gym-http-server settings' shows all settings. Each is a flag and a "
            "variable: --max-instances 8 is GHS_MAX_INSTANCES=8. Sizes take K, M or G "
            "(512M), times ms, s, m or h (10s)."
        )


def _row(setting: Setting) -> tuple[str, str]:
    flags = ", ".join(name for name in (setting.short, setting.flag) if name)
    text = setting.help
    if setting.kind is not bool and setting.default not in ("", ()):
        text += f" [default: {setting.show(setting.default)}]"
    if setting.kind is tuple:
        text += " May be repeated."
    return f"{flags} {setting.metavar}".strip(), text


@main.command(cls=_Serve)
@_options
def serve(**flags: Any) -> None:
    """Run the server until Ctrl-C or SIGTERM."""
    _open_standard_streams()
    try:
        _check_working_directory()
        given = from_mapping(os.environ, flags)
        log_lines.configure(given)
        # The command line may have a token in it.
        set_title("launcher")
        settings = sandbox.resolve_sandbox(tokens.resolve_tokens(given))
        settings = dataclasses.replace(settings, data_dir=_data_dir(settings))
        settings = dataclasses.replace(settings, relay_dir=_relay_dir(settings))
        _warn_of_missing_commands(settings)
        workers = settings.workers or machine.chosen_workers()
        settings = dataclasses.replace(settings, workers=workers)
        status = _serve(settings, given)
    except StartError as error:
        click.echo(f"gym-http-server: {error}", err=True)
        sys.exit(1)
    sys.exit(status)


def _warn_of_missing_commands(settings: Settings) -> None:
    for command in settings.env_commands.values():
        program = command.words[0]
        if shutil.which(program) is None:
            log.warning(
                "external/%s cannot be made: there is no program %r that can be "
                "executed; install it, or change --env-command or --env-python",
                command.name,
                program,
            )


def _serve(settings: Settings, given: Settings) -> int:
    show_token = given.token == tokens.AUTO
    if settings.zmq:
        check_installed()
    settings = check_paths(settings)
    certificate = read_certificate(settings)
    with (
        open_listeners(settings) as listeners,
        open_listener(settings.external_place, "--external-tcp") as external,
        open_listener(settings.zmq_place, "--zmq") as zmq,
        RunDir.make(settings.run_dir) as run,
    ):
        scheme = "https" if settings.certfile else "http"
        token = node_url = ""
        if settings.fleet:
            own = address(listeners[0], scheme)
            settings, token, node_url = prepare(settings, own)
        launcher = Launcher(
            settings,
            run,
            listeners,
            external=external,
            zmq=zmq,
            given=given,
            certificate=certificate,
            fleet_token=token,
            node_url=node_url,
        )
        try:
            envs = _start(launcher)
            urls = [address(listener, scheme) for listener in listeners]
            extend_title(urls[0])
            _print_start(urls, settings, envs, show_token=show_token)
            if external is not None:
                place = address(external).replace("http:", "tcp:")
                _print(f"External environments connect at {place}")
            if zmq is not None:
                place = address(zmq).replace("http:", "tcp:")
                _print(f"Environments and agents connect by ZeroMQ at {place}")
            sandbox.warn_of_root(settings)
            _log_room(settings, run)
        except BaseException:
            launcher.kill()
            raise
        return launcher.wait()


def _log_room(settings: Settings, run: RunDir) -> None:
    """Log for how many instances there is room, and each limit that is too low."""
    least, *others = machine.rooms(run.path)
    if least.instances >= settings.max_instances:
        log.info("room for about %d instances: %s", least.instances, least.limit)
        return
    for each in (least, *others):
        if each.instances < settings.max_instances:
            log.warning(
                "--max-instances is %d, but there is room for about %d: %s; %s",
                settings.max_instances,
                each.instances,
                each.limit,
                each.remedy,
            )


def _start(launcher: Launcher) -> int:
    try:
        return launcher.start()
    except OSError as error:
        raise StartError(f"cannot start the server's processes: {error}") from None


def _print(line: str = "") -> None:
    try:
        click.echo(line)
    except OSError as error:
        # Python would write the rest of the buffer, and fail again, at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        raise StartError(
            f"cannot write to the standard output: {error.strerror}"
        ) from None


def _open_standard_streams() -> None:
    """Open descriptors 0, 1 and 2 if they are closed, or sockets would get them."""
    while (descriptor := os.open(os.devnull, os.O_RDWR)) <= 2:
        os.set_inheritable(descriptor, True)
    os.close(descriptor)


def _check_working_directory() -> None:
    try:
        os.getcwd()
    except OSError as error:
        raise StartError(
            f"the working directory cannot be used: {error.strerror}; start the "
            "server in another one"
        ) from None


def _print_start(
    urls: list[str], settings: Settings, envs: int, *, show_token: bool
) -> None:
    gymnasium = importlib.metadata.version("gymnasium")
    version = gym_http_server.__version__
    _print(f"gym_http_server {version}, Gymnasium {gymnasium}, {envs} environments")
    for url in urls:
        _print(f"Listening on {url}")
    _print()
    url = urls[0]
    if settings.token and show_token:
        _print(f"The token is {settings.token}")
        if not settings.no_tcp:
            shown = url.replace("://", f"://:{settings.token}@")
            _print(f"With the token: {shown}/v1/")
            if not settings.no_dashboard:
                fragment = urllib.parse.quote(settings.token, safe="")
                _print(f"Dashboard: {url}/#token={fragment}")
        _print()
    elif not (settings.guarded or settings.no_tcp or settings.no_dashboard):
        _print(f"In a browser:  {url}/")
    curl = "curl -H 'Authorization: Bearer TOKEN'" if settings.guarded else "curl"
    if settings.no_tcp:
        path = os.path.abspath(settings.unix)
        curl, url = f"{curl} --unix-socket {shlex.quote(path)}", "http://localhost"
    _print(
        f'Try:  {curl} -d \'{{"env_id": "CartPole-v1"}}\' {url}/v1/envs/\n'
        "Ctrl-C stops the server."
    )


def _data_dir(settings: Settings) -> str:
    if settings.data_dir:
        path = Path(settings.data_dir).absolute()
        _check_writable(path, "data directory", "--data-dir")
        return str(path)
    base = Path(os.environ.get("XDG_DATA_HOME", ""))
    # The specification of this variable has relative paths ignored.
    if not base.is_absolute():
        # Without a home directory this is "~".
        home = os.path.expanduser("~") if os.environ.get("HOME") != "" else ""
        base = Path(home, ".local", "share")
    if not base.is_absolute():
        raise StartError(
            "there is no home directory below which monitors could write: choose a "
            "directory with --data-dir, or set HOME to an absolute path"
        )
    return str(base / "gym_http_server")


def _relay_dir(settings: Settings) -> str:
    if not settings.relay_dir:
        return f"{settings.data_dir}/relay"
    path = Path(settings.relay_dir).absolute()
    _check_writable(path, "relay directory", "--relay-dir")
    return str(path)


def _check_writable(path: Path, name: str, flag: str) -> None:
    """Check that the server can write below a directory, or can make it first.

    Args:
        path: The directory.
        name: Its name in messages.
        flag: The flag that chooses it.

    Raises:
        StartError: It cannot.
    """
    there = path
    while not os.path.lexists(there):
        there = there.parent
    if not there.is_dir():
        raise StartError(
            f"cannot use the {name} {path}: {there} is no directory; choose another "
            f"one with {flag}"
        )
    try:
        # Some file systems, such as /proc, refuse in spite of the permissions.
        os.rmdir(tempfile.mkdtemp(prefix=".gym-http-", dir=there))
    except OSError as error:
        raise StartError(
            f"cannot use the {name} {path}: {there} is not writable "
            f"({error.strerror}); choose another one with {flag}"
        ) from None


@main.command()
@click.option(
    "--run-dir",
    metavar="TEXT",
    envvar="GHS_RUN_DIR",
    default="",
    help="As of serve; or the run directory itself, if several servers run. "
    "[GHS_RUN_DIR]",
)
@click.option(
    "--log-level",
    metavar="TEXT",
    envvar="GHS_LOG_LEVEL",
    default="",
    help="Level that the server logs from now on, if not the one that it was started "
    "with. [GHS_LOG_LEVEL]",
)
def reload(run_dir: str, log_level: str) -> None:
    """Have a server here read tokens and certificate anew.

    Instances, streams and connections go on, except those of removed tokens. If there
    is a mistake in a file, nothing changes, and the exit status is 1.
    """
    try:
        click.echo(request_reload(run_dir, log_level))
    except StartError as error:
        click.echo(f"gym-http-server: {error}", err=True)
        sys.exit(1)


@main.command()
def settings() -> None:
    """Print all settings: flag, variable, default and meaning."""
    for group in GROUPS:
        click.secho(f"\n{group.title}", bold=True)
        for setting in (*group.common, *group.advanced):
            (flags, _), default = _row(setting), setting.show(setting.default)
            click.echo(f"  {flags}  [{setting.variable}, default {default or 'none'}]")
            click.echo(click.wrap_text(setting.help, 78, "      ", "      "))


@main.command()
def provider() -> None:
    """Print the path of gym_serve_stdio.py, for another Python.

    It provides environments of that Python to serve --env-command. Copy it into an
    image: cp $(gym-http-server provider) .
    """
    click.echo(PROVIDER)


@main.command()
@click.argument("name")
@click.option(
    "--scopes",
    default="read,step,create",
    show_default=True,
    metavar="TEXT",
    help="Scopes of the token: read, step, create, external:NAME, external:*, runs, "
    "admin, with commas between.",
)
@click.option(
    "--max-instances",
    type=click.IntRange(1, MAX_INSTANCES),
    metavar="N",
    help="Instances that the token may own at a time; by default any number.",
)
def token(name: str, scopes: str, max_instances: int | None) -> None:
    """Make a token for NAME, for a file of tokens (serve --tokens).

    The line for the file goes to standard output, and the token, which is shown this
    once, to standard error: gym-http-server token alice >> tokens
    """
    made = tokens.new_token()
    try:
        line = line_of(name, made, scopes, max_instances)
    except StartError as error:
        click.echo(f"gym-http-server: {error}", err=True)
        sys.exit(1)
    click.echo(line)
    click.echo(f"The token of {name} is {made}", err=True)


def _of_the_client(metavar: str) -> Callable[[Callable[..., None]], click.Command]:
    """Return a decorator for a command whose arguments a module of the client reads."""

    def decorate(command: Callable[..., None]) -> click.Command:
        arguments = click.argument(
            "arguments", nargs=-1, type=click.UNPROCESSED, metavar=metavar
        )
        return main.command(
            context_settings={"ignore_unknown_options": True},
            add_help_option=False,
            options_metavar="",
        )(arguments(command))

    return decorate


def _run_module(module: str, arguments: tuple[str, ...]) -> None:
    """Run a module of the Python client in place of this command."""
    # By name, since server and client never import each other.
    if importlib.util.find_spec(module.partition(".")[0]) is None:
        click.echo(
            "gym-http-server: this command is a part of the Python client: "
            "pip install gymnasium-http-client",
            err=True,
        )
        sys.exit(1)
    os.execv(sys.executable, [sys.executable, "-P", "-m", module, *arguments])


@_of_the_client("URL [OPTIONS]")
def bench(arguments: tuple[str, ...]) -> None:
    """Measure the speed of a server; see 'bench --help'."""
    _run_module(BENCH, arguments)


@_of_the_client("AGENT WORLD [OPTIONS]")
def trial(arguments: tuple[str, ...]) -> None:
    """Run an agent in a world that does not wait; see 'trial --help'."""
    _run_module(TRIAL, arguments)


@_of_the_client("[OPTIONS]")
def jitter(arguments: tuple[str, ...]) -> None:
    """Measure how exact clocks are here; see 'jitter --help'."""
    _run_module(JITTER, arguments)


@main.command()
@click.argument("url", type=Url())
@click.option(
    "--only",
    multiple=True,
    metavar="NAME",
    help="Check this group alone, or the checks of these IDs, as 'errors.*'; "
    "may be repeated.",
)
@click.option(
    "--env",
    "env_id",
    default="",
    metavar="ID",
    help="Environment for the checks that work with any; CartPole-v1 by default.",
)
@click.option(
    "--json",
    "as_json",
    is_flag=True,
    help="Print the report as JSON, and the progress on stderr.",
)
@click.option(
    "--token",
    default="",
    metavar="TEXT",
    help="The server's token; others on this machine may see it here. [GHS_TOKEN]",
)
@click.option(
    "--token-file",
    default="",
    metavar="TEXT",
    help="File whose first line is the token. [GHS_TOKEN_FILE]",
)
@click.option(
    "--timeout",
    default="60s",
    show_default=True,
    type=Duration(0.1, 3600),
    metavar="TIME",
    help="Timeout of each request, as 10s or 5m.",
)
@click.option(
    "--behind-proxy",
    is_flag=True,
    help="Leave out requests that a proxy before the server refuses itself.",
)
def validate(
    url: str,
    only: tuple[str, ...],
    env_id: str,
    as_json: bool,
    token: str,
    token_file: str,
    timeout: float,
    behind_proxy: bool,
) -> None:
    """Check that the server at URL behaves as this API defines.

    It closes all instances that it creates. The exit status is 0 if all checks passed,
    1 if one failed, and 2 if none could run. A feature that the server lacks, and does
    not claim to have, is reported as absent and does not fail.
    """
    # Only here, since no server needs it.
    from gym_http_server.validation import run
    from gym_http_server.validation.calls import Address

    try:
        shown = tokens.to_show(token, token_file, os.environ)
        address = Address.parse(url, shown)
        status = run.validate(
            address,
            only=only,
            env_id=env_id,
            as_json=as_json,
            timeout_s=timeout,
            behind_proxy=behind_proxy,
        )
    except StartError as error:
        click.echo(f"gym-http-server: {error}", err=True)
        sys.exit(2)
    except KeyboardInterrupt:
        sys.exit(130)
    sys.exit(status)
