"""A Node process that provides an environment."""

from tests.support.drivers import CLIENTS, needs
from tests.support.peers.reporting_process import ReportingProcess


class JsProvider(ReportingProcess):
    """A Node process that provides an environment, and reports its handlers' calls."""

    def __init__(
        self,
        url: str,
        kind: str,
        dialect: str,
        token: str | None = None,
        transport: str = "websocket",
    ) -> None:
        needs("node")
        program = str(CLIENTS / "js/tests/providing.mjs")
        words = ("node", program, url, "toy", kind, dialect, transport)
        super().__init__(words, token=token)
