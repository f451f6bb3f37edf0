"""A Java trust store (JKS) with the certificate authorities that this Python trusts.

A Java from pip knows only its own authorities, so behind a company's proxy it would refuse what pip accepts. The
format is simple enough to write with the standard library, and holds no secret.
"""

from __future__ import annotations

import hashlib
import os
import ssl
import struct
from pathlib import Path

from dev.stack.errors import StackError

PASSWORD = "changeit"  # Java's customary one: a trust store's password only guards against accidents
_BUNDLES = ("/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/cert.pem")
_BEGIN, _END = "-----BEGIN CERTIFICATE-----", "-----END CERTIFICATE-----"


def write_truststore(target: Path) -> int:
    """Write the store; returns how many certificates it holds. Raises StackError when Python knows no bundle."""
    certificates = list(dict.fromkeys(_certificates(_bundle())))
    body = struct.pack(">III", 0xFEEDFEED, 2, len(certificates))
    for number, der in enumerate(certificates):
        alias, kind = f"ca{number}".encode(), b"X.509"
        body += struct.pack(">IH", 2, len(alias)) + alias + struct.pack(">QH", 0, len(kind)) + kind
        body += struct.pack(">I", len(der)) + der
    # The keyed digest that Java's JKS reader checks, its odd constant included.
    seal = hashlib.sha1(PASSWORD.encode("utf-16-be") + b"Mighty Aphrodite" + body, usedforsecurity=False).digest()
    target.write_bytes(body + seal)
    return len(certificates)


def _bundle() -> Path:
    paths = ssl.get_default_verify_paths()
    candidates = [os.environ.get("SSL_CERT_FILE"), paths.cafile, paths.openssl_cafile, *_BUNDLES]
    for candidate in candidates:
        if candidate and os.path.isfile(candidate):
            return Path(candidate)
    try:
        import certifi
    except ImportError:
        raise StackError("no bundle of certificate authorities found; set SSL_CERT_FILE to one") from None
    return Path(certifi.where())


def _certificates(bundle: Path) -> list[bytes]:
    parts = bundle.read_text(encoding="utf-8", errors="replace").split(_BEGIN)[1:]
    return [ssl.PEM_cert_to_DER_cert(_BEGIN + part.split(_END)[0] + _END) for part in parts]
