"""The YAML section `source` of kind `rocketmq`."""

from __future__ import annotations

from tidegate.spec.section import key
from tidegate.spec.source import SourceSection
from tidegate.spec.values import ConnectionId, Text


class RocketMQSection(SourceSection):
    """Where records come from."""

    conn_id: ConnectionId = key(
        "Airflow connection of the name servers: host and port, or an extra `namesrv` with several (`a:9876;b:9876`).",
        "rocketmq_default",
    )
    brokers: list[Text] = key(
        "Names of the brokers that have the topic. Queue 3 of the second one is partition 1003: append new brokers, "
        "and never change the order of the others."
    )
