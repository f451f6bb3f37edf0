"""The section `source`: the keys that every kind has. Each kind's folder adds its own, in a section derived from it."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BeforeValidator

from tidegate.core.spec.pipeline import KAFKA
from tidegate.kinds import SOURCES
from tidegate.spec.by_kind import WORD, ByKind
from tidegate.spec.section import Section, key
from tidegate.spec.values import ConnectionId, Duration, OneOf, Start, Topic

OnDataLoss = Annotated[Literal["fail", "record"], OneOf()]
SOURCE = ByKind(SOURCES, KAFKA)
Kind = Annotated[str, BeforeValidator(SOURCE.installed), WORD]


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
