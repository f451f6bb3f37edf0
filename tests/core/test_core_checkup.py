"""The daily check's arithmetic."""

from __future__ import annotations

from dataclasses import replace

from tidegate.core.audit.checkup import EVERY_MS, NEWEST_WINDOWS, Flaw, Shown, of_sums, of_window
from tidegate.core.batch.totals import BatchSteps, Spent, Sums, Totals
from tidegate.core.files.balance import Balance

WHOLE = Sums(offsets=10, read=9, data=5, late=1, dirty=1, filtered=1, dropped=1, rerouted=2, bytes=99, unaccounted=0)
MANIFEST = {"a": 1, "b": 2}
SHOWN = Shown(0, 5, 5, MANIFEST, {**MANIFEST, "_SUCCESS": 0, "stray": 9}, ("_SUCCESS",))
AT = "1970-01-01T00:00Z"
ADVICE = f"airflow tasks clear p.archive --yes -s {AT} -e {AT} verifies it, and rebuilds what is lost"


def test_sums_that_balance() -> None:
    assert of_sums("p", Totals(WHOLE)) == of_sums("p", Totals()) == []


def test_sums_that_do_not() -> None:
    (one,) = of_sums("p", Totals(replace(WHOLE, data=4)))
    assert one.what.startswith("over all landed batches: read 9 ≠ data 4")
    assert one.advice == "the ledger does not balance: tidegate audit p names the ranges"
    told = of_sums("p", Totals(replace(WHOLE, unaccounted=1_000), Sums(unaccounted=2)))
    assert told == [Flaw("1,002 records have no fate, range by range", one.advice)]


def test_a_window_that_is_whole() -> None:
    assert of_window("p", SHOWN) == []
    assert of_window("p", replace(SHOWN, listing=MANIFEST, marks=())) == []


def test_windows_that_are_not() -> None:
    def told(**changes: object) -> list[str]:
        found = of_window("p", replace(SHOWN, **changes))  # type: ignore[arg-type]
        assert {flaw.advice for flaw in found} == {ADVICE}
        return [flaw.what.removeprefix("window 1970-01-01T00:00Z") for flaw in found]

    assert told(rows=1_004) == [" shows 1,004 rows, its batches brought 5"]
    assert told(listing=None) == [": its directory is gone"]
    assert told(listing={"b": 2, "_SUCCESS": 0}) == [": 1 of 2 files gone or of another length, such as a"]
    assert told(listing={"a": 2, "b": 3, "_SUCCESS": 0}) == [": 2 of 2 files gone or of another length, such as a"]
    assert told(listing=MANIFEST) == [": _SUCCESS is gone"]
    assert told(rows=4, listing={}) == [
        " shows 4 rows, its batches brought 5",
        ": 2 of 2 files gone or of another length, such as a",
        ": _SUCCESS is gone",
    ]


def test_bounds() -> None:
    assert (EVERY_MS, NEWEST_WINDOWS) == (86_400_000, 48)


def test_totals_add_field_by_field() -> None:
    steps = BatchSteps(*(Spent(n, 1) for n in range(5)))
    one = Totals(
        WHOLE,
        Sums(offsets=1, read=2, data=3, late=4, dirty=5, filtered=6, dropped=7, rerouted=8, bytes=9, unaccounted=10),
        3,
        steps,
    )
    both = one + one
    assert both.ingested == Sums(
        offsets=20, read=18, data=10, late=2, dirty=2, filtered=2, dropped=2, rerouted=4, bytes=198, unaccounted=0
    )
    assert both.redriven == Sums(
        offsets=2, read=4, data=6, late=8, dirty=10, filtered=12, dropped=14, rerouted=16, bytes=18, unaccounted=20
    )
    assert (both.taken, both.steps) == (6, BatchSteps(*(Spent(2 * n, 2) for n in range(5))))
    assert Totals() + one == one


def test_each_row_is_its_owners() -> None:
    """Of 10 dirty rows a redrive takes 6: 4 are data now, 2 dirty again."""
    ingested = Sums(offsets=100, read=90, data=70, late=5, dirty=10, filtered=3, dropped=2, rerouted=4)
    redriven = Sums(offsets=50, read=6, data=4, dirty=2, rerouted=1)
    found = Totals(ingested, redriven, 6)
    assert found.dirty_now == 6
    assert found.balance == Balance(
        offsets=100, read=90, gaps=10, data=74, late=5, dirty=6, filtered=3, dropped=2, rerouted=5
    )
    assert found.balance.holds
