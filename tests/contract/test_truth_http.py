"""Counts that a web service is asked for."""

from __future__ import annotations

import ssl
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from tests.fakes.counting_server import CountingServer
from tests.truth_tellers import Http, asked
from tests.world import window
from tidegate.core.base.connection import Connection
from tidegate.core.base.errors import TruthUnknown
from tidegate.core.spec.pipeline import Completeness


@pytest.fixture
def http() -> Iterator[Http]:
    with CountingServer() as server:
        yield Http(server)


ANSWERS = [
    # status, body, what it is taken for
    (200, '{"found": {"count": 12}, "more": [1, {"a": NaN}]}', "not JSON"),
    (200, '{"found": {"count": 12.0}}', 12),
    (200, '{"found": {"count": 1e3}}', 1000),
    (200, '{"found": {"count": 12.5}}', "12.5 is not a whole number"),
    (200, '{"found": {"count": "12"}}', "'12' is not a number"),
    (200, '{"found": {"count": true}}', "True is not a number"),
    (200, '{"found": {"count": 9223372036854775808}}', "is not a count of rows"),
    (200, '{"found": {"count": 1e999999999}}', "1E[+]999999999 is not a count of rows"),
    (200, '{"found": {}}', r"nothing at \$.found.count"),
    (200, '{"found": null}', r"nothing at \$.found.count"),
    (200, "[12]", r"nothing at \$.found.count"),
    (200, "12", r"nothing at \$.found.count"),
    (200, "", "not JSON: ''"),
    (200, "<html>sign in</html>", "not JSON: '<html>sign in</html>'"),
    (200, b'{"found": {"count": 12}, "name": "\xff"}', "not JSON"),
    (200, "[" * 100_000, "not JSON"),
    (200, '{"found": {"count": 12}}' + " " * 1024 * 1024, "more than 1,048,576 bytes"),
    (204, "", None),
    (202, '{"found": {"count": 12}}', "answers HTTP 202"),
    (401, "no", "refuses us: HTTP 401"),
    (403, "no", "refuses us: HTTP 403"),
    (404, '{"found": {"count": 12}}', "answers HTTP 404"),
    (429, "", "answers HTTP 429"),
    (500, "", "answers HTTP 500"),
    (503, "", "answers HTTP 503"),
]


@pytest.mark.parametrize(("status", "body", "taken"), ANSWERS)
def test_answers_of_a_service(http: Http, status: int, body: str | bytes, taken: int | str | None) -> None:
    http.server.answer = (status, body)
    if not isinstance(taken, str):
        assert http.truth.expected(window(1)) == taken
        return
    with pytest.raises(TruthUnknown, match=taken) as caught:
        http.truth.expected(window(1))
    assert len(str(caught.value)) < 300


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_a_redirect_is_not_followed(http: Http, status: int) -> None:
    """Its login would go where the answer says."""
    http.server.answer = (status, "")
    http.server.location = f"{http.server.url}/elsewhere"
    with pytest.raises(TruthUnknown, match=f"redirects \\(HTTP {status}\\)"):
        http.truth.expected(window(1))
    assert len(http.server.asked) == 1


@pytest.mark.parametrize("how", ["drips", "hangs", "breaks off", "is gone"])
def test_a_service_that_does_not_end_its_answer(http: Http, how: str) -> None:
    from tidegate.completeness.service import HttpTruth

    http.server.manner = how
    connection = http.server.connection()
    ends = {"breaks off": "breaks off|no answer", "is gone": "no answer"}
    limit = 60.0 if how in ends else 0.5
    truth = HttpTruth(http.server.url, connection, "/x", "$.found.count", timeout_s=limit)
    message = ends.get(how, "no whole answer within 0.5 s")
    with pytest.raises(TruthUnknown, match=message):
        truth.expected(window(1))


@pytest.mark.parametrize(
    ("login", "password", "extra", "expected"),
    [
        ("user", "pass:word", {}, "Basic dXNlcjpwYXNzOndvcmQ="),
        (None, "t0ken", {}, "Bearer t0ken"),
        (None, None, {"Authorization": "Token abc", "timeout": "9", "verify": False}, "Token abc"),
        (None, None, {"headers": {"Authorization": "Token def"}}, "Token def"),
        (None, None, {}, None),
    ],
)
def test_the_login_comes_from_the_connection(
    http: Http, login: str | None, password: str | None, extra: dict[str, Any], expected: str | None
) -> None:
    http.server.answer = (200, '{"found": {"count": 12}}')
    assert http.asking(http.server.connection(login, password, extra)).expected(window(1)) == 12
    (headers,) = http.server.headers
    assert headers.get("Authorization") == expected
    assert "timeout" not in headers


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, ssl.SSLContext]:
    """One that nobody has signed, for 127.0.0.1: its file, and a server's context with it."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "counts")])
    now, day = datetime.now(UTC), timedelta(days=1)
    made = x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number(), now - day, now + day)
    address = x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))])
    signed = made.add_extension(address, critical=False).sign(key, hashes.SHA256())
    folder = tmp_path_factory.mktemp("tls")
    (folder / "cert.pem").write_bytes(signed.public_bytes(Encoding.PEM))
    (folder / "key.pem").write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "cert.pem", folder / "key.pem")
    return folder / "cert.pem", context


@pytest.mark.parametrize("verify", [True, False, "the file", "no file"])
def test_https(certificate: tuple[Path, ssl.SSLContext], verify: bool | str) -> None:
    """`verify` of the connection's extra, as Airflow reads it; by default nobody is believed unseen."""
    path, context = certificate
    with CountingServer(context) as server:
        server.answer = (200, '{"found": {"count": 12}}')
        files = {"the file": str(path), "no file": str(path.parent / "none.pem")}
        extra = {} if verify is True else {"verify": files.get(str(verify), verify)}
        truth = Http(server).asking(server.connection("user", "word", extra))
        if verify in (True, "no file"):
            with pytest.raises(TruthUnknown, match="CERTIFICATE_VERIFY_FAILED|none.pem: No such file"):
                truth.expected(window(1))
            assert server.headers == []
        else:
            assert truth.expected(window(1)) == 12


def test_a_login_is_in_no_reason(http: Http) -> None:
    http.server.answer = (401, "no")
    with pytest.raises(TruthUnknown) as caught:
        http.asking(http.server.connection("user", "s3cret-word")).expected(window(1))
    assert "s3cret-word" not in str(caught.value)


@pytest.mark.parametrize("host", [None, "no such host", "http://127.0.0.1:99999"])
def test_addresses_that_cannot_be(http: Http, host: str | None) -> None:
    with pytest.raises(TruthUnknown):
        http.asking(Connection(conn_id="counts", conn_type="http", host=host)).expected(window(1))


def test_a_header_that_cannot_be_sent(http: Http) -> None:
    connection = http.server.connection(None, "two\nlines")
    with pytest.raises(TruthUnknown, match="cannot be asked: check the connection's host and headers") as caught:
        http.asking(connection).expected(window(1))
    assert "lines" not in str(caught.value)


def test_a_login_within_the_address(http: Http) -> None:
    host = f"http://user:s3cret-word@127.0.0.1:{http.server.port}"
    with pytest.raises(TruthUnknown) as caught:
        http.asking(Connection(conn_id="counts", conn_type="http", host=host)).expected(window(1))
    assert "s3cret-word" not in str(caught.value)


def test_a_connection_that_is_missing() -> None:
    with pytest.raises(TruthUnknown, match="connection counts is not in this environment"):
        asked(Completeness(source="http", conn_id="counts", path="/", count_path="$.count"), None).expected(window(1))
