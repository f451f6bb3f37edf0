"""The section `source`: the keys that every kind has. Each kind's folder adds its own, in a section derived from it."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BeforeValidator, Field, WithJsonSchema

from tidegate.core.spec.pipeline import KAFKA
from tidegate.kinds import SOURCES
from tidegate.spec.by_kind import WORD, ByKind
from tidegate.spec.section import Section, key
from tidegate.spec.values import ConnectionId, Duration, OneOf, PipelineName, Start, Topic

OnDataLoss = Annotated[Literal["fail", "record"], OneOf()]
SOURCE = ByKind(SOURCES, KAFKA)
Kind = Annotated[str, BeforeValidator(SOURCE.installed), WORD]
TransactionalId = Annotated[
    str, Field(min_length=1, max_length=200), WithJsonSchema({"type": "string", "x-type": "transactional.id"})
]


class SiteSection(Section):
    """A place that has the topic by this name, or a copy of it ([failover](failover.md)). The first one is that of
    `source.conn_id`, where reading began; the ledger says which one is active, and `tidegate failover` changes that."""

    name: PipelineName = key("Name of the site, by which commands, events and the ledger know it. It stays.")
    conn_id: ConnectionId = key("Airflow connection of the site's servers.")
    copiers: tuple[TransactionalId, ...] = key(
        "Values of `transactional.id` of those that copy the topic to this site: a failover to it fences them. Empty: "
        "the operator stops them, and says so.",
        (),
    )


class SourceSection(Section):
    """Where records come from."""

    kind: Kind = key(
        "Kind of source. Packages can bring more by an entry point of the group `tidegate.sources`. It stays, as the "
        "topic does.",
        KAFKA,
    )
    conn_id: ConnectionId = key("Airflow connection of the source's servers.")
    topic: Topic = key("The topic. One pipeline reads one topic.")
    start: Start = key(
        "Where the very first batch begins: the log's start, its end, or the first record at or after a time (the "
        "source's timestamp). Without an offset the time is meant in `windows.timezone`. Later batches go on where the "
        "last one ended.",
        "earliest",
    )
    on_data_loss: OnDataLoss = key(
        "What to do when retention has deleted offsets that were due: stop with the numbers, or write the lost "
        "intervals to the ledger and go on.",
        "fail",
    )
    loss_warning: Duration | None = key(
        "Warn when retention would pass unread records within this time at the present pace; a quarter of it is "
        "critical. null: no warning. docs/event-time.md says how the time is found.",
        "1d",
    )
