"""Which columns a changed spec may have once batches have landed."""

from __future__ import annotations

from dataclasses import replace

import pytest
from core_values import HOUR, PIPELINE

from tidegate.core.base.instants import DAY_MS, iso
from tidegate.core.spec.compatibility import altered, incompatible, renumbered
from tidegate.core.spec.pipeline import Column, Format, Pipeline

ID, SITE, N = (
    Column(name="id", type="string", path="$.id"),
    Column(name="site", type="string", path="$.site"),
    Column(name="n", type="int", path="$.n"),
)
BASE = replace(PIPELINE, columns=(ID, SITE, N), partition_by=("date", "hour", "site"), kafka_columns=True)


def reasons(**changes: object) -> list[str]:
    return incompatible(BASE, replace(BASE, **changes))


TAKEN: list[tuple[dict[str, object], bool]] = [
    ({"columns": (SITE, N, ID)}, True),
    ({"columns": (ID, SITE)}, True),
    ({"columns": (ID, SITE, N, Column(name="more", type="int", path="$.more"))}, True),
    ({"columns": (ID, SITE, replace(N, path="$.other"))}, False),
    ({"columns": (ID, SITE, replace(N, path="", expr="1"))}, False),
    ({"columns": (ID, SITE, N, Column(name="raw", type="string", path="$.raw", hidden=True))}, False),
    ({"columns": (ID, SITE, replace(N, nullable=False))}, False),
    ({"columns": (ID, SITE, N), "where": "n > 1"}, False),
    ({"format": Format(unknown_fields="capture")}, True),
]


@pytest.mark.parametrize(("change", "tables_change"), TAKEN)
def test_columns_that_a_running_pipeline_takes(change: dict[str, object], tables_change: bool) -> None:
    assert reasons(**change) == []
    assert altered(BASE, replace(BASE, **change)) == tables_change


def test_the_late_policy_may_change_at_any_time() -> None:
    """Each batch keeps the one that it was planned with."""
    for late_policy in ("side", "reroute", "drop"):
        assert reasons(late_policy=late_policy) == []
        assert not altered(BASE, replace(BASE, late_policy=late_policy))


def test_a_late_table_alone_may_change() -> None:
    """Its partition columns are ordinary ones: their order is the table's."""
    two = replace(BASE, partition_by=("date", "hour", "site", "id"))
    assert altered(two, replace(two, partition_by=("date", "hour", "id", "site")))


def test_columns_that_it_refuses() -> None:
    assert reasons(columns=(ID, SITE, replace(N, type="string"))) == [
        "column n was int, is string: the files that are there cannot be read so; "
        "give the new type a column of its own name"
    ]
    assert reasons(columns=(ID, replace(SITE, type="int"), N)) == ["partition column site was string, is int"]
    assert reasons(kafka_columns=False) == ["kafka_columns was true, is false"]
    assert incompatible(replace(BASE, kafka_columns=False), BASE) == ["kafka_columns was false, is true"]


def test_windows_keep_their_size_and_begin_no_later() -> None:
    """Hours that have landed would be hidden, or cut otherwise."""

    def found(size_ms: int, moved_ms: int = 0, new_size_ms: int | None = None) -> list[str]:
        old = replace(BASE, windows=replace(BASE.windows, size_ms=size_ms))
        windows = replace(old.windows, size_ms=new_size_ms or size_ms, start_ms=old.windows.start_ms + moved_ms)
        return incompatible(old, replace(old, windows=windows))

    assert found(HOUR, new_size_ms=HOUR // 4) == ["windows.size was 60 min, is 15 min"]
    begins = iso(BASE.windows.start_ms)
    later, between = iso(BASE.windows.start_ms + HOUR), iso(BASE.windows.start_ms - HOUR // 2)
    assert found(HOUR, HOUR) == [f"windows.start was {begins}, is {later}"]
    assert found(HOUR, -2 * HOUR) == []
    assert found(HOUR, -HOUR // 2) == [f"windows.start moved from {begins} to {between}: not by whole windows"]
    assert found(DAY_MS, -23 * HOUR) == [], "a day may have 23 hours"
    assert len(found(DAY_MS - HOUR, -HOUR)) == 1


def test_numbers_grow_where_the_tables_readers_promote_them() -> None:
    grown = replace(BASE, columns=(ID, SITE, replace(N, type="bigint")))
    assert incompatible(BASE, grown, promotes=True) == []
    (reason,) = incompatible(BASE, grown)
    assert reason.startswith("column n was int, is bigint")
    both = incompatible(BASE, replace(grown, columns=(ID, replace(SITE, type="int"), grown.columns[2])))
    assert len(both) == 2, "each reason is told"


def test_another_table_is_not_compared_column_by_column() -> None:
    sink = replace(BASE.sink, table="lake.other")
    (reason,) = reasons(sink=sink, columns=(ID, SITE, replace(N, type="string")))
    assert reason.startswith("sink.table was ")
    (reason,) = incompatible(BASE, replace(BASE, partition_by=("date", "hour"), columns=(ID, N)))
    assert reason.startswith("partition_by was ")


def test_files_found_by_position() -> None:
    def orc(pipeline: Pipeline) -> Pipeline:
        return replace(pipeline, sink=replace(pipeline.sink, format="orc"))

    (reason,) = incompatible(orc(BASE), orc(replace(BASE, columns=(ID, SITE))))
    assert reason == "columns of orc files are found by their position, which must stay: n is gone"
    assert incompatible(orc(BASE), orc(replace(BASE, columns=(ID, SITE, replace(N, type="bigint"))))) == []


def test_lists_by_which_lanes_have_their_numbers_may_only_grow() -> None:
    def at(text: str) -> Pipeline:
        return replace(BASE, source=replace(BASE.source, options=(("brokers", text), ("other", text[::-1]))))

    def found(old: Pipeline, new: Pipeline) -> list[str]:
        return renumbered(old, new, ("brokers",))

    assert found(at("a"), at("a,b")) == found(at("a,b"), at("a,b")) == found(BASE, at("a")) == []
    assert found(at("a,b"), at("b,a")) == ["source.brokers was a,b, is b,a: it may only be appended to"]
    assert found(at("a"), at("ab,c")) == ["source.brokers was a, is ab,c: it may only be appended to"]
    assert found(at("a"), BASE) == ["source.brokers was a, is missing: it may only be appended to"]
    assert renumbered(at("a,b"), at("b,a"), ()) == []
