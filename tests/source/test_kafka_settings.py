"""From an Airflow connection's extra to what workers may see of it."""

from __future__ import annotations

from concurrent.futures import Future
from types import SimpleNamespace

import pytest
from confluent_kafka import KafkaError, KafkaException

from tidegate.core.base.errors import SourceError, SourceUnavailable
from tidegate.sources.kafka.control import KafkaSource, connection_settings

SECRETS = {
    "sasl.password": "hunter2",
    "ssl.key.password": "hunter2",
    "ssl.keystore.password": "hunter2",
    "ssl.key.pem": "hunter2",
    "sasl.oauthbearer.client.secret": "hunter2",
    "sasl.oauthbearer.config": "hunter2",
    "sasl.oauthbearer.assertion.private.key.passphrase": "hunter2",
    "sasl.oauthbearer.assertion.private.key.pem": "hunter2",
}
OPEN = {
    "bootstrap.servers": "a:9092,b:9092",
    "security.protocol": "SASL_SSL",
    "sasl.username": "tidegate",
    "ssl.ca.location": "/etc/ca.pem",
    "ssl.key.location": "/etc/key.pem",
}


def source(extra: dict) -> KafkaSource:
    return KafkaSource(connection_settings(extra), "read_committed", client_id="tidegate-flights")


def test_secrets_are_apart():
    found = source(OPEN | SECRETS)
    ours = {"client.id": "tidegate-flights", "isolation.level": "read_committed"}
    assert found.for_workers().settings == OPEN | ours
    assert found.for_workers().secrets == SECRETS


def test_what_the_spec_decides_is_not_taken_from_the_connection():
    extra = OPEN | {
        "group.id": "theirs",
        "auto.offset.reset": "latest",
        "enable.auto.commit": True,
        "isolation.level": "read_uncommitted",
        "client.id": "theirs",
        "error_cb": "their.module.callback",
    }
    found = source(extra).for_workers().settings
    assert found["isolation.level"] == "read_committed"
    assert found["client.id"] == "tidegate-flights"
    assert not found.keys() & {"group.id", "auto.offset.reset", "enable.auto.commit", "error_cb"}


def test_values_become_strings_as_librdkafka_wants_them():
    found = source(OPEN | {"socket.keepalive.enable": True, "socket.timeout.ms": 5000}).for_workers().settings
    assert found["socket.keepalive.enable"] == "true"
    assert found["socket.timeout.ms"] == "5000"


@pytest.mark.parametrize(
    ("extra", "said"),
    [
        ({}, "no bootstrap.servers"),
        ({"bootstrap.servers": ""}, "no bootstrap.servers"),
        (OPEN | {"topic": {"a": 1}}, "topic is not a string"),
        (OPEN | {"oauth_cb": "a.b"}, "oauth_cb"),
    ],
)
def test_wrong_extras_say_so(extra, said):
    with pytest.raises(SourceError, match=said) as refused:
        source(extra)
    assert refused.value.advice
    assert not refused.value.retry


def test_a_mistyped_setting_is_named_without_the_values_of_others():
    found = source({"bootstrap.servers": "127.0.0.1:1", "secuity.protocol": "SSL", "sasl.password": "hunter2"})
    with pytest.raises(SourceError, match=r"secuity\.protocol") as refused:
        found.look("flights")
    assert "hunter2" not in str(refused.value)
    assert not refused.value.retry


def test_a_misspelt_isolation_is_refused():
    with pytest.raises(ValueError, match="read_comitted"):
        KafkaSource(OPEN, "read_comitted")


class Admin:
    """A broker that shows these settings of a topic; an error stands for all of them."""

    def __init__(self, settings: dict[str, str | None] | KafkaError) -> None:
        self._settings = settings

    def describe_configs(self, resources: list, **_limits: float) -> dict:
        answer: Future = Future()
        if isinstance(self._settings, KafkaError):
            answer.set_exception(KafkaException(self._settings))
        else:
            answer.set_result({name: SimpleNamespace(value=value) for name, value in self._settings.items()})
        return {resources[0]: answer}


ALL = {"cleanup.policy": "delete", "retention.ms": "1000", "retention.bytes": "-1", "segment.bytes": "77"}


@pytest.mark.parametrize(
    ("settings", "known"),
    [
        (ALL, {"retention_ms": 1000, "retention_bytes": None, "deletes": True, "segment_bytes": 77}),
        (
            {name: value for name, value in ALL.items() if name != "segment.bytes"},
            {"retention_ms": 1000, "retention_bytes": None, "deletes": True, "segment_bytes": None},
        ),
        ({name: value for name, value in ALL.items() if name != "retention.bytes"}, {"deletes": None}),
        (ALL | {"retention.ms": None}, {"deletes": None}),
        ({}, {"deletes": None}),
        (KafkaError(KafkaError.TOPIC_AUTHORIZATION_FAILED), {"deletes": None}),
        (KafkaError(KafkaError.CLUSTER_AUTHORIZATION_FAILED), {"deletes": None}),
    ],
)
def test_settings_that_we_may_not_read_are_unknown_and_no_error(settings, known):
    asked = source(OPEN)
    asked._client = Admin(settings)
    assert asked._retention("flights") == known


def test_a_broker_that_is_away_is_not_mistaken_for_one_that_hides_its_settings():
    asked = source(OPEN)
    asked._client = Admin(KafkaError(KafkaError._TRANSPORT))
    asked._client.poll = lambda _seconds: 0
    with pytest.raises(SourceUnavailable):
        asked._retention("flights")
