"""Tokens of training runs in a fleet: the node of its run alone can check one."""

from __future__ import annotations

from gym_http_server.errors import NodeAway, Unauthorized
from gym_http_server.fleet.callers import ForwardedCaller
from gym_http_server.operations.table import OPERATIONS
from gym_http_server.web.backends.nodes.fleet import Fleet

__all__ = ["check_elsewhere"]


def check_elsewhere(fleet: Fleet, digest: str) -> None:
    """Check that a token is one of a run on another node.

    Args:
        fleet: The fleet.
        digest: SHA-256 in hex of the token.

    Raises:
        Unauthorized: It is not.
        NodeAway: A node that may have its run does not answer.
    """
    # No token of a run may list runs: a node says 403 to those that it knows.
    path = OPERATIONS["run_list"].path
    answers = fleet.ask_others(path, ForwardedCaller(run_token=digest))
    if any(answer is not None and answer.status == 403 for _, answer in answers):
        return
    silent = [node.name for node, answer in answers if answer is None]
    if silent:
        raise NodeAway(
            "the token may be of a run on a node that does not answer, as "
            f"{silent[0]}; send the request again"
        )
    raise Unauthorized("the token is of no run")
