"""Provides an environment of gym or Gymnasium on standard input and output.

One file, of the standard library alone, for Python 3.6 and later and for gym from 0.21
on: copy it into a virtual environment or an image. A server of gym_http_server starts
it::

    gym-http-server serve --env-command 'old=venv/bin/python gym_serve_stdio.py'

Without arguments it makes the environment whose ID follows the name, as in
``external/old/CartPole-v1``. With ``MODULE:FACTORY`` it calls a function, which gets
the arguments of the agent. With ``--list`` it prints the IDs that it can make.
"""

import base64
import importlib
import inspect
import json
import math
import os
import platform
import select
import struct
import sys
import threading
import traceback
from typing import Any, Dict, List

MAX_EXACT = 2**53
COUNT = struct.Struct("<I")
NUMBERS = "biufc"


class Refused(Exception):
    """A request that changed nothing; its code is for programs."""

    def __init__(self, code: str, words: str) -> None:
        super().__init__(words)
        self.code = code


class Streams:
    """The server, at the other end of standard input and output.

    What is printed from now on goes to standard error. The process ends when its input
    does, also in the middle of a step.
    """

    def __init__(self) -> None:
        sys.stdout.flush()
        self._input, self._output = os.dup(0), os.dup(1)
        null = os.open(os.devnull, os.O_RDONLY)
        os.dup2(null, 0)
        os.close(null)
        os.dup2(2, 1)
        sys.stdout = sys.stderr

    def watch(self) -> None:
        """End the process when the server is gone."""

        def wait() -> None:
            poller = select.poll()
            # Without a mask, only the end of the input wakes this thread.
            poller.register(self._input, 0)
            poller.poll()
            os._exit(0)

        threading.Thread(target=wait, daemon=True).start()

    def send(self, message: Any) -> None:
        """Send a message, in JSON."""
        payload = json.dumps(message, separators=(",", ":"), allow_nan=False).encode()
        self.write(COUNT.pack(len(payload)) + payload)

    def write(self, data: bytes) -> None:
        """Write bytes."""
        rest = memoryview(data)
        while rest:
            rest = rest[os.write(self._output, rest) :]

    def receive(self) -> Any:
        """Wait for a message and return it."""
        (size,) = COUNT.unpack(self._read(COUNT.size))
        return json.loads(self._read(size).decode())

    def _read(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            more = os.read(self._input, size - len(data))
            if not more:
                os._exit(0)
            data += more
        return data


# Values, as typed JSON.


def write_value(value: Any, lenient: bool = False) -> Any:
    """Return a value as a tree of JSON.

    Args:
        value: The value.
        lenient: Whether a value that cannot be sent is replaced by its `repr`.
    """
    kind = type(value)
    if value is None or kind is bool or kind is str:
        return value
    if kind is float:
        return value if math.isfinite(value) else tagged("float", str(value))
    if kind is int:
        return value if abs(value) <= MAX_EXACT else tagged("int", str(value))
    if kind is list:
        return [write_value(each, lenient) for each in value]
    if isinstance(value, dict):
        keys = all(type(key) is str and key != "$t" for key in value)
        items = [(key, write_value(each, lenient)) for key, each in value.items()]
        if keys:
            return dict(items)
        return tagged("dict", [[write_value(key), each] for key, each in items])
    if isinstance(value, tuple):
        return tagged("tuple", [write_value(each, lenient) for each in value])
    if isinstance(value, (bytes, bytearray)):
        return tagged("bytes", text_of(bytes(value)))
    dtype = getattr(value, "dtype", None)  # type: Any
    if getattr(dtype, "kind", "") in tuple(NUMBERS):
        tree = {"$t": "ns", "d": dtype.str, "v": text_of(value.tobytes())}
        if isinstance(value, numpy().ndarray):
            tree.update({"$t": "nd", "s": list(value.shape)})
        return tree
    plain = [each for each in (int, float, str, list) if isinstance(value, each)]
    for each in plain:  # type: Any
        return write_value(each(value), lenient)
    if lenient:
        return tagged("unsent", [repr(value)[:200], kind.__name__])
    raise TypeError("a %s cannot be sent: %.200r" % (kind.__name__, value))


def read_value(tree: Any) -> Any:
    """Return the value of a tree of JSON."""
    if isinstance(tree, list):
        return [read_value(each) for each in tree]
    if not isinstance(tree, dict):
        return tree
    if "$t" not in tree:
        return {key: read_value(each) for key, each in tree.items()}
    kind, value = tree["$t"], tree.get("v")  # type: Any, Any
    if kind in ("nd", "ns"):
        flat = numpy().frombuffer(base64.b64decode(value), tree["d"])
        return flat[0] if kind == "ns" else flat.reshape(tree["s"]).copy()
    if kind == "int":
        return int(value)
    if kind == "float":
        if value in ("nan", "inf", "-inf"):
            return float(value)
        return struct.unpack(">d", bytes.fromhex(value))[0]
    if kind == "complex":
        return complex(*map(read_value, value))
    if kind == "bytes":
        return base64.b64decode(value)
    if kind == "str":
        return base64.b64decode(value).decode("utf-8", "surrogatepass")
    if kind == "tuple":
        return tuple(map(read_value, value))
    if kind == "dict":
        return {read_value(key): read_value(each) for key, each in value}
    raise Refused("bad-parameter", "an argument of the kind %r is not known" % kind)


def tagged(kind: str, value: Any) -> Dict[str, Any]:
    """Return the tree of a value that JSON does not have."""
    return {"$t": kind, "v": value}


def text_of(data: bytes) -> str:
    """Return bytes in base64."""
    return base64.b64encode(data).decode()


def numpy() -> Any:
    """Return NumPy, which gym and Gymnasium have imported."""
    return sys.modules["numpy"]


# Spaces, of gym or of Gymnasium.


def kind_of(space: Any) -> str:
    """Return the name of the class of gym or Gymnasium that a space has."""
    for each in type(space).__mro__:
        if each.__module__.split(".")[0] in ("gym", "gymnasium"):
            return each.__name__
    return ""


def describe_space(space: Any) -> Dict[str, Any]:
    """Return the description of a space."""
    kind = kind_of(space)
    if kind == "Box":
        return {
            "type": kind,
            "dtype": space.dtype.name,
            "shape": list(space.shape),
            "low": numbers(space.low),
            "high": numbers(space.high),
        }
    if kind == "Discrete":
        start = int(getattr(space, "start", 0))
        return {"type": kind, "n": int(space.n), "start": start, "dtype": "int64"}
    if kind == "MultiBinary":
        shape = list(space.shape)
        return {"type": kind, "n": shape[0] if len(shape) == 1 else shape}
    if kind == "MultiDiscrete":
        nvec = numpy().asarray(space.nvec)
        return {
            "type": kind,
            "dtype": space.dtype.name,
            "shape": list(nvec.shape),
            "nvec": numbers(nvec),
            "start": numbers(numpy().asarray(getattr(space, "start", 0))),
        }
    if kind == "Dict":
        names = list(space.spaces)
        spaces = [[name, describe_space(space.spaces[name])] for name in names]
        return {"type": kind, "spaces": spaces, "sort_keys": names == sorted(names)}
    if kind == "Tuple":
        return {"type": kind, "spaces": list(map(describe_space, space.spaces))}
    if kind == "Text":
        return {
            "type": kind,
            "min_length": space.min_length,
            "max_length": space.max_length,
            "charset": "".join(sorted(space.character_set)),
        }
    name = "%s:%s" % (type(space).__module__, type(space).__qualname__)
    return {"type": "Opaque", "class": name, "repr": str(space)[:200], "base": None}


def numbers(array: Any) -> Any:
    """Return an array as a flat list, or as one number if all are equal."""
    flat = array.ravel().tolist()
    shown = [number(each) for each in flat[:1] if array.min() == array.max()]
    return shown[0] if shown else [number(each) for each in flat]


def number(value: Any) -> Any:
    """Return a number as descriptions have it."""
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return str(value) if isinstance(value, int) and abs(value) > MAX_EXACT else value


def cast(space: Any, value: Any, received: bool) -> Any:
    """Return a value as an element of a space, if it is near to one.

    Args:
        space: The space.
        value: The value.
        received: Whether an agent sent it: then an array has the dtype that the agent
            chose, and is left alone.
    """
    kind = kind_of(space)
    if kind == "Dict" and isinstance(value, dict):
        return {
            key: cast(space.spaces[key], each, received)
            if key in space.spaces
            else each
            for key, each in value.items()
        }
    if kind == "Tuple" and isinstance(value, (tuple, list)):
        pairs = zip(space.spaces, value)
        whole = len(value) == len(space.spaces)
        return tuple(cast(*pair, received) for pair in pairs) if whole else value
    plain = not received or isinstance(value, (list, int, float))
    if plain and kind in ("Box", "MultiBinary", "MultiDiscrete"):
        return numpy().asarray(value, dtype=space.dtype)
    if kind == "Discrete" and not received:
        return numpy().int64(value)
    return value


# The environment.


class Provided:
    """An environment, and the requests that it answers.

    Args:
        make: Makes an environment from the arguments of an agent.
    """

    def __init__(self, make: Any) -> None:
        self._make = make
        self._env = make()
        self._old = is_old(library_of(type(self._env)))
        self._fresh = True
        self._mode = None
        self._calls = {
            "init": self._init,
            "reset": self._reset,
            "step": self._step,
            "render": self._render,
            "close": self._close,
        }  # type: Dict[str, Any]

    def hello(self) -> Dict[str, Any]:
        """Return the hello."""
        env = self._env
        metadata = dict(getattr(env, "metadata", None) or {})
        given = metadata.pop("render_modes", None) or metadata.get("render.modes") or []
        modes = [mode for mode in given if isinstance(mode, str) and mode != "human"]
        capabilities = ["pause", "reset", "seed"]
        capabilities += ["render"] if modes else []
        capabilities += ["options"] if self._takes("options") else []
        plain = (bool, int, float, str)
        return {
            "type": "hello",
            "protocol": 1,
            "name": os.environ.get("GYM_EXTERNAL_NAME") or "env",
            "dialect": "typed",
            "program": program(library_of(type(env))),
            "observation_space": describe_space(env.observation_space),
            "action_space": describe_space(env.action_space),
            "capabilities": capabilities,
            "render_modes": modes,
            "metadata": {k: v for k, v in metadata.items() if isinstance(v, plain)},
        }

    def answer(self, message: Dict[str, Any]) -> Dict[str, Any]:
        """Execute a request and return its answer."""
        kind, number = message["type"], message["id"]
        try:
            if kind not in self._calls:
                raise Refused("unsupported", "there is no %s here" % kind)
            given = {key: read_value(each) for key, each in message.items()}
            return {"id": number, "result": self._calls[kind](given)}
        except Refused as refused:
            error = {"code": refused.code, "message": str(refused)}  # type: Dict[str, Any]
        except Exception as failure:
            traceback.print_exc()
            classes = [each for each in type(failure).__mro__ if each is not object]
            name = type(failure).__name__
            extras = {
                "error_type": name,
                "mro": ["%s.%s" % (e.__module__, e.__qualname__) for e in classes],
                "text": str(failure),
                "traceback": traceback.format_exc(),
            }
            words = "%s failed: %s: %s" % (kind, name, failure)
            error = {"code": "env-error", "message": words, "extras": extras}
        return {"id": number, "error": error}

    def _takes(self, name: str) -> bool:
        """Whether the environment's reset has a parameter."""
        unwrapped = getattr(self._env, "unwrapped", self._env)
        given = inspect.signature(unwrapped.reset).parameters
        kinds = [each.kind for each in given.values()]
        # Old environments ignore what they do not know.
        passes = inspect.Parameter.VAR_KEYWORD in kinds and not self._old
        return name in given or passes

    def _init(self, given: Dict[str, Any]) -> Dict[str, Any]:
        kwargs = dict(given.get("kwargs") or {})
        self._mode = given.get("render_mode")
        if self._mode is not None and not self._old:
            kwargs["render_mode"] = self._mode
        if kwargs or not self._fresh:
            self._env.close()
            self._env = self._make(**kwargs)
        self._fresh = False
        return {
            "observation_space": describe_space(self._env.observation_space),
            "action_space": describe_space(self._env.action_space),
        }

    def _reset(self, given: Dict[str, Any]) -> Dict[str, Any]:
        seed, options = given.get("seed"), given.get("options")
        kwargs = {} if options is None else {"options": options}
        if seed is not None:
            if self._takes("seed"):
                kwargs["seed"] = seed
            else:
                self._env.seed(seed)
        result = self._env.reset(**kwargs)
        observation, info = (result, {}) if self._old else result
        return {"observation": self._observed(observation), "info": written(info)}

    def _step(self, given: Dict[str, Any]) -> Dict[str, Any]:
        action = cast(self._env.action_space, given["action"], True)
        result = self._env.step(action)  # type: Any
        if len(result) == 5:
            observation, reward, terminated, truncated, info = result
        else:
            observation, reward, done, info = result
            info = dict(info)
            truncated = bool(info.pop("TimeLimit.truncated", False))
            terminated = bool(done) and not truncated
        return {
            "observation": self._observed(observation),
            "reward": write_value(reward),
            "terminated": bool(terminated),
            "truncated": bool(truncated),
            "info": written(info),
        }

    def _observed(self, observation: Any) -> Any:
        return write_value(cast(self._env.observation_space, observation, False))

    def _render(self, given: Dict[str, Any]) -> Dict[str, Any]:
        frame = self._env.render(mode=self._mode) if self._old else self._env.render()
        return {"rendered": write_value(frame)}

    def _close(self, given: Dict[str, Any]) -> Dict[str, Any]:
        self._env.close()
        return {}


def written(info: Any) -> Any:
    """Return an info as a tree; a value that cannot be sent is replaced."""
    return write_value(dict(info or {}), lenient=True)


def program(library: str) -> str:
    """Return the versions of Python and of a library, if there is one."""
    words = "Python " + platform.python_version()
    version = getattr(sys.modules.get(library), "__version__", "")
    return ("%s, %s %s" % (words, library, version)).rstrip() if library else words


def library_of(kind: type) -> str:
    """Return ``gym`` or ``gymnasium``, of which a class is an environment; or ""."""
    names = [each.__module__.split(".")[0] for each in kind.__mro__]
    return next((name for name in names if name in ("gymnasium", "gym")), "")


def is_old(name: str) -> bool:
    """Whether environments of a library have the interface before gym 0.26."""
    version = getattr(sys.modules.get(name), "__version__", "1.0")
    parts = [int(part) for part in version.split(".")[:2] if part.isdigit()]
    return name == "gym" and parts < [0, 26]


# Finding environments.


def libraries() -> List[Any]:
    """Return the installed ones of Gymnasium and gym."""
    found = []
    # It registers its environments when it is imported.
    for name in ("gymnasium", "gym", "ale_py"):
        try:
            found.append(importlib.import_module(name))
        except ImportError:
            continue
    return [each for each in found if each.__name__ != "ale_py"]


def specs_of(library: Any) -> Dict[str, Any]:
    """Return the specs of a library by ID."""
    registry = library.envs.registration.registry
    specs = getattr(registry, "env_specs", registry)
    return {str(env_id): specs[env_id] for env_id in list(specs)}


def rows() -> List[Dict[str, Any]]:
    """Return all environments, each with the reason why it cannot be made, or none."""
    reasons = {}  # type: Dict[str, Any]
    found = {}  # type: Dict[str, Dict[str, Any]]
    for library in libraries():
        for env_id, spec in sorted(specs_of(library).items()):
            entry = spec.entry_point
            module = str(entry).split(":")[0] if isinstance(entry, str) else ""
            if module and module not in reasons:
                try:
                    importlib.import_module(module)
                    reasons[module] = None
                except (Exception, SystemExit) as error:
                    reasons[module] = ("%s: %s" % (type(error).__name__, error))[:500]
            found.setdefault(
                env_id,
                {
                    "env_id": env_id,
                    "entry_point": entry if isinstance(entry, str) else None,
                    "max_episode_steps": spec.max_episode_steps,
                    "reason": reasons.get(module),
                },
            )
    return [found[env_id] for env_id in sorted(found)]


def maker(words: List[str]) -> Any:
    """Return a function that makes environments.

    Args:
        words: ``MODULE:FACTORY``, or nothing.
    """
    if words:
        module, colon, names = words[0].partition(":")
        if not colon:
            raise SystemExit("%r: expected MODULE:FACTORY, as my_envs:make" % words[0])
        factory = importlib.import_module(module)  # type: Any
        for name in names.split("."):
            factory = getattr(factory, name)
        return factory
    env_id = os.environ.get("GYM_EXTERNAL_ENV_ID", "")
    found = libraries()
    if not found:
        raise SystemExit("neither gym nor gymnasium is installed in " + sys.executable)
    if not env_id:
        raise SystemExit("expected an ID after the name, as external/NAME/CartPole-v1")
    # The first one has the error for an ID that none has.
    having = [each for each in found if env_id in specs_of(each)] or found
    return lambda **kwargs: having[0].make(env_id, **kwargs)


def main() -> None:
    """Serve an environment until the server is gone, or list all."""
    streams = Streams()
    # After the folder of this file, which may have other files beside it.
    sys.path.insert(1, os.getcwd())
    words = sys.argv[1:]
    if words == ["--list"]:
        streams.write(json.dumps(rows()).encode())
        return
    streams.watch()
    provided = Provided(maker(words))
    streams.send(provided.hello())
    reply = streams.receive()
    if reply.get("type") != "welcome":
        raise SystemExit("the server refuses: %s" % reply.get("message"))
    while True:
        message = streams.receive()
        if message["type"] == "ping":
            streams.send({"type": "pong"})
        elif message["type"] == "fault":
            print("fault:", message.get("field"), message["message"], file=sys.stderr)
        elif "id" in message:
            streams.send(provided.answer(message))


if __name__ == "__main__":
    main()
