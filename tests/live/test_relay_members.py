"""Queries and bodies of runs on the shipped server: spellings and refusals."""

import concurrent.futures
from typing import Any

import pytest

from tests.support.api import Api, error, ok
from tests.support.runs import Run, done
from tests.support.server import Server

pytestmark = pytest.mark.live


@pytest.fixture(scope="module")
def run(server: Server) -> Run:
    """A run whose relay all tests of this file share."""
    return Run.create(Api(server), "members")


@pytest.mark.parametrize("seconds", ["1e1", "0.00000001e9", "10", "10.0"])
def test_a_lease_waits_as_long_however_the_seconds_are_written(
    seconds: str, run: Run
) -> None:
    session = run.session()
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        body = b'{"wait_s": %b}' % seconds.encode()
        leased = pool.submit(run.post, "samples/lease/", data=body)
        # A wait that ends at once ends before these are answered.
        for _ in range(20):
            ok(run.get())
        done(run.post(run.samples(session)[len(run.path()) :], data=b"x"))
        assert leased.result().status == 200


@pytest.mark.parametrize("number", ["2", "2.0", "2e0", "20e-1"])
def test_an_integer_is_one_in_any_spelling(number: str, run: Run) -> None:
    data = b'{"max_batches": %b, "max_bytes": %b}' % (number.encode(), number.encode())
    assert run.post("samples/lease/", data=data).status in (200, 204)
    assert run.get(f"records/?after={number}&limit={number}").status == 200


@pytest.mark.parametrize(
    ("rest", "body", "words"),
    [
        (
            "samples/lease/",
            {"max_batches": 0},
            "max_batches is 0: expected an integer from 1 to 10000",
        ),
        (
            "samples/lease/",
            {"max_batch": 1},
            "the request has the unknown member 'max_batch': expected some of "
            "max_bytes, max_batches, wait_s; did you mean 'max_batches'?",
        ),
        (
            "samples/lease/",
            {"wait_s": 51},
            "wait_s is 51: expected seconds from 0 to 50",
        ),
        ("samples/lease/", {"wait_s": None}, "wait_s is None: expected seconds"),
        ("samples/ack/", {"leases": [7]}, "leases[0] is 7: expected a string"),
        ("tokens/", {"role": "workers"}, "did you mean 'worker'?"),
        ("sessions/", {"worker": "-w"}, "worker is '-w': expected a letter or digit"),
    ],
)
def test_a_refused_body_says_what_would_be_right(
    rest: str, body: dict[str, Any], words: str, run: Run
) -> None:
    assert words in error(run.post(rest, body), 400, "bad-parameter")["message"]


@pytest.mark.parametrize(
    ("rest", "words"),
    [
        ("samples/?wait_s=51", "wait_s is 51: expected seconds from 0 to 50"),
        ("samples/?max_bytes=0", "max_bytes is 0: expected an integer from 1 to 9"),
        ("samples/?after=x", "after is 'x': expected an integer from 0"),
        ("records/?type=episodes", "type is 'episodes': expected 'episode' or"),
        ("records/?limits=1", "did you mean 'limit'?"),
    ],
)
def test_a_refused_query_says_what_would_be_right(
    rest: str, words: str, run: Run
) -> None:
    assert words in error(run.get(rest), 400, "bad-parameter")["message"]


def test_limits_of_a_run_have_maxima(run: Run) -> None:
    for name, most in (
        ("lease_s", 86400),
        ("deliveries", 1000),
        ("keep_weights", 1000),
    ):
        limits = {name: most + 1}
        refused = run.api.post("/v1/runs/", {"run": "large", "limits": limits})
        message = error(refused, 400, "bad-parameter")["message"]
        assert message.startswith(f"limits.{name} is {most + 1}: expected ")
        assert message.endswith(f" to {most}")
