"""What the workflow may expect of another system that counts windows: on the fake, SQLite, PostgreSQL, Hive, an HTTP
server on the loopback, and an audit topic on a real broker."""

from __future__ import annotations

import json
import sqlite3
import ssl
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path
from typing import Any, Protocol

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from sqlalchemy import create_engine
from sqlalchemy.engine import make_url

from tests.fakes.counting_server import CountingServer
from tests.fakes.truth import FakeTruth
from tests.real_kafka import Topic
from tests.world import HOUR, T0, make_pipeline, window
from tidegate.adapters.connections import Connection, ConnectionMissing
from tidegate.adapters.truth import truth_of
from tidegate.core.errors import TruthUnknown
from tidegate.core.pipeline import Completeness
from tidegate.core.truth import Truth

QUERY = "select n from counts where start_ms = :start_ms and at >= :start and at < :end and end_ms = :end_ms"


class Teller(Protocol):
    """The other system: `tell` gives a window's count, `leave` makes it unreachable."""

    truth: Truth

    def tell(self, hour: int, count: Any) -> None: ...
    def leave(self) -> None: ...


def asked(settings: Completeness, connection: Connection | None) -> Truth:
    from dataclasses import replace

    def lookup(conn_id: str) -> Connection:
        if connection is None:
            raise ConnectionMissing(f"connection {conn_id} is not in this environment")
        return connection

    truth = truth_of(replace(make_pipeline("file:///lake/t"), completeness=settings), lookup)
    assert truth is not None
    return truth


class Fake:
    def __init__(self) -> None:
        self.truth = FakeTruth()

    def tell(self, hour: int, count: Any) -> None:
        self.truth.counts[T0 + hour * HOUR] = count

    def leave(self) -> None:
        self.truth.problem = "away"


class Sqlite:
    def __init__(self, folder: Path) -> None:
        self.path = folder / "other system's counts.db"
        self._do("create table counts (at text, start_ms bigint, end_ms bigint, n)")
        self.truth = asked(
            Completeness("sql", "counts", query=QUERY), Connection("counts", "sqlite", host=str(self.path))
        )

    def tell(self, hour: int, count: Any) -> None:
        at = f"2013-01-05 {hour:02d}:00:00"
        self._do("insert into counts values (?, ?, ?, ?)", at, T0 + hour * HOUR, T0 + (hour + 1) * HOUR, count)

    def leave(self) -> None:
        self.path.unlink()

    def _do(self, statement: str, *values: Any) -> None:
        with sqlite3.connect(self.path) as c:
            c.execute(statement, values)
        c.close()


class Postgres:
    """`at` has no zone and a server's own zone is far away: instants must be compared in UTC all the same."""

    def __init__(self, server: str) -> None:
        self.url, self.name = make_url(server), f"counts_{uuid.uuid4().hex[:8]}"
        self._admin(f"create database {self.name}", f"alter database {self.name} set timezone to 'Asia/Tokyo'")
        self._engine = create_engine(self.url.set(database=self.name), isolation_level="AUTOCOMMIT")
        self.do("create table counts (at timestamp, start_ms bigint, end_ms bigint, n double precision)")
        self.truth = self.asking(QUERY)

    def connection(self) -> Connection:
        url, extra = self.url, dict(self.url.query)
        host = url.host or extra.pop("host", None)
        return Connection("counts", "postgres", host, url.port, url.username, url.password, self.name, extra)

    def asking(self, query: str) -> Truth:
        return asked(Completeness("sql", "counts", query=query), self.connection())

    def tell(self, hour: int, count: Any) -> None:
        value = "null" if count is None else f"'{count}'::double precision"
        at = f"2013-01-05 {hour:02d}:00:00"
        self.do(f"insert into counts values ('{at}', {T0 + hour * HOUR}, {T0 + (hour + 1) * HOUR}, {value})")

    def leave(self) -> None:
        self._engine.dispose()
        self._admin(f"drop database {self.name} with (force)")

    def do(self, statement: str) -> None:
        with self._engine.connect() as c:
            c.exec_driver_sql(statement)

    def _admin(self, *statements: str) -> None:
        engine = create_engine(self.url, isolation_level="AUTOCOMMIT")
        with engine.connect() as c:
            for statement in statements:
                c.exec_driver_sql(statement)
        engine.dispose()


class Http:
    def __init__(self, server: CountingServer) -> None:
        self.server = server
        self.truth = self.asking(server.connection())

    def asking(self, connection: Connection, path: str = "/counts/{start_ms}?until={end}") -> Truth:
        return asked(Completeness("http", "counts", path=path, count_path="$.found.count"), connection)

    def tell(self, hour: int, count: Any) -> None:
        path = f"/counts/{T0 + hour * HOUR}?until=2013-01-05T{hour + 1:02d}%3A00%3A00Z"
        self.server.answers[path] = json.dumps({"found": {"count": count}})

    def leave(self) -> None:
        self.server.stop()


class Audit:
    def __init__(self, bootstrap: str, **paths: str) -> None:
        self.topic = Topic(bootstrap, 2)
        self.truth = self.asking(**paths)

    def asking(self, **paths: str) -> Truth:
        given = {"window_path": "$.window", "count_path": "$.count"} | paths
        settings = Completeness("topic", "kafka", topic=self.topic.name, **given)  # type: ignore[arg-type]
        return asked(settings, Connection("kafka", "kafka", extra=self.topic.settings))

    def tell(self, hour: int, count: Any) -> None:
        self.topic.produce({"window": T0 + hour * HOUR, "count": count}, partition=hour % 2)

    def leave(self) -> None:
        self.topic.delete()


@contextmanager
def telling(kind: str, request: pytest.FixtureRequest, folder: Path) -> Iterator[Any]:
    if kind == "fake":
        yield Fake()
    elif kind == "sqlite":
        yield Sqlite(folder)
    elif kind == "postgres":
        made = Postgres(request.getfixturevalue("postgres").ledger_url)
        yield made
        made._admin(f"drop database if exists {made.name} with (force)")
    elif kind == "http":
        with CountingServer() as server:
            yield Http(server)
    else:
        yield Audit(request.getfixturevalue("kafka").kafka_bootstrap)


@pytest.fixture(params=["fake", "sqlite", "postgres", "http", "topic"])
def teller(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Any]:
    with telling(request.param, request, tmp_path) as made:
        yield made


@pytest.fixture
def postgres_teller(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Postgres]:
    with telling("postgres", request, tmp_path) as made:
        yield made


@pytest.fixture
def http() -> Iterator[Http]:
    with CountingServer() as server:
        yield Http(server)


@pytest.fixture
def audit(kafka: Any) -> Audit:
    return Audit(kafka.kafka_bootstrap)


# ---------------------------------------------------------------- the contract


def test_the_count_of_a_window(teller: Teller) -> None:
    teller.tell(1, 3)
    teller.tell(2, 0)
    teller.tell(3, 10**12)
    found = [teller.truth.expected(window(hour)) for hour in (1, 2, 3)]
    assert found == [3, 0, 10**12]
    assert all(type(count) is int for count in found)


def test_a_window_that_it_does_not_know_yet(teller: Teller) -> None:
    teller.tell(1, 3)
    if isinstance(teller, Http):
        teller.tell(2, None)
    assert teller.truth.expected(window(2)) is None
    teller.tell(3, None)
    assert teller.truth.expected(window(3)) is None


@pytest.mark.parametrize("count", [-1, 0.5])
def test_what_is_no_count_is_unknown(teller: Teller, count: Any) -> None:
    teller.tell(1, count)
    with pytest.raises(TruthUnknown, match="is not a (whole number|count of rows)"):
        teller.truth.expected(window(1))


def test_nobody_there_is_unknown(teller: Teller) -> None:
    teller.tell(1, 3)
    teller.leave()
    with pytest.raises(TruthUnknown) as caught:
        teller.truth.expected(window(1))
    assert "\n" not in str(caught.value)
    assert caught.value.retry


# ---------------------------------------------------------------- SQL


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("select nothing from counts where :start_ms > 0", 'column "nothing" does not exist'),
        ("select 1 where :start_ms > 0 union all select 2", "must give one row with one column"),
        ("select 1, 2 where :start_ms > 0", "must give one row with one column"),
        ("select '12' where :start_ms > 0", "'12' is not a number"),
        ("select true where :start_ms > 0", "True is not a number"),
        ("select 'NaN'::numeric where :start_ms > 0", "NaN is not a whole number"),
        ("select 1e20::numeric where :start_ms > 0", "is not a count of rows"),
        ("with gone as (delete from counts returning 1) select 1 where :start_ms > 0", "DECLARE CURSOR|read-only"),
        ("select setval('seq', 7) where :start_ms > 0", "read-only transaction"),
    ],
)
def test_what_postgres_refuses_is_unknown(postgres_teller: Postgres, query: str, message: str) -> None:
    postgres_teller.do("create sequence seq")
    with pytest.raises(TruthUnknown, match=message):
        postgres_teller.asking(query).expected(window(1))


def test_a_query_that_gives_a_million_rows_is_not_fetched(postgres_teller: Postgres) -> None:
    with pytest.raises(TruthUnknown, match="one row"):
        postgres_teller.asking("select i from generate_series(1, 1000000) as s(i) where :start_ms > 0").expected(
            window(1)
        )


def test_sums_are_counts(postgres_teller: Postgres) -> None:
    """`sum` of bigints is numeric."""
    assert (
        postgres_teller.asking("select sum(i::bigint) from generate_series(1, 4) s(i) where :end_ms > 0;").expected(
            window(1)
        )
        == 10
    )


def test_instants_in_columns_with_and_without_a_zone(postgres_teller: Postgres) -> None:
    postgres_teller.do("create table seen (a timestamp, b timestamptz)")
    postgres_teller.do("insert into seen values ('2013-01-05 01:00', '2013-01-05 01:59:59.999+00')")
    query = "select count(*) from seen where a >= :start and a < :end and b >= :start and b < :end"
    truth = postgres_teller.asking(query)
    assert [truth.expected(window(hour)) for hour in (0, 1, 2)] == [0, 1, 0]


def test_a_slow_database_is_unknown(postgres_teller: Postgres, tmp_path: Path) -> None:
    from tidegate.adapters.connections import database_url
    from tidegate.adapters.truth_sql import SqlTruth

    connection = postgres_teller.connection()
    slow = SqlTruth(connection, lambda: database_url(connection), "select count(pg_sleep(30)), :start", timeout_s=0.2)
    with pytest.raises(TruthUnknown, match="statement timeout"):
        slow.expected(window(1))
    other = Sqlite(tmp_path)
    endless = "with recursive n(i) as (select 1 union all select i + 1 from n) select count(*) from n where :start > ''"
    slow = SqlTruth(Connection("c", "sqlite", host=str(other.path)), lambda: None, endless, timeout_s=0.1)
    with pytest.raises(TruthUnknown, match="interrupted"):
        slow.expected(window(1))


def test_sqlite_is_only_read(tmp_path: Path) -> None:
    from tidegate.adapters.truth_sql import SqlTruth

    connection = Connection("c", "sqlite", host=str(Sqlite(tmp_path).path))
    with pytest.raises(TruthUnknown, match="readonly database"):
        SqlTruth(connection, lambda: None, "insert into counts values (:start, 1, 2, 3)").expected(window(1))
    with pytest.raises(TruthUnknown, match="there is no file"):
        SqlTruth(Connection("c", "sqlite", host=f"{tmp_path}/none"), lambda: None, "select 1").expected(window(1))
    assert not (tmp_path / "none").exists()


def test_the_password_is_in_no_reason(postgres_teller: Postgres) -> None:
    from dataclasses import replace

    connection = replace(postgres_teller.connection(), login="somebody", password="s3cret-word")
    truth = asked(Completeness("sql", "counts", query="select 1 where :start is null"), connection)
    with pytest.raises(TruthUnknown) as caught:
        truth.expected(window(1))
    assert "s3cret-word" not in str(caught.value)


@pytest.mark.parametrize("kind", ["mysql", "http", None])
def test_other_databases_are_refused_by_name(kind: str | None) -> None:
    truth = asked(Completeness("sql", "counts", query="select 1"), Connection("counts", kind, host="db"))
    with pytest.raises(TruthUnknown, match=f"is of type {kind}: counts can be asked of postgres, sqlite, hiveserver2"):
        truth.expected(window(1))


def test_hive(hive_spark: Any) -> None:
    connection = Connection("counts", "hiveserver2", hive_spark.hive_host, hive_spark.hive_port)
    when = "timestamp '2013-01-05 01:30:00' >= :start and timestamp '2013-01-05 01:30:00' < :end"
    ask = {
        "select count(*) from (select 1 as a union all select 2) t where " + when: [0, 2, 0],
        "select cast(:end_ms - :start_ms as bigint)": [HOUR] * 3,
        "select 1 where 1 = 2": [None] * 3,
        "select cast(null as bigint)": [None] * 3,
    }
    for query, counts in ask.items():
        truth = asked(Completeness("sql", "counts", query=query), connection)
        assert [truth.expected(window(hour)) for hour in (0, 1, 2)] == counts, query
    for query, message in {
        "select a from no_such_table": "no_such_table",
        "select explode(array(1,2,3))": "one row",
    }.items():
        with pytest.raises(TruthUnknown, match=message):
            asked(Completeness("sql", "counts", query=query), connection).expected(window(1))


# ---------------------------------------------------------------- HTTP

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
    from tidegate.adapters.truth_http import HttpTruth

    http.server.manner = how
    connection = http.server.connection()
    truth = HttpTruth(http.server.url, connection, "/x", "$.found.count", timeout_s=0.5)
    message = {"breaks off": "breaks off|no answer", "is gone": "no answer"}.get(how, "no whole answer within 0.5 s")
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
        http.asking(Connection("counts", "http", host=host)).expected(window(1))


def test_a_header_that_cannot_be_sent(http: Http) -> None:
    connection = http.server.connection(None, "two\nlines")
    with pytest.raises(TruthUnknown, match="cannot be asked: check the connection's host and headers") as caught:
        http.asking(connection).expected(window(1))
    assert "lines" not in str(caught.value)


def test_a_login_within_the_address(http: Http) -> None:
    host = f"http://user:s3cret-word@127.0.0.1:{http.server.port}"
    with pytest.raises(TruthUnknown) as caught:
        http.asking(Connection("counts", "http", host=host)).expected(window(1))
    assert "s3cret-word" not in str(caught.value)


def test_a_connection_that_is_missing() -> None:
    with pytest.raises(TruthUnknown, match="connection counts is not in this environment"):
        asked(Completeness("http", "counts", path="/", count_path="$.count"), None).expected(window(1))


# ---------------------------------------------------------------- an audit topic


def test_counts_of_several_messages_are_added_up(audit: Audit) -> None:
    for count, partition in ((3, 0), (4, 1), (5, 0)):
        audit.topic.produce({"window": T0 + HOUR, "count": count}, partition=partition)
    audit.topic.produce({"window": T0, "count": 100})
    assert audit.truth.expected(window(1)) == 12


def test_of_each_source_the_newest_counts(audit: Audit) -> None:
    for source, count, partition in (("a", 3, 0), ("b", 10, 1), ("a", 5, 0), (None, 1, 0), (None, 2, 0)):
        audit.topic.produce({"window": T0 + HOUR, "count": count, "by": {"host": source}}, partition=partition)
    assert audit.asking(source_path="$.by.host").expected(window(1)) == 5 + 10 + 2


def test_a_source_that_does_not_know_yet(audit: Audit) -> None:
    audit.topic.produce({"window": T0 + HOUR, "count": 3, "by": 1}, {"window": T0 + HOUR, "count": None, "by": 2})
    truth = audit.asking(source_path="$.by")
    assert truth.expected(window(1)) is None
    audit.topic.produce({"window": T0 + HOUR, "count": 4, "by": 2})
    assert truth.expected(window(1)) == 7


@pytest.mark.parametrize(
    "at", [T0 + HOUR, float(T0 + HOUR), "2013-01-05T01:00:00Z", "2013-01-05T02:00+01:00", "2013-01-05T01:00"]
)
def test_how_a_window_may_be_written(audit: Audit, at: Any) -> None:
    """Text without an offset is meant in the pipeline's zone, here UTC."""
    audit.topic.produce({"window": at, "count": 7})
    assert audit.truth.expected(window(1)) == 7


def test_messages_of_another_kind_do_not_count(audit: Audit) -> None:
    audit.topic.produce({"hello": 1}, None, {"window": T0 + HOUR, "count": 7}, {"window": T0, "count": "none of ours"})
    assert audit.truth.expected(window(1)) == 7


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        (b"{", "not JSON"),
        (b"\xff", "not JSON"),
        ({"window": "noon", "count": 1}, r"\$.window: neither epoch ms nor an ISO 8601 time: 'noon'"),
        ({"window": 1.5, "count": 1}, "neither epoch ms nor"),
        ({"window": True, "count": 1}, "neither epoch ms nor"),
        ({"window": None, "count": 1}, "neither epoch ms nor"),
        ({"window": T0 + HOUR}, r"nothing at \$.count"),
        ({"window": T0 + HOUR, "count": "7"}, r"\$.count: '7' is not a number"),
        ({"window": T0 + HOUR, "count": -7}, r"\$.count: -7 is not a count of rows"),
    ],
)
def test_a_message_that_cannot_be_read_is_named(audit: Audit, message: Any, reason: str) -> None:
    audit.topic.produce({"window": T0 + HOUR, "count": 7}, message)
    with pytest.raises(TruthUnknown, match=f"{audit.topic.name} partition 0 offset 1: .*{reason}|offset 1: {reason}"):
        audit.truth.expected(window(1))


def test_a_source_that_is_missing_is_named(audit: Audit) -> None:
    audit.topic.produce({"window": T0 + HOUR, "count": 7})
    with pytest.raises(TruthUnknown, match=r"offset 0: nothing at \$.by"):
        audit.asking(source_path="$.by").expected(window(1))


def test_only_committed_messages_count(audit: Audit) -> None:
    """What is aborted does not count, and an open transaction holds nobody up."""
    with audit.topic.transaction("abort") as produce:
        produce({"window": T0 + HOUR, "count": 1000})
    with audit.topic.transaction() as produce:
        produce({"window": T0 + HOUR, "count": 7})
    with audit.topic.transaction("hang") as produce:
        produce({"window": T0 + HOUR, "count": 2000})
    assert audit.truth.expected(window(1)) == 7


def test_more_messages_than_one_question_reads(audit: Audit, monkeypatch: pytest.MonkeyPatch) -> None:
    audit.topic.produce(*({"window": T0 + HOUR, "count": 1} for _ in range(5)))
    monkeypatch.setattr("tidegate.adapters.truth_topic.MOST_MESSAGES", 5)
    assert audit.truth.expected(window(1)) == 5
    audit.topic.produce({"window": T0 + HOUR, "count": 1}, partition=1)
    with pytest.raises(TruthUnknown, match="6 offsets since the window's start, more than 5"):
        audit.truth.expected(window(1))


@pytest.mark.parametrize("start", ["1e999999999", "-1e999999999", "1e-999999999", "9223372036854775808"])
def test_a_windows_start_that_is_no_instant_costs_no_time(start: str, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = Completeness("topic", "kafka", topic="audit", window_path="$.window", count_path="$.count")
    from tidegate.adapters.truth_topic import TopicTruth

    message = Said(f'{{"window": {start}, "count": 1}}'.encode())
    monkeypatch.setattr(TopicTruth, "_messages", lambda self, since: iter([message]))
    with pytest.raises(TruthUnknown, match="neither epoch ms nor"):
        TopicTruth({}, settings, "UTC").expected(window(1))


def test_counts_that_are_too_many_together(monkeypatch: pytest.MonkeyPatch) -> None:
    settings = Completeness("topic", "kafka", topic="audit", window_path="$.window", count_path="$.count")
    from tidegate.adapters.truth_topic import TopicTruth

    said = [Said(f'{{"window": {T0 + HOUR}, "count": {2**62}}}'.encode(), at) for at in (1, 2)]
    monkeypatch.setattr(TopicTruth, "_messages", lambda self, since: iter(said))
    with pytest.raises(TruthUnknown, match="all counts together: 9223372036854775808 is not a count of rows"):
        TopicTruth({}, settings, "UTC").expected(window(1))


@dataclass(frozen=True)
class Said:
    """A message of the audit topic."""

    content: bytes
    at: int = 0

    def value(self) -> bytes:
        return self.content

    def partition(self) -> int:
        return 0

    def offset(self) -> int:
        return self.at

    def timestamp(self) -> tuple[int, int]:
        return 1, self.at


def test_a_broker_that_is_not_there() -> None:
    settings = Completeness("topic", "kafka", topic="audit", window_path="$.window", count_path="$.count")
    from tidegate.adapters.truth_topic import TopicTruth

    truth = TopicTruth({"bootstrap.servers": "127.0.0.1:1"}, settings, "UTC", timeout_s=1)
    with pytest.raises(TruthUnknown, match="audit: Kafka at 127.0.0.1:1 has no answer"):
        truth.expected(window(1))
    with pytest.raises(TruthUnknown, match="no bootstrap.servers"):
        TopicTruth({}, settings, "UTC").expected(window(1))
