"""Why a batch may not land: by which rule, in which words, and what helps. Rules ask the kind and never the words."""

from __future__ import annotations

from dataclasses import dataclass

from tidegate.core.base.choice import Choice
from tidegate.core.base.errors import BatchRefused
from tidegate.core.spec.pipeline import Column

_ALL = "fix the spec, then clear the write task: the same offsets are read again"


class RefusalKind(Choice):
    """The rule that refused; a value is stored in the ledger and is never renamed."""

    DIRTY_LIMIT = "dirty_limit"  # more dirty records than `dirty:` allows; a person can release it
    UNKNOWN_FIELD = "unknown_field"  # no column takes it, and the spec says `unknown_fields: fail`
    WIDER_TYPE = "wider_type"  # by a message's schema a column needs one; the spec says `unknown_fields: evolve`
    JOB = "job"  # the Spark job stopped for another reason: offsets that are gone, a schema that it cannot use, ...
    RECEIPT = "receipt"  # its totals do not add up
    REREAD = "reread"  # an attempt has found other records than the one before
    LOG_CUT = "log_cut"  # the log was cut while it was read
    WINDOWS = "windows"  # its rows are in windows where its plan cannot have sent them
    CONFLICT = "conflict"  # two events of a key at one position of the source's log say different things (M7)
    GOES_BACK = "goes_back"  # an event's position is below what stands, and it happened later than all (M8)
    NULL_KEY = "null_key"  # a change event has no value in a column of its mirror's key
    MIRROR_FILES = "mirror_files"  # files of a mirror, or of its batches, do not hold what plan and table say
    OTHER = "other"  # written by 0.1.0, beside this release; or of a kind that only a newer one knows


class FieldsRefused(BatchRefused):
    """Fields that no column takes, or that need a wider one, and the columns that would, by the messages' schema."""

    columns: tuple[Column, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Refusal:
    """`said`: for people, whole. `advice`: what helps this one; None where nothing but what helps all of them.
    `partition` and `offset`: of the record that the job stopped at."""

    kind: RefusalKind
    said: str
    advice: str | None = None
    partition: int | None = None
    offset: int | None = None

    @classmethod
    def of(cls, error: BatchRefused) -> Refusal:
        advice = None if error.advice == BatchRefused.advice else error.advice
        kind = RefusalKind(error.kind)
        return cls(kind=kind, said=str(error), advice=advice, partition=error.partition, offset=error.offset)

    @property
    def is_releasable(self) -> bool:
        """Whether a person may let the batch land as it is: too many dirty records, and nothing else."""
        return self.kind == RefusalKind.DIRTY_LIMIT

    @property
    def notice(self) -> str:
        """One of core.notices.KINDS."""
        return "dirty_limit" if self.is_releasable else "refused"

    @property
    def first_line(self) -> str:
        return (self.said.splitlines() or [""])[0]

    def helps(self, pipeline: str, batch_id: int) -> str:
        """A record that the topic has no more is no matter of the spec: then what the refusal itself advises."""
        if self.is_releasable:
            return f"{_ALL}; or let it land as it is: tidegate repair {pipeline} --release {batch_id} --why '...'"
        if not self.advice:
            return _ALL
        return self.advice.replace("<pipeline>", pipeline).replace("<batch>", str(batch_id))


def refusal_of(
    said: str | None,
    kind: RefusalKind | None,
    advice: str | None,
    partition: int | None = None,
    offset: int | None = None,
) -> Refusal | None:
    """The refusal that a batch's columns say; None if it is not refused. 0.1.0, beside this release, writes the words
    only, and leaves what stands beside them."""
    if said is None:
        return None
    return Refusal(kind=kind or RefusalKind.OTHER, said=said, advice=advice, partition=partition, offset=offset)
