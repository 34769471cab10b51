"""The driver of the Python client: the same command line as those of all clients.

    driver.py conformance VECTORS_DIR [URL] [--only FILE]
    driver.py show VECTORS_DIR
    driver.py agree URL ENV_ID SEED rest|stream ACTIONS_FILE
    driver.py probe URL rest|stream [TIMEOUT_S]
    driver.py create URL ENV_ID WAIT_S [TIMEOUT_S]
    driver.py bench URL rest|stream SECONDS
    driver.py converse VECTORS_DIR

What each prints stands in the README of the vectors.
"""

import json
import struct
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from gym_http_client import RemoteEnv, Retries, Server
from gym_http_client.errors import ServerError, ServerUnreachable, UnexpectedAnswer
from gym_http_wire.elements import reader
from gym_http_wire.values import binary, typed
from tests.clients.python.checking import checks_of
from tests.clients.python.scripted_env import can_converse, serve_conversation
from tests.conformance.making.models import raw_of

KINDS = {
    "values.json",
    "numbers.json",
    "spaces.json",
    "elements.json",
    "frames.json",
    "signatures.json",
    "malformed.json",
    "errors.json",
    "websocket.json",
    "bundles.json",
    "transcripts.json",
}


def conformance(folder: str, *args: str) -> int:
    """Run the vectors; print a line for each failure, and how many there were."""
    only = args[args.index("--only") + 1] if "--only" in args else None
    rest = [arg for arg in args if arg not in ("--only", only)]
    passed = failed = 0
    for name in sorted(KINDS) if only is None else [only]:
        path = Path(folder, name)
        if not path.exists():
            print(f"there is no {path}", file=sys.stderr)
            return 2
        for case in json.loads(path.read_text(encoding="utf-8"))["cases"]:
            for problem in checks_of(name, case, rest[0] if rest else None):
                passed += problem is None
                failed += problem is not None
                if problem is not None:
                    print(f"FAIL {name} {case['id']}: {problem}")
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


def show(folder: str) -> int:
    """Print the Python value of each value of the vectors."""
    cases = json.loads(Path(folder, "values.json").read_text(encoding="utf-8"))
    for case in cases["cases"]:
        if case["binary"] is None:
            value = typed.decode(case["typed"].encode())
        else:
            value = binary.decode(bytes.fromhex(case["binary"]))
        kind = type(value)
        module = kind.__module__.partition(".")[0]
        name = kind.__name__ if module == "builtins" else f"{module}.{kind.__name__}"
        print(f"{case['id']}\t{name}")
    return 0


def agree(url: str, env_id: str, seed: str, transport: str, path: str) -> int:
    """Play the actions of a file, and print the bits of all results."""
    with_streams = Server(url, streams=transport == "stream")
    if env_id.startswith("@"):
        env = RemoteEnv.attach(with_streams, env_id[1:])
    else:
        env = RemoteEnv(with_streams, env_id)
    print("reset", in_hex(env.reset(seed=int(seed))[0]))
    with open(path, encoding="utf-8") as lines:
        for line in lines:
            # Some environments change it in a reset.
            action = reader(env.action_space)(json.loads(line))
            observation, reward, terminated, truncated, _ = env.step(action)
            flags = f"{bool(terminated):d} {bool(truncated):d}"
            print(in_hex(observation), struct.pack("<d", reward).hex(), flags)
            if terminated or truncated:
                print("reset", in_hex(env.reset()[0]))
    # The transport of the steps is known only now.
    used = env.transport
    env.close()
    if used != transport:
        print(f"steps went over {used}", file=sys.stderr)
    return 0


def in_hex(value: Any) -> str:
    """Write an observation as all drivers do."""
    return ",".join(_bits(value))


def _bits(value: Any) -> Iterator[str]:
    match value:
        case dict():
            for item in value.values():
                yield from _bits(item)
        case list() | tuple():
            for item in value:
                yield from _bits(item)
        case np.ndarray():
            yield value.astype(value.dtype.newbyteorder("<")).tobytes().hex()
        case float() | np.floating():
            yield struct.pack("<d", value).hex()
        case _:
            yield raw_of({"dtype": "<i8", "items": [str(int(value))]}).hex()


def probe(url: str, transport: str, limit: str = "60") -> int:
    """Take two steps, and print the error, if any."""
    seconds = float(limit)
    try:
        server = Server(
            url,
            streams=transport == "stream",
            time_limit=seconds,
            retries=Retries(total=seconds),
        )
        env = RemoteEnv(server, "CartPole-v1")
        try:
            env.reset(seed=1)
            env.step(np.int64(0))
            env.step(np.int64(0))
        finally:
            env.close()
    except Exception as error:
        print(error_line(error))
    else:
        print("ok")
    return 0


def create(url: str, env_id: str, wait_s: str, limit: str = "60") -> int:
    """Create an instance of an external environment, and print the error, if any."""
    seconds = float(limit)
    retries = Retries(total=seconds)
    try:
        server = Server(url, time_limit=seconds, retries=retries)
        RemoteEnv(server, env_id, wait_s=float(wait_s)).close()
    except Exception as error:
        print(error_line(error))
    else:
        print("ok")
    return 0


def error_line(error: BaseException) -> str:
    """Return the line that all drivers print for an error."""
    found: BaseException | None = error
    while found is not None and not isinstance(found, ServerError):
        found = found.__cause__
    if found is None:
        raise error
    fields = {
        "kind": kind_of(found),
        "status": found.status_code or "-",
        "code": found.code or "-",
        "url": found.url or "-",
        "message": json.dumps(found.message),
    }
    return "error " + " ".join(f"{name}={value}" for name, value in fields.items())


def kind_of(error: ServerError) -> str:
    """Return the kind of an error."""
    if isinstance(error, ServerUnreachable):
        return "transport"
    return "protocol" if isinstance(error, UnexpectedAnswer) else "api"


def bench(url: str, transport: str, seconds: str) -> int:
    """Print steps a second."""
    env = RemoteEnv(Server(url, streams=transport == "stream"), "CartPole-v1")
    actions = (np.int64(0), np.int64(1))
    env.reset(seed=1)
    count, began = 0, time.perf_counter()
    paused = 0.0
    while time.perf_counter() - began - paused < float(seconds):
        _, _, terminated, truncated, _ = env.step(actions[count % 2])
        count += 1
        if terminated or truncated:
            since = time.perf_counter()
            env.reset()
            paused += time.perf_counter() - since
    print(f"{count / (time.perf_counter() - began - paused):.1f}")
    env.close()
    return 0


def converse(folder: str) -> int:
    """Print the messages of a provided environment in each conversation."""
    content = json.loads(Path(folder, "external.json").read_text(encoding="utf-8"))
    for case in content["cases"]:
        if can_converse(case):
            serve_conversation(
                case, lambda message, name=case["id"]: print(f"{name}\t{message}")
            )
    return 0


COMMANDS = {
    "conformance": conformance,
    "show": show,
    "agree": agree,
    "probe": probe,
    "create": create,
    "bench": bench,
    "converse": converse,
}


if __name__ == "__main__":
    if len(sys.argv) < 2 or sys.argv[1] not in COMMANDS:
        sys.exit(__doc__)
    sys.exit(COMMANDS[sys.argv[1]](*sys.argv[2:]))
