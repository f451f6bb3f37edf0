"""What the workflow may expect of Hive, compared with Spark's Thrift server, a real HiveServer2 and the fake."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from catalogue_places import COLUMNS, DATABASE, HOSTILE, REAL, WIDE, Place, of
from fakes.catalogue import FakeCatalogue

from tidegate.core.base.errors import CatalogueError, CatalogueMismatch, CatalogueUnsure
from tidegate.core.base.partition_values import partition_path
from tidegate.targets.hive import catalogue as hive
from tidegate.targets.hive.catalogue import PyHiveCatalogue


@pytest.fixture(params=["fake", *REAL])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    if request.param == "fake":
        return Place(FakeCatalogue(), tmp_path)
    info = request.getfixturevalue(request.param)
    return Place(PyHiveCatalogue(info.hive_host, info.hive_port), tmp_path)


# ---------------------------------------------------------------- tables


def test_a_table_is_created_once(place: Place) -> None:
    table = place.created()
    place.catalogue.ensure_table(table)
    place.catalogue.ensure_table(replace(table, location=table.location + "/"))
    assert place.catalogue.partitions(table.name) == {}


def test_names_that_begin_with_an_underscore(place: Place) -> None:
    table = place.created("_batch", "date")
    values = (("_batch", "812"), ("date", "2013-01-05"))
    place.catalogue.add_partitions(table.name, {values: place.uri("b")})
    assert place.catalogue.partitions(table.name, (("_batch", "812"),)) == {values: place.uri("b")}


MISMATCHES = [
    ({"columns": (*COLUMNS, ("gate", "string"))}, ["column gate string is missing", "ADD COLUMNS"]),
    ({"columns": (("id", "int"), *COLUMNS[1:])}, ["column id is bigint, not int"]),
    ({"columns": (*COLUMNS[:2], ("fare", "decimal(12,2)"), *COLUMNS[3:])}, ["decimal(10,2), not decimal(12,2)"]),
    ({"columns": (*COLUMNS[:4], ("wide", WIDE.replace("f39", "f99")))}, ["f39:int", "f99:int"]),
    ({"partitions": (("date", "string"), ("hour", "string"))}, ["(date string, hour string, app string)"]),
    ({"partitions": (("date", "string"), ("app", "string"), ("hour", "string"))}, ["not by (date string, app"]),
    ({"partitions": (("date", "string"), ("hour", "string"), ("app", "int"))}, ["app int)"]),
    ({"location": "file:///elsewhere/t"}, ["not in file:///elsewhere/t"]),
    ({"format": "orc"}, ["not orc"]),
]


def test_another_table_is_refused_in_words(place: Place) -> None:
    table = place.created()
    for change, words in MISMATCHES:
        with pytest.raises(CatalogueMismatch) as refused:
            place.catalogue.ensure_table(replace(table, **change))
        assert not refused.value.retry
        assert [word for word in words if word not in str(refused.value)] == []


@pytest.mark.parametrize(
    "change",
    [
        {"name": "nodatabase"},
        {"name": "db.t; drop table x"},
        {"name": "db.t`x"},
        {"columns": (("a b", "int"),)},
        {"columns": (("a", "int) --"),)},
        {"partitions": (("fare", "decimal(5,2)"),)},
        {"partitions": (("at", "timestamp"),)},
        {"format": "csv"},
    ],
)
def test_what_is_no_table_is_refused_before_it_is_sent(place: Place, change: dict) -> None:
    with pytest.raises(CatalogueError) as refused:
        place.catalogue.ensure_table(replace(place.table(), **change))
    assert not refused.value.retry


def test_a_missing_table_is_a_definite_error(place: Place) -> None:
    for call in (
        lambda: place.catalogue.partitions(f"{DATABASE}.nothing"),
        lambda: place.catalogue.add_partitions(f"{DATABASE}.nothing", {of("a"): place.uri("a")}),
        lambda: place.catalogue.drop_partitions(f"{DATABASE}.nothing", [of("a")]),
    ):
        with pytest.raises(CatalogueError) as refused:
            call()
        assert not isinstance(refused.value, CatalogueUnsure)


# ---------------------------------------------------------------- columns that change


def test_a_table_without_columns_that_were_dropped_is_the_same(place: Place) -> None:
    table = place.created()
    less = replace(table, columns=COLUMNS[1:])
    place.catalogue.ensure_table(less)
    assert place.catalogue.evolve_table(less) == []
    place.catalogue.ensure_table(table)


def test_columns_are_added_to_the_table(place: Place) -> None:
    table = place.created()
    place.catalogue.add_partitions(table.name, {of("UA"): place.uri("ua")})
    more = replace(table, columns=(("gate", "string"), *COLUMNS[1:], ("order", "struct<a:int,date:string>")))
    words = ["column gate string is new", "column order struct<a:int,date:string> is new"]
    dropped = "column id is dropped: it stays in the table, null in new rows"
    assert place.catalogue.evolve_table(more) == [*words, dropped]
    assert place.catalogue.evolve_table(more) == []
    place.catalogue.ensure_table(more)
    place.catalogue.ensure_table(table)  # what was dropped is there
    assert place.catalogue.partitions(table.name) == {of("UA"): place.uri("ua")}


def test_what_readers_of_old_files_could_not_read_changes_nothing(place: Place) -> None:
    table = place.created()
    for change, words in (
        ({"columns": (("id", "string"), *COLUMNS[1:])}, ["column id was bigint, is string"]),
        ({"columns": (("id", "int"), ("more", "int"), *COLUMNS[1:])}, ["column id was bigint, is int"]),
        ({"columns": (*COLUMNS, ("more", "int")), "location": "file:///elsewhere"}, ["not in file:///elsewhere"]),
        ({"partitions": (("date", "string"),)}, ["it is partitioned by"]),
    ):
        with pytest.raises(CatalogueMismatch) as refused:
            place.catalogue.evolve_table(replace(table, **change))
        assert not refused.value.retry
        assert [word for word in words if word not in str(refused.value)] == []
    place.catalogue.ensure_table(table)
    with pytest.raises(CatalogueMismatch, match="column more int is missing"):
        place.catalogue.ensure_table(replace(table, columns=(*COLUMNS, ("more", "int"))))


# ---------------------------------------------------------------- partitions


def test_add_read_back_move_drop(place: Place) -> None:
    table, catalogue = place.created().name, place.catalogue
    catalogue.add_partitions(table, {of("UA"): place.uri("ua"), of("AA"): place.uri("aa/")})
    assert catalogue.partitions(table) == {of("AA"): place.uri("aa"), of("UA"): place.uri("ua")}
    catalogue.set_location(table, of("UA"), place.uri("ua2"))
    assert catalogue.partitions(table) == {of("AA"): place.uri("aa"), of("UA"): place.uri("ua2")}
    catalogue.drop_partitions(table, [of("AA"), of("never there")])
    catalogue.drop_partitions(table, [of("AA")])
    catalogue.drop_partitions(table, [])
    assert catalogue.partitions(table) == {of("UA"): place.uri("ua2")}


def test_adding_again_keeps_the_first_location(place: Place) -> None:
    table, catalogue = place.created().name, place.catalogue
    catalogue.add_partitions(table, {of("UA"): place.uri("first")})
    catalogue.add_partitions(table, {of("UA"): place.uri("second"), of("AA"): place.uri("aa")})
    catalogue.add_partitions(table, {})
    assert catalogue.partitions(table) == {of("AA"): place.uri("aa"), of("UA"): place.uri("first")}


def test_more_partitions_than_fit_into_a_statement(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hive, "CHUNK", 3)
    table, catalogue = place.created().name, place.catalogue
    many = {of(f"a{i}"): place.uri(f"many/{i}") for i in range(7)}
    catalogue.add_partitions(table, many)
    assert catalogue.partitions(table) == many
    catalogue.drop_partitions(table, list(many)[1:])
    assert catalogue.partitions(table) == {of("a0"): place.uri("many/0")}


def test_only_the_asked_prefix_is_listed(place: Place) -> None:
    table, catalogue = place.created().name, place.catalogue
    some = (("a", "04", "d1"), ("b", "04", "d1"), ("a", "05", "d1"), ("a", "04", "d2"), ("a", "4", "d1"))
    all_of_them = {of(app, hour, day): place.uri(f"{day}{hour}{app}") for app, hour, day in some}
    catalogue.add_partitions(table, all_of_them)

    def listed(*prefix: tuple[str, str | None]) -> set[str]:
        found = catalogue.partitions(table, prefix)
        assert all(found[values] == all_of_them[values] for values in found)
        return {"/".join(str(value) for _, value in values) for values in found}

    assert listed() == {"d1/04/a", "d1/04/b", "d1/05/a", "d2/04/a", "d1/4/a"}
    assert listed(("date", "d1")) == {"d1/04/a", "d1/04/b", "d1/05/a", "d1/4/a"}
    assert listed(("date", "d1"), ("hour", "04")) == {"d1/04/a", "d1/04/b"}
    assert listed(("date", "d1"), ("hour", "04"), ("app", "b")) == {"d1/04/b"}
    assert listed(("date", "none")) == set()
    assert listed(("date", "d1"), ("hour", None)) == set()


def test_every_value_and_location_comes_back_as_it_was(place: Place) -> None:
    table, catalogue = place.created().name, place.catalogue
    wanted = {of(app): place.uri(f"root/{partition_path(of(app))}") for app in HOSTILE}
    catalogue.add_partitions(table, wanted)
    assert catalogue.partitions(table) == wanted
    for number, values in enumerate(list(wanted)[::2]):
        wanted[values] = place.uri(f"moved/a'b;$%2F*?=,ü日/{number}")
        catalogue.set_location(table, values, wanted[values])
    assert catalogue.partitions(table) == wanted
    first, rest = list(wanted)[::2], list(wanted)[1::2]
    catalogue.drop_partitions(table, first)
    assert catalogue.partitions(table) == {values: wanted[values] for values in rest}
    catalogue.drop_partitions(table, rest)
    assert catalogue.partitions(table) == {}


def test_the_default_partition(place: Place) -> None:
    """Hive has one for null and the empty string; rows whose value is its very name lie there, too."""
    table, catalogue = place.created().name, place.catalogue
    catalogue.add_partitions(table, {of(None): place.uri("none"), of("UA"): place.uri("ua")})
    assert catalogue.partitions(table) == {of(None): place.uri("none"), of("UA"): place.uri("ua")}
    for empty in ("", "__HIVE_DEFAULT_PARTITION__"):
        catalogue.add_partitions(table, {of(empty): place.uri("again")})
        catalogue.set_location(table, of(empty), place.uri("moved" + empty))
        assert catalogue.partitions(table, of(empty)) == {of(None): place.uri("moved" + empty)}
    catalogue.drop_partitions(table, [of(None)])
    assert catalogue.partitions(table) == {of("UA"): place.uri("ua")}


def test_partitions_that_are_not_text(place: Place) -> None:
    columns = (("date", "string"), ("n", "int"), ("big", "bigint"), ("day", "date"), ("yes", "boolean"))
    table, catalogue = replace(place.table(), partitions=columns), place.catalogue
    catalogue.ensure_table(table)
    whole = (("date", "d"), ("n", "-7"), ("big", "9007199254740993"), ("day", "2013-01-05"), ("yes", "true"))
    each_null = [tuple((name, None if name == null else value) for name, value in whole) for null, _ in whole]
    wanted = {values: place.uri(str(i)) for i, values in enumerate((whole, *each_null))}
    catalogue.add_partitions(table.name, wanted)
    assert catalogue.partitions(table.name) == wanted
    for values in wanted:
        catalogue.set_location(table.name, values, wanted[values] + "m")
    assert catalogue.partitions(table.name) == {values: location + "m" for values, location in wanted.items()}
    catalogue.drop_partitions(table.name, [whole])
    assert set(catalogue.partitions(table.name)) == set(each_null)
    catalogue.drop_partitions(table.name, each_null)
    assert catalogue.partitions(table.name) == {}


def test_a_part_of_the_columns_never_drops_all_that_match(place: Place) -> None:
    table, catalogue = place.created().name, place.catalogue
    catalogue.add_partitions(table, {of("UA"): place.uri("ua")})
    swapped = (("hour", "04"), ("date", "2013-01-05"), ("app", "UA"))
    for wrong in ((("date", "2013-01-05"),), (), swapped, (*of("UA"), ("more", "x"))):
        with pytest.raises(CatalogueError):
            catalogue.drop_partitions(table, [wrong])
        with pytest.raises(CatalogueError):
            catalogue.set_location(table, wrong, place.uri("x"))
    assert catalogue.partitions(table) == {of("UA"): place.uri("ua")}


def test_no_such_partition_to_move(place: Place) -> None:
    table = place.created().name
    with pytest.raises(CatalogueError) as refused:
        place.catalogue.set_location(table, of("UA"), place.uri("x"))
    assert not isinstance(refused.value, CatalogueUnsure)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("value", ["a\x00b", "\ud800"])
def test_a_value_that_no_metastore_takes_is_refused(place: Place, value: str) -> None:
    table = place.created().name
    with pytest.raises(CatalogueError) as refused:
        place.catalogue.add_partitions(table, {of(value): place.uri("x")})
    assert not refused.value.retry


# ---------------------------------------------------------------- sessions


def test_calls_that_share_sessions_mean_the_same(place: Place) -> None:
    with place.catalogue.keeping_sessions():
        table = place.created()
        place.catalogue.add_partitions(table.name, {of("UA"): place.uri("a")})
        assert place.catalogue.partitions(table.name) == {of("UA"): place.uri("a")}
        with pytest.raises(CatalogueError):
            place.catalogue.set_location(table.name, of("missing"), place.uri("b"))
        place.catalogue.set_location(table.name, of("UA"), place.uri("b"))
        place.catalogue.add_partitions(table.name, {of("AA"): place.uri("c"), of(None): place.uri("d")})
        place.catalogue.drop_partitions(table.name, [of("AA")])
        assert place.catalogue.partitions(table.name) == {of("UA"): place.uri("b"), of(None): place.uri("d")}
    assert place.catalogue.partitions(table.name) == {of("UA"): place.uri("b"), of(None): place.uri("d")}
