"""Plays an environment, local or remote, and records all that it returns.

``python -m tests.packages.playing ORDER`` plays in a process of its own: a package's
environment may crash, hang or change its process. It needs Gymnasium, NumPy and, for a
remote environment, the client. A remote one is played without importing its package.
"""

import copy
import importlib
import json
import pickle
import re
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import gymnasium
from gymnasium import spaces

from tests.support.identity import difference

Record = tuple[str, Any]
SEEDS = (3, 4, 5)
#: A frame is rendered after each of so many steps.
FRAME_EVERY = 20
COUNT = 4
#: Ways of playing, by the names of columns on the page.
WAYS = ("single", "vector", "rendering")
#: A description has so much of a space's `repr`.
_REPR_CHARS = 1000
_ADDRESS = re.compile(r" at 0x[0-9a-f]+")


def record(
    make: Callable[[], Any],
    case: dict[str, Any],
    way: str,
    seeds: Sequence[int] = SEEDS,
) -> Iterator[Record]:
    """Play an environment, and yield what it is and what it returns, with labels.

    An exception of the environment is the last record.

    Args:
        make: Makes the environment, of the way's kind.
        case: The members of the `Case`.
        way: One of `WAYS`.
        seeds: Seeds of resets, and of the space that actions are drawn from.
    """
    where = "the beginning"
    env = None
    try:
        env = make()
        yield from _description(env)
        for seed in seeds:
            for label, value in _walk(env, case, way, seed):
                where = f"{label} of seed {seed}"
                # Some return the same array again and again, with other contents.
                yield where, copy.deepcopy(value)
    except Exception as error:
        yield f"error after {where}", (type(error).__name__, str(error))
    finally:
        if env is not None:
            env.close()


def _description(env: Any) -> Iterator[Record]:
    yield "observation_space", named_parts(env.observation_space)
    yield "action_space", named_parts(env.action_space)
    yield "metadata", env.metadata
    if spec := env.spec:
        names = ("id", "max_episode_steps", "reward_threshold")
        yield "spec", {name: getattr(spec, name) for name in names}
        # A remote one's is a dict that makes remote environments.
        yield "spec.kwargs", dict(spec.kwargs)


def named_parts(space: Any) -> Any:
    """Return a space with the names and reprs of opaque spaces in their places.

    The client has both in the description of an opaque space, whose class it does not
    import.
    """
    if isinstance(space, spaces.Dict):
        return {name: named_parts(part) for name, part in space.spaces.items()}
    if isinstance(space, spaces.Tuple | spaces.OneOf):
        return [type(space).__name__, *(named_parts(part) for part in space.spaces)]
    if isinstance(space, spaces.Sequence):
        return ["Sequence", space.stack, named_parts(space.feature_space)]
    kind = type(space)
    if kind.__module__.startswith("gymnasium.spaces"):
        return space
    if description := getattr(space, "description", None):
        return [description["class"], description["repr"]]
    # The addresses of functions are others in every process.
    text = _ADDRESS.sub("", repr(space))[:_REPR_CHARS]
    return [f"{kind.__module__}:{kind.__qualname__}", text]


def _walk(env: Any, case: dict[str, Any], way: str, seed: int) -> Iterator[Record]:
    actions, random = case["actions"], case["random_infos"]
    yield "reset", _without(random, env.reset(seed=seed))
    # Not earlier, and anew: a reset may make another space.
    env.action_space.seed(seed)
    for number in range(1, case["steps"] + 1):
        if not actions:
            action = env.action_space.sample()
        elif way == "vector":
            several = range(number, number + COUNT)
            action = tuple(actions[each % len(actions)] for each in several)
        else:
            action = actions[number % len(actions)]
        yield f"action {number}", action
        result = env.step(action)
        yield f"step {number}", _without(random, result)
        if way == "rendering" and number % FRAME_EVERY == 0:
            yield f"frame {number}", env.render()
        if way != "vector" and (result[2] or result[3]):
            yield f"reset after step {number}", _without(random, env.reset())
            env.action_space.seed(seed + number)


def _without(names: Sequence[str], result: Any) -> Any:
    """Return the result of a reset or step without some members of its infos."""
    *others, infos = result
    return (*others, {key: infos[key] for key in infos if key not in names})


def local(case: dict[str, Any], way: str) -> Callable[[], Any]:
    """Return a function that makes a local environment, or vector of them."""
    env_id, options = case["env_id"], _options(case, way)
    if way == "vector":
        return lambda: gymnasium.make_vec(env_id, **options)
    return lambda: gymnasium.make(env_id, **options)


def remote(case: dict[str, Any], way: str, url: str) -> Callable[[], Any]:
    """Return a function that makes the same one on a server."""
    from gym_http_client import RemoteEnv, RemoteVectorEnv

    env_id, options = case["env_id"], _options(case, way)
    if way == "vector":
        return lambda: RemoteVectorEnv(url, env_id, **options)
    return lambda: RemoteEnv(url, env_id, **options)


def _options(case: dict[str, Any], way: str) -> dict[str, Any]:
    options: dict[str, Any] = {}
    if way == "rendering":
        options["render_mode"] = case["render_mode"]
    if way == "vector":
        options |= {"num_envs": COUNT, "vectorization_mode": case["vectorized_by"]}
    return options | case["kwargs"]


def load(module: str) -> None:
    """Import the module that registers environments, by its name or its file."""
    if module.endswith(".py"):
        # As the server does with a file after --import.
        sys.path.insert(0, str(Path(module).parent))
        importlib.import_module(Path(module).stem)
    else:
        importlib.import_module(module)


def compare(found: list[Record], wanted: list[Record]) -> dict[str, str]:
    """Compare a recording with the local one that is its reference.

    Returns:
        Where they differ, as ``different``; or, of two that are the same to the bit and
        end with an exception, its text as ``error``.
    """
    # The first one of each kind: when a step differs, so do most that follow.
    differences: dict[str, str] = {}
    for (label, value), (other_label, other_value) in zip(found, wanted, strict=False):
        if label != other_label:
            instead = _event(other_label, other_value)
            differences[""] = f"{_event(label, value)}, locally {instead}"
            break
        if different := difference(value, _as_sent(other_value), label):
            differences.setdefault(label.split()[0], different)
    if differences:
        return {"different": "; ".join(differences.values())}
    label, value = wanted[-1]
    return {"error": _event(label, value)} if label.startswith("error") else {}


def _as_sent(value: Any) -> Any:
    """Return a value whose dicts, lists and tuples are of no subclass."""
    if isinstance(value, dict):
        return {name: _as_sent(part) for name, part in value.items()}
    if isinstance(value, list):
        return [_as_sent(part) for part in value]
    if isinstance(value, tuple):
        return tuple(_as_sent(part) for part in value)
    return value


def _event(label: str, value: Any) -> str:
    if label.startswith("error"):
        kind, message = value
        return f"{kind} {label.removeprefix('error ')}: {message}"
    return label


def _run(order: dict[str, Any]) -> None:
    """Play one side of a case, and compare it with the local recording.

    Args:
        order: The ``case``, its ``way``, the ``url`` of the server or "", and the
            ``module`` to import for a local environment. The recording and the result
            go to ``folder``. ``against`` is the folder of the local recording, or "".
    """
    case, way = order["case"], order["way"]
    if order["url"]:
        make = remote(case, way, order["url"])
    else:
        load(order["module"])
        make = local(case, way)
    records = list(record(make, case, way))
    folder = Path(order["folder"])
    (folder / "recording").write_bytes(pickle.dumps(records))
    result = {}
    if order["against"]:
        # Not earlier: it may hold values of the package's classes.
        reference = (Path(order["against"]) / "recording").read_bytes()
        result = compare(records, pickle.loads(reference))
    (folder / "result.json").write_text(json.dumps(result))


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    _run(json.loads(sys.argv[1]))
