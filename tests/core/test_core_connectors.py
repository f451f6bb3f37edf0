"""What the doctor says of a connector that brings a mirror's events."""

from __future__ import annotations

from typing import Any

import pytest

from tidegate.core.doctor.connectors import ConnectorState, connector
from tidegate.core.doctor.findings import WARNING, WRONG, Finding

WELL = {"skipped.operations": "none", "heartbeat.interval.ms": "10000"}
CONNECTOR, TASK = ("the connector", "RUNNING", ""), ("task 0", "RUNNING", "")
NO_EVENT = "no event comes, and the mirror stays as it is"


def told(parts: Any = (CONNECTOR, TASK), settings: dict[str, str] = WELL) -> list[Finding]:
    found = connector("orders", ConnectorState(name="shop", parts=parts, settings=settings))
    assert {(one.check, one.about) for one in found} <= {("connector", "orders")}
    return found


def test_a_connector_that_runs_with_good_settings_is_well() -> None:
    assert not told()


TRACE = "It stopped.\n\tat A.java\nCaused by: one\nCaused by: two\n\tat B\nCaused by: no such file in the log\n\tat C"


@pytest.mark.parametrize(
    ("trace", "why"),
    [
        ("\nthe log is gone\n at x", "the log is gone"),
        (TRACE, "It stopped.; no such file in the log"),
        ("", "it does not say why"),
    ],
)
def test_what_has_failed_says_why_and_what_to_do(trace: str, why: str) -> None:
    (one,) = told([CONNECTOR, ("task 0", "FAILED", trace)])
    assert (one.level, one.what, one.means) == (WRONG, f"task 0 of shop is FAILED: {why}", NO_EVENT)
    assert one.mend == (
        "fix what it says, then: POST /connectors/shop/restart?includeTasks=true&onlyFailed=true; if its place in the "
        "source's log is gone: reset its offsets, then tidegate copy --again, for what has changed in between never "
        "comes"
    )


def test_what_does_not_run_may_be_meant_so() -> None:
    found = told([("the connector", "PAUSED", ""), TASK, ("task 1", "UNASSIGNED", "")])
    assert [(one.level, one.what, one.means) for one in found] == [
        (WARNING, "the connector of shop is PAUSED", NO_EVENT),
        (WARNING, "task 1 of shop is UNASSIGNED", NO_EVENT),
    ]
    assert {one.mend for one in found} == {"PUT /connectors/shop/resume, if nobody wants it so"}


def test_a_connector_without_a_task_brings_nothing() -> None:
    (one,) = told([CONNECTOR])
    assert (one.level, one.what, one.means) == (WRONG, "connector shop has no task", NO_EVENT)
    assert one.mend == "look at the workers of Kafka Connect"


@pytest.mark.parametrize(
    ("skipped", "warns"), [(None, True), ("t", True), ("x, t", True), ("x,t", True), ("none", False), ("x,y", False)]
)
def test_a_truncate_that_is_left_out(skipped: str | None, warns: bool) -> None:
    """Debezium's default leaves it out."""
    found = told(settings={"heartbeat.interval.ms": "1"} | ({} if skipped is None else {"skipped.operations": skipped}))
    words = ("connector shop leaves TRUNCATE out", "skipped.operations: none makes a dirty record of it")
    assert [(f.level, f.what, f.mend.split(";")[0]) for f in found] == ([(WARNING, *words)] if warns else [])
    assert all(f.means.startswith("rows of a table that was truncated stay") for f in found)


@pytest.mark.parametrize(
    ("skipped", "which"), [("c", ["inserts"]), ("d, u", ["updates", "deletes"]), ("none", []), ("delete", [])]
)
def test_kinds_of_changes_that_are_left_out(skipped: str, which: list[str]) -> None:
    found = told(settings=WELL | {"skipped.operations": skipped})
    assert [(f.level, f.what) for f in found] == [(WRONG, f"connector shop leaves {each} out") for each in which]
    assert all(f.mend == "take it out of skipped.operations, then tidegate copy --again" for f in found)


@pytest.mark.parametrize(
    ("setting", "value", "out"),
    [
        ("table.include.list", "shop.orders", False),
        ("table.include.list", "shop.items, SHOP.ORD.*", False),
        ("table.include.list", "shop.order,orders", True),
        ("table.include.list", "", False),
        ("table.include.list", "shop.(", False),
        ("table.exclude.list", "shop.orders_.*", False),
        ("table.exclude.list", "shop\\.orders", True),
        ("table.exclude.list", r"shop\.o{2,3},shop\.x", False),
        ("database.include.list", "shop", False),
        ("database.include.list", "sho", True),
        ("schema.exclude.list", "public,shop", True),
    ],
)
def test_a_table_that_is_left_out(setting: str, value: str, out: bool) -> None:
    state = ConnectorState(name="shop", parts=(CONNECTOR, TASK), settings=WELL | {setting: value})
    words = f"connector shop leaves shop.orders out ({setting})"
    found = connector("orders", state, "shop.orders")
    assert [(f.level, f.what) for f in found] == ([(WRONG, words)] if out else [])
    assert connector("orders", state) == [], "which tables a regular expression names is not known here"


def test_columns_that_are_left_out_or_changed() -> None:
    (one,) = told(settings=WELL | {"column.truncate.to.40.chars": "shop.orders.note", "column.exclude.list": "x"})
    words = "connector shop changes or leaves out columns (column.exclude.list, column.truncate.to.40.chars)"
    assert (one.level, one.what) == (WARNING, words)


@pytest.mark.parametrize(
    ("beats", "warns"), [(None, True), ("0", True), ("", True), ("often", True), (" 1 ", False), ("10000", False)]
)
def test_a_connector_without_a_heartbeat(beats: str | None, warns: bool) -> None:
    found = told(settings={"skipped.operations": "none"} | ({} if beats is None else {"heartbeat.interval.ms": beats}))
    words = ("connector shop has no heartbeat", "heartbeat.interval.ms: 10000")
    assert [(f.level, f.what, f.mend) for f in found] == ([(WARNING, *words)] if warns else [])
    assert all("the mirror seems to age" in f.means for f in found)
