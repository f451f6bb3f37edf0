"""A server that restarts after a window was replaced: 18.16 loads, and shows, whatever parts are still on its disk."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from dev.stack import debian
from dev.stack.stack import Stack
from tests.clickhouse.places import real
from tests.clickhouse.turns import FIRST, NOTHING, SECOND, Ledger, deliver, shows
from tests.deliver.rows import T0
from tidegate.targets.clickhouse.table import _uncovered


class Restarting:
    """Servers of the test's own."""

    def __init__(self, root: Path) -> None:
        self.stack = Stack(root, parts=("clickhouse",))
        self.place = real(self.stack.up(), 2)

    def restart(self) -> None:
        self.stack.down()
        found = real(self.stack.up(), 2)
        self.place.addresses, self.place.password = found.addresses, found.password


@pytest.fixture
def servers(stack_roots: Path) -> Iterator[Restarting]:
    if not debian.is_here():
        pytest.skip("no Debian here, whose packages bring ClickHouse")
    made = Restarting(stack_roots / "clickhouse-restarting")
    yield made
    made.stack.down()


def test_what_stands_is_what_a_restart_shows(servers: Restarting) -> None:
    place, ledger = servers.place, Ledger()
    place.settles = True
    place.system().prepare()
    deliver(place, ledger, 1, FIRST)
    stands = deliver(place, ledger, 2, SECOND)
    servers.restart()
    assert place.system().standing(T0) == stands
    assert shows(place) == 2
    deliver(place, ledger, 3, NOTHING)
    servers.restart()
    assert shows(place) == 0


def test_without_waiting_the_older_rows_are_there_again_and_seen(servers: Restarting) -> None:
    """The bug, so that it is known when it is gone; and D8, which finds it."""
    place, ledger = servers.place, Ledger()
    place.system().prepare()
    deliver(place, ledger, 1, FIRST)
    stands = deliver(place, ledger, 2, SECOND)
    servers.restart()
    assert shows(place) == 6
    assert place.system().standing(T0) != stands
    place.settles = True
    assert deliver(place, ledger, 2, SECOND) == stands
    servers.restart()
    assert shows(place) == 2


@pytest.mark.parametrize(
    ("parts", "shown_again"),
    [
        ([], False),
        ([(4, 4, 0, 3, 1)], False),
        ([(2, 2, 0, 5, 0), (4, 4, 0, 3, 1)], True),  # 18.16 after a REPLACE
        ([(2, 2, 0, 5, 0), (2, 3, 1, 0, 0), (4, 4, 0, 3, 1)], False),  # 26.9: an empty part covers it
        ([(4, 4, 0, 3, 0), (4, 4, 1, 3, 1)], False),  # merged
        ([(4, 4, 0, 3, 0), (4, 4, 1, 3, 0), (6, 6, 0, 3, 1)], True),  # merged, then replaced
    ],
)
def test_parts_that_a_restart_would_show(parts: list[tuple[int, ...]], shown_again: bool) -> None:
    assert _uncovered(parts) is shown_again
