"""A rollback in Iceberg copies nothing: the new generation names the earlier one's files, and cleaning leaves them
alone while either needs them (L6). On a local disk, and where nothing moves."""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from tests.clean.cleanings import audited, days_later, keep_for, other_columns
from tests.targets.iceberg import in_place
from tests.targets.iceberg.lab import Tables, reader, sqlite
from tests.world import World, record, window
from tidegate.core.base.errors import ReplayRefused
from tidegate.core.files.receipt import DATA
from tidegate.core.target.paths import join
from tidegate.core.target.tables import table_name
from tidegate.core.window.states import PublishedGeneration
from tidegate.targets.iceberg.catalogue import Catalogue
from tidegate.targets.iceberg.live import look
from tidegate.workflow.audit import checkup
from tidegate.workflow.publish import archive, verification
from tidegate.workflow.replay import rollback

ROWS = Counter({(0, 0): 1, (0, 1): 1})


@dataclass
class Lake:
    world: World
    catalogue: Catalogue
    rows: Callable[[], Counter[tuple[int, int]]]
    balanced: Callable[[], None]

    def files(self) -> set[str]:
        """URIs that the table names."""
        loaded = self.catalogue.load(table_name(self.world.pipeline, DATA))
        assert loaded is not None
        return {f.file_path for f in look(loaded.metadata, loaded.io, None).files}

    def back_to(self, number: int) -> int:
        """The number of the generation that the rollback makes."""
        ctx = self.world.context()
        ctx.launcher = ctx.local_launcher = None  # type: ignore[assignment]  # a copy would ask for a job
        published = rollback.rollback(ctx, window(0), number, "a test")
        archive.announced(ctx, published)
        self.world.close()
        return published.generation

    def is_whole(self) -> None:
        assert self.rows() == ROWS
        self.balanced()


def _moved(tmp_path: Path) -> Lake:
    catalogue, world = sqlite(tmp_path), World(tmp_path)
    world.change_spec(sink=replace(world.pipeline.sink, kind="iceberg", conn_id="lake", table="lake.readings"))
    world.tables = lambda w: Tables(catalogue)
    rows = reader(world, catalogue)

    def balanced() -> None:
        assert audited(world) == []

    return Lake(world, catalogue, lambda: rows(DATA), balanced)


def _in_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Lake:
    made = in_place.make(tmp_path, monkeypatch)
    return Lake(made.world, made.catalogue, made.rows, made.balanced)


@pytest.fixture(params=["moved", "in place"])
def lake(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Lake:
    """Hour 0 has two rows; generation 2, by other columns, is in force beside generation 1."""
    made = _moved(tmp_path) if request.param == "moved" else _in_place(tmp_path, monkeypatch)
    world = made.world
    world.produce(record("a", 0.1), record("b", 0.2, "b"))
    world.produce(record("later", 4.5), partition=1)
    world.ingest("r1")
    world.archive(0)
    return made


def replayed(lake: Lake, source: str) -> set[str]:
    other_columns(lake.world, source)
    lake.world.replay(0)
    return lake.files()


def test_a_rollback_names_the_files_of_the_earlier_generation(lake: Lake) -> None:
    first = lake.files()
    second = replayed(lake, "other")
    assert not first & second
    assert (lake.back_to(1), lake.files()) == (3, first)
    lake.is_whole()
    assert (lake.back_to(2), lake.files()) == (4, second)
    assert (lake.back_to(3), lake.files()) == (5, first), "a rollback of a rollback"
    lake.is_whole()
    published = lake.world.archive(0)  # Clear
    assert (published.generation, published.new) == (5, False)


def test_files_go_when_the_last_generation_that_names_them_goes(lake: Lake) -> None:
    lake.world.change_spec(archive=replace(lake.world.pipeline.archive, keep_generations=1))
    keep_for(lake.world, generations_ms=3_600_000, landed_ms=3_600_000)
    first = lake.files()
    second = replayed(lake, "other")
    lake.back_to(1)
    for _ in range(3):
        days_later(lake.world, 2)
    storage = lake.world.context().storage
    lake.world.close()
    assert [uri for uri in second if storage.exists(uri)] == [], "nobody needs them"
    assert lake.files() == first
    lake.is_whole()
    third = replayed(lake, "third")
    lake.is_whole()
    for _ in range(3):
        days_later(lake.world, 2)
    assert [uri for uri in first if storage.exists(uri)] == [], "no generation needs them any more"
    assert lake.files() == third
    lake.is_whole()


def test_no_rollback_begins_with_files_that_are_going(lake: Lake) -> None:
    lake.world.change_spec(archive=replace(lake.world.pipeline.archive, keep_generations=1))
    keep_for(lake.world, generations_ms=3_600_000)
    replayed(lake, "other")
    ctx = lake.world.context()
    assert ctx.ledger.cleaning.generation_goes("readings", window(0).start_ms, 1)
    with pytest.raises(ReplayRefused, match="the files of generation 1 were cleaned"):
        lake.back_to(1)
    lake.is_whole()


def test_a_shared_file_that_is_lost_is_built_anew(lake: Lake) -> None:
    first = lake.files()
    replayed(lake, "other")
    lake.back_to(1)
    ctx = lake.world.context()
    ctx.storage.delete(min(first))
    published = lake.world.archive(0)  # Clear
    assert published.generation == 4
    assert not lake.files() & first
    lake.is_whole()


# ---------------------------------------------------------------- directories that are gone


def uris(lake: Lake, number: int) -> set[str]:
    """Where the files of a generation of hour 0 lie, by its manifest."""
    found = generation(lake, number)
    return {join(found.location, f.path) for f in found.files}


def generation(lake: Lake, number: int) -> PublishedGeneration:
    found = lake.world.context().ledger.windows.generation("readings", window(0), number)
    lake.world.close()
    assert isinstance(found, PublishedGeneration)
    return found


def gone(lake: Lake, *paths: str) -> None:
    storage = lake.world.context().storage
    for path in paths:
        assert storage.exists(path)
        storage.delete(path)
    lake.world.close()


def rolled_back(lake: Lake) -> tuple[PublishedGeneration, set[str]]:
    """Generation 3 names the files of generation 1; and where these lie."""
    replayed(lake, "other")
    lake.back_to(1)
    third = generation(lake, 3)
    assert third.location not in {generation(lake, 1).location, generation(lake, 2).location}
    assert uris(lake, 3) == uris(lake, 1) == lake.files()
    assert len(third.files) == 2
    return third, lake.files()


def lost_of(lake: Lake, held: PublishedGeneration) -> tuple[str, ...]:
    found = verification.verify(lake.world.context(), held).lost_files
    lake.world.close()
    return found


def is_idle(lake: Lake) -> None:
    before, published = lake.files(), lake.world.archive(0)  # Clear
    assert (published.generation, published.new, lake.files()) == (3, False, before)
    lake.is_whole()
    ctx = lake.world.context()
    assert checkup.check(ctx, ctx.ledger.reads) == []  # type: ignore[attr-defined]
    lake.world.close()


def is_rebuilt(lake: Lake, without: str) -> None:
    published = lake.world.archive(0)  # Clear
    assert (published.generation, without in lake.files()) == (4, False)
    lake.is_whole()


def test_a_rollback_that_has_lost_nothing_stays(lake: Lake) -> None:
    third, _ = rolled_back(lake)
    assert lost_of(lake, third) == ()
    is_idle(lake)


def test_a_rollback_needs_its_files_and_not_its_own_directory(lake: Lake) -> None:
    third, _ = rolled_back(lake)
    gone(lake, third.location)
    assert lost_of(lake, third) == ()
    is_idle(lake)


def test_a_table_that_forgot_the_rollback_shows_it_again_without_its_directory(lake: Lake, tmp_path: Path) -> None:
    """A catalogue that was restored from a backup."""
    backup, at = tmp_path / "backup.db", tmp_path / "catalogue.db"
    second = replayed(lake, "other")
    shutil.copy(at, backup)
    lake.back_to(1)
    third, first = generation(lake, 3), uris(lake, 1)
    gone(lake, third.location)
    shutil.copy(backup, at)
    assert lake.files() == second
    assert lost_of(lake, third) == ()
    assert lake.files() == first
    is_idle(lake)


def test_files_that_were_in_the_directory_which_is_gone_are_named(lake: Lake) -> None:
    """Where files move they are the generation's own; where nothing moves, those of its attempt."""
    first = generation(lake, 1)
    mine = {f.path for f in first.files}
    gone(lake, *{uri.rsplit("/", 1)[0] for uri in uris(lake, 1)}, first.location)
    assert lost_of(lake, first) == tuple(sorted(mine))
    published = lake.world.archive(0)
    assert published.generation == 2
    lake.is_whole()


def test_files_go_with_the_last_that_names_them_also_if_its_directory_is_gone(lake: Lake) -> None:
    third, shared = rolled_back(lake)
    lake.world.change_spec(archive=replace(lake.world.pipeline.archive, keep_generations=1))
    keep_for(lake.world, generations_ms=3_600_000, landed_ms=3_600_000)
    gone(lake, third.location)
    newest = replayed(lake, "third")
    for _ in range(3):
        days_later(lake.world, 2)
    storage = lake.world.context().storage
    lake.world.close()
    assert [uri for uri in shared if storage.exists(uri)] == []
    assert lake.files() == newest
    lake.is_whole()


def test_one_of_its_own_files_and_one_shared(lake: Lake) -> None:
    """A manifest may name both."""
    third, shared = rolled_back(lake)
    own = replace(third.files[0], path=f"{DATA}/own.parquet")
    mixed = replace(third, files=(own, third.files[1]))
    gone(lake, third.location)
    assert lost_of(lake, mixed) == (own.path,)
    assert third.files[1].path in shared


@pytest.mark.parametrize("own", [True, False], ids=["its directory is there", "its directory is gone"])
def test_a_shared_file_that_is_gone_is_named(lake: Lake, own: bool) -> None:
    third, shared = rolled_back(lake)
    gone(lake, min(shared), *(() if own else (third.location,)))
    assert lost_of(lake, third) == (min(shared),)
    is_rebuilt(lake, min(shared))


@pytest.mark.parametrize("own", [True, False], ids=["its directory is there", "both are gone"])
def test_files_of_an_earlier_directory_that_is_gone_are_named(lake: Lake, own: bool) -> None:
    third, shared = rolled_back(lake)
    gone(lake, *{uri.rsplit("/", 1)[0] for uri in shared}, generation(lake, 1).location)
    if not own:
        gone(lake, third.location)
    assert lost_of(lake, third) == tuple(sorted(shared))
    is_rebuilt(lake, min(shared))
