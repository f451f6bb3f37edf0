"""Queries in a loop through PyHive while replays give a window one content and another: what readers can meet.

The window has three partitions in each of its two contents; of either content one value is missing in the other, and
the rows of the others are other ones. The readers note which contents they met, so that a run shows that it looked.
"""

from __future__ import annotations

import os
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from tests.world import World, record
from tidegate.core.base.errors import CatalogueError
from tidegate.core.spec.pipeline import Column
from tidegate.targets.hive.catalogue import PyHiveCatalogue
from tidegate.targets.hive.metastore import HiveMetastore

ENDPOINTS = os.environ.get("TIDEGATE_SWAP_ENDPOINTS", "hive4").split(",")
"""Spark's Thrift server (`hive4,hive_spark`) takes minutes on two cores: its queries leave little for the swaps."""
OLD, NEW, BOTH, NOTHING, PART, ERROR = "old", "new", "both", "nothing", "a part", "an error"
SITES = {OLD: ("a", "b", "c"), NEW: ("b", "c", "d")}
ROWS = 3
"""Of each site, in each content."""
SWAPS, ATMOST_S = 2, 300.0


@dataclass
class Readers:
    """Threads that ask until they are told to stop; `met` counts what whole windows and single partitions were."""

    endpoint: PyHiveCatalogue
    table: str
    met: dict[str, Counter[str]] = field(default_factory=lambda: {"window": Counter(), "partition": Counter()})
    errors: Counter[str] = field(default_factory=Counter)
    _over: threading.Event = field(default_factory=threading.Event)
    _threads: list[threading.Thread] = field(default_factory=list)

    def __enter__(self) -> Readers:
        for what in (self._window, self._partition):
            self._threads.append(threading.Thread(target=self._loop, args=(what,), daemon=True))
            self._threads[-1].start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        for thread in self._threads:
            thread.join(60)

    def _loop(self, ask: Callable[[], None]) -> None:
        while not self._over.is_set():
            ask()

    def _rows(self, where: str = "") -> list[tuple[str, int]] | None:
        query = f"SELECT `site`, `value` FROM {self.table} WHERE `date` = '2013-01-05' AND `hour` = '00'{where}"
        try:
            return self.endpoint.execute(query)
        except CatalogueError as error:
            self.errors[str(error)[:300]] += 1
            return None

    def _window(self) -> None:
        self.met["window"][_content(self._rows(), {OLD: SITES[OLD], NEW: SITES[NEW]})] += 1

    def _partition(self) -> None:
        for site in sorted({*SITES[OLD], *SITES[NEW]}):
            rows = self._rows(f" AND `site` = '{site}'")
            sites = {content: tuple(s for s in SITES[content] if s == site) for content in SITES}
            self.met["partition"][_content(rows, sites)] += 1


def _content(rows: list[tuple[str, int]] | None, sites: dict[str, tuple[str, ...]]) -> str:
    if rows is None:
        return ERROR
    if not rows:
        return NOTHING
    found = {{1: OLD, 2: NEW}[value] for _, value in rows}
    if len(found) > 1:
        return BOTH
    (content,) = found
    return content if Counter(site for site, _ in rows) == dict.fromkeys(sites[content], ROWS) else PART


def live(world: World, endpoint: PyHiveCatalogue) -> World:
    """The window is published with its old content."""
    world.catalogue = endpoint  # type: ignore[assignment]
    world.pipeline = replace(world.pipeline, sink=replace(world.pipeline.sink, table=f"lake.r{world.folder.name}"))
    world.produce(
        *(
            record(f"{old}{n}", n / 10, old) | {"place": new, "value": 1, "other": 2}
            for old, new in zip(SITES[OLD], reversed(SITES[NEW]), strict=True)
            for n in range(ROWS)
        )
    )
    world.produce(record("later", 3.5), partition=1)
    world.ingest("r1")
    world.archive(0)
    return world


def swap(world: World, content: str) -> None:
    id_ = world.pipeline.columns[0]
    site, value = ("$.site", "$.value") if content == OLD else ("$.place", "$.other")
    world.change_spec(
        columns=(id_, Column(name="site", type="string", path=site), Column(name="value", type="int", path=value))
    )
    assert world.replay(0).new


def swaps(world: World, readers: Readers, enough: Callable[[], bool]) -> None:
    """There and back, until the readers have met what they should."""
    began, number = time.monotonic(), 0
    while number < SWAPS or not (enough() or time.monotonic() - began > ATMOST_S):
        swap(world, (NEW, OLD)[number % 2])
        number += 1


@pytest.fixture
def world(tmp_path: Path) -> World:
    folder = tmp_path / f"w{time.time_ns():x}"
    folder.mkdir()
    return World(folder)


def endpoint_of(info: Any) -> PyHiveCatalogue:
    return PyHiveCatalogue(info.hive_host, info.hive_port, request_timeout_s=120)


def told(readers: Readers) -> str:
    return f"{readers.met} {readers.errors}"


@pytest.mark.sample
@pytest.mark.parametrize("kind", ENDPOINTS)
def test_without_a_metastore_connection_no_partition_is_mixed(
    kind: str, world: World, request: pytest.FixtureRequest
) -> None:
    """Windows are, while their partitions turn one by one: the readers see that, so they would see the other."""
    live(world, endpoint_of(request.getfixturevalue(kind)))
    with Readers(world.catalogue, world.pipeline.sink.table) as readers:  # type: ignore[arg-type]
        partition, window = readers.met["partition"], readers.met["window"]
        swaps(world, readers, lambda: min(partition[OLD], partition[NEW], window[BOTH]) > 0)
    assert set(partition) <= {OLD, NEW, NOTHING}, told(readers)  # nothing: a value that the content does not have
    assert min(partition[OLD], partition[NEW], window[BOTH]) > 0, told(readers)
    assert not window[NOTHING] + window[ERROR], told(readers)


@pytest.mark.sample
def test_with_a_metastore_connection_no_window_is_mixed(world: World, hive4: Any) -> None:
    service = HiveMetastore((hive4.hive_host,), hive4.hive_metastore_port)
    world.wrap = lambda name, port: service if name == "switch" else port
    live(world, endpoint_of(hive4))
    world.change_spec(sink=replace(world.pipeline.sink, metastore_conn_id="metastore_default"))
    with Readers(world.catalogue, world.pipeline.sink.table) as readers:  # type: ignore[arg-type]
        window = readers.met["window"]
        swaps(world, readers, lambda: sum(window.values()) > 30 and min(window[OLD], window[NEW]) > 0)
    assert set(readers.met["window"]) == {OLD, NEW}, told(readers)
    assert set(readers.met["partition"]) <= {OLD, NEW, NOTHING}, told(readers)


@pytest.mark.parametrize("kind", ENDPOINTS)
def test_by_directory_the_window_is_absent_or_in_part_but_never_mixed(
    kind: str, world: World, request: pytest.FixtureRequest
) -> None:
    world.change_spec(archive=replace(world.pipeline.archive, swap="directory"))
    live(world, endpoint_of(request.getfixturevalue(kind)))
    with Readers(world.catalogue, world.pipeline.sink.table) as readers:  # type: ignore[arg-type]
        window, partition = readers.met["window"], readers.met["partition"]
        swaps(world, readers, lambda: min(window[OLD], window[NEW]) > 3 and min(partition[OLD], partition[NEW]) > 0)
    for met in readers.met.values():
        assert not met[BOTH], told(readers)
        assert min(met[OLD], met[NEW]) > 0, told(readers)
