"""Members of requests about instances: what bodies and queries may have.

Routes of gym-http-api ignore unknown members, and warn of them; all others refuse them.
"""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from gym_http_server.operations.members import (
    AnyObject,
    Anything,
    Choice,
    Either,
    Flag,
    Integer,
    ListOf,
    Member,
    Members,
    ObjectOf,
    Schema,
    Seconds,
    Text,
    refusal,
)
from gym_http_wire.problems import BadParameter

__all__ = [
    "AUTO",
    "AUTORESET",
    "BATCH",
    "CALL",
    "CONTAINS",
    "CREATE",
    "EPISODES",
    "EVENTS",
    "LOG",
    "MAX_BATCH",
    "MAX_BRANCHES",
    "MAX_EPISODES",
    "MAX_STEPS",
    "MODES",
    "MONITOR_START",
    "RESET",
    "ROLLOUT",
    "SAMPLE",
    "SEARCH",
    "SEED",
    "SET_ATTRIBUTE",
    "SET_GENERATOR",
    "STEP",
    "UPLOAD",
    "VIDEO",
]

MAX_BATCH = 1024
#: As `gym_http_core.batches` has them, which loads NumPy.
MAX_STEPS, MAX_EPISODES = 10_000, 1_000
#: Branches of one request.
MAX_BRANCHES = 256
MODES = ("sync", "async", "vector_entry_point")
#: Value of a member that the server is to choose.
AUTO = "auto"
#: How Gymnasium writes the modes of its enumeration, by name.
AUTORESET = {
    "next_step": "NextStep",
    "same_step": "SameStep",
    "disabled": "Disabled",
}
_STATES = ("making", "running", "waiting", "stuck", "paused", "ending", "ended")
#: Between two calls, and in one: by these, too, instances can be searched.
_CALLS = ("idle", "busy")


class OldFlag(Struct, frozen=True):
    """True or false, also as old clients write it: 0, 1 or "true", with any capital."""

    expected: str = "true or false"

    def read(self, value: Any, name: str) -> bool:
        """Check a value; see `Kind.read`."""
        if value in (0, "false", "False"):
            return False
        if value in (1, "true", "True"):
            return True
        raise refusal(name, value, self.expected)

    def parse(self, text: str, name: str) -> bool:
        """Read a value from text; see `Kind.parse`."""
        return self.read(text, name)

    def schema(self) -> Schema:
        """Return the values as JSON Schema."""
        return {
            "anyOf": [
                {"type": "boolean"},
                {"type": "integer", "minimum": 0, "maximum": 1},
                {"type": "string", "pattern": "^(true|True|false|False)$"},
            ]
        }


#: Of environments and spaces.
SEED = Integer(0, None)
_SEED_OR_NOT = SEED.schema() | {"type": ["integer", "null"]}


class _Hosts(Struct, frozen=True):
    """A number of processes, or that the server is to choose it."""

    expected: str = f"{Integer(1).expected}, or {AUTO!r}"

    def read(self, value: Any, name: str) -> int | str:
        """Check a value; see `Kind.read`."""
        if value == AUTO:
            return AUTO
        try:
            return Integer(1).read(value, name)
        except BadParameter:
            raise refusal(name, value, self.expected) from None

    def parse(self, text: str, name: str) -> int | str:
        """Read a value from text; see `Kind.parse`."""
        return AUTO if text == AUTO else Integer(1).parse(text, name)

    def schema(self) -> Schema:
        """Return the values as JSON Schema."""
        return {"anyOf": [Integer(1).schema(), {"enum": [AUTO]}]}


def _seed(words: str) -> Member:
    return Member(SEED, words, blank=True)


def _ignored(*names: str) -> Members:
    return dict.fromkeys(names, Member(Anything(), "Ignored; for old clients."))


# A client that draws from a copy of the environment's generator sends its state.
_GENERATOR: Members = {
    "generator": Member(Anything(), "State of the generator to set first."),
    "wants_generator": Member(Anything(), "Whether the answer has the new state."),
}

_VECTOR_KWARGS: Members = {
    "autoreset_mode": Member(Anything({"type": "string"})),
    "copy": Member(Anything({"type": "boolean"})),
    "daemon": Member(Anything({"type": "boolean"})),
    "max_concurrency": Member(Anything({"type": "integer"})),
    "observation_mode": Member(Choice(("same", "different"))),
    "shared_memory": Member(Anything({"type": "boolean"})),
}

_WRAPPER: Members = {
    "name": Member(Text(1, 200), "As Gymnasium names it.", required=True),
    "kwargs": Member(AnyObject(), "Its arguments besides the environment."),
}

#: Further limits are settings and rules over several members.
CREATE: Members = {
    "env_id": Member(
        Anything({"type": "string", "minLength": 1, "maxLength": 200}),
        "Gymnasium's name of the environment. Required, unless there is `resume`.",
        blank=True,
    ),
    "kwargs": Member(AnyObject(), "The environment's own keyword arguments."),
    "typed": Member(
        Flag(),
        "Whether arguments, also of wrappers and vectors, are written as typed JSON, "
        "which has arrays, tuples and large integers.",
        False,
    ),
    "seed": _seed("Seed of the first reset, if that has no seed itself."),
    "api": Member(
        Choice(("parallel", "aec")),
        "With an environment of several agents: whether they act at the same time or "
        "one after another. If absent, `parallel` where there is a choice.",
    ),
    "render_mode": Member(Text(1, 200), "As for `gymnasium.make`, except `human`."),
    "max_episode_steps": Member(
        Integer(-1, 2**63 - 1, "(-1 for no limit), except 0"),
        "As for `gymnasium.make`; -1 for no limit.",
    ),
    "disable_env_checker": Member(Flag(), "As for `gymnasium.make`."),
    "exact_id": Member(
        Flag(),
        "Whether a retired version is refused, as `gymnasium.make` does, and not "
        "replaced by the newest one.",
        False,
    ),
    "wrappers": Member(
        ListOf(Either(Text(1, 200), ObjectOf(_WRAPPER)), 0, 16),
        "Gymnasium's wrappers to put around it, the innermost first.",
    ),
    "for": Member(
        Text(0, 200),
        "Name of the token that will own the instance, on a server with several "
        "tokens. If absent, the token that creates it. Only a token with the scope "
        "`admin` may name another.",
    ),
    "label": Member(
        Text(1, 64, printable=True),
        "Text by which people find an instance in a list.",
        blank=True,
    ),
    "node": Member(
        Text(1, 100),
        "Name of the server of a fleet that will have the instance. If absent, one "
        "with free slots.",
    ),
    "num_envs": Member(
        Integer(1),
        "Make so many environments, which step as one. The server has a limit, "
        "`--max-num-envs`.",
    ),
    "vectorization_mode": Member(
        Choice(MODES),
        "With `num_envs`, as for `gymnasium.make_vec`, with its default.",
    ),
    "vector_kwargs": Member(
        ObjectOf(_VECTOR_KWARGS), "With `num_envs`, as for `gymnasium.make_vec`."
    ),
    "autoreset_mode": Member(
        Anything(
            {
                "type": "string",
                "pattern": f"^({'|'.join([*AUTORESET, *AUTORESET.values()])})$",
            }
        ),
        "With `num_envs`, the behaviour at the end of an episode: `next_step`, "
        "`same_step` or `disabled`, or as Gymnasium writes these values.",
    ),
    "hosts": Member(
        _Hosts(),
        "With `num_envs`, and `vectorization_mode` `sync`: over how many processes "
        "the environments are spread. With `auto`, the server chooses: as many as it "
        "has cores but one, and at most one for every four environments; 1 where they "
        "cannot be spread, as the description tells.",
        1,
    ),
    "wait_s": Member(
        Seconds(0, float("inf")),
        "With an env ID that begins with `external/`: seconds to wait until enough of "
        "these environments have connected.",
        0,
    ),
    "realtime": Member(
        AnyObject({"$ref": "#/components/schemas/RealTimeRequest"}),
        "A clock that does not wait for the agent.",
    ),
    "record": Member(
        Text(1, 4096),
        "A new directory below the server's data directory, in which every reset and "
        "step is recorded from the beginning.",
    ),
    "resume": Member(
        Text(1, 4096),
        "The directory of a recording that `record` began. The new instance is as the "
        "recorded one was at the end, and goes on recording there. Beside it are only "
        "`step`, `verify`, `label`, `for` and `node`.",
    ),
    "step": Member(
        Integer(0), "With `resume`: so many steps are taken, and not all recorded ones."
    ),
    "verify": Member(
        Flag(),
        "With `resume`: whether each result must be the recorded one, bit by bit.",
        True,
    ),
}

RESET: Members = {
    "seed": Member(
        Anything({"anyOf": [SEED.schema(), {"type": "array", "items": _SEED_OR_NOT}]}),
        "As for Gymnasium's `reset`; of a vector also a list with one for each "
        "environment.",
        blank=True,
    ),
    "options": Member(
        AnyObject(),
        "As for Gymnasium's `reset`; for a vector, `reset_mask` is a list of flags, "
        "one for each environment.",
    ),
    **_GENERATOR,
    **_ignored("instance_id"),
}

#: Not read by it: each step would be slower. It names the members that are known.
STEP: Members = {
    "action": Member(Anything(), "An action; see `Value`."),
    "actions": Member(
        ListOf(Anything(), 1, MAX_STEPS),
        "Actions of up to 10,000 steps, in the place of `action`.",
    ),
    **_GENERATOR,
    **_ignored("render", "video_callable", "instance_id"),
}

ROLLOUT: Members = {
    "actions": Member(
        Anything({"type": "array", "items": {}, "maxItems": MAX_EPISODES}),
        "The actions of each episode, instead of random ones; up to 10,000 in up to "
        "1,000 lists.",
    ),
    "episodes": Member(
        Integer(1, MAX_EPISODES),
        "How many; 1, or as many as there are lists of actions.",
    ),
    "max_steps": Member(Integer(1, MAX_STEPS), "Of each episode.", MAX_STEPS),
    "options": Member(AnyObject(), "Of each reset.", null=True),
    "policy": Member(Choice(("random",)), "Random, the default without `actions`."),
    "seed": _seed("Of the first reset, and of the action space if it is sampled."),
    "generator": _GENERATOR["generator"],
    "branches": Member(
        Anything({"type": "array", "items": {}, "maxItems": MAX_BRANCHES}),
        "Lists of actions, each to play from the present state, which stays as it is; "
        "up to 10,000 actions.",
    ),
    "count": Member(
        Integer(1, MAX_BRANCHES),
        "How many branches with random actions to play, instead of `branches`.",
    ),
    "steps": Member(Integer(1, MAX_STEPS), "Of each branch with random actions."),
    "observations": Member(
        Flag(), "Whether to return all observations of the branches.", False
    ),
    "reseed": Member(
        Flag(),
        "Whether the environment's generator has another state in each branch.",
        False,
    ),
}

SAMPLE: Members = {
    "seed": _seed("Seeds the space first."),
    "mask": Member(
        Anything(), "What to draw from, as for the `sample` of Gymnasium's spaces."
    ),
    **_ignored("instance_id"),
}

CONTAINS: Members = {
    "value": Member(Anything({"$ref": "#/components/schemas/Value"}), required=True),
    **_ignored("instance_id"),
}

SET_GENERATOR: Members = {
    "state": Member(
        Anything({"$ref": "#/components/schemas/GeneratorState"}), required=True
    ),
    "seed_sequence": Member(
        Anything({"$ref": "#/components/schemas/SeedSequence"}),
        "What it is to spawn from; null leaves that as it is.",
        null=True,
    ),
    "replace": Member(Flag(), "Whether the environment gets a new generator.", False),
    # What a GET gives can be sent back as it is.
    "seed": Member(Anything(), "Ignored."),
    "serial": Member(Anything(), "Ignored."),
}

SET_ATTRIBUTE: Members = {
    "value": Member(Anything(), "Anything.", required=True, null=True),
    "force": Member(
        Flag(), "Whether to make the attribute if it does not exist.", True
    ),
}

CALL: Members = {
    "args": Member(ListOf(Anything()), "Its arguments by position."),
    "kwargs": Member(AnyObject(), "Its arguments by name."),
    "indices": Member(
        Anything({"type": "array", "items": SEED.schema(), "uniqueItems": True}),
        "Environments of a vector, from 0 on. The method is called of these alone, and "
        "`value` is a list with one item for each. Needs the vectorization mode sync.",
    ),
    "method": Member(
        Choice(("sample", "contains", "seed")),
        "Where the attribute is a space, the method of it to call.",
    ),
    "path": Member(
        ListOf(Anything({"type": ["string", "integer"]})),
        "With `method`, the keys and indices that lead to a part of the space.",
    ),
}

VIDEO: Members = {
    "every": Member(
        Integer(1, 1_000_000), "Records the first episode, and then each so many.", 10
    ),
    "fps": Member(
        Integer(1, 240), "Frames a second; null for those of the environment."
    ),
    "seconds": Member(Integer(1, 3600), "Longest video.", 120),
    "size": Member(Integer(16, 2048), "Pixels of the longer side, at most.", 640),
}

MONITOR_START: Members = {
    "directory": Member(
        Text(1, 4096),
        "A path below the server's data directory.",
        required=True,
        blank=True,
    ),
    "force": Member(OldFlag(), "Replace the records there.", False, blank=True),
    "resume": Member(OldFlag(), "Append to the records there.", False, blank=True),
    "steps": Member(
        OldFlag(),
        "Record every reset and step, too, in `steps.gym`.",
        False,
        blank=True,
    ),
    "video": Member(
        Either(Flag(), ObjectOf(VIDEO)),
        "Record videos of episodes, too; true stands for the defaults.",
        False,
        blank=True,
    ),
    **_ignored("video_callable", "instance_id"),
}

EPISODES: Members = {
    "last": Member(
        Integer(1, 1000), "Number of episodes at most, from 1 to 1000.", 1000
    ),
    "from": Member(Integer(), "Number of the first episode to return.", 0),
}

EVENTS: Members = {
    "from": Member(Integer(), "Number of the first event to return.", 0),
}

LOG: Members = {
    "from": Member(
        Integer(),
        "Offset in bytes. `Gym-Log-Next` of an answer is the offset of the next part.",
        0,
    ),
    "wait_s": Member(
        Seconds(0, 25),
        "Seconds to wait if there is no output at this offset yet. The end of the "
        "instance ends the wait.",
        0,
    ),
}

#: Of the list of instances.
SEARCH: Members = {
    "search": Member(
        Text(0, 200, printable=True),
        "Only those with this text in env ID, instance ID, label or owner; case does "
        "not count.",
    ),
    "state": Member(
        Choice(("", *_STATES, *_CALLS)),
        "Only those in this state; empty for all. `busy` are those in a call, `idle` "
        "those between two.",
    ),
}

_BATCH_STEP: Members = {
    "instance_id": Member(
        Anything({"type": "string"}), "The instance to step.", required=True
    ),
    "action": Member(Anything(), "As for a step of this instance.", null=True),
    "actions": Member(Anything(), "As for a step of this instance.", null=True),
    "key": Member(
        Anything({"type": "string", "pattern": "^[!-~]{1,128}$"}),
        "Names a request; see `Idempotency-Key`.",
    ),
}

BATCH: Members = {
    "first": Member(
        Integer(1), "Answer as soon as so many steps are done; else when all are."
    ),
    "steps": Member(
        ListOf(ObjectOf(_BATCH_STEP), 1, MAX_BATCH),
        "Up to 1,024, each of another instance.",
        required=True,
    ),
}

UPLOAD: Members = {
    "training_dir": Member(Anything(), required=True, blank=True),
    "api_key": Member(Anything(), required=True, blank=True),
    "algorithm_id": Member(Anything()),
}
