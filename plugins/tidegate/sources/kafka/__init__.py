"""Kafka as a source, from its YAML section to the worker's reader."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tidegate.core.batch.jobs import ReadPlan
from tidegate.core.doctor.findings import Finding
from tidegate.core.source.port import Source, Traits
from tidegate.core.source.records import Reader
from tidegate.core.spec import pipeline
from tidegate.kinds import Fields, SourceKind
from tidegate.sources.kafka.words import remedy

TRAITS = Traits(identity=True, transactions=True, dense=True, rereadable=True, expires=True, remembers=True)


def _section() -> type[Any]:
    from tidegate.sources.kafka.section import KafkaSection

    return KafkaSection


def _opened(connection: Fields, source: pipeline.Source, client_id: str, timeout_s: float) -> Source:
    from tidegate.sources.kafka.control import KafkaSource, connection_settings

    settings = connection_settings(connection.extra)
    return KafkaSource(settings, source.isolation, client_id=client_id, timeout_s=timeout_s)


def _examined(
    pipeline: pipeline.Pipeline, connection: Fields, seconds: float, ask: Callable[[Callable[[], Any]], Any]
) -> list[Finding]:
    from tidegate.sources.kafka.doctor import examined

    return examined(pipeline, connection, seconds, ask)


def _reader(plan: ReadPlan, settings: dict[str, Any]) -> Reader:
    from tidegate.sources.kafka.worker import KafkaReader

    return KafkaReader(plan, settings)


KIND = SourceKind(
    name="kafka",
    title="Kafka",
    traits=TRAITS,
    connection_types=("kafka",),
    remedy=remedy,
    section=_section,
    opened=_opened,
    examined=_examined,
    reader=_reader,
)
