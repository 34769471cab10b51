"""Reads the project's documents: their texts, code blocks and commands."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from tests.support.server import ROOT

NAMES = [
    "README.md",
    "ARCHITECTURE.md",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "clients/python/README.md",
    "docs/README.md",
    "docs/api.md",
    "docs/clients/curl.md",
    "docs/clients/values.md",
    "docs/clients/write-your-own.md",
    "docs/coming-from.md",
    "docs/connect.md",
    "docs/commands.md",
    "docs/deployment.md",
    "docs/external.md",
    "docs/first-agent.md",
    "docs/godot.md",
    "docs/how-do-i.md",
    "docs/install.md",
    "docs/migration.md",
    "docs/openenv.md",
    "docs/operations.md",
    "docs/other-python.md",
    "docs/python.md",
    "docs/realtime.md",
    "docs/relay-clients.md",
    "docs/relay.md",
    "docs/seats.md",
    "docs/settings.md",
    "docs/streams.md",
    "docs/tour.md",
    "docs/trials.md",
    "docs/upgrade.md",
    "docs/validate.md",
    "docs/zeromq.md",
    "examples/README.md",
]
TEXTS = {name: (ROOT / name).read_text(encoding="utf-8") for name in NAMES}
API = TEXTS["docs/api.md"]
ADDRESS = "127.0.0.1:5000"
ZMQ_ADDRESS = "127.0.0.1:5556"
ANYTHING = "…"
# The tools that programs need, besides Python.
TOOLS = {"cpp": ("clang++",), "js": ("node",), "lua": ("lua5.4",)}
# Flags in documents that are not the server's but Docker's and curl's.
FOREIGN_FLAGS = {"--entrypoint", "--env", "--format", "--init", "--memory", "--rm"}
FOREIGN_FLAGS |= {"--fail", "--fail-with-body", "--retry", "--stop-timeout"}
# Of gym-http-server validate.
FOREIGN_FLAGS |= {"--behind-proxy", "--json", "--only", "--timeout"}
# Of the commands that use a server.
FOREIGN_FLAGS |= {"--all", "--available", "--cafile", "--ended", "--follow", "--idle"}
FOREIGN_FLAGS |= {"--once", "--records", "--samples", "--tensorboard"}
# Of gym-http-server ray, and of an example.
FOREIGN_FLAGS |= {"--nodes"}
# Of gym-http-server export.
FOREIGN_FLAGS |= {"--infos", "--jpeg"}
# Of python -m gym_http_client.
FOREIGN_FLAGS |= {"--every", "--step"}
# Of gym-http-server trial.
FOREIGN_FLAGS |= {"--hz", "--episodes", "--seed", "--agent-arg", "--world-arg"}
FOREIGN_FLAGS |= {"--db", "--default-action", "--no-record", "--plot", "--url"}
# Of Godot.
FOREIGN_FLAGS |= {"--headless", "--fixed-fps"}
METHODS = {"GET", "POST", "PUT", "DELETE"}

FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
FLAGS = re.compile(r"^<!-- server: (.*) -->$", re.MULTILINE)
MODULE = re.compile(r"# (\w+)\.py\n")
PROGRAM = re.compile(r"(?:--|//) (\w+)\.(?:lua|cpp)\n")
SCRIPT = re.compile(r"# (\w+\.sh)\n")
ASSIGNMENT = re.compile(r"([A-Z_]+)=\S.*", re.DOTALL)
CODE = re.compile(r"`([^`\n]+)`")
# One letter at least: other numbers of eight digits are no IDs. The heading of a table
# comes directly before the ID in its first row, once line breaks are taken out.
INSTANCE_ID = re.compile(r"(?<![0-9a-z_])(?=[0-9]*[a-f])[0-9a-f]{8}\b")


@dataclass(frozen=True)
class Block:
    """A fenced block, and the flags of the server that its commands use."""

    kind: str
    text: str
    line: int
    flags: str

    @property
    def module(self) -> str | None:
        """The name of the module that the block contains, if it is one."""
        match = MODULE.match(self.text) if self.kind == "python" else None
        return match[1] if match else None


def blocks(name: str) -> list[Block]:
    """Return the fenced blocks of a document, in order."""
    text = TEXTS[name]
    found = []
    for match in FENCE.finditer(text):
        flags = FLAGS.findall(text[: match.start()]) or [""]
        line = text.count("\n", 0, match.start()) + 1
        found.append(Block(match[1], match[2], line, flags[-1]))
    return found


def prose(name: str) -> str:
    """Return a document without its fenced blocks."""
    return FENCE.sub("", TEXTS[name])


def commands(text: str) -> Iterator[str]:
    """Return the command lines, each with its continuation lines."""
    lines = iter(text.splitlines())
    for line in lines:
        while line.endswith("\\") or line.count("'") % 2:
            line += "\n" + next(lines)
        yield line


def steps(session: str) -> Iterator[tuple[str, str]]:
    """Return the commands of a session, each with its expected output."""
    for part in re.split(r"^\$ ", session, flags=re.MULTILINE)[1:]:
        command = next(commands(part))
        yield command, part.removeprefix(command)


def flat(text: str) -> str:
    """Remove line breaks, and the blanks after them."""
    return re.sub(r"\r?\n\s*", "", text.strip())
