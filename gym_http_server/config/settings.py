"""The settings: one table that generates flags, variables, help and documents.

Each field of `Settings` is a setting: ``step_deadline`` is the flag
``--step-deadline`` and the environment variable ``GHS_STEP_DEADLINE``. A flag
overrides a variable, and a variable the default. Times are seconds, sizes bytes, and
both may have a unit. The deadlines are shorter than the default timeout of clients,
60 s, so that clients receive the reason.
"""

from __future__ import annotations

import dataclasses
import difflib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import msgspec

from gym_http_server.config.env_commands import EnvCommand, read_commands
from gym_http_server.config.setting_type import (
    PREFIX,
    Setting,
    declare,
    read_declaration,
)
from gym_http_server.errors import SettingError

__all__ = ["GROUPS", "TABLE", "Settings", "from_mapping", "is_local"]

MIB = 1024 * 1024
LOOPBACK = ("127.0.0.1", "localhost", "::1")
_LOOPBACK_ADDRESS = re.compile(r"127(?:\.[0-9]{1,3}){3}").fullmatch
_LAST_PORT = 65535
#: A class of characters in a pattern, as fnmatch reads it.
_CLASS = re.compile(r"\[!?+\]?+[^\]]*\]")


@dataclass(frozen=True, kw_only=True, repr=False)
class Settings:
    """The settings of a server; see `TABLE` for flags, variables and help."""

    port: int = declare(
        5000,
        "Port to listen on; 0 chooses a free one.",
        short="-p",
        least=0,
        most=65535,
    )
    listen: str = declare("127.0.0.1", "Address to listen on.", short="-l")
    unix: str = declare("", "Path of a Unix socket to listen on, too.")
    unix_mode: str = declare(
        "600", "Permissions of the Unix socket, in octal as for chmod."
    )
    no_tcp: bool = declare(False, "Listen on the Unix socket alone.")
    certfile: str = declare(
        "", "File with the certificate for TLS, followed by its chain, in PEM."
    )
    keyfile: str = declare(
        "", "File with the key of the certificate, in PEM, without a password."
    )
    workers: int = declare(
        0,
        "Web worker processes; any of them serves any instance. 'auto': one a core, "
        "from 2 to 8.",
        least=1,
        most=64,
        word="auto",
    )
    token: str = declare(
        "",
        "Token that callers must show, 16 characters or more; "
        "'auto' makes one and prints it.",
        secret=True,
    )
    token_file: str = declare("", "File whose first line is the token.")
    tokens: str = declare(
        "",
        "File of several tokens; a line has name, SHA-256, scopes and optionally "
        "max_instances.",
    )
    no_token: bool = declare(
        False, "Serve beyond loopback without a token: every caller can run code."
    )
    allow_origin: tuple[str, ...] = declare(
        (), "Origin of web pages that may use the server, as https://example.org."
    )
    allow_host: tuple[str, ...] = declare(
        (), "Host name by which callers may reach a server without a token."
    )
    import_: tuple[str, ...] = declare(
        (),
        "Module to import at start for the environments that it registers: its name, "
        "or the path of a file, as my_envs.py.",
    )
    allow_env: tuple[str, ...] = declare(
        (), "Pattern of env IDs that may be made, as 'CartPole-*'; all, if none given."
    )
    allow_module: tuple[str, ...] = declare(
        (), "Module that an env ID may name before a colon, as 'my_envs'."
    )
    max_instances: int = declare(64, "Instances at a time.", least=1, most=100_000)
    max_num_envs: int = declare(
        1024, "Environments that one instance may have.", least=1, most=1_000_000
    )
    max_vector_processes: int = declare(
        64,
        "Processes over which the environments of one instance may be spread.",
        least=1,
        most=10_000,
    )
    create_deadline: float = declare(
        50.0,
        "Time that making an environment may take.",
        least=0.1,
        unit="s",
    )
    step_deadline: float = declare(
        50.0,
        "Time that any call of an environment may take.",
        least=0.1,
        unit="s",
    )
    idle_timeout: float = declare(
        900.0,
        "Time without a call after which an instance is ended; 0: never.",
        least=0,
        unit="s",
    )
    orphan_timeout: float = declare(
        150.0,
        "Time after which an instance whose clients were killed, or lost their "
        "network, is ended if a create finds no free slot; 0: never.",
        least=0,
        unit="s",
    )
    max_body: int = declare(
        8 * MIB,
        "Size of a request's body, at most.",
        least=1024,
        unit="bytes",
    )
    max_answer: int = declare(
        64 * MIB, "Size of an answer, at most.", least=1024, unit="bytes"
    )
    answer_budget: int = declare(
        256 * MIB,
        "Size of the large answers that a web worker holds for clients that read "
        "slowly, at most.",
        least=1024,
        unit="bytes",
    )
    max_waiting: int = declare(
        64,
        "Requests that may wait for one instance, besides the one being executed.",
        least=0,
        most=10_000,
    )
    host_memory: int = declare(
        2048 * MIB,
        "Memory that an instance may use, shared pages in proportion; 0: any.",
        least=0,
        unit="bytes",
    )
    host_file_size: int = declare(
        1024 * MIB,
        "Size of a file that an environment writes, at most; 0: any.",
        least=0,
        unit="bytes",
    )
    request_deadline: float = declare(
        8.0,
        "Time from a request's first byte to its last, and a second for each 64 KiB of "
        "it.",
        least=0.1,
        unit="s",
    )
    strict_actions: bool = declare(
        False, "Refuse actions that the action space does not contain."
    )
    no_tracebacks: bool = declare(
        False,
        "Send clients neither tracebacks and last output of environments, which the "
        "server's log has, nor logs of instances.",
    )
    spin_us: int = declare(
        1000,
        "Microseconds that a host looks for a stream's next request before it sleeps, "
        "while there are idle cores; 0 is never.",
        least=0,
        most=10_000,
    )
    max_hz: float = declare(
        1000.0,
        "Highest rate of the clock of an instance, in time steps a second.",
        least=0.1,
        most=100_000,
    )
    realtime_priority: int = declare(
        0,
        "Real-time priority (SCHED_FIFO) of hosts whose instance has a clock; 0 is "
        "none.",
        least=0,
        most=99,
    )
    watch_share: float = declare(
        0.1,
        "Part of a host's time that drawing may take, for watchers of others' steps.",
        least=0.01,
        most=1.0,
    )
    stream_relay: bool = declare(
        False,
        "Have web workers relay streams, where sockets cannot be handed to hosts.",
    )
    max_external: int = declare(
        256,
        "Connections of external environments at a time.",
        least=1,
        most=100_000,
    )
    max_observation: int = declare(
        64 * MIB,
        "Size of an element of an external environment's spaces, at most.",
        least=1024,
        unit="bytes",
    )
    env_command: tuple[str, ...] = declare(
        (),
        "External environment that is a command, as 'old=venv/bin/python serve.py': "
        "each instance starts it, and uses its standard input and output. In the "
        "variable, one a line.",
        separator="\n",
    )
    env_python: tuple[str, ...] = declare(
        (),
        "Python whose environments of gym or Gymnasium are external/NAME/ID, as "
        "'old=venv/bin/python'; or external/NAME is what a function of it makes, as "
        "'old=venv/bin/python:my_envs:make'. In the variable, one a line.",
        separator="\n",
    )
    external_tcp: str = declare(
        "",
        "Address for external environments by plain TCP, as [HOST:]PORT; beyond "
        "loopback only with a token.",
    )
    zmq: str = declare(
        "",
        "Address for external environments and agents by ZeroMQ, as "
        "tcp://HOST:PORT; beyond loopback only with a token.",
    )
    tango_name: str = declare(
        "tango",
        "Name of the external environment that Tango's agents step, and of its pages "
        "without a name in their address.",
    )
    tango_observation_space: str = declare(
        "",
        "Observation space of Tango's pages without one in their address, as JSON.",
    )
    tango_action_space: str = declare(
        "",
        "Action space of Tango's pages without one in their address, as JSON.",
    )
    external_deadline: float = declare(
        30.0,
        "Time in which an external environment has to answer; cut to four fifths "
        "of --step-deadline.",
        least=0.05,
        unit="s",
    )
    external_grace: float = declare(
        30.0,
        "Time in which an external environment that was lost may reconnect.",
        least=0,
        unit="s",
    )
    external_heartbeat: float = declare(
        10.0,
        "Time of silence after which an external environment is pinged; after "
        "twice as long its connection is closed.",
        least=0.1,
        unit="s",
    )
    data_dir: str = declare(
        "",
        "Directory below which monitors write, and that keeps ended instances, at most "
        "64 MiB; the user's data directory if unset.",
    )
    recordings_disk: int = declare(
        10 * 1024 * MIB,
        "Size of all recordings of steps and videos below the data directory; a part "
        "of one may exceed it.",
        least=MIB,
        unit="bytes",
    )
    relay_dir: str = declare(
        "",
        "Directory of the training relay; relay in the data directory if unset.",
    )
    relay_disk: int = declare(
        10 * 1024 * MIB,
        "Size of the training relay's files, at most.",
        least=64 * MIB,
        unit="bytes",
    )
    max_upload: int = declare(
        256 * MIB,
        "Size of a body of samples, weights or a checkpoint, at most.",
        least=1024,
        most=4095 * MIB,
        unit="bytes",
    )
    fleet: str = declare(
        "",
        "Store of the fleet that this server joins, as redis://:PASSWORD@HOST:6379/0; "
        "others on this machine may see a password here, not in the variable.",
        secret=True,
    )
    fleet_token_file: str = declare(
        "", "File whose first line is the token that all nodes of the fleet share."
    )
    fleet_plain: bool = declare(
        False,
        "Let nodes of the fleet call each other by plain HTTP over networks.",
    )
    fleet_ca: str = declare(
        "",
        "File with the certificates by which nodes of the fleet verify each other, "
        "in PEM; the system's if unset.",
    )
    node_url: str = declare(
        "",
        "URL at which other nodes of the fleet reach this one; by default that of "
        "its address on loopback.",
    )
    node_name: str = declare(
        "",
        "Name of this node in the fleet; its host name and port if unset.",
    )
    run_dir: str = declare(
        "",
        "Directory in which the run directory is made; the temporary one if unset. Its "
        "parent has to exist.",
    )
    sandbox: str = declare(
        "auto",
        "Restrict the files that environments read and write, by Landlock: on, off or "
        "auto, which is on if the server listens beyond loopback.",
        choices=("auto", "on", "off"),
    )
    writable: tuple[str, ...] = declare(
        (), "File or directory that environments in the sandbox may write to."
    )
    network: str = declare(
        "host",
        "Network of environments: host (the server's) or none (a separate loopback "
        "interface for each).",
        choices=("host", "none"),
    )
    host_user: str = declare(
        "", "User that environments run as, if the server runs as root."
    )
    no_dashboard: bool = declare(
        False, "Serve no pages for people: /, /dashboard/, /docs/."
    )
    log_level: str = declare(
        "info",
        "Least level of the lines in the log: debug, info, warning or error.",
        choices=("debug", "info", "warning", "error"),
    )
    log_format: str = declare(
        "text",
        "Form of the lines in the log: text or json, an object for each.",
        choices=("text", "json"),
    )
    access_log: bool = declare(
        False, "Log each HTTP request and stream; every answer has its request ID."
    )
    enable_shutdown: bool = declare(False, "Let POST /v1/shutdown/ stop the server.")
    drain_delay: float = declare(
        0.0,
        "Time to go on serving after SIGTERM, with readiness at 503.",
        least=0,
        unit="s",
    )
    drain_until_idle: float = declare(
        0.0,
        "Time after SIGTERM for which instances are served until they are closed; "
        "there are no new ones.",
        least=0,
        unit="s",
    )
    drain_timeout: float = declare(
        6.0,
        "Time that calls in flight get to end after SIGTERM.",
        least=0,
        unit="s",
    )

    def to_json(self) -> bytes:
        """Write all settings, the token included, for a child process."""
        return msgspec.json.encode(dataclasses.asdict(self))

    def without_token(self) -> Settings:
        """Return the settings for processes that run the code of environments."""
        # The store's URL may contain its password.
        return dataclasses.replace(self, token="", tokens="", fleet="")

    @property
    def guarded(self) -> bool:
        """Whether callers have to show a token."""
        return bool(self.token or self.tokens)

    @property
    def external_place(self) -> tuple[str, int] | None:
        """Host and port for external environments by plain TCP; ``None`` if unset.

        Raises:
            SettingError: The setting is malformed.
        """
        if not self.external_tcp:
            return None
        host, _, port = self.external_tcp.rpartition(":")
        if not port.isascii() or not port.isdigit() or int(port) > _LAST_PORT:
            raise SettingError(
                f"--external-tcp is {self.external_tcp!r}: expected a port, or "
                "HOST:PORT, as 5005 or 0.0.0.0:5005"
            )
        return host.strip("[]") or "127.0.0.1", int(port)

    @property
    def external_loopback(self) -> bool:
        """Whether only environments of this machine can connect by plain TCP."""
        place = self.external_place
        return place is None or is_local(place[0])

    @property
    def env_commands(self) -> Mapping[str, EnvCommand]:
        """The external environments that are commands, by name.

        Raises:
            SettingError: A setting is malformed.
        """
        return read_commands(tuple(self.env_command), tuple(self.env_python))

    @property
    def zmq_place(self) -> tuple[str, int] | None:
        """Host and port for peers by ZeroMQ; ``None`` if unset.

        Raises:
            SettingError: The setting is malformed.
        """
        if not self.zmq:
            return None
        host, _, port = self.zmq.removeprefix("tcp://").rpartition(":")
        good = port.isascii() and port.isdigit() and int(port) <= _LAST_PORT
        if not self.zmq.startswith("tcp://") or not host or not good:
            raise SettingError(
                f"--zmq is {self.zmq!r}: expected tcp://HOST:PORT, as "
                "tcp://127.0.0.1:5556"
            )
        return ("0.0.0.0" if host == "*" else host.strip("[]")), int(port)  # noqa: S104

    @property
    def zmq_loopback(self) -> bool:
        """Whether only peers of this machine can connect by ZeroMQ."""
        place = self.zmq_place
        return place is None or is_local(place[0])

    @property
    def loopback(self) -> bool:
        """Whether only this machine can reach the server."""
        return is_local(self.listen) or self.no_tcp


def is_local(host: str) -> bool:
    """Whether a host is this machine, by its name or address."""
    return host in LOOPBACK or _LOOPBACK_ADDRESS(host) is not None


TABLE: tuple[Setting, ...] = tuple(map(read_declaration, dataclasses.fields(Settings)))


#: The settings by topic. `serve --help` shows those before the ``None``, and
#: `gym-http-server settings` shows all.
_TOPICS: dict[str, tuple[str | None, ...]] = {
    "Address": ("port", "listen", "unix", None, "unix_mode", "no_tcp", "workers"),
    "Access": (
        *("token", "token_file", "tokens", "allow_origin", "certfile", "keyfile"),
        *(None, "allow_host", "no_token", "enable_shutdown"),
    ),
    "Environments": (
        *("import_", "allow_env", "max_instances", "host_memory", "step_deadline"),
        *("idle_timeout", None, "orphan_timeout", "allow_module", "max_num_envs"),
        *("max_vector_processes", "create_deadline", "host_file_size"),
        *("strict_actions", "no_tracebacks", "spin_us", "max_hz"),
        *("realtime_priority", "watch_share"),
    ),
    "External environments": (
        *("env_command", "env_python", "external_tcp", "zmq", None, "max_external"),
        *("max_observation", "external_deadline", "external_grace"),
        *("external_heartbeat", "tango_name", "tango_observation_space"),
        "tango_action_space",
    ),
    "Sandbox": ("sandbox", "host_user", None, "writable", "network"),
    "Directories": ("data_dir", "recordings_disk", None, "run_dir"),
    "Training relay": (None, "relay_dir", "relay_disk", "max_upload"),
    "Fleet": (
        *(None, "fleet", "fleet_token_file", "node_url", "node_name", "fleet_ca"),
        "fleet_plain",
    ),
    "Log": ("log_level", "access_log", None, "log_format"),
    "HTTP": (
        *(None, "max_body", "max_answer", "answer_budget", "max_waiting"),
        *("request_deadline", "stream_relay"),
        *("drain_delay", "drain_until_idle", "drain_timeout"),
        "no_dashboard",
    ),
}


class SettingsGroup(NamedTuple):
    """Settings of one topic.

    Attributes:
        title: The topic.
        common: Those that `serve --help` shows.
        advanced: The others.
    """

    title: str
    common: tuple[Setting, ...]
    advanced: tuple[Setting, ...]


def _groups() -> tuple[SettingsGroup, ...]:
    rows = {setting.field: setting for setting in TABLE}
    groups = []
    for title, fields in _TOPICS.items():
        at = fields.index(None)
        common, advanced = fields[:at], fields[at + 1 :]
        groups.append(
            SettingsGroup(
                title,
                tuple(rows.pop(str(field)) for field in common),
                tuple(rows.pop(str(field)) for field in advanced),
            )
        )
    return (
        (*groups, SettingsGroup("Others", (), tuple(rows.values())))
        if rows
        else (*groups,)
    )


GROUPS: tuple[SettingsGroup, ...] = _groups()


def from_mapping(environ: Mapping[str, str], flags: Mapping[str, Any]) -> Settings:
    """Combine flags, environment variables and defaults.

    Args:
        environ: Environment variables; those without the prefix are ignored.
        flags: Field names with the values of the command line: a string, a tuple of
            strings, or a bool. Absent or ``None``: not given.

    Raises:
        SettingError: A variable is unknown, or a value is invalid.
    """
    by_variable = {setting.variable: setting for setting in TABLE}
    for variable in environ:
        if variable.startswith(PREFIX) and variable not in by_variable:
            names = [setting.name.upper() for setting in TABLE]
            near = difflib.get_close_matches(variable.removeprefix(PREFIX), names, 1)
            raise SettingError(
                f"{variable} is not a setting"
                + (f" (did you mean {PREFIX}{near[0]}?)" if near else "")
                + "; 'gym-http-server settings' lists all"
            )
    values: dict[str, Any] = {}
    for setting in TABLE:
        given = flags.get(setting.field)
        if setting.kind is tuple:
            given = given or None
        if given is not None:
            if isinstance(given, str):
                given = setting.parse(given, setting.flag)
            values[setting.field] = given
        elif setting.variable in environ:
            values[setting.field] = setting.parse(
                environ[setting.variable], setting.variable
            )
    for setting in TABLE:
        _check_text(setting, values.get(setting.field))
    _check_patterns(values.get("allow_env", ()))
    settings = Settings(**values)
    # Raises the error of a malformed one now.
    settings.env_commands  # noqa: B018
    return settings


def _check_patterns(patterns: tuple[str, ...]) -> None:
    for pattern in patterns:
        rest = _CLASS.sub("", pattern)
        if "[" in rest or any(character.isspace() for character in pattern):
            raise SettingError(
                f"--allow-env is {pattern!r}: expected a pattern of env IDs, as "
                "'CartPole-*' or 'ALE/*-v[45]', with a ] for each [ and without blanks"
            )


def _check_text(setting: Setting, value: Any) -> None:
    texts = value if isinstance(value, tuple) else (value,)
    for text in texts:
        if isinstance(text, str) and not _is_unicode(text):
            shown = "what was given" if setting.secret else repr(text)
            raise SettingError(f"{setting.flag} is {shown}: expected UTF-8")


def _is_unicode(text: str) -> bool:
    # Python decodes bytes that are not UTF-8 as halves of characters (surrogates).
    return not any("\ud800" <= character <= "\udfff" for character in text)
