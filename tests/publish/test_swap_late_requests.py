"""`swap: directory` while requests are executed late and tasks die (R4)."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from tests.publish.swaps import KEY, Kept, Life, Reader, assert_three_is_published, changing, two_swaps, whole
from tidegate.core.base.errors import CatalogueUnsure, PathExists, TidegateError
from tidegate.workflow.base.context import REQUEST_TTL_MS
from tidegate.workflow.base.renames import MovedOn
from tidegate.workflow.publish import publication


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Kept:
    """Generation 1 is published, generation 2 is built."""
    folder = tmp_path_factory.mktemp("swap")
    life = Life(folder)
    life.first_generation()
    life.build(2)
    return Kept.of(life, folder)


def pairs(calls: list[str]) -> list[tuple[int, int]]:
    """(a changing call that gets no answer, any later call before which it is executed)."""
    return [(late, until) for late in changing(calls) for until in range(late + 1, len(calls) + 4)]


def test_r4_a_request_that_is_executed_at_any_later_moment_does_no_harm(kept: Kept, rng: random.Random) -> None:
    reference = kept.again()
    two_swaps(reference)
    cases = pairs(reference.calls.made)
    assert {"rename_no_replace", "make_dirs", "write_new"} <= {reference.calls.made[late] for late, _ in cases}
    for late, until in rng.sample(cases, 40):
        life = kept.again(late=late, until=until)
        life.calls.watch = Reader(life)
        try:
            two_swaps(life)
            life.calls.watch = lambda: None
            assert_three_is_published(life)
        except AssertionError as e:
            method = reference.calls.made[late]
            raise AssertionError(f"call {late} ({method}) executed before call {until}: {e}") from e


def test_a_death_at_any_call_heals(kept: Kept) -> None:
    reference = kept.again()
    two_swaps(reference)
    for dies in changing(reference.calls.made):
        life = kept.again(dies=dies)
        life.calls.watch = Reader(life)
        two_swaps(life)
        life.calls.watch = lambda: None
        assert_three_is_published(life)


def test_a_late_request_cannot_take_what_replaced_a_deleted_hour(kept: Kept) -> None:
    """The old generation's rename is on its way, somebody deletes the hour: its place is taken before the new comes."""
    reference = kept.again()
    reference.publish(2)
    life = kept.again(late=reference.calls.made.index("rename_no_replace"), until=-1)

    def somebody_deletes_it() -> None:
        if life.calls.owed is not None and life.by_path() == whole(1):
            life.storage.delete(life.hour)

    life.calls.watch = somebody_deletes_it
    life.publish(2)
    assert life.calls.owed is not None
    with pytest.raises(PathExists):
        life.calls.owed()
    assert life.by_path() == life.by_catalogue() == whole(2)


def test_a_generation_that_was_given_up_moves_nothing(kept: Kept) -> None:
    """Its zombie read BUILT, before a newer replay was asked for."""
    life = kept.again()
    ctx = life.world.context()
    built = ctx.ledger.windows.generation("readings", KEY, 2)
    life.world.context().ledger.windows.discard(built, "a newer replay was asked for")  # type: ignore[arg-type]
    with pytest.raises(MovedOn):
        publication.publish(ctx, built)  # type: ignore[arg-type]
    assert life.by_path() == life.by_catalogue() == whole(1)


def test_without_r4_a_late_request_hides_the_hour(kept: Kept) -> None:
    """What the rule is for: a cleaner that removes the retired place frees a name that a request may still want."""
    for cleaned, hidden in ((True, True), (False, False)):
        life = kept.again()
        two_swaps(life)
        retired = life.world.context().ledger.windows.generation("readings", KEY, 2).location
        life.storage.delete(retired)
        if not cleaned:
            life.storage.make_dirs(retired)  # what the rule asks for: the content goes, the name stays taken
        try:
            life.storage.rename_no_replace(life.hour, retired)  # the request of the swap to generation 3, late
        except TidegateError:
            pass
        assert (life.by_path() is None) == hidden


def test_a_late_drop_of_one_generation_cannot_hide_rows_of_the_next(kept: Kept) -> None:
    """R8: both generations have the same location, so intents are told apart by the generation."""
    life = kept.again()
    owed: list[Callable[[], None]] = []
    catalogue = life.world.catalogue
    drop = catalogue.drop_partitions

    def unanswered(table: str, values: list) -> None:
        owed.append(lambda: drop(table, values))
        raise CatalogueUnsure("no answer")

    catalogue.drop_partitions = unanswered  # type: ignore[method-assign]
    ctx = life.world.context()
    with pytest.raises(CatalogueUnsure):
        publication.publish(ctx, ctx.ledger.windows.generation("readings", KEY, 2))  # type: ignore[arg-type]
    catalogue.drop_partitions = drop  # type: ignore[method-assign]
    ctx = life.world.context()
    publication.publish(ctx, ctx.ledger.windows.generation("readings", KEY, 2))  # type: ignore[arg-type]
    life.build(3)
    ctx = life.world.context()
    three = ctx.ledger.windows.generation("readings", KEY, 3)
    with pytest.raises(CatalogueUnsure, match="no answer"):
        publication.publish(ctx, three)  # type: ignore[arg-type]
    assert life.by_path() == whole(2), "nothing moves while the old DROP may still come"
    owed[0]()
    life.world.clock.advance(REQUEST_TTL_MS + 1)
    life.publish(3)
    assert_three_is_published(life)
