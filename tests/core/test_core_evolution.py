"""Which columns a table with files may get: those under which every reader still reads the old ones."""

from __future__ import annotations

import pytest

from tidegate.core.spec.evolution import Changes, changes, grows

BASE = (("id", "string"), ("n", "int"), ("_offset", "bigint"))


def refused(old: str, new: str, file_format: str = "parquet") -> tuple[str, ...]:
    return changes([("c", old)], [("c", new)], file_format).refused


def test_nothing_changes() -> None:
    for file_format in ("parquet", "orc", "text"):
        found = changes(BASE, (("ID", "STRING"), ("n", "integer"), ("_offset", "bigint")), file_format)
        assert found == Changes()
        assert not found.alter_table
        assert found.words() == []


def test_columns_of_parquet_come_go_and_change_places() -> None:
    found = changes(BASE, (("_offset", "bigint"), ("more", "map<string,int>"), ("id", "string")), "parquet")
    assert found == Changes(added=(("more", "map<string,int>"),), dropped=("n",), reordered=True)
    assert found.alter_table
    assert found.words() == [
        "column more map<string,int> is new",
        "column n is dropped: it stays in the table, null in new rows",
    ]
    assert not changes(BASE, BASE[1:], "parquet").alter_table, "the table keeps what is dropped"
    assert changes(BASE, BASE[::-1], "parquet") == Changes(reordered=True)


@pytest.mark.parametrize("file_format", ["orc", "text"])
def test_columns_that_are_found_by_position_stay(file_format: str) -> None:
    for wanted, words in (
        ((*BASE, ("more", "int")), "more is new"),
        (BASE[:2], "_offset is gone"),
        (BASE[::-1], "another order"),
        ((("other", "string"), *BASE[1:]), "other is new, id is gone"),
    ):
        (why,) = changes(BASE, wanted, file_format).refused
        assert why == f"columns of {file_format} files are found by their position, which must stay: {words}"


INTEGERS = ("tinyint", "smallint", "int", "bigint")
TAKEN = {
    "parquet": [
        *[("tinyint", "smallint"), ("tinyint", "int"), ("smallint", "int")],
        *[("decimal(10,2)", "decimal(11,2)"), ("decimal(10,2)", "decimal(38,2)")],
        ("struct<a:int>", "struct<a:int,b:string>"),
        ("struct<a:int,s:struct<x:int>>", "struct<a:int,s:struct<x:int,y:date>,z:int>"),
        ("struct<s:struct<x:int>>", "struct<s:struct<x:int,y:int>>"),
        ("array<struct<a:int>>", "array<struct<a:int,b:int>>"),
        ("map<string,struct<a:int>>", "map<string,struct<a:int,b:int>>"),
    ],
    "orc": [
        *[(INTEGERS[i], INTEGERS[j]) for i in range(4) for j in range(i + 1, 4)],
        *[("float", "double"), ("tinyint", "decimal(3,0)"), ("int", "decimal(12,2)"), ("bigint", "decimal(19,0)")],
        *[("decimal(10,2)", "decimal(14,4)"), ("decimal(10,2)", "decimal(12,4)"), ("decimal(10,2)", "decimal(20,2)")],
        ("struct<a:int>", "struct<a:int,b:string>"),
    ],
}


@pytest.mark.parametrize(("file_format", "old", "new"), [(f, *pair) for f, pairs in TAKEN.items() for pair in pairs])
def test_types_grow(file_format: str, old: str, new: str) -> None:
    found = changes([("c", old)], [("c", new)], file_format)
    assert found == Changes(widened=(("c", old, new),))
    assert found.alter_table
    assert found.words() == [f"column c was {old}, is {new}"]
    assert refused(new, old, file_format), "never back"
    assert refused(old, new, "text")


SPARK = "Spark 3.5 cannot read it from the Parquet files that are there; give the new type a column of its own name"
NEVER = "the files that are there cannot be read so; give the new type a column of its own name"
REFUSED = [
    ("int", "bigint", SPARK),
    ("tinyint", "bigint", SPARK),
    ("float", "double", SPARK),
    ("int", "decimal(12,2)", SPARK),
    ("decimal(10,2)", "decimal(14,4)", SPARK),
    ("decimal(10,2)", "decimal(10,1)", NEVER),
    ("decimal(10,2)", "decimal(9,2)", NEVER),
    ("decimal(10,2)", "decimal(11,4)", NEVER),
    ("int", "decimal(11,2)", NEVER),
    ("bigint", "decimal(18,0)", NEVER),
    ("float", "decimal(38,2)", NEVER),
    ("int", "float", NEVER),
    ("bigint", "double", NEVER),
    ("int", "string", NEVER),
    ("string", "binary", NEVER),
    ("date", "timestamp", NEVER),
    ("boolean", "int", NEVER),
    ("int", "array<int>", NEVER),
    ("struct<a:int>", "map<string,int>", NEVER),
    ("struct<a:int,b:int>", "struct<b:int,a:int>", NEVER),
    ("struct<a:int,b:int>", "struct<a:int>", NEVER),
    ("struct<a:int>", "struct<b:string,a:int>", NEVER),
    ("struct<a:tinyint>", "struct<a:int>", NEVER),
    ("array<int>", "array<bigint>", NEVER),
    ("array<tinyint>", "array<int>", NEVER),
    ("map<string,tinyint>", "map<string,int>", NEVER),
    ("map<int,struct<a:int>>", "map<string,struct<a:int,b:int>>", NEVER),
    ("varchar(10)", "string", "it is a type that Tidegate does not know"),
]


@pytest.mark.parametrize(("old", "new", "why"), REFUSED)
def test_what_readers_cannot_read_is_refused_with_the_reason(old: str, new: str, why: str) -> None:
    assert refused(old, new) == (f"column c was {old}, is {new}: {why}",)
    if why is not SPARK:
        assert refused(old, new, "orc") == (f"column c was {old}, is {new}: {why}",)


def test_a_strange_type_that_stays_is_nobodys_business() -> None:
    assert changes([("c", "VARCHAR(10)")], [("c", "varchar(10)")], "parquet") == Changes()


def test_iceberg_promotes_integers() -> None:
    """Its readers take an old file's int for the bigint that the column is by now; nothing else that Spark refuses."""
    for i, old in enumerate(INTEGERS):
        for new in INTEGERS[i + 1 :]:
            assert changes([("c", old)], [("c", new)], "parquet", True) == Changes(widened=(("c", old, new),))
            assert changes([("c", new)], [("c", old)], "parquet", True).refused
    for old, new in (("float", "double"), ("int", "decimal(12,2)"), ("array<int>", "array<bigint>"), ("int", "string")):
        assert changes([("c", old)], [("c", new)], "parquet", True).refused


@pytest.mark.parametrize(
    ("before", "after", "does"),
    [
        ("int", "bigint", True),
        ("tinyint", "smallint", True),
        ("decimal(6,2)", "decimal(12,2)", True),
        ("bigint", "int", False),
        ("int", "int", False),
        ("decimal(12,2)", "decimal(6,2)", False),
        ("decimal(6,2)", "decimal(12,4)", False),
        ("int", "decimal(12,0)", False),
        ("float", "double", False),
        ("struct<a:int>", "struct<a:int,b:int>", False),
    ],
)
def test_a_number_grows_where_each_value_stays_itself(before: str, after: str, does: bool) -> None:
    assert grows(before, after) is does
