"""Causes: why there is no answer, from libraries' exceptions to the client's errors."""

from __future__ import annotations

import http.client
import ssl
from collections.abc import Iterator

import requests
from urllib3.exceptions import HTTPError
from urllib3.exceptions import TimeoutError as WaitTimeout

from gym_http_client.errors import (
    ServerError,
    ServerTimeout,
    ServerUnreachable,
    UnexpectedAnswer,
)
from gym_http_client.failures import ABSENT, Failure, FailureKind
from gym_http_client.http1 import Reply

__all__ = ["check_head", "error_of", "failure_of"]

_TIMEOUTS = (requests.Timeout, WaitTimeout)
_LOSSES = (
    requests.ConnectionError,
    requests.exceptions.ChunkedEncodingError,
    HTTPError,
)
#: What OpenSSL says of an answer without TLS.
_PLAIN = ("WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE")
_CUT_OFF = (ssl.SSLEOFError, ssl.SSLSyscallError, ssl.SSLZeroReturnError)
_BODILESS = frozenset({204, 304})


def failure_of(error: Exception, limit: float | None) -> Failure:
    """Give the failure that an exception of ``requests`` or ``urllib3`` stands for.

    Args:
        error: The exception.
        limit: Seconds that each wait could take.
    """
    kind = _kind(error)
    timeout = kind is FailureKind.TIMEOUT and limit is not None
    failure = Failure(
        kind, f"nothing within {limit:g} s" if timeout else _reason(error)
    )
    failure.__cause__ = error
    return failure


def error_of(
    failure: Failure,
    method: str,
    url: str,
    key: str | None,
    count: int,
    heard: str = "",
) -> ServerError:
    """Give the error to raise when a request brought no answer.

    Args:
        failure: What the last try failed of.
        method: The request's.
        url: Where it went.
        key: Its ``Idempotency-Key``, if it had one.
        count: How often it was sent, or tried to be.
        heard: What came of the last try that did not just take too long, in words.
    """
    if failure.kind is FailureKind.MISTAKEN:
        return UnexpectedAnswer(f"{url} cannot be asked: {failure}", url=url)
    if failure.kind is FailureKind.MALFORMED:
        words = f"The answer of {url} is malformed, {failure}"
        return UnexpectedAnswer(f"{words}: is it a gym_http_server?", url=url)
    timeout = failure.kind is FailureKind.TIMEOUT
    words = f"{method} {url} had no answer: {failure}"
    words += f"; before that: {heard}" if timeout and heard else ""
    details = [f"after {count} attempts"] if count > 1 else []
    details += [f"Idempotency-Key {key}"] if key else []
    words += f" ({', '.join(details)})" if details else ""
    if failure.kind is FailureKind.ABSENT:
        words += ": is a gym_http_server running there?"
    if any(reason in str(failure) for reason in _PLAIN):
        words += ": if the server does not speak TLS, its address begins with http://"
    error = (ServerTimeout if timeout else ServerUnreachable)(words, url=url)
    error.key = key
    error.attempts = count
    return error


def check_head(reply: Reply) -> None:
    """Refuse an answer whose head was cut off, which ``http.client`` takes for whole.

    Raises:
        requests.ConnectionError: It was: nothing says how long its body would be.
    """
    if reply.status in _BODILESS or reply.body:
        return
    if not (
        reply.headers.get("content-length") or "transfer-encoding" in reply.headers
    ):
        raise requests.ConnectionError("the answer ended within its head")


def _kind(error: Exception) -> FailureKind:
    causes = list(_causes(error))
    if any(isinstance(cause, ABSENT) for cause in causes):
        return FailureKind.ABSENT
    if any(isinstance(cause, _TIMEOUTS) for cause in causes):
        return FailureKind.TIMEOUT
    if isinstance(error, requests.exceptions.SSLError):
        cut = any(isinstance(cause, _CUT_OFF) for cause in causes)
        return FailureKind.LOST if cut else FailureKind.UNTRUSTED
    if any(_is_no_http(cause) for cause in causes):
        return FailureKind.MALFORMED
    return FailureKind.LOST if isinstance(error, _LOSSES) else FailureKind.MALFORMED


def _is_no_http(cause: BaseException) -> bool:
    # A status line without its end was cut off, whatever there was of it.
    if not isinstance(cause, http.client.BadStatusLine):
        return False
    return str(cause.args[0]).endswith("\n")


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    # Not by __context__: that may be what the caller was just dealing with.
    while error is not None:
        yield error
        found = (error.__cause__, getattr(error, "reason", None), *error.args)
        error = next((each for each in found if isinstance(each, Exception)), None)


def _reason(error: Exception) -> object:
    """Find what urllib3 says below its "Max retries exceeded", which misleads here."""
    inner = error.args[0] if error.args else error
    return getattr(inner, "reason", inner)
