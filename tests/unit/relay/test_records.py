"""Records are checked line by line, and evaluations find the best version."""

import json
import math

import pytest

from gym_http_server.errors import BodyTooLarge
from gym_http_server.services.relay.records import (
    LINE_BYTES,
    MOST_LINES,
    best_version,
    parse_records,
    record_line,
)
from gym_http_wire.problems import BadParameter

EPISODE = {"type": "episode", "mode": "training", "return": -3.5, "length": 200}


def line(**members: object) -> bytes:
    return json.dumps({**EPISODE, **members}).encode()


def test_lines_are_parsed_and_written_with_position_and_time() -> None:
    step = b'{"type": "training", "step": 7, "loss": 0.25}'
    data = line(version=2.0, extra=[1]) + b"\n\n" + step + b"\r\n"
    episode, training = parse_records(data, 12.5, worker="w1", newest=2)
    assert (episode.type, episode.mode, episode.worker) == ("episode", "training", "w1")
    assert (episode.version, episode.value, episode.time) == (2, -3.5, 12.5)
    assert (training.type, training.mode) == ("training", "")
    episode.position = 9
    written = record_line(episode)
    assert written.endswith(b"}\n")
    expected = {**EPISODE, "version": 2, "extra": [1], "worker": "w1"}
    assert json.loads(written) == {**expected, "position": 9, "time": 12.5}


@pytest.mark.parametrize(
    ("bad", "words"),
    [
        (b"[1]", "not a JSON object"),
        (b'{"type": "episode"', "not a JSON object"),
        (b"[" * 60_000, "not a JSON object"),
        (b"{}", "has no 'type': expected 'episode' or 'training'"),
        (line(type="other"), "type is 'other'"),
        (line(mode="test"), "mode is 'test'"),
        (line(**{"return": "high"}), "return is 'high'"),
        (line(**{"return": True}), "return is True"),
        (line(**{"return": float("nan")}), "not a JSON object"),
        (line(**{"return": 0}).replace(b"0,", b"1" + b"0" * 400 + b",", 1), "return"),
        (line(length=None), "length is None"),
        (line(version=4), "version is 4 in line 2 of the records: .* from 0 to 3"),
        (line(version=-1), "version is -1"),
        (line(version=1.5), "version is 1.5"),
        (line(worker=5), "worker is 5"),
        (line(position=1), "'position', which the relay sets"),
        (b'{"type": "training"}', "has no 'step'"),
    ],
)
def test_a_bad_line_is_named(bad: bytes, words: str) -> None:
    with pytest.raises(BadParameter, match=words) as caught:
        parse_records(line() + b"\n" + bad, 1.0, newest=3)
    assert "line 2" in caught.value.message


def test_the_best_version_has_five_evaluations_and_is_kept() -> None:
    evaluations = {1: (5, 50.0), 2: (4, 400.0), 3: (9, 90.0), 4: (6, 600.0)}
    assert best_version(evaluations, {1, 2, 3}) == (3, 10.0, 9)
    assert best_version(evaluations, {1, 2, 3, 4}) == (4, 100.0, 6)
    assert best_version(evaluations, {1, 2}) == (1, 10.0, 5)
    assert best_version(evaluations, {2}) is None
    assert best_version({}, {1}) is None


def test_a_version_whose_returns_overflow_is_not_the_best() -> None:
    evaluations = {1: (5, 50.0), 2: (5, math.inf), 3: (5, math.nan)}
    assert best_version(evaluations, {1, 2, 3}) == (1, 10.0, 5)
    assert best_version(evaluations, {2, 3}) is None


def test_lines_are_limited_before_they_are_parsed() -> None:
    step = b'{"type":"training","step":1}\n'
    assert len(parse_records(step * MOST_LINES, 0.0)) == MOST_LINES
    with pytest.raises(BodyTooLarge, match="further requests"):
        parse_records(b"no record\n" + step * MOST_LINES, 0.0)


def test_a_line_is_limited() -> None:
    padding = LINE_BYTES - len(line(note=""))
    with pytest.raises(BadParameter, match=f"line 2 .* {LINE_BYTES + 1} bytes"):
        parse_records(line() + b"\n" + line(note="x" * (padding + 1)), 1.0, newest=3)
    assert len(parse_records(line(note="x" * padding), 1.0, newest=3)) == 1
