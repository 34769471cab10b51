"""The command that has a server read its files anew, and a file of tokens for it."""

import os
import subprocess
import sys
from pathlib import Path

from click.testing import CliRunner, Result

from gym_http_server.commands import cli
from tests.support.server import ROOT, Server
from tests.support.token_file import line

#: Scopes of an ordinary user.
USER = "read,step,create"


class Tokens:
    """A file of tokens that a test rewrites, as an editor does: by a rename."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "tokens"

    def write(self, **scopes: str) -> None:
        """Replace the file by one with these names."""
        self.write_text("".join(line(name, rest) for name, rest in scopes.items()))

    def write_text(self, text: str) -> None:
        """Replace the file by one with this text."""
        new = self.path.with_suffix(".new")
        new.write_text(text)
        new.chmod(0o644)
        new.rename(self.path)


def reload(server: Server, *args: str) -> Result:
    """Run the command against a server, in this process, which saves its start."""
    variables = dict.fromkeys(each for each in os.environ if each.startswith("GHS_"))
    env = {**variables, "GHS_RUN_DIR": str(server.run_dir)}
    done = CliRunner().invoke(cli.main, ["reload", *args], env=env)
    assert isinstance(done.exception, SystemExit | None), done.exception
    return done


def reload_apart(server: Server) -> str:
    """Run the command against a server as users do, and return its output."""
    env = {k: v for k, v in os.environ.items() if not k.startswith("GHS_")}
    env["PYTHONPATH"] = os.pathsep.join(map(str, (ROOT, ROOT / "clients/python")))
    env["GHS_RUN_DIR"] = str(server.run_dir)
    command = [sys.executable, "-m", "gym_http_server", "reload"]
    return subprocess.check_output(command, env=env, text=True, timeout=60)


def reloaded(server: Server, *args: str) -> str:
    """Run the command, which must succeed, and return its output."""
    done = reload(server, *args)
    assert done.exit_code == 0, done.output
    return done.stdout


def lines_about(server: Server, words: str) -> list[str]:
    """Return the lines of the log that have these words."""
    return [each for each in server.stderr.splitlines() if words in each]
