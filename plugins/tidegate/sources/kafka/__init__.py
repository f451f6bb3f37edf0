"""Kafka as a source, from its YAML section to the worker's reader."""

from __future__ import annotations

from tidegate.core.source.port import Traits
from tidegate.kinds import SourceKind, found_at, late
from tidegate.sources.kafka.words import remedy

TRAITS = Traits(identity=True, transactions=True, dense=True, rereadable=True, expires=True, remembers=True)

KIND = SourceKind(
    name="kafka",
    title="Kafka",
    traits=TRAITS,
    connection_types=("kafka",),
    remedy=remedy,
    section=found_at("tidegate.sources.kafka.section:KafkaSection"),
    opened=late("tidegate.sources.kafka.control:opened"),
    examined=late("tidegate.sources.kafka.doctor:examined"),
    standby=late("tidegate.sources.kafka.standby:opened"),
    reader=late("tidegate.sources.kafka.worker:KafkaReader"),
)
