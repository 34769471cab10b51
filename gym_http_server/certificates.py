"""Check the TLS certificate and key of the settings before the server starts."""

from __future__ import annotations

import dataclasses
import os

from gym_http_server.errors import SettingError
from gym_http_server.settings import Settings

__all__ = ["settle"]


def settle(settings: Settings) -> Settings:
    """Check certificate and key, and make their paths absolute.

    Raises:
        SettingError: One is missing or cannot be read, or they do not fit together.
    """
    certfile, keyfile = settings.certfile, settings.keyfile
    if not certfile and not keyfile:
        return settings
    if not keyfile:
        raise SettingError(f"--certfile is {certfile!r}, without --keyfile: set both")
    if not certfile:
        raise SettingError(f"--keyfile is {keyfile!r}, without --certfile: set both")
    for flag, path in (("--certfile", certfile), ("--keyfile", keyfile)):
        try:
            with open(path, "rb") as file:
                file.read(1)
        except OSError as error:
            raise SettingError(
                f"{flag} is {path!r}, which cannot be read: {error.strerror}"
            ) from None
    _check_pair(certfile, keyfile)
    return dataclasses.replace(
        settings, certfile=os.path.abspath(certfile), keyfile=os.path.abspath(keyfile)
    )


def _check_pair(certfile: str, keyfile: str) -> None:
    # Only servers with TLS need it.
    import ssl

    def password() -> str:
        raise SettingError(
            f"--keyfile is {keyfile!r}, which has a password: expected a key without"
        )

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    try:
        context.load_cert_chain(certfile, keyfile, password)
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
