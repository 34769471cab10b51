"""Members of requests to the server itself, and of external environments."""

from __future__ import annotations

from gym_http_server.operations.members import Flag, Member, Seconds, Text

__all__ = ["EXTERNAL_REQUEST", "REGISTRY", "TICKET"]

REGISTRY = {
    "search": Member(Text(0, 200), "Only those with this text in their name."),
    "available": Member(Flag(), "Only those that can, or cannot, be created here."),
}
EXTERNAL_REQUEST = {
    "wait_s": Member(Seconds(0, 50), "Seconds to wait for a request.", default=25),
}
TICKET = {"ticket": Member(Text(1, 100), "The ticket.", required=True)}
