"""Owners of instances: the token of the creator, or a token that the creator named."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from gym_http_server.access.identities import ADMIN
from gym_http_server.errors import ScopeMissing, TooManyInstances, UnknownInstance
from gym_http_server.supervisor.figures import OTHER
from gym_http_server.supervisor.hosts import Hosts
from gym_http_server.supervisor.instance import Instance
from gym_http_wire.messages import RequestHead
from gym_http_wire.problems import BadParameter

__all__ = ["Owners"]


class Owners:
    """Decides which token owns an instance, and which instances a caller may see.

    Args:
        hosts: The instances.
        quotas: Instances that each token may own at a time, by its name; ``None`` is
            any number.

    Attributes:
        quotas: The same.
    """

    def __init__(self, hosts: Hosts, quotas: Mapping[str, int | None]) -> None:
        self._hosts = hosts
        self.quotas = quotas

    def choose(self, named: str | None, head: RequestHead) -> str:
        """Return the owner of an instance to be made.

        Args:
            named: Owner that the create request names; ``None`` if it names none.
            head: Head of that request.

        Raises:
            ScopeMissing: Only an admin may make instances for another token.
            BadParameter: No token has this name.
        """
        owner = head.creator if named is None else named
        if head.owner and owner != head.owner:
            raise ScopeMissing(head.owner, ADMIN)
        if named is not None and named not in self.quotas:
            raise BadParameter(
                f"for is {named!r:.80}: expected the name of a token in the server's "
                "--tokens file"
            )
        return owner

    def quota_reached(self, owner: str) -> TooManyInstances | None:
        """Return the problem of an owner that has as many instances as it may have."""
        most = self.quotas.get(owner)
        if most is None:
            return None
        count = sum(each.owner == owner for each in self._hosts)
        if count >= most:
            return TooManyInstances(
                f"the token {owner!r} has {count} instances, and may have {most} "
                "(max_instances in the server's --tokens file): close one",
                extras={"instances": count, "max_instances": most},
            )
        return None

    def slots(self, head: RequestHead) -> dict[str, int]:
        """Return the slots that each owner takes, by name.

        Owners that the caller may not see count as one. Slots without an owner are
        left out.
        """
        taken: Counter[str] = Counter()
        for each in self._hosts.serving():
            if each.owner:
                taken[each.owner if head.owner in ("", each.owner) else OTHER] += 1
        return dict(sorted(taken.items()))

    def owned(self, instances: Iterable[Instance], head: RequestHead) -> list[Instance]:
        """List those of the instances that a caller may see."""
        if not head.owner:
            return list(instances)
        return [each for each in instances if each.owner == head.owner]

    def check(self, head: RequestHead) -> None:
        """Check that the caller may see the instance that a request names.

        An ID that this server has not issued passes, since no token owns it.

        Raises:
            UnknownInstance: Another token owns the instance.
        """
        instance_id = head.instance_id
        if not head.owner:
            return
        found = self._hosts.find(instance_id) or self._hosts.tombstones.get(instance_id)
        if found is not None and found.owner != head.owner:
            raise UnknownInstance(instance_id)
