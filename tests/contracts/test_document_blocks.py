"""Code blocks of the documents run, and print the output shown.

- ``console`` is a session in bash. A line that begins with ``$`` is run, and the lines
  after it are its output. ``…`` stands for anything. Line breaks, and blanks after
  them, do not count. An instance ID stands for the one that the server returned there,
  and for the same one in the rest of the document.
- ``python`` is a program. If it begins with a file's name in a comment, it is saved as
  that module, and the server of the document imports it.
- ``lua``, ``js`` and ``cpp`` are programs with the clients of this project. One in Lua
  or C++ that begins with a file's name in a comment is saved and compiled, but not run.
- ``bash`` begins with a file's name in a comment, and is saved as that script.
- ``log`` is in the server's log by then, line after line, maybe with others between.
- ``sh`` starts things and is not run; the server's command lines in it are parsed.
- ``<!-- server: … -->`` has the flags of the server for the blocks after it.
  ``/opt/old/bin/python`` there is the Python of the tests, ``/opt/games`` the folder of
  saved programs.

In documents the server is at 127.0.0.1:5000, and its ZeroMQ socket at 127.0.0.1:5556.
Tests replace both by the server's own addresses.
"""

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.support import cpp_programs
from tests.support.api import Api, Instance
from tests.support.documents import (
    ADDRESS,
    ANYTHING,
    ASSIGNMENT,
    INSTANCE_ID,
    NAMES,
    PROGRAM,
    SCRIPT,
    TOOLS,
    ZMQ_ADDRESS,
    blocks,
    flat,
    steps,
)
from tests.support.drivers import CLIENTS, needs
from tests.support.server import ROOT, Server
from tests.support.wait import wait_until

MakeServer = Callable[..., Server]
#: Documents that use a server without flags, and show nothing of its past.
SHARING = {"README.md", "clients/python/README.md"} | {
    f"docs/{name}.md"
    for name in (
        *("migration", "openenv", "python", "realtime", "relay-clients"),
        *("seats", "streams", "upgrade"),
    )
}
LUA_PATH = f"{CLIENTS}/lua/?.lua;{CLIENTS}/lua/?/init.lua;;"


@dataclass
class Reader:
    """Executes a document as a reader would."""

    folder: Path
    ids: dict[str, str] = field(default_factory=dict)
    variables: list[str] = field(default_factory=list)

    def session(self, text: str, server: Server) -> None:
        """Run a session and compare the output of its commands."""
        for command, expected in steps(text):
            command = self._here(command, server)
            assigned = ASSIGNMENT.fullmatch(command)
            if assigned:
                command += f'; printf %s "${assigned[1]}"'
            script = "\n".join([*self.variables, command])
            printed = self._run(["bash", "-c", script])
            if assigned:
                self.variables.append(f"{assigned[1]}={shlex.quote(printed)}")
            else:
                self._compare(expected, printed, command)

    def lua(self, text: str, server: Server) -> None:
        """Run a Lua program, or save one that has a name."""
        named = PROGRAM.match(text)
        path = self.folder / f"{named[1] if named else 'program'}.lua"
        path.write_text(self._here(text, server))
        if not named:
            self._run(["lua5.4", path.name])

    def js(self, text: str, server: Server) -> None:
        """Run a JavaScript program, with the client where npm would have put it."""
        modules = self.folder / "node_modules"
        modules.mkdir(exist_ok=True)
        if not (modules / "gym-http-client").exists():
            (modules / "gym-http-client").symlink_to(CLIENTS / "js")
        (self.folder / "program.mjs").write_text(self._here(text, server))
        self._run(["node", "program.mjs"])

    def cpp(self, text: str, server: Server) -> None:
        """Compile a C++ program and run it; one that has a name is not run."""
        named = PROGRAM.match(text)
        program = named[1] if named else "program"
        source = self.folder / f"{program}.cpp"
        source.write_text(self._here(text, server))
        cpp_programs.build(source, self.folder / program)
        if not named:
            self._run([f"./{program}"])

    def script(self, text: str, server: Server) -> None:
        """Save a script, for sessions to run."""
        match = SCRIPT.match(text)
        assert match, f"a script without a name:\n{text}"
        (self.folder / match[1]).write_text(self._here(text, server))

    def program(self, text: str, server: Server) -> None:
        """Run a Python program."""
        self._run([sys.executable, "-c", self._here(text, server)])

    def log(self, text: str, server: Server) -> None:
        """Wait for lines in the server's log."""
        lines = [self._pattern(line) for line in text.splitlines()]
        pattern = re.compile(".*".join(lines), re.DOTALL)
        wait_until(lambda: pattern.search(server.stderr), message=pattern.pattern)

    def _here(self, text: str, server: Server) -> str:
        text = text.replace(ADDRESS, server.url.removeprefix("http://"))
        zmq = re.search(r"by ZeroMQ at tcp://(\S+)", server.stdout)
        if zmq:
            text = text.replace(ZMQ_ADDRESS, zmq[1])
        return INSTANCE_ID.sub(lambda found: self.ids.get(found[0], found[0]), text)

    def _run(self, command: list[str], timeout: float = 30) -> str:
        variables = {k: v for k, v in os.environ.items() if not k.startswith("GHS_")}
        paths = [str(ROOT), str(ROOT / "clients" / "python")]
        variables["PYTHONPATH"] = os.pathsep.join(paths)
        # With the command of this environment, whether that is active or not.
        scripts = os.path.dirname(sys.executable)
        variables["PATH"] = os.pathsep.join([scripts, variables["PATH"]])
        variables["LUA_PATH"] = LUA_PATH
        done = subprocess.run(
            command,
            cwd=self.folder,
            env=variables,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
        )
        assert done.returncode == 0, f"{command[-1]}\n{done.stderr}"
        return done.stdout

    def _compare(self, expected: str, printed: str, command: str) -> None:
        match = re.fullmatch(self._pattern(flat(expected)), flat(printed), re.DOTALL)
        assert match, f"{command}\nis to print\n{expected}\nand prints\n{printed}"
        named = match.groupdict().items()
        self.ids |= {name.removeprefix("id_"): value for name, value in named}

    def _pattern(self, text: str) -> str:
        new: set[str] = set()

        def here(found: re.Match[str]) -> str:
            name = found[0]
            if name in self.ids:
                return self.ids[name]
            if name in new:
                return f"(?P=id_{name})"
            new.add(name)
            return f"(?P<id_{name}>[0-9a-f]{{8}})"

        escaped = re.escape(text).replace(ANYTHING, ".*?")
        return INSTANCE_ID.sub(here, escaped)


@pytest.fixture(scope="module")
def shared() -> Iterator[Server]:
    """The server of several documents, one after the other."""
    with Server(env={"LUA_PATH": LUA_PATH}) as started:
        yield started


# Compilers are slow.
@pytest.mark.timeout(300)
@pytest.mark.parametrize("name", NAMES)
def test_blocks_do_what_they_say(
    name: str, make_server: MakeServer, shared: Server, tmp_path: Path
) -> None:
    kinds = ("bash", "console", "log", "python", *TOOLS)
    runnable = [block for block in blocks(name) if block.kind in kinds]
    modules = [block.module for block in runnable if block.module]
    for block in runnable:
        if block.module:
            (tmp_path / f"{block.module}.py").write_text(block.text)
    imports = [word for module in modules for word in ("--import", module)]
    reader = Reader(tmp_path)
    servers = {"": shared} if name in SHARING else {}
    for block in runnable:
        if block.module:
            continue
        if block.kind == "console":
            needs("curl", *(["jq"] if "jq " in block.text else []))
        if block.flags not in servers:
            flags = block.flags.replace("/opt/old/bin/python", sys.executable)
            flags = flags.replace("/opt/games", str(tmp_path))
            servers[block.flags] = make_server(
                *imports,
                *shlex.split(flags),
                python_path=(tmp_path,),
                env={"LUA_PATH": LUA_PATH},
            )
        needs(*TOOLS.get(block.kind, ()))
        run = {"console": reader.session, "log": reader.log, "python": reader.program}
        run |= {"bash": reader.script, "lua": reader.lua, "js": reader.js}
        run |= {"cpp": reader.cpp}
        run[block.kind](block.text, servers[block.flags])
    for each in Api(shared).instances():
        Instance(Api(shared), each).close()


def test_there_are_blocks_of_each_kind() -> None:
    kinds = {block.kind for name in NAMES for block in blocks(name)}
    assert {"console", "python", "log", "sh", "yaml"} <= kinds
