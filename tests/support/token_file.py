"""A file of tokens for a server, and clients that each send one of them."""

import hashlib
from pathlib import Path

from tests.support.api import Api
from tests.support.server import Server

#: By name: scopes and max_instances of the tokens of the tests.
TOKENS = {
    "root": "admin",
    "ada": "read,step,create,external:game",
    "bob": "read,step,create,external:* 2",
    "reader": "read",
    "stepper": "step",
    "maker": "create",
    "arcade": "external:arcade",
    "runner": "runs",
}


def token_of(name: str) -> str:
    """Return the token of a name."""
    return f"{name}-canary-0e5d9c1b77a3"


def line(name: str, rest: str) -> str:
    """Return the line of a token."""
    return f"{name} {hashlib.sha256(token_of(name).encode()).hexdigest()} {rest}\n"


def write_file(folder: Path) -> str:
    """Write a file of all these tokens, and return its path."""
    path = folder / "tokens"
    lines = [line(name, rest) for name, rest in TOKENS.items()]
    path.write_text("# name sha256 scopes max_instances\n\n" + "".join(lines))
    path.chmod(0o644)
    return str(path)


def api_of(server: Server, name: str, **headers: str) -> Api:
    """Return a client that sends the token of a name."""
    return Api(server, {"Authorization": f"Bearer {token_of(name)}", **headers})
