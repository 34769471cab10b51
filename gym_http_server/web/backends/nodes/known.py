"""The nodes of a fleet, as a web worker reads them from the page of the member."""

from __future__ import annotations

from gym_http_server.errors import (
    Draining,
    InstanceEnded,
    UnknownInstance,
    did_you_mean,
)
from gym_http_server.fleet.numbers import number_of
from gym_http_server.fleet.page import Node, Nodes, Page
from gym_http_server.fleet.records import Record
from gym_http_wire.problems import BadParameter

__all__ = ["KnownNodes"]

#: Names of nodes in a message.
MOST_NAMES = 10


class KnownNodes:
    """The nodes that the member knows; each access is to the newest page.

    Args:
        page: The page of the member.
    """

    def __init__(self, page: Page) -> None:
        self._page = page
        self._state = -1
        self._nodes: Nodes
        self._others: dict[str, Node] = {}
        self._boots: dict[str, Node] = {}
        self._own: frozenset[str] = frozenset()

    def _refresh(self) -> None:
        state = self._page.state
        if state == self._state:
            return
        self._state = state
        self._nodes = nodes = self._page.read()
        self._own = frozenset(nodes.own.numbers)
        self._boots = {each.record.boot: each for each in nodes.others}
        self._others = {
            number: each for each in nodes.others for number in each.record.numbers
        }

    @property
    def state(self) -> int:
        """A number that changes when the nodes are replaced."""
        return self._page.state

    @property
    def fenced(self) -> bool:
        """Whether this node has not renewed its record for too long."""
        return self._page.fenced

    @property
    def own(self) -> Record:
        """This node."""
        self._refresh()
        return self._nodes.own

    @property
    def others(self) -> list[Node]:
        """The other nodes, with what the member knows of them."""
        self._refresh()
        return self._nodes.others

    def all(self) -> list[Record]:
        """Return all nodes, this one first."""
        return [self.own, *(each.record for each in self._nodes.others)]

    def present(self) -> list[Record]:
        """Return the nodes that are not away, this one first."""
        others = [each.record for each in self.others if not each.away_ns]
        return [self._nodes.own, *others]

    def is_own(self, instance_id: str) -> bool:
        """Whether an instance ID is of this node."""
        self._refresh()
        return number_of(instance_id) in self._own

    def other_of(self, text: str) -> Record | None:
        """Return the other node that issued an instance ID or a ticket, if one did."""
        self._refresh()
        node = self._others.get(number_of(text))
        return None if node is None else node.record

    def find(self, instance_id: str) -> Record:
        """Return the other node that issued an instance ID.

        Raises:
            InstanceEnded: The node is gone.
            UnknownInstance: No node has had its number.
        """
        if node := self.other_of(instance_id):
            return node
        if reason := self._nodes.gone.get(number_of(instance_id)):
            why = "was stopped" if reason == "node-drained" else "was lost"
            raise InstanceEnded(
                f"instance {instance_id} has ended: its node {why}",
                extras={"reason": reason},
            )
        raise UnknownInstance(instance_id)

    def named(self, name: str) -> Record:
        """Return the node of a name, to create an instance on.

        Raises:
            BadParameter: No node has this name.
            Draining: It is stopping.
        """
        # One that is away may have been started again, under another number.
        known = {each.name: each for each in (*self.all(), *self.present()[::-1])}
        if name not in known:
            shown = ", ".join(sorted(known)[:MOST_NAMES])
            hint = did_you_mean(name, known)
            raise BadParameter(f"node is {name!r:.80}: expected one of {shown}{hint}")
        if known[name].draining:
            raise Draining(f"the node {name} is stopping and makes no new instances")
        return known[name]

    def numbered(self, number: str) -> Record | None:
        """Return the node with a number, or ``None``."""
        return self.own if self.is_own(number) else self.other_of(number)

    def of_boot(self, boot: str) -> Record | None:
        """Return the node of a boot, or ``None``."""
        if boot == self.own.boot:
            return self._nodes.own
        node = self._boots.get(boot)
        return None if node is None else node.record

    def is_lost(self, number: str) -> bool:
        """Whether the node that had a number is lost."""
        self._refresh()
        return self._nodes.gone.get(number) == "node-lost"

    def ended(self) -> dict[str, str]:
        """Return why nodes have ended, by their names."""
        self._refresh()
        present = {each.name for each in self.all()}
        names = self._nodes.gone_names.items()
        return {n: self._nodes.gone[k] for k, n in names if n not in present}

    def is_away(self, boot: str) -> bool:
        """Whether the member finds a node neither in the store nor by connecting."""
        self._refresh()
        node = self._boots.get(boot)
        return node is None or bool(node.away_ns and node.unreachable_ns)

    def owned_by(self, owner: str) -> int:
        """Return how many instances a token has on all nodes."""
        return sum(each.owners.get(owner, 0) for each in self.all())
