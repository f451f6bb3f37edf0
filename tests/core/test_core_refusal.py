"""Why a batch may not land: rules ask by which rule, people read the words."""

from __future__ import annotations

import pytest

from tidegate.core.base.errors import BatchRefused
from tidegate.core.batch.refusal import Refusal, RefusalKind, refusal_of

SPEC = "fix the spec, then clear the write task: the same offsets are read again"
RELEASE = "tidegate repair flights --release 3 --why '...'"
DIRTY = "batch 3: 5 of 9 records are dirty, over dirty.max_count 1"


def test_a_refusal_is_what_its_error_says() -> None:
    error = BatchRefused("gone", advice="`tidegate source reset <pipeline>`", kind="job", partition=1, offset=7)
    assert str(error).startswith("gone\n")
    assert Refusal.of(error) == Refusal(
        kind=RefusalKind.JOB, said=str(error), advice="`tidegate source reset <pipeline>`", partition=1, offset=7
    )
    assert Refusal.of(BatchRefused("gaps")) == Refusal(kind=RefusalKind.OTHER, said=str(BatchRefused("gaps")))
    with pytest.raises(ValueError, match="odd"):
        Refusal.of(BatchRefused("gaps", kind="odd"))


def test_only_too_many_dirty_records_can_be_released() -> None:
    assert [k for k in RefusalKind if Refusal(kind=k, said=DIRTY).is_releasable] == [RefusalKind.DIRTY_LIMIT]
    assert {Refusal(kind=k, said="x").notice for k in RefusalKind} == {"dirty_limit", "refused"}
    assert Refusal(kind=RefusalKind.DIRTY_LIMIT, said="x").notice == "dirty_limit"


@pytest.mark.parametrize(
    ("kind", "advice", "helps"),
    [
        (RefusalKind.DIRTY_LIMIT, "x", f"{SPEC}; or let it land as it is: {RELEASE}"),
        (RefusalKind.RECEIPT, None, SPEC),
        (RefusalKind.JOB, "", SPEC),
        (RefusalKind.JOB, "`tidegate source reset <pipeline>` <batch>", "`tidegate source reset flights` 3"),
    ],
)  # fmt: skip
def test_what_helps_a_refused_batch(kind: RefusalKind, advice: str | None, helps: str) -> None:
    assert Refusal(kind=kind, said="x", advice=advice).helps("flights", 3) == helps


def test_from_the_columns_of_a_batch() -> None:
    assert refusal_of(None, RefusalKind.JOB, "x", 1, 2) is None, "0.1.0 has cleared the words only"
    assert refusal_of("x", None, None) == Refusal(kind=RefusalKind.OTHER, said="x"), "0.1.0 has written the words only"
    assert refusal_of("x\ny", RefusalKind.JOB, "z", 1, 2) == Refusal(
        kind=RefusalKind.JOB, said="x\ny", advice="z", partition=1, offset=2
    )


def test_the_first_line_is_for_lists() -> None:
    assert [Refusal(kind=RefusalKind.JOB, said=s).first_line for s in ("a\nb", "", "c")] == ["a", "", "c"]
