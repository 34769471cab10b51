"""Access control of a node: other nodes of its fleet act for callers they have checked.

They sign the name of the caller's token, and the request's ID, with the fleet token.
"""

from __future__ import annotations

import logging

import msgspec

from gym_http_server.access.identities import NODE, Identity
from gym_http_server.config.inherited_settings import SettingsMemory
from gym_http_server.config.settings import Settings
from gym_http_server.errors import NodesOnly, Unauthorized
from gym_http_server.fleet.callers import (
    SCHEME,
    ForwardedCaller,
    SignedParts,
)
from gym_http_server.fleet.records import Record
from gym_http_server.operations.row import Operation
from gym_http_server.operations.table import OPERATIONS
from gym_http_server.processes.log_lines import LimitedLog
from gym_http_server.web.api.exchange import (
    FORWARDED,
    Environ,
    address_of,
    request_id_of,
)
from gym_http_server.web.api.guard import Guard, run_identity
from gym_http_server.web.api.tickets import TicketHolder, Tickets
from gym_http_server.web.backends.nodes.fleet import Fleet

__all__ = ["FleetGuard"]

TICKET_SECONDS = 5.0
#: What a node asks of another one, whatever its caller may do: the ticket is what
#: counts, or the node of a run.
_OF_NO_CALLER = frozenset({"ticket_take", "run_find"})

log = logging.getLogger("gym_http_server.fleet")


class FleetGuard(Guard):
    """Checks requests of clients and of other nodes.

    Args:
        fleet: The fleet.
        settings: The settings.
        tickets: The tickets that open streams instead of the token.
        memory: Where the launcher replaces settings; ``None``: no process does.
    """

    def __init__(
        self,
        fleet: Fleet,
        settings: Settings,
        tickets: Tickets,
        memory: SettingsMemory | None = None,
    ) -> None:
        super().__init__(settings, tickets, memory)
        self._fleet = fleet
        self._forged = LimitedLog(log)

    def check(self, environ: Environ, row: Operation) -> Identity:
        """Check that a request is allowed, and return the identity of its token."""
        caller = self._forwarded_caller(environ)
        if caller is None:
            identity = super().check(environ, row)
            if NODE in row.scopes:
                raise NodesOnly
            return identity
        environ[FORWARDED] = True
        self.refresh()
        if row.name in _OF_NO_CALLER:
            return Identity(scopes=row.scopes)
        identity = self._identity(caller)
        if NODE not in row.scopes:
            return identity
        scopes = identity.scopes | row.scopes
        return msgspec.structs.replace(identity, scopes=scopes)

    def _forwarded_caller(self, environ: Environ) -> ForwardedCaller | None:
        """Return the caller for whom another node acts; ``None`` if none does."""
        header = environ.get("HTTP_AUTHORIZATION", "")
        if not header.startswith(SCHEME):
            return None
        parts = SignedParts(
            environ["REQUEST_METHOD"],
            environ["RAW_URI"],
            environ.get("HTTP_X_REQUEST_ID", ""),
            environ.get("HTTP_IDEMPOTENCY_KEY", ""),
        )
        caller = self._fleet.callers.read(header, parts)
        if caller is None:
            self._forged.warning(
                f"ignored a request of {address_of(environ)} as another node of the "
                "fleet: its signature is wrong",
                request_id=request_id_of(environ),
            )
        return caller

    def _identity(self, caller: ForwardedCaller) -> Identity:
        if caller.run_token:
            return run_identity(caller.run_token)
        found = self.named(caller.name)
        if found is None:
            raise Unauthorized(
                f"the token {caller.name!r:.80} is not in the --tokens file of the "
                "instance's node: the nodes of a fleet need the same file"
            )
        return found

    def holder_of(self, ticket: str) -> TicketHolder | None:
        """Use a ticket up on the node that issued it."""
        node = self._fleet.nodes.other_of(ticket)
        if node is None:
            return super().holder_of(ticket)
        return self._take_there(node, ticket)

    def _take_there(self, node: Record, ticket: str) -> TicketHolder | None:
        row = OPERATIONS["ticket_take"]
        body = msgspec.json.encode({"ticket": ticket})
        # If its answer is lost, the ticket is.
        answer = self._fleet.ask(
            node, row.method, row.path, body=body, timeout_s=TICKET_SECONDS
        )
        if answer.status != 200 or not isinstance(answer.body, bytes):
            return None
        return TicketHolder(*msgspec.json.decode(answer.body, type=tuple[str, str]))
