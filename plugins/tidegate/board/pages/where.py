"""The fate of one record: by the ledger at once, by the file that holds it on demand."""

from __future__ import annotations

from dataclasses import dataclass, replace

from tidegate.adapters.rows import RowProcess
from tidegate.board.reach import Reach
from tidegate.core.base.errors import SourceUnavailable, SpecError
from tidegate.core.look.sighting import Lookup, Row, RowReader
from tidegate.core.source.port import LogState
from tidegate.core.spec.pipeline import Pipeline
from tidegate.workflow.look.where import Answer, where

FILE_S = 15.0
"""Seconds to look into a file."""
LARGEST = 2**63 - 1
NOT_LOOKED = "it is being looked for"


@dataclass(frozen=True)
class Page:
    """`partition` and `offset` as they were typed; `wrong` says what is wrong with them. `looked`: files were read."""

    pipeline: Pipeline
    partition: str
    offset: str
    answer: Answer | None
    looked: bool
    wrong: str = ""

    @property
    def may_look(self) -> bool:
        """Whether a look into the file would tell more."""
        return not self.looked and self.answer is not None and any(NOT_LOOKED in n for n in self.answer.notes)

    @property
    def notes(self) -> tuple[str, ...]:
        """Notes on servers that could not be asked."""
        return () if self.answer is None else tuple(n for n in self.answer.notes if NOT_LOOKED not in n)


def gather(reach: Reach, name: str, partition: str, offset: str, look: bool) -> Page:
    """Raises UnknownPipeline, NotRegistered, LedgerError."""
    pipeline = reach.pipeline(name)
    if not partition and not offset:
        return Page(pipeline, partition, offset, None, look)
    numbers = [_number(text) for text in (partition, offset)]
    if None in numbers:
        return Page(pipeline, partition, offset, None, look, "A partition and an offset are whole numbers from 0 on.")
    try:
        answer = _answer(reach, pipeline, numbers[0] or 0, numbers[1] or 0, look)
    except SpecError as e:
        return Page(pipeline, partition, offset, None, look, str(e))
    return Page(pipeline, partition, offset, answer, look)


def _answer(reach: Reach, pipeline: Pipeline, partition: int, offset: int, look: bool) -> Answer:
    ctx = replace(reach.context(pipeline), source=_Known(reach, pipeline))  # type: ignore[arg-type]
    reads = reach.ledger().reads
    if not look:
        return where(ctx, reads, _Later(), partition, offset)
    secrets = reach.storage_secrets(pipeline)
    with RowProcess(user=pipeline.sink.user, limit_s=FILE_S, secrets=secrets) as rows:
        return where(ctx, reads, rows, partition, offset)


def _number(text: str) -> int | None:
    """A partition or an offset; None for another text."""
    cleaned = text.strip().replace(",", "")
    right = cleaned.isascii() and cleaned.isdigit() and len(cleaned) < 100 and int(cleaned) <= LARGEST
    return int(cleaned) if right else None


class _Later(RowReader):
    """Row reader that reads no file."""

    def find(self, lookup: Lookup) -> tuple[Row | None, str]:
        return None, NOT_LOOKED


class _Known:
    """Source with Kafka's answers so far: a page does not wait for more."""

    def __init__(self, reach: Reach, pipeline: Pipeline) -> None:
        self._reach, self._pipeline = reach, pipeline

    def look(self, topic: str) -> LogState:
        known = self._reach.topics.known([self._pipeline])
        if self._pipeline.name not in known:
            raise SourceUnavailable(self._reach.topics.silence(self._pipeline))
        return known[self._pipeline.name][0]
