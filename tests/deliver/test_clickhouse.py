"""ClickHouse as a further system on real engines: types, the table, shards, what is removed."""

from __future__ import annotations

import datetime
import json
import os
import random
from typing import Any
from unittest.mock import patch

import pytest

from tests.clickhouse.expected import as_stored, comparable, random_row
from tests.clickhouse.places import Place
from tests.clickhouse.turns import FIRST, Ledger, deliver, hooked, shows
from tests.deliver.rows import COLUMNS, FULL, HOUR, NULLS, T0, ZERO, Made, attempt
from tests.world import make_pipeline
from tidegate.core.base.connection import Connection
from tidegate.core.base.errors import DeliveryRefused
from tidegate.core.spec.pipeline import Delivery
from tidegate.kinds import delivery_kind
from tidegate.targets.clickhouse import table


def yes() -> bool:
    return True


def test_every_value_arrives_as_it_was(place: Place) -> None:
    rng = random.Random(int(os.environ["TIDEGATE_TEST_SEED"]))
    rows = [FULL, NULLS, ZERO, *(random_row(rng) for _ in range(300))]
    system = place.system()
    system.prepare()
    sent = system.send(attempt(1, 1, Made(rows)), Made(rows), yes)
    assert comparable(place.rows()) == comparable([as_stored(row) for row in rows])
    assert sent.content.rows == len(rows)
    assert system.standing(T0) == sent
    shown = place.rows((("s", ""), ("tags", ""), ("m", ""), ("st", "")), "i64 = 9223372036854775807 AND s LIKE 'a %'")
    assert [json.loads(text) for text in shown[0][1:]] == [
        ["x", None, "y'"], {"k": 1, "l": None}, {"a": 1, "t": "2013-01-05T00:00:00Z", "n": [1.50, None]},
    ]  # fmt: skip


def test_the_sum_of_hashes_is_the_same_on_every_engine_and_spread(place: Place) -> None:
    """A golden number: what stands in ledgers must not change with a release, a version of the server or its shards."""
    place.system().prepare()
    assert deliver(place, Ledger(), 1, FIRST).content.checksum == GOLDEN


GOLDEN = 13_824_457_250_614_766_521


def test_other_windows_stay(place: Place) -> None:
    system = place.system()
    system.prepare()
    first, other = Made([FULL, ZERO]), Made([FULL], T0 + HOUR)
    system.send(attempt(1, 1, first), first, yes)
    system.send(attempt(1, 1, other, T0 + HOUR), other, yes)
    second = Made([ZERO])
    system.send(attempt(2, 2, second), second, yes)
    assert (system.standing(T0).content.rows, system.standing(T0 + HOUR).content.rows) == (1, 1)
    assert system.standing(T0 + 5 * HOUR).content == table.Content(rows=0, checksum=0)


def test_a_file_that_breaks_leaves_what_stood(place: Place) -> None:
    system = place.system()
    system.prepare()
    system.send(attempt(1, 1, FIRST), FIRST, yes)
    broken = Made([ZERO, ZERO], breaks=RuntimeError("the disk is gone"))
    with pytest.raises(RuntimeError):
        system.send(attempt(2, 2, broken), broken, yes)
    longer = attempt(2, 3, Made([ZERO, ZERO, ZERO]))
    with pytest.raises(DeliveryRefused, match="its files have 2 rows, its manifest 3"):
        system.send(longer, Made([ZERO, ZERO]), yes)
    assert shows(place) == 4
    assert place.stagings() == []


def test_the_table_is_made_once_and_evolves(place: Place) -> None:
    few = (COLUMNS[0], ("s", "string"), ("n", "int"))
    system = place.system(columns=few, order_by="s")
    assert len(system.prepare()) == len(place.addresses)
    assert system.prepare() == []
    rows = Made([{"s": "a", "n": 1}, {"s": None, "n": -1}, {"s": "b"}], columns=few)
    before = system.send(attempt(1, 1, rows), rows, yes)
    more = (COLUMNS[0], ("s", "string"), ("n", "bigint"), ("d", "double"))
    wider = place.system(columns=more)
    assert len(wider.prepare()) == 2 * len(place.addresses)
    assert wider.prepare() == []
    assert wider.standing(T0) == before, "an hour that was sent before the columns changed"
    new = Made([{"s": "c", "n": 2**40, "d": 0.5}], columns=more)
    wider.send(attempt(2, 2, new), new, yes)
    assert place.rows(more[1:]) == [(b"c", 2**40, 0.5)]
    assert system.prepare() == [], "an int fits into a bigint"
    if not place.clients()[0].knows("DateTime64"):  # an old server takes a number of its own width only
        with pytest.raises(DeliveryRefused, match="Bad cast"):
            system.send(attempt(3, 3, rows), rows, yes)
        return
    system.send(attempt(3, 3, rows), rows, yes)
    assert {*place.rows(more[1:])} == {(b"a", 1, None), (None, -1, None), (b"b", None, None)}


def test_a_column_of_the_order_keeps_its_type(place: Place) -> None:
    place.system(columns=(COLUMNS[0], ("n", "int")), order_by="n").prepare()
    with pytest.raises(DeliveryRefused, match="cannot be made") as caught:
        place.system(columns=(COLUMNS[0], ("n", "bigint"))).prepare()
    assert not caught.value.retry


@pytest.mark.parametrize(
    ("made", "words"),
    [
        ("(`_window` DateTime, x Int8) ENGINE = Memory", "its engine is Memory"),
        (
            "(`_window` DateTime, x Int8) ENGINE = ReplacingMergeTree PARTITION BY `_window` ORDER BY x",
            "its engine is ReplacingMergeTree: windows go into a plain MergeTree",
        ),
        ("(`_window` DateTime, x Int8) ENGINE = MergeTree PARTITION BY x ORDER BY tuple()", "not partitioned"),
        (
            "(`_window` Date) ENGINE = MergeTree PARTITION BY `_window` ORDER BY tuple()",
            "not partitioned by a DateTime",
        ),
        ("(`_window` DateTime) ENGINE = MergeTree PARTITION BY `_window` ORDER BY tuple()", "not marked"),
    ],
)
def test_a_table_of_others_is_refused(place: Place, made: str, words: str) -> None:
    place.run(f"CREATE TABLE {place.name} {made}")
    with pytest.raises(DeliveryRefused, match=words) as caught:
        place.system().prepare()
    assert not caught.value.retry
    if words == "not marked":  # what the advice says makes it ours
        place.run(str(caught.value.advice).partition(": ")[2])
        assert place.system().prepare()
        assert deliver(place, Ledger(), 1, FIRST).content.rows == 4
        with pytest.raises(DeliveryRefused, match="not marked"):
            place.system(pipeline="flights").prepare()


def test_a_column_of_another_type_is_refused(place: Place) -> None:
    place.system(columns=(COLUMNS[0], ("x", "string"))).prepare()
    with pytest.raises(DeliveryRefused, match="x of .* is Nullable") as caught:
        place.system(columns=(COLUMNS[0], ("x", "int"))).prepare()
    assert "MODIFY COLUMN" in str(caught.value.advice)


def test_times_that_are_not_shown_as_they_are_are_refused(place: Place) -> None:
    """Where a server has types for them; older ones get the number."""
    columns = (COLUMNS[0], ("ts", "timestamp"), ("d", "date"))
    system = place.system(columns=columns)
    system.prepare()
    knows = place.clients()[0].knows("DateTime64")
    far: list[dict[str, Any]] = [
        {"ts": datetime.datetime(2300, 1, 1, tzinfo=datetime.UTC)}, {"d": datetime.date(1899, 12, 31)},
        {"ts": datetime.datetime(1899, 12, 31, 23, tzinfo=datetime.UTC)}, {"d": datetime.date(9999, 12, 31)},
    ]  # fmt: skip
    for row in far:
        rows = Made([row], columns=columns)
        if not knows:
            assert system.send(attempt(1, 1, rows), rows, yes).content.rows == 1
            continue
        with pytest.raises(DeliveryRefused, match="outside of 1900 to 2299") as caught:
            system.send(attempt(1, 1, rows), rows, yes)
        assert not caught.value.retry


@pytest.mark.parametrize("count", [9, 10, 32, 59, 130])
def test_any_number_of_columns(place: Place, count: int) -> None:
    """The number is the first byte of the data: a line break, a blank and a semicolon are no ends of a statement."""
    columns = (COLUMNS[0], *((f"c{i}", "int") for i in range(count - 1)))
    system, rows = place.system(columns=columns), Made([{"c0": 10}, {"c1": 32}], columns=columns)
    system.prepare()
    assert system.send(attempt(1, 1, rows), rows, yes).content.rows == shows(place) == 2


def test_many_rows_make_few_parts(place: Place) -> None:
    """A staging that comes near the server's limit of parts is merged before more is sent."""
    system, clients = hooked(place)
    system.prepare()
    rows = Made([{"i32": i, "s": str(i)} for i in range(60)])
    with patch.object(table, "_BODY_BYTES", 1), patch.object(table, "_PARTS", 3):
        assert system.send(attempt(1, 1, rows), rows, yes).content.rows == 60
    assert sum("OPTIMIZE" in sql for sql in clients[0].sent) > 1
    assert sorted(row[0] for row in place.rows((("i32", "int"),))) == list(range(60))


def test_rows_are_spread_by_their_values(place: Place) -> None:
    if len(place.addresses) == 1:
        pytest.skip("one shard")
    place.system().prepare()
    rows = [{"i32": i} for i in range(400)]
    seen = []
    for epoch, turn in enumerate((rows, rows[::-1]), 1):
        system = place.system()
        system.send(attempt(1, epoch, Made(turn)), Made(turn), yes)
        seen.append([sorted(row[0] for row in Place([a], place.user, place.password, place.name).rows((("i32", ""),)))
                     for a in place.addresses])  # fmt: skip
    assert seen[0] == seen[1]
    assert all(150 < len(shard) < 250 for shard in seen[0])


def test_stagings_that_no_try_needs_are_swept(place: Place) -> None:
    system, ledger = place.system(), Ledger()
    system.prepare()
    dead, alive = ledger.taken(1, FIRST), attempt(1, 7, FIRST, T0 + HOUR)
    prefix = system._names.prefix
    for each in (dead, alive):
        place.run(f"CREATE TABLE {prefix}{each.staging} AS {place.name}")
    asked: list[set[str]] = []

    def needed(found: set[str]) -> set[str]:
        asked.append(found)
        return {alive.staging}

    assert len(system.sweep(needed)) == len(place.addresses)
    assert asked == [{dead.staging, alive.staging}] * len(place.addresses)
    assert set(place.stagings()) == {prefix + alive.staging}
    assert place.system(pipeline="flights").sweep(lambda found: set()) == []


def test_no_server_and_a_wrong_password_are_told(place: Place) -> None:
    with pytest.raises(DeliveryRefused, match="no connection to 127.0.0.1:1"):
        place.system(["127.0.0.1:1"]).prepare()
    if place.password:
        wrong = Place(place.addresses, place.user, "wrong", place.name)
        with pytest.raises(DeliveryRefused, match="password") as caught:
            wrong.system().prepare()
        assert "wrong" not in str(caught.value).replace("password is wrong", "").replace("Wrong password", "")


def _connection(place: Place, **more: Any) -> Connection:
    given = {"host": ",".join(place.addresses), "login": place.user, "password": place.password, **more}
    return Connection(conn_id="ch", **given)


def test_a_connection_names_the_shards() -> None:
    kind = delivery_kind("clickhouse")
    plain = kind.settings(Connection(conn_id="ch", host="a, b:9", login="u", password="p", schema="lake"))
    assert plain == {"shards": ["a:8123", "b:9"], "user": "u", "password": "p", "database": "lake", "secure": False,
                     "verify": True}  # fmt: skip
    assert kind.settings(Connection(conn_id="ch", host="a", extra={"secure": True}))["shards"] == ["a:8443"]
    with pytest.raises(DeliveryRefused, match="has no host"):
        kind.settings(Connection(conn_id="ch"))


def test_the_doctor_asks_each_shard(place: Place) -> None:
    kind, one = delivery_kind("clickhouse"), Delivery(name="shop", kind="clickhouse", conn_id="ch", table="t")
    pipeline = make_pipeline("file:///nowhere")
    (found,) = kind.examined(pipeline, one, _connection(place), 10.0)
    assert "answer for t" in str(found)
    for wrong in ({"host": "127.0.0.1:1"}, {"host": None}):
        (found,) = kind.examined(pipeline, one, _connection(place, **wrong), 10.0)
        assert "no connection" in str(found) or "no host" in str(found)


def test_an_order_by_what_is_no_column_is_refused() -> None:
    kind, pipeline = delivery_kind("clickhouse"), make_pipeline("file:///nowhere")
    one = Delivery(name="shop", kind="clickhouse", conn_id="ch", table="t", options=(("order_by", "id,nothing"),))
    assert kind.problems(pipeline, one) == [("order_by", "nothing is not a column of the pipeline")]
