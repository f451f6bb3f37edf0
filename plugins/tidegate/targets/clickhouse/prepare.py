"""The target exists, is this delivery's, and has the pipeline's columns: created, evolved or refused, on one shard."""

from __future__ import annotations

from collections.abc import Sequence

from tidegate.core.base.errors import DeliveryRefused
from tidegate.core.deliver.port import Table
from tidegate.targets.clickhouse import replicas, statements
from tidegate.targets.clickhouse.client import (
    DUPLICATE_COLUMN,
    ILLEGAL_COLUMN,
    IN_A_KEY,
    TABLE_EXISTS,
    UNFINISHED,
    Client,
    Failed,
    quoted,
    text,
)
from tidegate.targets.clickhouse.statements import Names
from tidegate.targets.clickhouse.types import WINDOW_TYPE, Column

_OWN = "take a table of its own"


def prepared(shard: Client, number: int, names: Names, columns: Sequence[Column], table: Table) -> list[str]:
    """What was done, in words. Looks first. Raises DeliveryRefused, Failed, Unanswered. `number`: of the shard."""
    replicas.check_quorum(shard, table)
    if shard.replicas:
        return [*replicas.prepared(shard, number, names, columns, table), *_evolved(shard, names, columns)]
    owner = f"tidegate: {table.pipeline}/{table.delivery}"
    done = []
    if not shard.ask(statements.described(names)):
        order = [name for name in dict(table.options).get("order_by", "").split(",") if name]
        try:
            shard.do(statements.create_table(names, columns, order, owner, shard))
            done.append(f"{shard.address}: created {names.target}")
        except Failed as error:
            if error.code != TABLE_EXISTS:  # made by another process meanwhile
                raise
    _check_table(shard, names, columns[0], owner)
    return done + _evolved(shard, names, columns)


def _check_table(shard: Client, names: Names, window: Column, owner: str) -> None:
    engine, partition_key = replicas.told_of(shard, statements.described(names), names)[0]
    columns = replicas.told_of(shard, statements.described_columns(names), names)
    comments = {name: (kind, comment) for name, kind, comment in columns}
    kind, comment = comments.get(window.name, ("", ""))
    wrong = None
    if str(engine).startswith("Replicated"):
        wrong = f"its engine is {engine}, and one server is named", "name all replicas: a host like ch1|ch2"
    elif engine not in ("MergeTree", "SharedMergeTree"):  # others make one row of several, after we have counted them
        wrong = f"its engine is {engine}: windows go into a plain MergeTree, which keeps each row", _OWN
    elif str(partition_key).strip("`") != window.name or kind not in ("DateTime", WINDOW_TYPE):
        wrong = f"it is not partitioned by a DateTime column {window.name}", _OWN
    elif comment != owner:
        mark = f"ALTER TABLE {names.target} COMMENT COLUMN {quoted(window.name)} {text(owner)}"
        wrong = f"it is not marked as this delivery's, but {comment!r}", f"if it is to be: {mark}"
    if wrong:
        raise DeliveryRefused(f"{shard.address}: {names.target} is not taken: {wrong[0]}", advice=wrong[1], retry=False)


def _evolved(shard: Client, names: Names, columns: Sequence[Column]) -> list[str]:
    there = types(shard, names)
    done = []
    for one in columns[1:]:
        if one.name not in there:
            if _added(shard, names, one):
                done.append(f"{shard.address}: added {one.name} {one.full_type} to {names.target}")
            there = types(shard, names)
        change = f"MODIFY COLUMN {quoted(one.name)} {one.full_type}"
        fits = one.fits(there.get(one.name, "gone again"))
        if fits > 0:
            done.append(_widened(shard, names, one, change))
        if fits < 0:
            raise DeliveryRefused(
                f"{shard.address}: {one.name} of {names.target} is {there.get(one.name)}, and {one.full_type} is sent",
                advice=f"if no value is lost by it: ALTER TABLE {names.target} {change}",
                retry=False,
            )
    return done


def _widened(shard: Client, names: Names, one: Column, change: str) -> str:
    try:
        shard.do(f"ALTER TABLE {names.target} {change}")
    except Failed as error:
        if error.code in IN_A_KEY:
            raise DeliveryRefused(
                f"{shard.address}: {one.name} of {names.target} cannot be made {one.full_type}: {error}",
                advice="the table is sorted by it: name another table, and deliver the windows again",
                retry=False,
            ) from error
        if error.code != UNFINISHED or one.fits(types(shard, names).get(one.name, "")):
            raise
    return f"{shard.address}: {one.name} of {names.target} is {one.full_type} now"


def types(shard: Client, names: Names) -> dict[str, str]:
    """Of the target's columns; none where it is missing."""
    return {name: str(kind) for name, kind, _ in shard.ask(statements.described_columns(names))}


def _added(shard: Client, names: Names, one: Column) -> bool:
    """False where another process has added the column meanwhile."""
    try:
        shard.do(f"ALTER TABLE {names.target} ADD COLUMN {quoted(one.name)} {one.full_type}")
    except Failed as error:
        if error.code == UNFINISHED and one.name in types(shard, names):
            return True
        if error.code not in (ILLEGAL_COLUMN, DUPLICATE_COLUMN):
            raise
        return False
    return True
