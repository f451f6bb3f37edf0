"""Encrypted sessions: what `ssl`, `ssl_mode` and `sslmode` of a connection say is so, on the real servers."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from dev.stack import debian
from tests.databases import servers
from tests.databases.servers import Server
from tests.tls import self_signed
from tidegate.core.base.connection import Connection
from tidegate.core.base.errors import SourceError
from tidegate.databases import kinds
from tidegate.databases.mariadb import session


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("tls")


@pytest.fixture(scope="module")
def trusted(folder: Path) -> str:
    """Whose certificate is the server's."""
    return str(self_signed(folder)[1])


@pytest.fixture(scope="module")
def server(folder: Path, trusted: str) -> Iterator[Server]:
    if not debian.is_here():
        pytest.skip("no Debian here, whose packages bring MariaDB")
    with servers.mariadb(folder, options=(f"--ssl-cert={trusted}", f"--ssl-key={folder / 'k.pem'}")) as found:
        yield found


def cipher(server: Server, **extra: Any) -> str:
    """Of a session; empty in one that is not encrypted."""
    found = session.connect(kinds.for_workers(replace(server.connection, extra=extra)), 20.0)
    try:
        with found.cursor() as cursor:
            cursor.execute("SHOW SESSION STATUS LIKE 'Ssl_cipher'")
            return str(cursor.fetchone()[1])
    finally:
        found.close()


def test_a_session_is_encrypted_as_the_mode_says(server: Server, trusted: str) -> None:
    ca = {"ca": trusted}
    assert cipher(server, ssl_mode="DISABLED") == ""
    for extra in ({}, {"ssl_mode": "REQUIRED"}, {"ssl": ca}, {"ssl": ca, "ssl_mode": "verify_identity"}):
        assert cipher(server, **extra), extra


def test_a_certificate_that_nobody_trusts_is_refused(server: Server, trusted: str, tmp_path: Path) -> None:
    """Before a password is sent, and nobody tries again by himself."""
    other = str(self_signed(tmp_path)[1])
    for host, extra in (
        ("127.0.0.1", {"ssl": {"ca": other}}),
        ("127.0.0.1", {"ssl_mode": "VERIFY_CA"}),
        ("localhost", {"ssl_mode": "VERIFY_IDENTITY", "ssl": {"ca": trusted}}),
    ):
        with pytest.raises(SourceError, match="certificate verify failed") as e:
            kinds.opened(replace(server.connection, host=host, extra=extra), 20.0).tables()
        assert not e.value.retry, extra
    by_name = replace(server, connection=replace(server.connection, host="localhost"))
    assert cipher(by_name, ssl={"ca": trusted}), "by a name that the certificate does not have"
    assert cipher(server, ssl_mode="REQUIRED", ssl={"ca": other}), "encrypted, by whomever"


def test_files_that_are_missing(server: Server, tmp_path: Path) -> None:
    for name in ("ca", "cert"):
        at = replace(server.connection, extra={"ssl": {name: str(tmp_path / "none.pem")}})
        with pytest.raises(SourceError, match=r"none\.pem.*No such file") as e:
            kinds.opened(at, 20.0).tables()
        assert not e.value.retry


@pytest.mark.parametrize("extra", [{"ssl": "{"}, {"ssl": ["ca.pem"]}, {"ssl_mode": "always"}])
def test_extras_that_say_nothing(extra: dict[str, Any]) -> None:
    with pytest.raises(SourceError, match="ssl or ssl_mode is invalid") as e:
        kinds.for_workers(Connection(conn_id="x", conn_type="mysql", host="db", extra=extra))
    assert not e.value.retry


def test_postgresql_without_tls_where_it_is_asked_for(postgresql: Server) -> None:
    for mode in ("require", "verify-full"):
        at = replace(postgresql.connection, extra={"sslmode": mode})
        with pytest.raises(SourceError, match="does not support SSL|root certificate") as e:
            kinds.opened(at, 20.0).tables()
        assert not e.value.retry, mode
