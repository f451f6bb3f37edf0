"""What every kind of table has to do (`core.target.port`): the contract, through the real workflow and ledger.

A test module makes it its own with a fixture `lab`:

    class TestMine(TargetSuite):
        @pytest.fixture
        def lab(self, tmp_path): ...
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from tests.hooks import Died, die
from tests.world import World, record, window
from tidegate.core.base.errors import CatalogueError, CatalogueUnsure, TidegateError
from tidegate.core.files.receipt import DATA, DIRTY, LATE
from tidegate.core.spec.pipeline import Column
from tidegate.core.target.port import Targets
from tidegate.workflow.base.context import REQUEST_TTL_MS, Context
from tidegate.workflow.base.renames import MovedOn
from tidegate.workflow.publish import archive
from tidegate.workflow.replay import replay

KEY = window(0)
Around = Callable[[Callable[[], None]], None]
"""Gets a request that changes the table, and makes it now, later or never."""
TRIES = 12


@dataclass
class Lab:
    """A world with one hour that can be published; `requests` are the names of the changes that `catalogue` makes.
    `at_once`: readers meet the old generation or the new one, though rows change their places. `read`: how rows of a
    kind are read where no directory shows them. `waits`: nobody changes the table while a request may still be executed
    (R8); else a late one is refused by what it compares."""

    world: World
    requests: tuple[str, ...]
    at_once: bool = True
    read: Callable[[str], Counter[tuple[int, int]]] | None = None
    waits: bool = True
    made: list[str] = field(default_factory=list)

    def context(self, around: Around = lambda do: do()) -> Context:
        """As a new task has it; every request goes through `around`."""
        ctx = self.world.context()
        real = ctx.target.catalogue  # type: ignore[attr-defined]
        asked = _Requests(real, self.requests, around, self.made)
        for table in (ctx.target, *ctx.sides.values()):
            table.catalogue = asked  # type: ignore[union-attr]
        if getattr(ctx.target, "switch", None) is not None:
            ctx.target.switch = asked  # type: ignore[attr-defined]
        return ctx

    def rows(self, kind: str = DATA) -> Counter[tuple[int, int]]:
        """Kafka coordinates of what readers of the whole table meet."""
        if self.read is not None:
            return self.read(kind)
        ctx = self.world.context()
        table = ctx.target if kind == DATA else ctx.sides[kind]
        return Counter(at for place in table.shown().values() for at in self.world.rows_at(place, kind))

    def other_columns(self) -> None:
        """So that a replay makes a generation with other files of the same rows, in other directories if `at_once`."""
        id_, site, value = self.world.pipeline.columns
        if self.at_once:
            site = Column(name="site", type="string", path="$.place" if site.path == "$.site" else "$.site")
        else:
            value = Column(name="value", type="int", path="$.other" if value.path == "$.value" else "$.value")
        self.world.change_spec(columns=(id_, site, value))

    def until_done(self, step: Callable[[Context], object], around: Around = lambda do: do()) -> None:
        """As a scheduler does: each try later than any request of the one before can live."""
        for n in range(TRIES):
            try:
                step(self.context(around) if n == 0 else self.context())
            except (Died, MovedOn):
                pass
            except TidegateError as e:
                if not e.retry:
                    raise
            else:
                return
            finally:
                self.world.close()
            self.world.clock.advance(REQUEST_TTL_MS + 1)
        raise AssertionError("not done")


class _Requests:
    def __init__(self, real: Any, names: tuple[str, ...], around: Around, made: list[str]) -> None:
        self._real, self._names, self._around, self._made = real, names, around, made

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._real, name)
        if name not in self._names:
            return found

        def request(*args: Any) -> None:
            self._made.append(name)
            self._around(lambda: found(*args))

        return request


def make_lab(
    folder: Path, tables: Callable[[World], Targets] | None, requests: tuple[str, ...], at_once: bool, **sink: Any
) -> Lab:
    """Hour 0 has four rows at two sites, one late and one dirty record come later; nothing is published yet."""
    world = World(folder)
    if sink:
        world.change_spec(sink=replace(world.pipeline.sink, **sink))
    if tables is not None:
        world.tables = tables
    world.produce(*(record(f"r{n}", n / 10, site) | {"place": place} for n, (site, place) in enumerate(PLACES)))
    world.produce(record("later", 3.5), partition=1)
    world.ingest("r1")
    return Lab(world, requests, at_once)


PLACES = (("a", "b"), ("b", "a"), ("d", "c"), ("a", "b"))
ROWS = Counter({(0, n): 1 for n in range(len(PLACES))})


def publish(ctx: Context) -> None:
    archive.announced(ctx, archive.publish(ctx, KEY))


def again(ctx: Context) -> None:
    archive.announced(ctx, replay.replay(ctx, KEY))


class TargetSuite:
    """Each test says one clause of the contract."""

    def test_published_twice_is_once(self, lab: Lab) -> None:
        lab.until_done(publish)
        lab.made.clear()
        lab.until_done(publish)
        assert lab.rows() == ROWS
        assert lab.made == [], "nothing is changed where nothing is wrong"

    def test_whatever_dies_the_next_try_comes_to_the_same_end(self, lab: Lab) -> None:
        """And no reader meets a row twice meanwhile."""
        lab.until_done(publish)
        dies_at = 1
        while True:
            lab.other_columns()
            left = [dies_at]

            def around(do: Callable[[], None], left: list[int] = left) -> None:
                left[0] -= 1
                do()
                assert max(lab.rows().values(), default=1) == 1
                if left[0] == 0:
                    die()

            lab.until_done(again, around)
            assert lab.rows() == ROWS
            if left[0] > 0:
                break
            dies_at += 1
        assert dies_at > 1, "a replay makes a request"

    def test_a_lost_answer_is_found_by_looking(self, lab: Lab) -> None:
        lab.until_done(publish)
        lab.other_columns()

        def around(do: Callable[[], None]) -> None:
            do()
            raise CatalogueUnsure("no answer")

        with pytest.raises(CatalogueUnsure) if lab.waits else nullcontext():  # who need not wait looks at once
            again(lab.context(around))
        lab.until_done(again)
        assert lab.rows() == ROWS

    def test_a_request_that_comes_late_brings_nothing_back(self, lab: Lab) -> None:
        """It is executed while its task waits for an answer that never came, before or after the next generation."""
        lab.until_done(publish)
        late: list[Callable[[], None]] = []

        def around(do: Callable[[], None]) -> None:
            late.append(do)
            raise CatalogueUnsure("no answer")

        lab.other_columns()
        with pytest.raises(CatalogueUnsure):
            again(lab.context(around))
        lab.other_columns()
        with pytest.raises(TidegateError) if lab.waits else nullcontext():
            again(lab.context())
        with nullcontext() if lab.waits else pytest.raises(CatalogueError):
            late[0]()
        lab.until_done(again)
        assert lab.rows() == ROWS
        ctx = lab.world.context()
        current = ctx.ledger.windows.get(ctx.name, KEY).current
        assert current is not None
        newest = ctx.ledger.windows.generation(ctx.name, KEY, current)
        assert ctx.target.standing(KEY)
        assert all(str(place).startswith(str(newest.location)) for place in ctx.target.standing(KEY))  # type: ignore[union-attr]

    def test_what_was_lost_is_shown_again(self, lab: Lab) -> None:
        lab.until_done(publish)
        self.lose(lab)
        assert lab.rows() == Counter()
        lab.until_done(publish)
        assert lab.rows() == ROWS

    def lose(self, lab: Lab) -> None:
        """Somebody removes the window from the table, by its own means."""
        raise NotImplementedError

    def test_expected_is_what_is_shown(self, lab: Lab) -> None:
        lab.until_done(publish)
        ctx = lab.world.context()
        current = ctx.ledger.windows.generation(ctx.name, KEY, 1)
        assert ctx.target.expected(KEY, current.files, current.location) == ctx.target.shown()  # type: ignore[union-attr, arg-type]
        if lab.read is None:
            assert sorted(ctx.target.shown().values()) == sorted(ctx.target.standing(KEY))

    def test_tables_beside_it_show_a_batch_once_and_hide_it_for_good(self, lab: Lab) -> None:
        lab.until_done(publish)
        lab.world.produce(record("late", 0.7), b"not json")
        lab.world.produce(record("later", 6.5), partition=1)
        lab.world.ingest("r2")
        assert (lab.rows(LATE).total(), lab.rows(DIRTY).total()) == (1, 1)
        ctx = lab.context()
        for kind, table in ctx.sides.items():
            files = ctx.ledger.batches.manifest_files(ctx.name, 2, kind)
            table.prepare()
            table.publish({2: files}, lambda: True)
            assert table.expected({2: files}) == table.shown()
            assert lab.rows(kind).total() == 1
            for _ in range(2):
                table.retire({2: files}, lambda: True)
            assert table.shown() == {}
