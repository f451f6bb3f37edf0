"""Schemas by their ids from a registry: what it answers, and what is made of it when it does not."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from spark_jobs.engine.failures import JobError
from spark_jobs.engine.formats import registry as module
from spark_jobs.engine.formats.avro_decoder import AvroDecoder
from spark_jobs.engine.formats.registry import SchemaRegistry, UnknownSchema, WrongSchema, registry_of_job
from tests.engine_fixtures import chunk_of
from tests.fakes.registry import FakeRegistry, serving
from tests.format_fixtures import spec
from tidegate.core.base.connection import Connection
from tidegate.core.spec.pipeline import AvroFormat, Format
from tidegate.spark.launcher import secrets_file
from tidegate.wiring import registry_secrets

INT = json.dumps({"type": "record", "name": "R", "fields": [{"name": "c", "type": "int"}]})


@pytest.fixture
def fake() -> Iterator[FakeRegistry]:
    with serving(FakeRegistry({7: {"schema": INT}})) as registry:
        yield registry


def client(fake: FakeRegistry, pauses: list[float] | None = None) -> SchemaRegistry:
    login = fake.login or (None, None)
    return SchemaRegistry(fake.url + "/", *login, pause=(pauses if pauses is not None else []).append)


def test_a_schema_by_its_id(fake):
    assert client(fake).schema(7, "AVRO") == (INT, ())
    assert fake.asked == ["/schemas/ids/7"]


def test_what_is_not_there_is_a_definite_answer(fake):
    pauses: list[float] = []
    with pytest.raises(UnknownSchema, match=rf"schema id 8 is not in the registry {fake.url}"):
        client(fake, pauses).schema(8, "AVRO")
    assert (fake.asked, pauses) == (["/schemas/ids/8"], [])


def test_a_schema_of_another_format(fake):
    fake.schemas[9] = {"schema": "syntax = ...", "schemaType": "PROTOBUF"}
    with pytest.raises(WrongSchema, match="schema id 9 is of type PROTOBUF, not AVRO"):
        client(fake).schema(9, "AVRO")
    fake.schemas[9] = {"schema": INT, "schemaType": "AVRO"}
    assert client(fake).schema(9, "AVRO") == (INT, ())


def reference(subject: str, version: int = 1) -> dict[str, object]:
    return {"name": "x", "subject": subject, "version": version}


def test_references_come_in_the_order_in_which_they_are_needed(fake):
    fake.schemas[7]["references"] = [reference("a/b ü"), reference("c", 2)]
    fake.subjects[("a/b ü", 1)] = {"schema": "A", "references": [reference("c", 2)]}
    fake.subjects[("c", 2)] = {"schema": "C", "references": [reference("a/b ü")]}  # a circle ends
    assert client(fake).schema(7, "AVRO") == (INT, ("C", "A"))
    assert fake.asked == ["/schemas/ids/7", "/subjects/a%2Fb%20%C3%BC/versions/1", "/subjects/c/versions/2"]
    del fake.subjects[("c", 2)]
    with pytest.raises(UnknownSchema, match="c version 2 is missing"):
        client(fake).schema(7, "AVRO")


@pytest.mark.parametrize("failures", [[503], [0, 500, 429], [404]], ids=str)
def test_what_may_pass_is_tried_again(fake, failures):
    fake.failures, pauses = list(failures), []
    assert client(fake, pauses).schema(7, "AVRO") == (INT, ())
    assert pauses == [0.5, 1.0, 2.0][: len(failures)]


def test_a_registry_that_does_not_answer_is_a_failure_that_a_retry_can_help(fake):
    fake.failures = [503] * 10
    with pytest.raises(JobError, match="has no answer: HTTP 503") as error:
        client(fake).schema(7, "AVRO")
    assert error.value.failure.retry
    assert len(fake.asked) == module.TRIES
    dead = SchemaRegistry("http://127.0.0.1:1", pause=lambda seconds: None)
    with pytest.raises(JobError, match="has no answer: .*refused") as error:
        dead.schema(7, "AVRO")
    assert error.value.failure.retry


@pytest.mark.parametrize(
    ("answer", "says"),
    [(b"<html>", "no JSON object"), ({"schema": 7}, "comes without its schema"), (["x"], "no JSON object")],
)
def test_what_is_no_registry_needs_a_human(fake, answer, says):
    fake.schemas[7] = answer
    with pytest.raises(JobError, match=says) as error:
        client(fake).schema(7, "AVRO")
    assert not error.value.failure.retry
    assert "format.registry_conn_id" in error.value.failure.advice


def test_another_path_of_another_server_is_no_missing_schema(fake):
    wrong = SchemaRegistry(fake.url + "/base", pause=lambda seconds: None)
    with pytest.raises(JobError, match="HTTP 404 for /schemas/ids/7"):
        wrong.schema(7, "AVRO")


def test_a_login_is_sent_and_its_refusal_is_told_without_it(fake):
    fake.login = ("me", "hunter2")
    assert client(fake).schema(7, "AVRO") == (INT, ())
    with pytest.raises(JobError, match="refuses us: HTTP 401") as error:
        SchemaRegistry(fake.url, "me", "hunter3").schema(7, "AVRO")
    assert not error.value.failure.retry
    assert "hunter" not in str(error.value.failure)


def test_a_job_finds_it_in_its_secrets_and_asks_once(fake, monkeypatch):
    fake.login = ("me", "hunter2")
    port = int(fake.url.rpartition(":")[2])
    connection = Connection(conn_id="r", conn_type="http", host="127.0.0.1", port=port, login="me", password="hunter2")
    made = spec(Format("avro", avro=AvroFormat("confluent", registry_conn_id="r")), {"c": "int"})
    with secrets_file(registry_secrets(connection)) as path:
        monkeypatch.setenv("TIDEGATE_SECRETS_FILE", str(path))
        decoder = AvroDecoder(made)
        for _ in range(3):
            decoded = decoder.decode(chunk_of([b"\x00\x00\x00\x00\x07\x0a", b"\x00\x00\x00\x00\x07\x0c"]))
            assert decoded.table["c"].to_pylist() == [5, 6]
    assert fake.asked == ["/schemas/ids/7"]


@pytest.mark.parametrize("row", ["A-message-registry"])
def test_no_record_is_dirty_because_the_registry_is_away(row, fake, monkeypatch):
    made = spec(
        Format("avro", avro=AvroFormat("confluent", registry_conn_id="r", unknown_schema="dirty")), {"c": "int"}
    )
    fake.failures = [500] * module.TRIES
    decoder = AvroDecoder(made, lambda: client(fake))
    with pytest.raises(JobError, match="has no answer"):
        decoder.decode(chunk_of([b"\x00\x00\x00\x00\x07\x0a"]))
    assert decoder.decode(chunk_of([b"\x00\x00\x00\x00\x07\x0a"])).bad == {}
    monkeypatch.delenv("TIDEGATE_SECRETS_FILE", raising=False)
    with pytest.raises(JobError, match="was not told where the schema registry is"):
        registry_of_job()
