"""Training runs on a server, and clients with the tokens of their roles."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.support.api import Api
from tests.support.raw import Response
from tests.support.server import Server


def done(response: Response) -> Any:
    """Check that a request was successful, and return its value."""
    assert response.status in (200, 201), (response.status, response.text)
    return response.json()


@dataclass(frozen=True)
class Run:
    """A run, with the tokens that its creation returned.

    Attributes:
        api: A client that may use everything.
        name: Name of the run.
        tokens: The tokens by role.
    """

    api: Api
    name: str
    tokens: dict[str, str]

    @classmethod
    def create(cls, api: Api, name: str, **options: Any) -> "Run":
        """Create a run with limits and columns."""
        answer = done(api.post("/v1/runs/", {"run": name, **options}))
        return cls(api, name, answer["tokens"])

    def path(self, rest: str = "") -> str:
        """Return the path of one of its routes."""
        return f"/v1/runs/{self.name}/{rest}"

    def get(self, rest: str = "", **more: Any) -> Response:
        """Send a GET to one of its routes."""
        return self.api.get(self.path(rest), **more)

    def post(self, rest: str, *body: Any, **more: Any) -> Response:
        """Send a POST to one of its routes."""
        return self.api.post(self.path(rest), *body, **more)

    def put(self, rest: str, *body: Any, **more: Any) -> Response:
        """Send a PUT to one of its routes."""
        return self.api.request("PUT", self.path(rest), *body, **more)

    def session(self, worker: str = "w") -> str:
        """Begin a session and return its ID."""
        session: str = done(self.post("sessions/", {"worker": worker}))["session"]
        return session

    def samples(self, session: str, number: int = 1, **query: Any) -> str:
        """Return the target to which a batch of a session is posted."""
        given = {"session": session, "number": number, "policy": 0, "count": 1}
        text = "&".join(f"{name}={value}" for name, value in (given | query).items())
        return self.path(f"samples/?{text}")

    def stored(self) -> dict[str, int]:
        """Return the counts of batches in its status."""
        counts: dict[str, int] = done(self.get())["samples"]
        return counts


def body_files(server: Server) -> list[Path]:
    """Return the files of large bodies that the relay of a server keeps."""
    return list((server.data_dir / "relay").glob("*/*.body"))
