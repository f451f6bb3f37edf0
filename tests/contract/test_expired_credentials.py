"""Credentials that expire in the middle: a try says so and names the connection, the next one goes on, every row is
there once. On a real store and a real catalogue, behind a proxy that answers as S3, or a catalogue, does from some
request on."""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from dev.stack.info import StackInfo
from tests.contract.storage_places import access_to
from tests.fakes.proxy import S3_EXPIRED, TOKEN_EXPIRED, Fate, LossyProxy
from tests.targets.iceberg.catalogues import Site
from tests.targets.iceberg.in_place import Lake, make
from tests.targets.iceberg.lab import Tables
from tests.world import World, record
from tidegate.core.base.errors import CatalogueError, JobFailed, TidegateError
from tidegate.core.files.receipt import DIRTY
from tidegate.storage.local import LocalStorage
from tidegate.storage.objects import ObjectStorage
from tidegate.targets.iceberg.rest_catalogue import Access, RestCatalogue
from tidegate.workflow.batch import ingest
from tidegate.workflow.maintain import reconcile

WRITE = b"PUT /tidegate"
ANY = b" /tidegate"
SIGNED = b"Authorization: Bearer"


class Lapsing:
    """A lake whose credentials expire while a task runs."""

    def __init__(self, lake: Lake, proxy: LossyProxy, answer: tuple[int, bytes] = S3_EXPIRED) -> None:
        self.lake, self.proxy, self.answer = lake, proxy, answer
        self.told: list[TidegateError] = []

    def run(self, task: Callable[[], object], marker: bytes, after: int) -> bool:
        """Run a task, the next try with renewed credentials if it fails. Whether its first try met their end."""
        self.proxy.expire(marker, after, self.answer)
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


@pytest.fixture
def on_a_catalogue(on_rest: Site, tmp_path: Path) -> Iterator[Lapsing]:
    """Each task asks for a token of its own."""
    world, name = World(tmp_path), f"{on_rest.namespace}.readings"
    with LossyProxy("127.0.0.1", on_rest.port or 0, b"none has this", Fate.EXPIRED) as proxy:

        def opened(world: World) -> Tables:
            access = Access(client="me", secret="hush", more={"scope": "catalog"})
            return Tables(RestCatalogue(f"http://127.0.0.1:{proxy.port}", LocalStorage(), 60.0, access=access))

        world.change_spec(sink=replace(world.pipeline.sink, kind="iceberg", conn_id="lake", table=name))
        world.tables = opened
        yield Lapsing(Lake(world, LocalStorage(), on_rest.opened()), proxy, TOKEN_EXPIRED)


def test_a_token_in_the_middle_of_an_hour(on_a_catalogue: Lapsing) -> None:
    """From its batch to its rows in the table: at each request that names somebody."""
    world, lake = on_a_catalogue.lake.world, on_a_catalogue.lake
    world.produce(record("far", 90.5), partition=1)

    def turn(after: int, run: Callable[[Callable[[], object]], bool]) -> None:
        world.produce(record(f"a{after}", after + 0.1), record(f"b{after}", after + 0.2, "b"), b"dirty")
        world.produce(record(f"next{after}", after + 1.5))
        name = f"r{after}"
        run(lambda: ingest.plan(world.context(), name))
        run(lambda: ingest.write(world.context(), name))
        run(lambda: ingest.land(world.context(), name))
        run(lambda: world.archive(after))
        run(lambda: reconcile.maintain(world.context()))

    hours = each_request(on_a_catalogue, SIGNED, turn)
    assert 5 <= hours < 60
    assert on_a_catalogue.told
    for error in on_a_catalogue.told:
        assert (type(error), "401 Token expired" in str(error)) == (CatalogueError, True), error
        assert "sink.catalog_conn_id" in error.advice
    assert (sum(lake.rows().values()), set(lake.rows().values())) == (3 * hours + 2, {1})
    assert sum(lake.rows(DIRTY).values()) == hours + 1
    lake.balanced()
