"""Lines of the log: their form, their levels and their rate."""

import json
import logging
import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest

from gym_http_server.config.settings import Settings
from gym_http_server.processes import log_lines, log_stream

NAME = "gym_http_server.supervisor"


@pytest.fixture(autouse=True)
def _put_back(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    root, package = logging.getLogger(), logging.getLogger("gym_http_server")
    handlers, levels = root.handlers[:], (root.level, package.level)
    monkeypatch.setattr("sys.stderr", None)
    monkeypatch.setattr(log_lines, "_json", False)
    # Removed before, since those of pytest would be closed.
    root.handlers.clear()
    yield
    root.handlers[:] = handlers
    root.setLevel(levels[0])
    package.setLevel(levels[1])
    log_stream.STDERR.block()


def test_a_line_has_time_with_zone_level_and_request(
    capfd: pytest.CaptureFixture[str],
) -> None:
    log_lines.configure(Settings())
    before = datetime.now(UTC)
    log_lines.write(logging.INFO, NAME, "3c657dbc made \ud800\n\x1b[31m\u202e", "a-1")
    logging.getLogger(NAME).warning("%s ended", "3c657dbc", extra={"request_id": "a-2"})
    logging.getLogger(NAME).debug("unseen")
    first, second = capfd.readouterr().err.splitlines()
    when, _, rest = first.partition(" ")
    shown = datetime.fromisoformat(when)
    assert shown.utcoffset() is not None
    assert before - timedelta(seconds=1) < shown <= datetime.now(UTC)
    made = r"3c657dbc made \ud800\u000a\u001b[31m\u202e"
    assert rest == f"INFO {NAME}: {made} [request a-1]"
    assert second.endswith(f" WARNING {NAME}: 3c657dbc ended [request a-2]")


def test_a_line_of_json_is_an_object(capfd: pytest.CaptureFixture[str]) -> None:
    log_lines.configure(Settings(log_format="json"))
    log_lines.write(logging.INFO, NAME, 'made\n"x"\u2028', "a-1")
    try:
        raise ValueError("no\nway")
    except ValueError:
        logging.getLogger("elsewhere").exception("failed")
    first, second = map(json.loads, capfd.readouterr().err.splitlines())
    assert first["level"] == "info"
    assert first["message"] == 'made\n"x"\u2028'
    assert first["request_id"] == "a-1"
    assert datetime.fromisoformat(first["time"]).utcoffset() is not None
    assert (second["logger"], second["level"]) == ("elsewhere", "error")
    assert second["exception"].startswith("Traceback (most recent call last):\n")
    assert second["exception"].endswith("\nValueError: no\nway")


def test_a_traceback_forges_no_line_and_moves_no_cursor(
    capfd: pytest.CaptureFixture[str],
) -> None:
    log_lines.configure(Settings())
    forged = "2026-01-01T00:00:00.000+00:00 INFO gym_http_server: forged"
    try:
        raise ValueError(f"no\x1b[31m\x85\u202e\r\n{forged}\u2028{forged}")
    except ValueError:
        logging.getLogger(NAME).exception("failed")
    first, *trace = capfd.readouterr().err.removesuffix("\n").split("\n")
    assert first.endswith(f" ERROR {NAME}: failed")
    assert trace[0] == "    Traceback (most recent call last):"
    assert trace[-2:] == [
        r"    ValueError: no\u001b[31m\u0085\u202e\u000d",
        rf"    {forged}\u2028{forged}",
    ]
    assert all(each.startswith("    ") for each in trace)


@pytest.mark.parametrize(
    ("level", "seen"),
    [("debug", "dwe"), ("info", "we"), ("warning", "we"), ("error", "e")],
)
def test_the_level_is_of_this_package(
    level: str, seen: str, capfd: pytest.CaptureFixture[str]
) -> None:
    log_lines.configure(Settings(log_level=level))
    log = logging.getLogger(NAME)
    log.debug("d")
    log.warning("w")
    log_lines.write(logging.ERROR, NAME, "e")
    log_lines.access(
        peer="127.0.0.1", method="GET", path="/\n", status=200, request_id="a"
    )
    *lines, last = capfd.readouterr().err.splitlines()
    assert "".join(line[-1] for line in lines) == seen
    assert re.search(r"127\.0\.0\.1 GET /\\u000a 200, .* \[request a\]$", last)


def test_a_limited_log_counts_dropped_lines(
    caplog: pytest.LogCaptureFixture,
) -> None:
    now = 0.0
    limited = log_lines.LimitedLog(logging.getLogger(NAME), lambda: now)
    for i in range(100):
        limited.warning(f"refused {i}")
    now = 1.5
    limited.warning("refused again")
    now = 3.0
    limited.warning("refused at last")
    assert [each.getMessage() for each in caplog.records] == [
        "refused 0",
        "refused again, after 99 others",
        "refused at last",
    ]


def test_a_limited_log_takes_the_message_whole(
    caplog: pytest.LogCaptureFixture,
) -> None:
    limited = log_lines.LimitedLog(logging.getLogger(NAME))
    limited.warning("refused 100%s", request_id="abc")
    (record,) = caplog.records
    assert record.getMessage() == "refused 100%s"
    assert record.request_id == "abc"
    # An argument of a message must not be taken for the ID of a request.
    with pytest.raises(TypeError):
        limited.warning("refused %s", "what")
