"""From an Airflow connection's extra to what workers may see of it."""

from __future__ import annotations

import pytest

from tidegate.adapters.kafka import KafkaSource
from tidegate.core.errors import SourceError

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
    return KafkaSource.from_connection_fields(extra, "read_committed", client_id="tidegate-flights")


def test_secrets_are_apart():
    found = source(OPEN | SECRETS)
    ours = {"client.id": "tidegate-flights", "isolation.level": "read_committed"}
    assert found.client_settings() == OPEN | ours
    assert found.secrets() == SECRETS


def test_what_the_spec_decides_is_not_taken_from_the_connection():
    extra = OPEN | {
        "group.id": "theirs",
        "auto.offset.reset": "latest",
        "enable.auto.commit": True,
        "isolation.level": "read_uncommitted",
        "client.id": "theirs",
        "error_cb": "their.module.callback",
    }
    found = source(extra).client_settings()
    assert found["isolation.level"] == "read_committed"
    assert found["client.id"] == "tidegate-flights"
    assert not found.keys() & {"group.id", "auto.offset.reset", "enable.auto.commit", "error_cb"}


def test_values_become_strings_as_librdkafka_wants_them():
    found = source(OPEN | {"socket.keepalive.enable": True, "socket.timeout.ms": 5000}).client_settings()
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
        found.describe("flights")
    assert "hunter2" not in str(refused.value)
    assert not refused.value.retry


def test_a_misspelt_isolation_is_refused():
    with pytest.raises(ValueError, match="read_comitted"):
        KafkaSource(OPEN, "read_comitted")
