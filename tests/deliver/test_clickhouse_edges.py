"""ClickHouse at its edges: a table that an older server has made, and windows that its DateTime does not know."""

from __future__ import annotations

import datetime

import pytest

from tests.clickhouse.places import Place
from tests.deliver.rows import COLUMNS, FULL, T0, Made, attempt
from tidegate.core.base.errors import DeliveryRefused
from tidegate.targets.clickhouse.client import Client

_UTC = datetime.UTC


def yes() -> bool:
    return True


class Older(Client):
    """What 18.16 knows, whatever the server is."""

    def knows(self, name: str) -> bool:
        return name not in ("Bool", "Date32", "DateTime64") and super().knows(name)


def test_a_table_that_an_older_server_has_made_keeps_its_types(place: Place) -> None:
    columns = (COLUMNS[0], ("b", "boolean"), ("d", "date"), ("ts", "timestamp"))
    old = {"b": True, "d": datetime.date(1969, 7, 20), "ts": datetime.datetime(1969, 7, 20, 20, 17, 40, 1, _UTC)}
    before = place.system(clients=place.clients(kind=Older), columns=columns)
    before.prepare()
    sent = before.send(attempt(1, 1, Made([old], columns=columns)), Made([old], columns=columns), yes)
    more = (*columns, ("later", "timestamp"))
    now = place.system(columns=more)
    assert len(now.prepare()) == len(place.addresses), "one column is added"
    assert now.standing(T0) == sent
    rows = Made([old, {}, {"later": old["ts"]}], columns=more)
    again = now.send(attempt(1, 2, rows), rows, yes)
    assert (again.content.rows, now.standing(T0)) == (3, again)
    micros = (old["ts"] - datetime.datetime(1970, 1, 1, tzinfo=_UTC)) // datetime.timedelta(microseconds=1)
    kinds = (("b", ""), ("d", ""), ("ts", ""), ("later", ""))
    assert sorted(place.rows(kinds), key=str) == sorted(
        [(1, -165, micros, None), (None, None, None, None), (None, None, None, micros)], key=str
    )


@pytest.mark.parametrize("year", [1969, 2107])
def test_a_window_that_has_no_partition_there_is_refused(place: Place, year: int) -> None:
    at = int(datetime.datetime(year, 1, 1, 5, tzinfo=_UTC).timestamp() * 1000)
    system, rows = place.system(), Made([FULL], at)
    system.prepare()
    with pytest.raises(DeliveryRefused, match="before 1970 or after 2106") as caught:
        system.send(attempt(1, 1, rows, at), rows, yes)
    assert not caught.value.retry
    assert (place.stagings(), place.rows((("_window", ""),))) == ([], [])
