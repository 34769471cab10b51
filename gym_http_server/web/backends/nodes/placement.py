"""Placement: the nodes on which a create may be executed, the best one first."""

from __future__ import annotations

import hashlib
import random
import time
from collections import Counter
from collections.abc import Callable

from gym_http_server.config.env_commands import EXTERNAL
from gym_http_server.errors import FleetAway, NodeAway
from gym_http_server.fleet.page import FENCED_SECONDS
from gym_http_server.fleet.records import Record
from gym_http_server.fleet.store import FRESH_SECONDS, FleetStore, StoreAway
from gym_http_server.web.backends.nodes.known import KnownNodes
from gym_http_wire.problems import OutcomeUnknown

__all__ = ["LOOK_AGAIN_SECONDS", "Placement"]

LOOK_AGAIN_SECONDS = 0.05
#: Nodes that are tried for one create.
MOST_TRIED = 3


class Placement:
    """Chooses nodes for creates.

    Args:
        nodes: The nodes.
        store: Returns the store, in which keys are bound to nodes.
    """

    def __init__(self, nodes: KnownNodes, store: Callable[[], FleetStore]) -> None:
        self._nodes = nodes
        self._store = store
        self._state = -1
        # Creates that this web worker has placed since the records were read, by boot.
        self._placed: Counter[str] = Counter()

    def candidates(self, stopping: str = "") -> list[Record]:
        """Return nodes to create an instance on, the better of two first.

        Args:
            stopping: Boot of a node that is stopping, which its record may not say yet.
        """
        present = self._nodes.present()
        ready = [x for x in present if not x.draining and x.boot != stopping]
        if not ready:
            return present[:1]
        if self._state != self._nodes.state:
            self._state = self._nodes.state
            self._placed.clear()
        chosen = random.sample(ready, min(MOST_TRIED, len(ready)))
        first = max(chosen[:2], key=self._free_share)
        chosen.remove(first)
        self._placed[first.boot] += 1
        return [first, *chosen]

    def _free_share(self, record: Record) -> float:
        """Return the part of a node's slots that is free."""
        free = record.free - self._placed[record.boot]
        return free / record.slots if record.slots else 0.0

    def home(self, name: str) -> Record:
        """Return the node that has the external environments of a name.

        All nodes choose the same one, and few names move when a node joins or leaves.
        """
        present = self._nodes.present()
        ready = [each for each in present if not each.draining] or present[:1]
        return max(ready, key=lambda each: _weight(name, each.name))

    def candidates_for_external(self, env_id: str, wait_s: float) -> list[Record]:
        """Return nodes to create an external environment on, the likely ones first.

        Args:
            env_id: The environment.
            wait_s: Seconds to wait at most for the records to have one.
        """
        until = time.monotonic() + min(wait_s, FRESH_SECONDS)
        # It may have connected since the last records.
        while not any(each.external.get(env_id) for each in self._nodes.all()):
            if time.monotonic() >= until:
                break
            time.sleep(LOOK_AGAIN_SECONDS)
        home = self.home(env_id.removeprefix(EXTERNAL))
        ready = [each for each in self._nodes.present() if not each.draining]
        random.shuffle(ready)
        ready.sort(key=lambda x: (not x.external.get(env_id), x is not home))
        return ready[:MOST_TRIED]

    def bind(
        self, creator: str, key: str, node: Record | None, stopping: str = ""
    ) -> Record | None:
        """Bind a create key to a node, unless it is bound; return the one that has it.

        A key of a server that has ended in order, or was restarted, is not bound: what
        it has made has ended.

        Args:
            creator: Name of the token, whose keys are its own.
            key: The key.
            node: The node; ``None`` to bind it to none.
            stopping: Boot of a node that is stopping, and has not executed the request.

        Raises:
            FleetAway: The store does not answer.
            NodeAway: This node does not know the other one yet.
            OutcomeUnknown: The node that has the key is lost.
        """
        try:
            if self._nodes.fenced:
                raise StoreAway(f"the store has not answered for {FENCED_SECONDS} s")
            named = "" if node is None else f"{node.numbers[-1]}:{node.boot}"
            bound = self._store().bind_key(creator, key, named, stopping)
        except StoreAway as away:
            raise FleetAway(f"creates with a key wait: {away}") from None
        return self._bound_node(bound) if bound else None

    def _bound_node(self, bound: str) -> Record:
        """Return the node that has a key, by its number and boot in the store."""
        number, _, boot = bound.partition(":")
        if node := self._nodes.of_boot(boot):
            return node
        if self._nodes.is_lost(number):
            raise OutcomeUnknown(
                "the node that had this create request is lost, so whether it made "
                "an instance is unknown; create another one with a new key"
            )
        raise NodeAway(
            "the node that has this create request is not known here yet; send the "
            "request again"
        )


def _weight(name: str, node: str) -> bytes:
    return hashlib.blake2b(f"{name} {node}".encode("utf-8", "replace")).digest()
