"""Access control of a node: other nodes of its fleet act for callers they have checked.

They sign the name of the caller's token, and the request's ID, with the fleet token.
"""

from __future__ import annotations

import logging

import msgspec

from gym_http_server.access.identities import EVERYONE, READ, RUN_ROLE, Identity
from gym_http_server.config.inherited_settings import SettingsMemory
from gym_http_server.config.settings import Settings
from gym_http_server.errors import Unauthorized
from gym_http_server.operations.row import Operation
from gym_http_server.processes.log_lines import LimitedLog
from gym_http_server.web.api.exchange import Environ, request_id_of
from gym_http_server.web.api.guard import Guard
from gym_http_server.web.api.tickets import TicketHolder, Tickets
from gym_http_server.web.backends.peers import SCHEME, TAKING, PeerCaller, Peers

__all__ = ["FINDING", "FORWARDED", "FleetGuard"]

#: Key of the WSGI environment of a request that another node has forwarded.
FORWARDED = "gym_http_server.forwarded"
#: In place of a key, in the request that finds the node of a recording.
FINDING = "find"

log = logging.getLogger("gym_http_server.fleet")


class FleetGuard(Guard):
    """Checks requests of clients and of other nodes.

    Args:
        peers: The other nodes.
        settings: The settings.
        tickets: The tickets that open streams instead of the token.
        memory: Where the launcher replaces settings; ``None``: no process does.
    """

    def __init__(
        self,
        peers: Peers,
        settings: Settings,
        tickets: Tickets,
        memory: SettingsMemory | None = None,
    ) -> None:
        super().__init__(settings, tickets, memory)
        self._peers = peers
        self._forged = LimitedLog(log)

    def check(self, environ: Environ, row: Operation) -> Identity:
        """Check that a request is allowed, and return the identity of its token."""
        shown = environ.get("HTTP_AUTHORIZATION", "")
        if not shown.startswith(SCHEME):
            return super().check(environ, row)
        call = self._peers.read(
            shown,
            environ["REQUEST_METHOD"],
            environ["RAW_URI"],
            environ.get("HTTP_X_REQUEST_ID", ""),
            environ.get("HTTP_IDEMPOTENCY_KEY", ""),
        )
        if call is None:
            peer = environ["REMOTE_ADDR"] or "a local socket"
            self._forged.warning(
                f"ignored a request of {peer} as another server of the fleet: its "
                "signature is wrong",
                request_id=request_id_of(environ),
            )
            return super().check(environ, row)
        environ[FORWARDED] = True
        self.refresh()
        if environ.get("HTTP_IDEMPOTENCY_KEY") == TAKING and row.name == "ticket_issue":
            # The ticket is what counts.
            return EVERYONE
        identity = self._identity(call)
        if environ.get("HTTP_IDEMPOTENCY_KEY") == FINDING and row.name == "recording":
            scopes = identity.scopes | {READ}
            return msgspec.structs.replace(identity, scopes=scopes)
        return identity

    def holder_of(self, ticket: str) -> TicketHolder | None:
        """Use a ticket up on the node that issued it."""
        node = self._peers.issuer(ticket)
        if node is None:
            return super().holder_of(ticket)
        found = self._peers.take_ticket(node, ticket)
        return None if found is None else TicketHolder(*found)

    def _identity(self, call: PeerCaller) -> Identity:
        if call.run_token:
            scopes = frozenset({RUN_ROLE})
            return Identity("run-token", scopes, run_token=call.run_token)
        found = self.named(call.name)
        if found is None:
            raise Unauthorized(
                f"the token {call.name!r:.80} is not in the --tokens file of the "
                "instance's server: the servers of a fleet need the same file"
            )
        return found
