"""A table in ClickHouse that somebody drops in the middle of a run: the next one makes it again."""

from __future__ import annotations

from typing import Any

import pytest

from tests.clickhouse.memory import Cluster, InClickHouse, Memory, Replicated
from tests.deliver.rows import Made, attempt
from tidegate.core.base.errors import DeliveryRefused
from tidegate.core.deliver.port import WINDOW_COLUMN, Table

TABLE = Table(pipeline="readings", delivery="shop", name="readings", columns=(WINDOW_COLUMN, ("id", "string")))
ROWS = Made([{"id": "a"}, {"id": "b"}], columns=TABLE.columns)


def drop(cluster: Cluster) -> None:
    for server in cluster.servers:
        server.tables.pop("readings", None)


@pytest.mark.parametrize("kind", [InClickHouse, Replicated])
def test_between_the_look_and_the_rows(kind: type[InClickHouse]) -> None:
    cluster = kind.place()
    system = kind(cluster, TABLE)
    system.prepare()
    drop(cluster)
    with pytest.raises(DeliveryRefused) as caught:
        system.send(attempt(1, 1, ROWS), ROWS, lambda: True)
    assert caught.value.retry
    assert system.missing()
    system.prepare()
    assert system.send(attempt(1, 2, ROWS), ROWS, lambda: True).content == there(cluster)


def there(cluster: Cluster) -> Any:
    return cluster.content(attempt(1, 1, ROWS).token.unit)


@pytest.mark.parametrize("kind", [InClickHouse, Replicated])
@pytest.mark.parametrize("look", range(1, 9))
def test_before_any_look_of_a_run(kind: type[InClickHouse], look: int, monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = kind.place()
    kind(cluster, TABLE).prepare()
    answer, seen = Memory._answer, []

    def dropped(self: Memory, sql: str) -> list[list[Any]]:
        seen.append(sql)
        if len(seen) == look:
            drop(cluster)
        return answer(self, sql)

    monkeypatch.setattr(Memory, "_answer", dropped)
    refused = []
    try:
        kind(cluster, TABLE).prepare()
    except DeliveryRefused as error:
        refused.append(error)
    assert all(error.retry for error in refused)
    kind(cluster, TABLE).prepare()
    assert not kind(cluster, TABLE).missing()
