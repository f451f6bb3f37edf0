"""Each rule D is taken out, at a named function: its attack must find it. With the rule the attack passes, in
`test_clickhouse_rules.py`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest

from dev.stack.info import StackInfo
from tests.clickhouse import attacks
from tests.clickhouse.places import ALL, Place, gone, real
from tidegate.core.base.errors import DeliveryUnsure
from tidegate.core.deliver.port import Attempt
from tidegate.targets.clickhouse import client, statements, table
from tidegate.targets.clickhouse.client import NONE, Client, Unanswered
from tidegate.targets.clickhouse.table import ClickHouseTable

Bug = Callable[[], list[Any]]


def _one_staging_for_all_tries() -> list[Any]:
    """D1: and it is created if it is not there."""
    do = Client.do

    def again(self: Client, sql: str, body: bytes = b"", settings: Any = NONE) -> None:
        do(self, sql.replace("CREATE TABLE", "CREATE TABLE IF NOT EXISTS"), body, settings)

    shared = property(lambda one: f"{one.token.unit}_x")
    return [patch.object(Attempt, "staging", shared), patch.object(Client, "do", again)]


def _sent_again(word: str) -> Bug:
    """D2"""

    def bug() -> list[Any]:
        insist = ClickHouseTable._staged

        def again(self: ClickHouseTable, *given: Any) -> Any:
            for shard in self._shards:
                send = shard.do

                def twice(sql: str, *more: Any, send: Any = send, **named: Any) -> None:
                    try:
                        send(sql, *more, **named)
                    except Unanswered:
                        if word not in sql:
                            raise
                        send(sql.replace("CREATE TABLE", "CREATE TABLE IF NOT EXISTS"), *more)

                shard.do = twice  # type: ignore[method-assign]
            return insist(self, *given)

        return [patch.object(ClickHouseTable, "_staged", again)]

    return bug


def _not_checked() -> list[Any]:
    """D3"""
    return [patch.object(ClickHouseTable, "_check", lambda *_: None)]


def _counted_only() -> list[Any]:
    """D3, D7: without a checksum."""

    def none(_: Any, stored: Any) -> Any:
        return np.zeros(len(stored[0]), dtype=np.uint64)

    return [patch.object(statements, "sql_row_hash", lambda _: "toUInt64(0)"), patch.object(table, "row_hashes", none)]


def _several_parts() -> list[Any]:
    """D3: one part."""
    return [patch.object(ClickHouseTable, "_merge", lambda *_: None)]


def _no_fence() -> list[Any]:
    """D4"""
    return [patch.object(ClickHouseTable, "_fence", lambda *_: None)]


def _drops_are_not_looked_at() -> list[Any]:
    """D4: what is unsure is taken for done."""

    def once(self: ClickHouseTable, shard: Client, window: str, own: str, end: float) -> None:
        for name in self._stagings(shard, window):
            if name != own:
                with suppress(Unanswered):
                    self._drop(shard, name)

    return [patch.object(ClickHouseTable, "_fence_shard", once)]


def _gone_is_enough() -> list[Any]:
    """D4: a REPLACE that has found its source goes on."""
    wishes = {name: value for name, value in client._WISHES.items() if not name.startswith("database_atomic")}
    return [patch.object(client, "_WISHES", wishes),
            patch.object(statements, "replaces_under_way", lambda *_: "SELECT 0")]  # fmt: skip


def _asked_early() -> list[Any]:
    """D5: before the staging exists."""
    send = ClickHouseTable.send

    def early(self: ClickHouseTable, attempt: Attempt, rows: Any, holds: Any) -> Any:
        held = holds()
        return send(self, attempt, rows, lambda: held)

    return [patch.object(ClickHouseTable, "send", early)]


def _emptied_by_drop_partition() -> list[Any]:
    """D6"""
    replace = ClickHouseTable._replace

    def dropped(self: ClickHouseTable, staging: str, attempt: Attempt, wanted: Any) -> None:
        if attempt.rows:
            return replace(self, staging, attempt, wanted)
        for shard in self._shards:
            try:
                shard.do(f"ALTER TABLE {self._names.target} DROP PARTITION ID '{attempt.token.unit // 1000}'")
            except Unanswered as error:
                raise DeliveryUnsure("it may have been executed") from error
        return None

    return [patch.object(ClickHouseTable, "_replace", dropped)]


def _not_read_back() -> list[Any]:
    """D7"""

    def believed(_: Any, __: Any, wanted: Any) -> Any:
        return table.Standing(content=table._total(wanted))

    return [patch.object(ClickHouseTable, "_read_back", believed)]


BUGS: dict[str, tuple[Bug, str, str]] = {
    "one staging for all tries": (_one_staging_for_all_tries, "d1_two_tries_at_once", "two"),
    "an unsure CREATE is sent again": (_sent_again("CREATE TABLE"), "d2_unsure_is_abandoned", "one"),
    "an unsure INSERT is sent again": (_sent_again("INSERT INTO"), "d2_unsure_is_abandoned", "one"),
    "the staging is not checked": (_not_checked, "d3_a_row_is_lost_on_the_way", "one"),
    "rows are counted only": (_counted_only, "d3_a_row_is_lost_on_the_way", "one"),
    "several parts are moved": (_several_parts, "d3_one_part", "one"),
    "no fence": (_no_fence, "d4_a_try_that_slept", "two"),
    "an unsure drop is taken for done": (_drops_are_not_looked_at, "d4_a_drop_that_is_lost", "one"),
    "a source that is gone is enough": (_gone_is_enough, "d4_a_replace_under_way", "newest"),
    "the ledger is asked early": (_asked_early, "d5_overtaken_before_it_has_a_staging", "one"),
    "an empty window by DROP PARTITION": (_emptied_by_drop_partition, "d6_an_empty_window_that_comes_late", "one"),
    "the target is not read back": (_not_read_back, "d7_what_readers_meet_is_read_back", "two"),
}


@pytest.fixture
def place_of(request: pytest.FixtureRequest) -> Iterator[Callable[[str], Place]]:
    made: list[Place] = []

    def found(where: str) -> Place:
        if where == "newest":
            shared: Place = request.getfixturevalue("newest_engine")
            made.append(Place(shared.addresses, shared.user, shared.password))
        else:
            info: StackInfo = request.getfixturevalue("clickhouse")
            made.append(real(info, 2 if where == "two" else 1))
        return made[-1]

    yield found
    for each in made:
        gone(each)


@pytest.mark.parametrize("name", [name for name, (_, _, where) in BUGS.items() if ALL or where != "newest"])
def test_a_rule_that_is_taken_out_is_missed(place_of: Callable[[str], Place], name: str) -> None:
    bug, attack, where = BUGS[name]
    place = place_of(where)
    with ExitStack() as planted:
        for each in bug():
            planted.enter_context(each)
        with pytest.raises((AssertionError, pytest.fail.Exception)):
            getattr(attacks, attack)(place)
