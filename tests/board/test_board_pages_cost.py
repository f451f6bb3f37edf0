"""What the board's pages ask, of the ledger and of Kafka, and that none waits for it."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import Any

import board_app  # first: it sets Airflow's home
import pytest
from sqlalchemy import event

from tests import board_ledger
from tests.board.test_board_pages import fill, get, says, viewer, world
from tests.world import HOUR, World, make_pipeline
from tidegate.board import views
from tidegate.board.topics import WAIT_S, Topics
from tidegate.core.base.errors import SourceUnavailable
from tidegate.core.base.instants import iso
from tidegate.core.source.port import Lane, LogState
from tidegate.ledger.migrate import migrate
from tidegate.ledger.store import make_engine

__all__ = ["viewer", "world"]  # fixtures


# ---------------------------------------------------------------- Kafka, and how much is asked


class Topic:
    """A broker that hangs until it is let go."""

    def __init__(self) -> None:
        self.go, self.asked = threading.Event(), 0

    def look(self, topic: str) -> LogState:
        self.asked += 1
        self.go.wait(30)
        return LogState(topic=topic, topic_id="another", partitions={0: Lane(0, 1000, 1000)})


def test_a_connection_that_was_changed_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A webserver lives for weeks; brokers move."""

    class Broker:
        def __init__(self, there: bool) -> None:
            self.there = there

        def look(self, topic: str) -> LogState:
            if not self.there:
                raise SourceUnavailable("k:9092 is gone")
            return LogState(topic=topic, topic_id="t", partitions={0: Lane(0, 5, 5)})

    brokers = [Broker(False), Broker(True)]
    found, mine = Topics(lambda _: brokers.pop(0), wait_s=10.0), [make_pipeline("file:///x")]
    assert found.known(mine) == {}
    assert found.silence(mine[0]) == "k:9092 is gone"
    monkeypatch.setattr("tidegate.board.topics.SILENT_S", 0.0)
    assert found.known(mine)[mine[0].name][0].topic_id == "t"


def test_no_page_waits_for_a_broker_that_hangs(world: World, viewer: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    fill(world)
    broker = Topic()
    monkeypatch.setattr(views.reach.topics, "_source", lambda pipeline: broker)
    monkeypatch.setattr(views.reach.topics, "_wait_s", WAIT_S)
    try:
        for path in ("", "readings", "readings/where?partition=0&offset=4711", ""):
            began = time.monotonic()
            get(viewer, path)
            assert time.monotonic() - began < 10
        assert broker.asked == 1, "one question at a time for a topic"
    finally:
        broker.go.set()
    future = next(iter(views.reach.topics._asked.values()), None)
    if future is not None:
        future.result(30)
    says(viewer, "readings", "was recreated")


def test_what_a_page_asks_does_not_grow_with_what_there_is(
    tmp_path: Path, viewer: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    counts: list[dict[str, int]] = []
    for number, (pipelines, windows) in enumerate(((12, 30), (40, 60))):
        folder = tmp_path / str(number)
        (folder / "pipelines").mkdir(parents=True)
        url = f"sqlite:///{folder}/ledger.db"
        migrate(url)
        engine = make_engine(url)
        made = board_ledger.fill(engine, pipelines, board_ledger.Sizes(windows, 2, 1, 1), int(time.time() * 1000))
        engine.dispose()
        board_app.use(monkeypatch, folder / "ledger.db", folder / "pipelines")
        name, at = made[1].name, iso(made[1].windows.start_ms + 5 * HOUR)
        paths = (
            "",
            name,
            f"{name}/window/{at}",
            f"{name}/batch/7",
            f"{name}/events",
            f"{name}/where?partition=0&offset=9",
        )
        counts.append({})
        for path in paths:
            get(viewer, path)  # what is kept by the process is loaded
            counts[-1][path.replace(name, "p").partition("?")[0].replace(at, "w")] = statements(viewer, path)
    small, large = counts
    assert small == large
    assert large[""] <= 36, large
    assert max(large.values()) <= 80, large


def statements(client: Any, path: str) -> int:
    """Of the ledger, for one page."""
    found: list[str] = []
    engine = views.reach.ledger().store.engine
    event.listen(engine, "before_cursor_execute", lambda *args: found.append(args[2]))
    get(client, path)
    return len(found)
