"""A shard of several replicas: the first one is written to, the others get it from there, and are looked at.

All tries go through one replica, so that what D4 looks for is there. A REPLACE is a line of the table's log in
ZooKeeper or Keeper: each replica executes those in their order, and shows a window's old partition or its new one.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

from tidegate.core.base.errors import DeliveryRefused
from tidegate.core.base.wording import many
from tidegate.core.deliver.port import Content, Table
from tidegate.targets.clickhouse import statements
from tidegate.targets.clickhouse.client import TABLE_EXISTS, UNKNOWN_TABLE, Client, Failed, Unanswered, Unsent
from tidegate.targets.clickhouse.statements import Names, Replica
from tidegate.targets.clickhouse.types import Column

WAIT_S = 10.0
"""So long other replicas may take to show a window before they are named."""
ANSWERS_S = 10.0
"""A replica that is not written to is left alone if it does not answer within this: one that hangs holds up nothing."""
_POLL_S = 0.2


def reached(replica: Client) -> Client:
    """Itself. Raises Failed, Unanswered."""
    replace(replica, timeout_s=min(ANSWERS_S, replica.timeout_s)).ask("SELECT 1")
    return replica


# ---------------------------------------------------------------- the table


def check_quorum(shard: Client, table: Table) -> None:
    """Raises DeliveryRefused for one that can never be met."""
    quorum, of = quorum_of(table), 1 + len(shard.replicas)
    if quorum > of:
        raise DeliveryRefused(
            f"quorum is {quorum}, and the connection names {many(of, 'replica')} of the shard {shard.address}",
            advice="name all replicas in the connection's host, with bars between, or lower quorum",
            retry=False,
        )


def prepared(shard: Client, number: int, names: Names, columns: Sequence[Column], table: Table) -> list[str]:
    """The table on each replica that answers; what was done, in words. Raises DeliveryRefused, Failed, Unanswered."""
    whose = f"/tidegate/{table.pipeline}/{table.delivery}/"
    order = [name for name in dict(table.options).get("order_by", "").split(",") if name]
    has_it, done = with_table(shard, names), list[str]()
    if has_it is None:
        made = [(one.name, one.full_type) for one in columns]
        path = f"/clickhouse/tables{whose}{names.database}.{names.table}/{number}"
        has_it, done = shard, _made(shard, names, made, statements.sorted_by(order, shard), path)
    path, key = _checked(has_it, names, columns[0], whose), sorting_key(has_it, names)
    columns_sql = statements.described_columns(names)
    declared = [(str(name), str(kind)) for name, kind, _ in told_of(has_it, columns_sql, names)]
    done += _made(shard, names, declared, key, path)
    for replica in shard.replicas:
        try:
            done += _made(reached(replica), names, declared, key, path)
            its = _checked(replica, names, columns[0], whose)
        except (Unanswered, Failed) as error:
            done.append(f"{error}: its table is looked at by a later run")
            continue
        if its != path:
            raise DeliveryRefused(
                f"{replica.address}: {names.target} is a replica of {its}, the one of {shard.address} of {path}",
                advice="name the replicas of one shard with bars between, and shards with commas",
                retry=False,
            )
    return done


def _made(at: Client, names: Names, declared: Sequence[tuple[str, str]], order: str, path: str) -> list[str]:
    if at.ask(statements.described(names)):
        return []
    try:
        at.do(statements.create_replica(names, declared, order, Replica(path, at.address), at))
    except Failed as error:
        if error.code != TABLE_EXISTS:  # made by another process meanwhile
            raise
    return [f"{at.address}: created {names.target}, a replica of {path}"]


def _checked(at: Client, names: Names, window: Column, whose: str) -> str:
    """The path of the table there. Raises DeliveryRefused for one that is not this delivery's."""
    engine, partition_key = told_of(at, statements.described(names), names)[0]
    wrong, path = None, ""
    if engine != "ReplicatedMergeTree":
        wrong = f"its engine is {engine}: several replicas are named, so it has to be a ReplicatedMergeTree"
    elif str(partition_key).strip("`") != window.name:
        wrong = f"it is not partitioned by {window.name}"
    elif whose not in (path := str(told_of(at, statements.replica_path(names), names)[0][0])):
        wrong = f"its path {path} is not marked as this delivery's by {whose}"
    if wrong:
        raise DeliveryRefused(
            f"{at.address}: {names.target} is not taken: {wrong}", advice="take a table of its own", retry=False
        )
    return path


def sorting_key(shard: Client, names: Names) -> str:
    """Of the target, which a staging has to have, too. Raises Failed, Unanswered."""
    return str(told_of(shard, statements.sorting_key(names), names)[0][0])


def told_of(at: Client, sql: str, names: Names) -> list[list[Any]]:
    """What a system table has of the target. Raises Failed where somebody has dropped it meanwhile, and Unanswered."""
    rows = at.ask(sql)
    if not rows:
        raise Failed(f"{at.address}: {names.target} is missing", UNKNOWN_TABLE)
    return rows


def with_table(shard: Client, names: Names) -> Client | None:
    """The server that is written to if it has the table, else a replica that has it: from there the engine fills the
    table that is made again. None: the shard has lost it. Raises Failed, Unanswered of the first alone."""
    if shard.ask(statements.described(names)):
        return shard
    for replica in shard.replicas:
        with suppress(Failed, Unanswered):
            if reached(replica).ask(statements.described(names)):
                return replica
    return None


# ---------------------------------------------------------------- what they show


def quorum_of(table: Table) -> int:
    """How many replicas of a shard have to show a window before it stands."""
    return int(dict(table.options).get("quorum", "1"))


def behind(shard: Client, wanted: Content, look: Callable[[Client], Content], wait_s: float) -> list[str]:
    """Replicas that do not show this of a window, in words, after so long. One that does not answer, or says no, is not
    waited for."""
    end = time.monotonic() + wait_s
    named = []
    for replica in shard.replicas:
        words = _other(replica, wanted, look)
        while words and not words.endswith(_SILENT) and time.monotonic() < end:
            time.sleep(_POLL_S)
            words = _other(replica, wanted, look)
        if words:
            named.append(words)
    return named


_SILENT = ("does not answer", "cannot be read")


def _other(replica: Client, wanted: Content, look: Callable[[Client], Content]) -> str:
    """What the replica shows instead; nothing where it shows what it should."""
    try:
        found = look(replica)
    except (Failed, Unanswered) as error:
        answers = isinstance(error, Failed) and not isinstance(error, Unsent)
        return f"{error}: the replica {_SILENT[answers]}"
    if found == wanted:
        return ""
    if found.rows == wanted.rows:
        return f"the replica {replica.address} shows other values"
    return f"the replica {replica.address} shows {many(found.rows, 'row')}, not {wanted.rows:,}"
