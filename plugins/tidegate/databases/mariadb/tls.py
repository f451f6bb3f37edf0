"""Encrypted sessions of MariaDB and MySQL, by `ssl_mode` in the words of MySQL's clients.

The driver by itself would encrypt and, though it was given authorities, check no certificate.
"""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from typing import Any

import pymysql


def arguments(settings: Mapping[str, str]) -> dict[str, Any]:
    """What `pymysql.connect` takes for it. Raises pymysql's NotSupportedError for files that cannot be used."""
    mode = settings.get("ssl_mode", "PREFERRED")
    if mode == "DISABLED":
        return {"ssl_disabled": True}
    if mode == "PREFERRED":
        return {}  # encrypted if the server can
    authorities, certificate = settings.get("ssl_ca"), settings.get("ssl_cert")
    try:
        made = ssl.create_default_context(cafile=authorities)
        if certificate:
            made.load_cert_chain(certificate, settings.get("ssl_key"))
    except OSError as error:
        named = ", ".join(filter(None, (authorities, certificate, settings.get("ssl_key"))))
        raise pymysql.err.NotSupportedError(0, f"the connection's ssl files ({named}): {error}") from None
    made.verify_flags &= ~ssl.VERIFY_X509_STRICT  # certificates that MySQL made for itself do not pass it
    made.check_hostname = mode == "VERIFY_IDENTITY"
    if mode == "REQUIRED":
        made.verify_mode = ssl.CERT_NONE
    return {"ssl": made}


def distrusted(error: BaseException) -> bool:
    """Whether the server's certificate was refused: nobody but a person can mend that."""
    return isinstance(getattr(error, "original_exception", None), ssl.SSLCertVerificationError)
