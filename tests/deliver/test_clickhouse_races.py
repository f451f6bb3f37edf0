"""Statements that come late, and tries that run at once in threads, on real engines, while a reader looks on."""

from __future__ import annotations

import functools
import os
import random
import threading
import time
from contextlib import suppress
from typing import Any
from unittest.mock import patch

import pytest

from tests.clickhouse.places import ALL, Place
from tests.clickhouse.turns import FIRST, SECOND, Hooked, Ledger, deliver, hooked, shows
from tests.deliver.rows import T0, Made
from tidegate.core.base.errors import DeliveryRefused, DeliveryUnsure, LostComparison
from tidegate.targets.clickhouse.client import NONE, Client, Failed, Unanswered
from tidegate.targets.clickhouse.table import ClickHouseTable

FAILS = (DeliveryRefused, DeliveryUnsure, LostComparison)
SEEDS, TRIES = (4, 4) if ALL else (1, 2)


class Late(Hooked):
    """A statement with the word stays in the network: nobody answers, and `arrive` executes it."""

    held = "nothing"

    def do(self, sql: str, body: bytes = b"", settings: Any = NONE) -> None:
        if self.held in sql and not hasattr(self, "arrive"):
            self.arrive = lambda: Client.do(self, sql, body, settings)
            raise Unanswered("no answer")
        super().do(sql, body, settings)


@pytest.mark.parametrize("word", ["CREATE TABLE", "INSERT INTO", "REPLACE PARTITION", "DROP TABLE"])
def test_a_statement_that_comes_late_shows_nothing(place: Place, word: str) -> None:
    """The try that sent it has died, and a newer generation stands: whatever arrives is refused or without effect."""
    ledger = Ledger()
    place.system().prepare()
    deliver(place, ledger, 1, SECOND)
    system, clients = hooked(place, kind=Late, held=word)
    with patch.object(ClickHouseTable, "_drop_own", lambda *_: None) if word != "DROP TABLE" else patch("time.sleep"):
        if word == "DROP TABLE":  # of its own staging, at its end
            deliver(place, ledger, 2, FIRST, system)
        else:
            with pytest.raises(FAILS):
                deliver(place, ledger, 2, FIRST, system)
    stands = deliver(place, ledger, 3, SECOND)
    for client in clients:
        if hasattr(client, "arrive") and word == "CREATE TABLE":
            client.arrive()  # an empty staging, which is swept
        elif hasattr(client, "arrive"):
            with pytest.raises(Failed):
                client.arrive()
    assert shows(place) == 2
    assert place.system().standing(T0) == stands
    assert place.system().sweep(lambda found: set()) is not None
    assert place.stagings() == []


def _generation(number: int) -> Made:
    return Made([{"i32": number, "i64": i} for i in range(number + 3)])


def _seen(client: Client, name: str) -> list[tuple[int, int]]:
    found = client.ask(f"SELECT i32, count() FROM {name} WHERE _window = toDateTime({T0 // 1000}) GROUP BY i32")
    return [(int(row[0]), int(row[1])) for row in found]


class Race:
    """Workers that send whatever generation is the newest, fail at random, and sleep between any two statements."""

    def __init__(self, place: Place, seed: int) -> None:
        self.place, self.rng, self.lock = place, random.Random(seed), threading.Lock()
        self.ledger, self.ended = Ledger(), threading.Event()
        self.seen: list[list[int]] = [[] for _ in place.addresses]
        self.wrong: list[str] = []

    def worker(self) -> None:
        for _ in range(TRIES):
            with self.lock:
                number = self.ledger.generation + 1
                rows, rng = _generation(number), random.Random(self.rng.random())
                tried = self.ledger.taken(number, rows)
            system, clients = hooked(self.place)
            for client in clients:
                client.do = _restless(client, rng)  # type: ignore[method-assign]
            with suppress(*FAILS):
                system.send(tried, rows, functools.partial(self._holds, tried))

    def _holds(self, tried: Any) -> bool:
        with self.lock:
            return self.ledger.holds(tried)

    def reader(self) -> None:
        clients = self.place.clients()
        while not self.ended.is_set():
            for shard, client in enumerate(clients):
                found = _seen(client, self.place.name)
                if len(found) > 1:
                    self.wrong.append(f"two generations at once: {found}")
                self.seen[shard] += [number for number, _ in found]


def _restless(client: Client, rng: random.Random) -> Any:
    send = Client.do

    def do(sql: str, body: bytes = b"", settings: Any = NONE) -> None:
        slept = "REPLACE" in sql and rng.random() < 0.4  # between asking the ledger and showing
        time.sleep(1.5 if slept else rng.random() * 0.02)
        if rng.random() < 0.03:
            raise Unanswered("the request is lost")
        send(client, sql, body, settings)
        if rng.random() < 0.03:
            raise Unanswered("the answer is lost")

    return do


@pytest.mark.parametrize("turn", range(SEEDS))
def test_tries_at_once_never_go_back(place: Place, turn: int) -> None:
    race = Race(place, int(os.environ["TIDEGATE_TEST_SEED"]) + turn)
    place.system().prepare()
    workers = [threading.Thread(target=race.worker) for _ in range(3)]
    reader = threading.Thread(target=race.reader)
    for thread in (*workers, reader):
        thread.start()
    for thread in workers:
        thread.join()
    last = race.ledger.generation
    deliver(place, race.ledger, last, _generation(last))
    race.ended.set()
    reader.join()
    assert race.wrong == []
    for shard in race.seen:
        assert shard == sorted(shard), "readers went back"
    shown = [each for client in place.clients() for each in _seen(client, place.name)]
    assert {number for number, _ in shown} == {last}
    assert sum(count for _, count in shown) == last + 3
