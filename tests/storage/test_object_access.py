"""How an object store is reached: from an Airflow connection to jobs and child processes, in secret."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests.spec_texts import GOOD
from tidegate.core.base.connection import Connection
from tidegate.core.base.errors import TidegateError
from tidegate.core.spec.pipeline import Sink
from tidegate.spec.loader import load_file
from tidegate.storage import ObjectStorage, for_uri
from tidegate.storage.access import access_for, access_of, as_secrets
from tidegate.wiring import job_secrets

AWS = Connection(
    conn_id="aws_default",
    conn_type="aws",
    login="AK",
    password="SK",
    extra={"region_name": "eu-central-1", "endpoint_url": "http://127.0.0.1:1", "aws_session_token": "ST"},
)
PLAIN = {
    "access_key_id": "AK", "secret_access_key": "SK", "session_token": "ST",
    "endpoint_url": "http://127.0.0.1:1", "region": "eu-central-1", "connection": "aws_default",
}  # fmt: skip
SINK = Sink(
    conn_id="c", table="lake.t", location="s3://bucket/t", workdir="s3://bucket/t/_tidegate", kind="iceberg",
    options=(("object_store_conn_id", "aws_default"),),
)  # fmt: skip


def connection(conn_id: str) -> Connection:
    if conn_id == "aws_default":
        return AWS
    return Connection(conn_id=conn_id, conn_type="kafka", extra={"bootstrap.servers": "b:1", "sasl.password": "kafka"})


def test_a_connection_is_read_as_its_provider_reads_it() -> None:
    assert access_of(AWS) == PLAIN
    service = replace(
        AWS, extra={"service_config": {"s3": {"endpoint_url": "https://s3"}}, "endpoint_url": "https://x"}
    )
    assert access_of(service)["endpoint_url"] == "https://s3"
    assert access_of(Connection(conn_id="a", conn_type="aws")) == {}, "the environment's, or a role"


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        ({"conn_type": "s3"}, "needs aws"),
        ({"password": None}, "only one of login and password"),
        ({"login": None}, "only one of login and password"),
        ({"extra": {"role_arn": "arn:..."}}, "role_arn"),
        ({"extra": {"profile_name": "p"}}, "profile_name"),
    ],
)
def test_what_cannot_be_followed_is_refused(changed, says) -> None:
    with pytest.raises(TidegateError, match=says) as refused:
        access_of(replace(AWS, **changed))
    assert refused.value.advice
    assert "SK" not in str(refused.value)


def test_only_a_location_in_a_store_needs_it() -> None:
    assert access_for(SINK, connection) == PLAIN
    assert access_for(replace(SINK, location="file:///t"), connection) == {}
    assert access_for(replace(SINK, options=()), connection) == {}


def test_a_job_gets_it_among_its_secrets(tmp_path: Path) -> None:
    text = GOOD.replace("  location: file:///lake/orders", "  kind: iceberg\n  location: s3://bucket/t")
    path = tmp_path / "orders.yaml"
    path.write_text(text.replace("  table:", "  object_store_conn_id: aws_default\n  table:"))
    pipeline = load_file(path)
    found = job_secrets(pipeline, connection)
    assert as_secrets(PLAIN).items() <= found.items()
    assert found["sasl.password"] == "kafka"

    from spark_jobs.engine import secrets

    secrets.use(found)
    try:
        assert secrets.storage_access() == PLAIN
        assert secrets.client_secrets() == {"sasl.password": "kafka"}
        from spark_jobs.storage import open_storage

        opened = open_storage("s3://bucket/t")
        assert isinstance(opened, ObjectStorage)
        assert opened._access == PLAIN
    finally:
        secrets.use(None)


def test_the_adapter_is_chosen_by_the_scheme() -> None:
    assert isinstance(for_uri("s3://bucket/t", access=PLAIN), ObjectStorage)
    with pytest.raises(TidegateError):
        for_uri("s3a://bucket/t")
