"""What answers of a REST catalogue mean, and who asks: a server that says what the test wants.

What a real one does is in tests/contract/test_iceberg_catalogues.py."""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

import pytest
from pyiceberg.table.update import SetPropertiesUpdate

from tests.targets.iceberg.catalogues import SCHEMA, SPEC
from tidegate.core.base.connection import Connection
from tidegate.core.base.errors import CatalogueError, CatalogueMismatch, CatalogueUnsure
from tidegate.storage.local import LocalStorage
from tidegate.targets.iceberg import metadata
from tidegate.targets.iceberg.catalogue import Catalogue, Conflict, Loaded
from tidegate.targets.iceberg.file_io import StorageIO
from tidegate.targets.iceberg.opening import opened
from tidegate.targets.iceberg.rest_catalogue import Access, RestCatalogue

MADE = metadata.new(SCHEMA, SPEC, "file:///lake/t", {})
TABLE = {"metadata": json.loads(MADE.model_dump_json(exclude_none=True)), "metadata-location": "file:///lake/t/m.json"}
HELD = Loaded("transit.trams", MADE, "file:///lake/t/m.json", StorageIO(LocalStorage()))


@dataclass
class Told:
    """A server: `answers` by path; each request that it got."""

    answers: dict[str, tuple[int, Any]] = field(default_factory=dict)
    got: list[tuple[str, str, str, str]] = field(default_factory=list)
    port: int = 0

    @property
    def paths(self) -> list[str]:
        return [f"{method} {path}" for method, path, _, _ in self.got]

    def opened(self, **given: Any) -> RestCatalogue:
        return RestCatalogue(f"http://127.0.0.1:{self.port}/api", LocalStorage(), 2.0, **given)


@pytest.fixture
def server() -> Iterator[Told]:
    told = Told({"/api/v1/config": (200, {"defaults": {}, "overrides": {"prefix": "main"}})})

    class Handler(BaseHTTPRequestHandler):
        def answer(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0)).decode()
            path = self.path.partition("?")[0]
            told.got.append((self.command, self.path, self.headers.get("Authorization", ""), body))
            status, content = told.answers.get(path, (404, {"error": {"message": "no such thing", "code": 404}}))
            sent = content.encode() if isinstance(content, str) else json.dumps(content).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(sent)))
            self.end_headers()
            self.wfile.write(sent)

        do_GET = do_POST = answer

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as http:
        told.port = http.server_address[1]
        threading.Thread(target=http.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
        yield told
        http.shutdown()


def committed(catalogue: Catalogue) -> Loaded:
    return catalogue.commit(HELD, (), (SetPropertiesUpdate(updates={"x": "1"}),))


PLACE = "/api/v1/main/namespaces/transit/tables/trams"


@pytest.mark.parametrize(
    ("status", "content", "meant"),
    [
        (409, {"error": {"message": "Requirement failed"}}, Conflict),
        (400, {"error": {"message": "no such update"}}, CatalogueError),
        (401, {"error": {"message": "who are you"}}, CatalogueError),
        (403, "<html>forbidden</html>", CatalogueError),
        (404, {"error": {"message": "no such table"}}, CatalogueError),
        (419, {"error": {"message": "expired"}}, CatalogueError),
        (429, "", CatalogueError),
        (302, "", CatalogueError),
        (408, "", CatalogueUnsure),
        (500, {"error": {"message": "InternalServerError"}}, CatalogueUnsure),
        (502, "<html>bad gateway</html>", CatalogueUnsure),
        (503, "", CatalogueUnsure),
        (504, "", CatalogueUnsure),
        (200, "no json", CatalogueUnsure),
        (200, {"metadata": {"format-version": 9}}, CatalogueUnsure),
        (200, [], CatalogueUnsure),
        (200, TABLE, None),
    ],
)
def test_what_an_answer_to_a_commit_means(server: Told, status: int, content: Any, meant: type | None) -> None:
    """It is sent once, whatever the answer."""
    server.answers[PLACE] = (status, content)
    if meant is None:
        assert committed(server.opened()).metadata_location == TABLE["metadata-location"]
    else:
        with pytest.raises(CatalogueError) as told:
            committed(server.opened())
        assert type(told.value) is meant
        assert f"127.0.0.1:{server.port}/api" in str(told.value)
        assert "<html>" not in str(told.value)
        assert status not in (401, 403, 419) or "sink.catalog_conn_id" in told.value.advice
    assert server.paths == ["GET /api/v1/config", f"POST {PLACE}"]
    sent = json.loads(server.got[-1][3])
    asserted = {r["type"]: r for r in sent["requirements"]}
    assert asserted["assert-ref-snapshot-id"] == {"type": "assert-ref-snapshot-id", "ref": "main", "snapshot-id": None}
    assert asserted["assert-table-uuid"]["uuid"] == str(MADE.table_uuid)
    assert {"assert-current-schema-id", "assert-default-spec-id"} <= asserted.keys()


def test_what_an_answer_to_a_look_means(server: Told) -> None:
    catalogue = server.opened()
    assert catalogue.load("transit.trams") is None
    for status, content, meant in (
        (404, "<html>no such page</html>", CatalogueError),
        (500, {"error": {"message": "oops\n at java.lang"}}, CatalogueError),
        (200, {"metadata": {}}, CatalogueMismatch),
    ):
        server.answers[PLACE] = (status, content)
        with pytest.raises(CatalogueError) as told:
            catalogue.load("transit.trams")
        assert type(told.value) is meant
        assert "java.lang" not in str(told.value)
    server.answers["/api/v1/config"] = (404, "<html>")
    assert not catalogue.answers()


def test_a_namespace_that_is_missing_is_made_first(server: Told) -> None:
    server.answers["/api/v1/main/namespaces"] = (409, {"error": {"message": "another process has made it"}})
    with pytest.raises(CatalogueError, match="no such thing"):
        server.opened().create("transit.trams", SCHEMA, SPEC, "file:///lake/t", {})
    tables = "POST /api/v1/main/namespaces/transit/tables"
    assert server.paths == ["GET /api/v1/config", tables, "POST /api/v1/main/namespaces", tables]
    server.answers["/api/v1/main/namespaces"] = (503, "")
    with pytest.raises(CatalogueUnsure):
        server.opened().create("transit.trams", SCHEMA, SPEC, "file:///lake/t", {})


def test_a_client_asks_for_a_token_and_for_another_one_before_its_end(
    server: Told, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / ".netrc").write_text("machine 127.0.0.1 login somebody password else")
    (tmp_path / ".netrc").chmod(0o600)
    monkeypatch.setenv("HOME", str(tmp_path))
    server.answers["/api/v1/oauth/tokens"] = (200, {"access_token": "t1", "expires_in": 600})
    server.answers[PLACE] = (200, TABLE)
    now = [1000.0]
    monkeypatch.setattr("tidegate.targets.iceberg.rest_catalogue.time.monotonic", lambda: now[0])
    catalogue = server.opened(access=Access(client="me", secret="hush", more={"scope": "catalog"}), warehouse="w h")
    assert catalogue.load("transit.trams") is not None
    committed(catalogue)
    assert server.paths[:2] == ["POST /api/v1/oauth/tokens", "GET /api/v1/config?warehouse=w+h"]
    form = {"grant_type": ["client_credentials"], "client_id": ["me"], "client_secret": ["hush"], "scope": ["catalog"]}
    assert parse_qs(server.got[0][3]) == form
    assert [auth for _, _, auth, _ in server.got] == ["", *["Bearer t1"] * 3]

    now[0] += 550
    server.answers["/api/v1/oauth/tokens"] = (200, {"access_token": "t2", "expires_in": 600})
    committed(catalogue)
    assert [auth for _, _, auth, _ in server.got[4:]] == ["", "Bearer t2"]

    server.answers[PLACE] = (401, {"error": {"message": "revoked"}})
    with pytest.raises(CatalogueError, match="401 revoked"):
        committed(catalogue)
    server.answers["/api/v1/oauth/tokens"] = (401, {"error": "invalid_client", "error_description": "x"})
    with pytest.raises(CatalogueError, match="no token: 401 invalid_client") as told:
        committed(catalogue)
    assert (type(told.value), len(server.got)) == (CatalogueError, 8), "a token that was refused is not used again"
    assert "hush" not in repr(catalogue._access) + str(told.value)


# ---------------------------------------------------------------- Airflow connections


def connection(**given: Any) -> Connection:
    return Connection(conn_id="lake", **given)


@pytest.mark.parametrize(
    ("given", "address"),
    [
        ({"conn_type": "iceberg", "host": "https://c.example/api/catalog"}, "https://c.example/api/catalog"),
        ({"conn_type": "iceberg", "host": "https://c.example/ws/v1/"}, "https://c.example/ws"),
        ({"conn_type": "iceberg", "host": "c.example", "port": 8181}, "https://c.example:8181"),
        ({"conn_type": "iceberg", "host": "http://c.example/x", "port": 8181}, "http://c.example:8181/x"),
        ({"conn_type": "generic", "host": "http://c", "extra": {"type": "rest"}}, "http://c"),
        ({"conn_type": "postgres", "host": "db", "schema": "lake", "login": "me", "password": "hush"}, "db:5432/lake"),
        ({"conn_type": "generic", "host": "db", "port": 7, "schema": "l", "extra": {"type": "sql"}}, "db:7/l"),
        ({"conn_type": "generic", "extra": {"type": "sql", "uri": "postgresql://me:hush@db/l"}}, "db:5432/l"),
        ({"conn_type": "sqlite", "host": "/lake/catalogue.db"}, "/lake/catalogue.db"),
        ({"conn_type": "sqlite", "schema": "lake/catalogue.db"}, "/lake/catalogue.db"),
    ],
)
def test_a_connection_that_fits(given: dict[str, Any], address: str) -> None:
    assert opened(connection(**given), LocalStorage(), 5.0).address == address


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"conn_type": "kafka"}, "is of type kafka"),
        ({"conn_type": "generic", "host": "x"}, "extra type None"),
        ({"conn_type": "iceberg", "extra": {"type": "hive"}}, "extra type 'hive'"),
        ({"conn_type": "iceberg"}, "has no host"),
        ({"conn_type": "iceberg", "host": "thrift://hms:9083"}, "by http or https"),
        ({"conn_type": "iceberg", "host": "https://c", "login": "me"}, "without a password"),
        ({"conn_type": "iceberg", "host": "https://c", "extra": {"rest.sigv4-enabled": "true"}}, "rest.sigv4-enabled"),
        ({"conn_type": "postgres", "host": "db"}, "no schema"),
        ({"conn_type": "sqlite"}, "has no file"),
        ({"conn_type": "sqlite", "host": "catalogue.db"}, "absolute path"),
        ({"conn_type": "generic", "extra": {"type": "sql", "uri": "mysql://me:hush@db/l"}}, "of type mysql"),
        ({"conn_type": "generic", "extra": {"type": "sql", "uri": "hush"}}, "an invalid uri in its extra"),
    ],
)
def test_a_connection_that_does_not_fit(given: dict[str, Any], said: str) -> None:
    with pytest.raises(CatalogueError, match=said) as told:
        opened(connection(**given), LocalStorage(), 5.0)
    assert not told.value.retry
    assert "sink.catalog_conn_id" in str(told.value)
    assert "hush" not in str(told.value)


@pytest.mark.parametrize("module", ["sql_catalogue", "rest_catalogue"])
def test_the_extra_that_is_missing_is_named(monkeypatch: pytest.MonkeyPatch, module: str) -> None:
    """Airflow's constraints may pin another pyiceberg: hosts without Iceberg tables have none."""
    monkeypatch.setitem(sys.modules, f"tidegate.targets.iceberg.{module}", None)
    lake = connection(conn_type="generic", host="http://c", schema="l", extra={"type": module.partition("_")[0]})
    with pytest.raises(CatalogueError, match="pip install 'pyiceberg==0.12"):
        opened(lake, LocalStorage(), 5.0)


def test_an_opened_catalogue_works(tmp_path: Path) -> None:
    given: Callable[..., Connection] = connection
    path = f"{tmp_path}/catalogue.db"
    spark = opened(given(conn_type="sqlite", host=path, extra={"catalog_name": "lake"}), LocalStorage(), 5.0)
    made = spark.create("transit.trams", SCHEMA, SPEC, f"file://{tmp_path}/trams", {})
    assert opened(given(conn_type="sqlite", host=path), LocalStorage(), 5.0).load(made.name) is None, "another one"
    found = spark.load(made.name)
    assert found is not None
    assert found.metadata == made.metadata
