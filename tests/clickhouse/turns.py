"""Two tries and a ledger in one process: what is put into the middle of a try's statements, and what they were."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from tests.clickhouse.places import Place
from tests.deliver.rows import FULL, NULLS, T0, ZERO, Made, attempt
from tidegate.core.deliver.port import Attempt, Standing
from tidegate.targets.clickhouse.client import NONE, Client, Unanswered
from tidegate.targets.clickhouse.table import ClickHouseTable

FIRST, SECOND, NOTHING = Made([FULL, NULLS, ZERO, FULL]), Made([ZERO, FULL]), Made([])


class Hooked(Client):
    """Does something before or after the first statement that has a word in it; keeps all changes that were sent."""

    before: dict[str, Callable[[], object]]
    after: dict[str, Callable[[], object]]
    sent: list[str]

    def do(self, sql: str, body: bytes = b"", settings: Any = NONE) -> None:
        for word in [word for word in self.before if word in sql]:
            self.before.pop(word)()
        self.sent.append(sql)
        super().do(sql, body, settings)
        for word in [word for word in self.after if word in sql]:
            self.after.pop(word)()


class Quiet(Hooked):
    """The server executes a statement with the word; its answer is lost, as often as it is sent."""

    lost = "nothing"

    def do(self, sql: str, body: bytes = b"", settings: Any = NONE) -> None:
        super().do(sql, body, settings)
        if self.lost in sql:
            raise Unanswered("the answer is lost")


@dataclass
class Ledger:
    """The compare-and-set of a window's delivery: (generation, epoch) only rises."""

    generation: int = 0
    epoch: int = 0
    asked: int = 0
    done: list[int] = field(default_factory=list)

    def taken(self, generation: int, rows: Made) -> Attempt:
        assert generation >= self.generation
        self.generation, self.epoch = generation, self.epoch + 1
        return attempt(self.generation, self.epoch, rows)

    def holds(self, tried: Attempt) -> bool:
        self.asked += 1
        return (tried.token.generation, tried.token.epoch) == (self.generation, self.epoch)


def hooked(place: Place, **hooks: Any) -> tuple[ClickHouseTable, list[Hooked]]:
    """A system whose first shard's client has hooks: `before` and `after`, by a word in the statement."""
    clients: list[Hooked] = place.clients(kind=hooks.pop("kind", Hooked))  # type: ignore[assignment]
    for client in clients:
        client.before, client.after, client.sent = {}, {}, []
    clients[0].before, clients[0].after = hooks.pop("before", {}), hooks.pop("after", {})
    for name, value in hooks.items():
        for client in clients:
            setattr(client, name, value)
    return place.system(clients=clients), clients


def deliver(place: Place, ledger: Ledger, generation: int, rows: Made, system: Any = None) -> Standing:
    """A whole try, as the workflow makes one."""
    tried = ledger.taken(generation, rows)
    standing: Standing = (system or place.system()).send(tried, rows, lambda: ledger.holds(tried))
    ledger.done.append(generation)
    return standing


def shows(place: Place) -> int:
    """How many rows readers meet of the window, counted by themselves."""
    return len(place.rows((("_window", "timestamp"),), f"_window = toDateTime({T0 // 1000})"))
