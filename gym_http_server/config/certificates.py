"""The server's TLS certificate: read and checked by the launcher, used by web workers.

They get its content, so that all of them have the same one, whatever is in the files
meanwhile.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import msgspec

from gym_http_server.config.settings import Settings
from gym_http_server.errors import SettingError

if TYPE_CHECKING:
    # Only servers with TLS need it.
    import ssl
    from collections.abc import Iterator

__all__ = ["Certificate", "check_paths", "read_certificate"]


class Certificate(msgspec.Struct, frozen=True):
    """A certificate and its key.

    Attributes:
        chain: The certificate, followed by its chain, in PEM.
        key: The key, in PEM.
    """

    chain: bytes
    key: bytes

    def context(self) -> ssl.SSLContext:
        """Return a context for the server's side of connections.

        Raises:
            ssl.SSLError: It is not a certificate, or the key does not match.
            _HasPassword: The key has a password.
        """
        import ssl

        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        with _file(self.chain) as chain, _file(self.key) as key:
            context.load_cert_chain(chain, key, _refuse_password)
        return context

    @property
    def ends(self) -> datetime:
        """Until when the certificate is valid."""
        import ssl

        with _file(self.chain) as chain:
            # Public functions decode only certificates that a peer has shown.
            decoded = ssl._ssl._test_decode_cert(chain)  # type: ignore[attr-defined]
        seconds = ssl.cert_time_to_seconds(decoded["notAfter"])
        return datetime.fromtimestamp(seconds, UTC)


class _HasPassword(Exception):
    """The key has a password."""


def _refuse_password() -> str:
    raise _HasPassword


@contextlib.contextmanager
def _file(content: bytes) -> Iterator[str]:
    """Yield the path of a file in memory, for a function that takes only paths."""
    with os.fdopen(os.memfd_create("certificate"), "wb") as file:
        file.write(content)
        file.flush()
        yield f"/proc/self/fd/{file.fileno()}"


def check_paths(settings: Settings) -> Settings:
    """Check that there are both a certificate and its key, and make paths absolute.

    Raises:
        SettingError: One is missing.
    """
    certfile, keyfile = settings.certfile, settings.keyfile
    if not certfile and not keyfile:
        return settings
    if not keyfile:
        raise SettingError(f"--certfile is {certfile!r}, without --keyfile: set both")
    if not certfile:
        raise SettingError(f"--keyfile is {keyfile!r}, without --certfile: set both")
    return dataclasses.replace(
        settings, certfile=os.path.abspath(certfile), keyfile=os.path.abspath(keyfile)
    )


def read_certificate(settings: Settings) -> Certificate | None:
    """Read and check certificate and key; return ``None`` for a server without TLS.

    Args:
        settings: As of `check_paths`.

    Raises:
        SettingError: One cannot be read, or they do not match.
    """
    certfile, keyfile = settings.certfile, settings.keyfile
    if not certfile:
        return None
    import ssl

    read = (_read("--certfile", certfile), _read("--keyfile", keyfile))
    certificate = Certificate(*read)
    try:
        certificate.context()
    except _HasPassword:
        raise SettingError(
            f"--keyfile is {keyfile!r}, which has a password: expected a key without"
        ) from None
    except ssl.SSLError as error:
        if error.reason == "KEY_VALUES_MISMATCH":
            raise SettingError(
                f"--keyfile is {keyfile!r}: expected the key of the certificate in "
                f"--certfile, which is {certfile!r}"
            ) from None
        why = (error.reason or str(error)).lower().replace("_", " ")
        raise SettingError(
            f"--certfile is {certfile!r} and --keyfile is {keyfile!r}: expected a "
            f"certificate and its key in PEM ({why})"
        ) from None
    return certificate


def _read(flag: str, path: str) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError as error:
        raise SettingError(
            f"{flag} is {path!r}, which cannot be read: {error.strerror}"
        ) from None
