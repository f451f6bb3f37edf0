"""Real PostgreSQL and real MariaDB as further systems: the contract, and what happens when answers are lost."""

from __future__ import annotations

import random
import uuid
from collections.abc import Callable, Iterator
from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest

from spark_jobs.engine.delivered import checksum
from tests.databases.fixtures import KINDS, mariadb, mysql, postgresql  # noqa: F401
from tests.databases.servers import Server
from tests.deliver.rows import COLUMNS, FULL, HOUR, NULLS, T0, ZERO, Made, attempt, table
from tests.fakes.proxy import Fate, LossyProxy
from tidegate.core.base.connection import Connection
from tidegate.core.base.errors import DeliveryAhead, DeliveryRefused, DeliveryUnsure, LostComparison
from tidegate.core.deliver.parts import differing
from tidegate.core.deliver.port import FurtherSystem
from tidegate.databases.kinds import for_workers
from tidegate.kinds import delivery_kind


@pytest.fixture(params=KINDS)
def server(request: pytest.FixtureRequest) -> Server:
    found: Server = request.getfixturevalue(request.param)
    return found


@pytest.fixture
def name() -> str:
    return f"shop.t_{uuid.uuid4().hex[:8]}"


Open = Callable[..., FurtherSystem]


@pytest.fixture
def opened(server: Server, name: str) -> Iterator[Open]:
    made: list[FurtherSystem] = []

    def open_(port: int | None = None, columns: Any = COLUMNS, pipeline: str = "readings") -> FurtherSystem:
        at: Connection = server.connection if port is None else replace(server.connection, port=port)
        through = port is not None and server.kind != "postgresql"
        plain = {"ssl_mode": "DISABLED"} if through else {}  # a proxy reads along
        settings = for_workers(at) | plain
        made.append(delivery_kind(server.product).opened(settings, table(name, columns, pipeline), checksum, 20.0))
        return made[-1]

    yield open_
    for system in made:
        system.close()


def yes() -> bool:
    return True


def count(server: Server, name: str) -> int:
    return int(server.run(f"SELECT COUNT(*) FROM {name}")[0][0])


def test_every_type_comes_back_as_it_was_sent(opened: Open, server: Server, name: str) -> None:
    system, rows = opened(), Made([FULL, NULLS, ZERO, FULL])
    assert system.prepare() == [f"created {system._definition.table}"]  # type: ignore[attr-defined]
    sent = system.send(attempt(1, 1, rows), rows, yes)
    assert sent.content.rows == 4
    found = system.standing(T0)
    assert found == sent
    assert found.token == attempt(1, 1, rows).token
    assert count(server, name) == 4
    assert system.prepare() == []
    if server.kind == "postgresql":
        ((b, dec, text, tags),) = server.run(f"SELECT b, dec, s, tags->>0 FROM {name} WHERE b LIMIT 1")
        assert (b, dec, text, tags) == (True, FULL["dec"], FULL["s"], "x")
    else:
        ((b, dec, text, tags),) = server.run(
            f"SELECT b, `dec`, s, JSON_VALUE(tags, '$[0]') FROM {name} WHERE b LIMIT 1"
        )
        assert (b, dec, text, tags) == (1, FULL["dec"], FULL["s"], "x")


def test_a_newer_generation_takes_the_place_of_the_window_alone(opened: Open, server: Server, name: str) -> None:
    system = opened()
    system.prepare()
    first, other, second = Made([FULL, ZERO]), Made([FULL], T0 + HOUR), Made([ZERO])
    system.send(attempt(1, 1, first), first, yes)
    system.send(attempt(1, 1, other, T0 + HOUR), other, yes)
    system.send(attempt(2, 2, second), second, yes)
    assert count(server, name) == 2
    assert system.standing(T0).content.rows == 1
    nothing = Made([])
    assert system.send(attempt(3, 3, nothing), nothing, yes).content.rows == 0
    assert (system.standing(T0).content.rows, system.standing(T0 + HOUR).content.rows) == (0, 1)
    assert system.standing(T0 + 5 * HOUR).token is None


@pytest.mark.parametrize(("generation", "epoch"), [(1, 9), (2, 1), (2, 2)])
def test_an_older_token_that_comes_late_is_refused(opened: Open, generation: int, epoch: int) -> None:
    system, late = opened(), opened()
    system.prepare()
    new, old = Made([FULL, ZERO]), Made([NULLS])
    system.send(attempt(2, 2, new), new, yes)
    with pytest.raises(DeliveryAhead) as caught:
        late.send(attempt(generation, epoch, old), old, yes)
    assert (caught.value.generation, caught.value.epoch) == (2, 2)
    assert system.standing(T0).content.rows == 2


def test_a_try_that_waits_in_vain_for_another_one_says_where_it_is_named(opened: Open, server: Server) -> None:
    standing_still, later = opened(), opened()
    standing_still.prepare()
    rows, met = Made([FULL]), []

    def meanwhile() -> bool:
        with pytest.raises(DeliveryRefused) as caught:
            later.send(attempt(1, 2, rows), rows, yes)
        met.append(caught.value)
        return True

    standing_still.send(attempt(1, 1, rows), rows, meanwhile)
    holder = "pg_stat_activity" if server.kind == "postgresql" else "information_schema.INNODB_TRX"
    assert met[0].retry
    assert met[0].advice.startswith(f"another session there holds the window's rows: {holder} names it")
    assert later.send(attempt(1, 2, rows), rows, yes).content.rows == 1


def test_who_does_not_hold_any_more_shows_nothing(opened: Open) -> None:
    system, rows = opened(), Made([FULL])
    system.prepare()
    with pytest.raises(LostComparison):
        system.send(attempt(1, 1, rows), rows, lambda: False)
    assert system.standing(T0).content.rows == 0
    system.send(attempt(1, 2, rows), rows, yes)
    assert system.standing(T0).content.rows == 1


def test_readers_meet_the_old_until_the_new_is_whole(opened: Open, server: Server, name: str) -> None:
    system, seen = opened(), []
    system.prepare()
    first, second = Made([FULL, ZERO, FULL]), Made([ZERO])
    system.send(attempt(1, 1, first), first, yes)
    assert system.send(attempt(2, 2, second), second, lambda: not seen.append(count(server, name)))
    assert seen == [3]
    assert count(server, name) == 1


def test_files_that_break_in_the_middle_leave_what_stood(opened: Open) -> None:
    system = opened()
    system.prepare()
    first, broken = Made([FULL]), Made([ZERO, ZERO], breaks=RuntimeError("the disk is gone"))
    system.send(attempt(1, 1, first), first, yes)
    with pytest.raises(RuntimeError):
        system.send(attempt(2, 2, broken), broken, yes)
    assert system.standing(T0).content.rows == 1
    fewer = replace(attempt(2, 3, first), rows=5)
    with pytest.raises(DeliveryRefused, match="5 rows were to be sent"):
        system.send(fewer, first, yes)
    assert system.standing(T0).token == attempt(1, 1, first).token


@pytest.mark.parametrize("fate", [Fate.LOSE_REPLY, Fate.LOSE_REQUEST])
def test_a_commit_without_an_answer_is_looked_at(opened: Open, server: Server, fate: Fate) -> None:
    at = server.connection
    opened().prepare()
    rows = Made([FULL, ZERO])
    with LossyProxy(at.host or "", at.port or 0, b"COMMIT", fate, once=True) as proxy:
        system = opened(proxy.port)
        if fate is Fate.LOSE_REPLY:
            assert system.send(attempt(1, 1, rows), rows, yes).content.rows == 2
        else:
            with pytest.raises(DeliveryUnsure, match="was not executed"):
                system.send(attempt(1, 1, rows), rows, yes)
            assert system.send(attempt(1, 2, rows), rows, yes).content.rows == 2
        assert proxy.matched
    assert opened().standing(T0).content.rows == 2


@pytest.mark.parametrize("marker", [b"BEGIN", b"FOR UPDATE", b"DELETE FROM", b"UPDATE ", b"INSERT "])
def test_an_answer_that_is_lost_before_the_commit_changes_nothing(opened: Open, server: Server, marker: bytes) -> None:
    at = server.connection
    plain = opened()
    plain.prepare()
    first, second = Made([FULL]), Made([ZERO, ZERO])
    plain.send(attempt(1, 1, first), first, yes)
    plain.close()
    for fate in (Fate.LOSE_REQUEST, Fate.LOSE_REPLY):
        with LossyProxy(at.host or "", at.port or 0, marker, fate, once=True) as proxy:
            system = opened(proxy.port)
            with pytest.raises(DeliveryRefused) as caught:
                system.send(attempt(2, 2, second), second, yes)
            assert caught.value.retry
            assert proxy.matched
            system.close()
        assert plain.standing(T0).token == attempt(1, 1, first).token
    plain.send(attempt(2, 3, second), second, yes)
    assert plain.standing(T0).content.rows == 2


def test_a_server_that_is_down_is_told_by_its_name(opened: Open, server: Server) -> None:
    with pytest.raises(DeliveryRefused, match="did not answer") as caught:
        opened(1).prepare()
    assert caught.value.retry


def test_the_table_follows_the_spec(opened: Open, server: Server, name: str) -> None:
    few = (COLUMNS[0], ("i32", "int"), ("small", "decimal(5,2)"))
    before = opened(columns=few)
    before.prepare()
    old = Made([{"i32": 7}], columns=few)
    before.send(attempt(1, 1, old), old, yes)
    more = (COLUMNS[0], ("s", "string"), ("i32", "bigint"), ("small", "decimal(9,3)"))
    after = opened(columns=more)
    assert len(after.prepare()) == 3
    assert after.prepare() == []
    new = Made([{"i32": 2**40, "s": "x"}], T0 + HOUR, more)
    after.send(attempt(1, 1, new, T0 + HOUR), new, yes)
    assert sorted(server.run(f"SELECT i32, s FROM {name}"), key=str) == [(2**40, "x"), (7, None)]
    # an hour of before is what its files are by today's columns, whatever its checksum was
    assert after.standing(T0).content != before.standing(T0).content
    assert differing(after.parts(T0, Made([{"i32": 7}], columns=more))) == ()
    # the columns that the spec has dropped stay, and are null from then on
    assert before.prepare() == []
    again = Made([{"i32": 8}], T0 + 2 * HOUR, few)
    assert before.send(attempt(1, 1, again, T0 + 2 * HOUR), again, yes).content.rows == 1


def test_a_table_that_was_dropped_is_made_again(opened: Open, server: Server, name: str) -> None:
    system, rows = opened(), Made([FULL])
    system.prepare()
    system.send(attempt(1, 1, rows), rows, yes)
    server.run(f"DROP TABLE {name}")
    with pytest.raises(DeliveryRefused):
        system.standing(T0)
    assert system.prepare() == [f"created {system._definition.table}"]  # type: ignore[attr-defined]
    assert system.standing(T0).content.rows == 0
    assert system.send(attempt(1, 2, rows), rows, yes).content.rows == count(server, name) == 1


def test_another_table_is_not_touched(opened: Open, server: Server, name: str) -> None:
    server.run(f"CREATE TABLE {name} (id int)")
    with pytest.raises(DeliveryRefused, match="Tidegate did not make it"):
        opened().prepare()


def test_rows_that_nobody_sent_are_not_touched(opened: Open, server: Server, name: str) -> None:
    system = opened(columns=COLUMNS[:2])
    system.prepare()
    server.run(f"INSERT INTO {name} VALUES ('2013-01-05 00:00:00', NULL)")
    with pytest.raises(DeliveryRefused, match="no delivery has sent"):
        system.prepare()


def test_a_table_that_takes_nothing_back_or_forgets_is_refused(opened: Open, server: Server, name: str) -> None:
    """Its rows would come and go without the token beside them."""
    change, words = "ENGINE=MyISAM", "MyISAM takes nothing back"
    if server.kind == "postgresql":
        change, words = "SET UNLOGGED", "it is UNLOGGED"
    opened().prepare()
    server.run(f"ALTER TABLE {name} {change}")
    with pytest.raises(DeliveryRefused, match=words) as caught:
        opened().prepare()
    assert not caught.value.retry
    server.run(str(caught.value.advice))
    assert opened().prepare() == []


def test_a_table_of_another_pipeline_is_refused(opened: Open, server: Server, name: str) -> None:
    system, rows = opened(), Made([FULL])
    system.prepare()
    system.send(attempt(1, 1, rows), rows, yes)
    with pytest.raises(DeliveryRefused, match="belongs to the delivery shop of readings"):
        opened(pipeline="flights").prepare()
    with pytest.raises(DeliveryRefused, match=r"was sent by readings\.shop"):
        opened(pipeline="flights").send(attempt(7, 7, rows, pipeline="flights"), rows, yes)


def test_a_column_of_another_type_is_refused(opened: Open, server: Server, name: str) -> None:
    opened(columns=(COLUMNS[0], ("x", "string"))).prepare()
    with pytest.raises(DeliveryRefused, match="x of .* takes no int"):
        opened(columns=(COLUMNS[0], ("x", "int"))).prepare()


def test_what_a_trigger_changes_is_seen(opened: Open, server: Server, name: str) -> None:
    columns = (COLUMNS[0], ("s", "string"))
    system, rows = opened(columns=columns), Made([{"s": "a"}, {"s": "b"}], columns=columns)
    system.prepare()
    schema, plain = name.split(".")
    if server.kind == "postgresql":
        server.run(
            f"CREATE FUNCTION shop.f_{plain}() RETURNS trigger LANGUAGE plpgsql AS "
            "'BEGIN NEW.s := upper(NEW.s); RETURN NEW; END'",
            f"CREATE TRIGGER t BEFORE INSERT ON {name} FOR EACH ROW EXECUTE FUNCTION shop.f_{plain}()",
        )
    else:
        server.run(f"CREATE TRIGGER {schema}.g_{plain} BEFORE INSERT ON {name} FOR EACH ROW SET NEW.s = UPPER(NEW.s)")
    with pytest.raises(DeliveryRefused, match="holds other rows than were sent"):
        system.send(attempt(1, 1, rows), rows, yes)
    assert system.standing(T0).content.rows == 0


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_no_number_is_kept_or_refused(opened: Open, server: Server, value: float) -> None:
    columns = (COLUMNS[0], ("f64", "double"))
    system, rows = opened(columns=columns), Made([{"f64": value}], columns=columns)
    system.prepare()
    if server.kind == "postgresql":
        assert system.send(attempt(1, 1, rows), rows, yes).content == rows.content
        return
    with pytest.raises(DeliveryRefused, match=f"column f64: {value} cannot be held") as caught:
        system.send(attempt(1, 1, rows), rows, yes)
    assert not caught.value.retry
    assert "skip the window here" in caught.value.advice


def test_rows_that_somebody_changed_are_seen_later(opened: Open, server: Server, name: str) -> None:
    columns = (COLUMNS[0], ("i32", "int"), ("s", "string"))
    system, rows = opened(columns=columns), Made([{"i32": 1, "s": "a"}, {"i32": 2, "s": "b"}], columns=columns)
    system.prepare()
    sent = system.send(attempt(1, 1, rows), rows, yes)
    assert sent.content == rows.content == system.standing(T0).content
    server.run(f"UPDATE {name} SET s = 'c' WHERE i32 = 2")
    assert system.standing(T0).content != sent.content
    assert system.standing(T0).content.rows == 2


def test_texts_and_bytes_of_any_kind_come_back(opened: Open, server: Server, rng: random.Random) -> None:
    """What quotes, escapes and marks of parameters are made of, and all else."""
    columns = (COLUMNS[0], ("s", "string"), ("raw", "binary"), ("f64", "double"), ("dec", "decimal(38,18)"))
    signs = ["'", "\\", '"', "%", "%s", "`", "\n", "\r", "\t", "\x1a", ",", "(", ")", ";", "--", "NULL", "ü", "😀", " "]
    if server.kind == "mariadb":
        signs.append("\0")
    made = [
        {
            "s": "".join(rng.choices(signs, k=rng.randrange(6))),
            "raw": rng.randbytes(rng.randrange(5)),
            "f64": rng.choice(
                [rng.uniform(-1, 1), rng.uniform(-1, 1) * 10.0 ** rng.randrange(-300, 300), 5e-324, -0.0]
            ),
            "dec": Decimal(rng.randrange(-(10**37), 10**37)).scaleb(-18) if rng.random() < 0.5 else Decimal("1E-18"),
        }
        for _ in range(300)
    ]
    system, rows = opened(columns=columns), Made([*made, {}], columns=columns)
    system.prepare()
    assert system.send(attempt(1, 1, rows), rows, yes).content == rows.content


def test_long_rows_are_statements_of_their_own(opened: Open) -> None:
    columns = (COLUMNS[0], ("s", "string"))
    system, rows = opened(columns=columns), Made([{"s": "x" * n} for n in (5, 900_000, 900_000, 7)], columns=columns)
    system.prepare()
    assert system.send(attempt(1, 1, rows), rows, yes).content == rows.content
