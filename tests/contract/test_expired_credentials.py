"""Credentials that expire in the middle: a try says so and names the connection, the next one goes on, every row is
there once. On a real store, behind a proxy that answers as S3 does from some request on."""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from dev.stack.info import StackInfo
from tests.contract.storage_places import access_to
from tests.fakes.proxy import Fate, LossyProxy
from tests.targets.iceberg.in_place import Lake, make
from tests.world import record
from tidegate.core.base.errors import JobFailed, TidegateError
from tidegate.storage.objects import ObjectStorage
from tidegate.workflow.batch import ingest

WRITE = b"PUT /tidegate"
ANY = b" /tidegate"


class Lapsing:
    """A lake whose credentials expire while a task runs."""

    def __init__(self, lake: Lake, proxy: LossyProxy) -> None:
        self.lake, self.proxy = lake, proxy
        self.told: list[TidegateError] = []

    def run(self, task: Callable[[], object], marker: bytes, after: int) -> bool:
        """Run a task, the next try with renewed credentials if it fails. Whether its first try met their end."""
        self.proxy.expire(marker, after)
        try:
            task()
        except TidegateError as error:
            self.told.append(error)
        met = self.proxy.renew()
        if met:
            task()
        self.lake.world.close()
        return met


@pytest.fixture
def lapsing(objects: StackInfo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Lapsing]:
    with LossyProxy("127.0.0.1", urlsplit(objects.objects_endpoint).port or 0, b"none has this", Fate.EXPIRED) as proxy:
        access = access_to(objects, f"http://127.0.0.1:{proxy.port}") | {"connection": "aws_lake"}
        bucket = f"{objects.objects_uri}/{uuid.uuid4().hex}"
        yield Lapsing(make(tmp_path, monkeypatch, objects=ObjectStorage(access), bucket=bucket), proxy)


def each_request(
    lapsing: Lapsing, marker: bytes, turn: Callable[[int, Callable[[Callable[[], object]], bool]], None]
) -> int:
    """`turn` n has credentials that are good for n requests, until a turn needs no more. How many that were."""
    for after in range(200):
        met = []
        turn(after, lambda task, after=after, met=met: met.append(lapsing.run(task, marker, after)) or met[-1])
        if not any(met):
            return after
    raise AssertionError("no end of requests")


def named(told: list[TidegateError]) -> None:
    """Each says what happened, whose credentials they are, and what to do; trying again by itself is in vain."""
    for error in told:
        assert "refuses (400" in str(error), error
        words = f"{error} {error.advice}"  # a job's last line has the advice in it
        assert "connection aws_lake" in words, words
        assert "renew" in words
        assert isinstance(error, JobFailed) or not error.retry, words


def test_in_the_middle_of_a_batch(lapsing: Lapsing) -> None:
    """At each write of its plan, its files, its receipt, its record, and of the side tables' metadata."""
    world, rows = lapsing.lake.world, 0

    def turn(after: int, run: Callable[[Callable[[], object]], bool]) -> None:
        nonlocal rows
        world.produce(record(f"a{after}", 0.1), record(f"b{after}", 0.2, "b"), b"dirty")
        rows += 2
        name = f"r{after}"
        run(lambda: ingest.plan(world.context(), name))
        run(lambda: ingest.write(world.context(), name))
        run(lambda: ingest.land(world.context(), name))

    assert each_request(lapsing, WRITE, turn) >= 4
    named(lapsing.told)
    world.produce(record("late", 3.5))
    world.produce(record("later", 3.5), partition=1)
    world.ingest("last")
    world.archive(0)
    shown = lapsing.lake.rows()
    assert (len(shown), set(shown.values())) == (rows, {1})
    lapsing.lake.balanced()


def test_in_the_middle_of_a_publication(lapsing: Lapsing) -> None:
    """At each request: looks too."""
    world, lake = lapsing.lake.world, lapsing.lake
    world.produce(*(record(f"a{hour}", hour + 0.1) for hour in range(60)))
    world.produce(*(record(f"b{hour}", hour + 0.2, "b") for hour in range(70)))
    world.produce(record("last", 70.5), partition=1)
    world.ingest("r1")

    def turn(after: int, run: Callable[[Callable[[], object]], bool]) -> None:
        run(lambda: world.archive(after))

    hours = each_request(lapsing, ANY, turn)
    assert 8 <= hours < 60
    named(lapsing.told)
    assert lake.rows() == Counter({(0, offset): 1 for hour in range(hours + 1) for offset in (hour, 60 + hour)})
    lake.balanced()
