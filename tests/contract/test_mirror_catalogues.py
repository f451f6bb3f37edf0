"""A keyed table in real catalogues: all that `tests/mirror/test_table.py` says of it on SQLite, and answers that are
lost on the way, others at the table, and Spark that reads it."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Iterator

import pytest
from sqlalchemy.engine import make_url

from tests.contract.test_iceberg_catalogues import COMMIT
from tests.fakes.proxy import Fate, LossyProxy
from tests.hooks import Hook, Once
from tests.mirror import oracle, test_table
from tests.mirror.histories import Event
from tests.mirror.planted import TABLE_BUGS
from tests.mirror.test_table import Mirror, u
from tests.mutants.planting import Planted
from tests.targets.iceberg.catalogues import Site
from tests.targets.iceberg.spark import Spark
from tidegate.core.base.errors import LostComparison
from tidegate.core.target.prefix import Merged, Prefix

CLAUSES: tuple[Callable[[Mirror], None], ...] = (
    test_table.test_a_merge_is_one_commit_that_says_up_to_where,
    test_table.test_a_merge_that_changes_nothing_still_moves_upto,
    test_table.test_m1_a_merge_of_an_older_snapshot_is_refused,
    test_table.test_m1_another_commit_between_look_and_commit,
    test_table.test_c1_the_ledger_is_asked_after_the_load,
    test_table.test_m3_a_hole_and_a_repeat_are_refused,
    test_table.test_m4_a_table_that_was_taken_back_says_so_itself,
    test_table.test_m4_a_snapshot_across_a_gap_is_no_proof,
    test_table.test_a_compaction_by_others_is_welcome,
    test_table.test_snapshots_that_tell_are_never_let_go,
    test_table.test_a_table_of_others_is_refused,
)
MERGED = {1: "a2", 3: "c", 4: "d"}


@pytest.fixture(params=["postgres", "rest"])
def site(request: pytest.FixtureRequest) -> Site:
    found: Site = request.getfixturevalue(f"on_{request.param}")
    return found


@pytest.fixture
def mirror(site: Site) -> Mirror:
    """Batches 1 and 2 have landed, and 1 stands in the table."""
    made = Mirror(site.folder, site.opened(), name=f"{site.namespace}.orders")
    made.table().prepare()
    made.land(u(1, 10, "a"), u(2, 11, "b"), u(3, 12, "c"))
    made.land(u(1, 20, "a2"), u(2, 21, None), u(4, 22, "d"))
    made.apply(1, 1)
    return made


@pytest.mark.parametrize("clause", CLAUSES, ids=lambda clause: clause.__name__.removeprefix("test_"))
def test_what_is_said_of_a_file_is_true_of_a_server(mirror: Mirror, clause: Callable[[Mirror], None]) -> None:
    clause(mirror)


def lived(mirror: Mirror, rng: random.Random, batches: int) -> dict[int, str]:
    """Land and merge a few batches at a time; returns what the oracle says that readers see."""
    for n in range(batches):
        at = 100 * (len(mirror.batches) + 1)
        words = [rng.choice([None, "x", "y", f"w{n}"]) for _ in range(rng.randint(0, 6))]
        late = [-150 if rng.random() < 0.2 else 0 for _ in words]
        mirror.land(
            *(u(rng.randint(1, 8), at + i + old, w) for i, (w, old) in enumerate(zip(words, late, strict=True)))
        )
    while (upto := mirror.upto()) < len(mirror.batches):
        mirror.apply(upto + 1, rng.randint(upto + 1, min(upto + 3, len(mirror.batches))))
    return told(mirror)


def told(mirror: Mirror) -> dict[int, str]:
    events: list[Event] = [e for n in sorted(mirror.batches) for e in mirror.batches[n]]
    return {e.key[0]: e.content[0] for e in oracle.seen(oracle.newest(events)) if e.content}


def test_a_life_of_merges_is_what_the_oracle_says(mirror: Mirror, rng: random.Random) -> None:
    assert lived(mirror, rng, 8) == mirror.rows()
    standing = mirror.table().standing()
    assert standing.events == sum(len(events) for events in mirror.batches.values())
    assert standing.rows == len(mirror.rows())


# ---------------------------------------------------------------- answers that are lost


@pytest.mark.parametrize("fate", [Fate.LOSE_REPLY, Fate.LOSE_REQUEST, Fate.REPEAT], ids=lambda fate: fate.name)
def test_c2_whatever_becomes_of_the_answer_it_is_done_once(mirror: Mirror, site: Site, fate: Fate) -> None:
    if fate is Fate.REPEAT and site.kind != "rest":
        pytest.skip("a database is not asked by HTTP")
    marker = b"POST /v1/namespaces/" if site.kind == "rest" else COMMIT
    before, merged = mirror.merged(2, 2)
    with LossyProxy("127.0.0.1", site.port or 0, b"nothing yet \0", fate, once=True) as proxy:
        tries: list[int] = []

        def sent(*_: object) -> None:
            tries.append(1)
            if len(tries) == 1:
                proxy.lose_next(marker, fate)

        through = mirror.table(Hook(site.opened(proxy.port), before={"commit": sent}))
        after = through.apply(before, merged, lambda: True)
        assert proxy.matched >= 1
    assert len(tries) == (2 if fate is Fate.LOSE_REQUEST else 1), "what was done is found, what was not is done anew"
    assert (after.upto, after.events, mirror.rows()) == (2, 6, MERGED)
    assert after == mirror.table().standing()
    assert len(mirror.loaded().metadata.snapshots) == 2


# ---------------------------------------------------------------- two at once


def both(mirror: Mirror, site: Site) -> list[Prefix | LostComparison]:
    """Outcomes of two merges of one snapshot; each has looked before the other commits."""
    barrier, outcomes = threading.Barrier(2, timeout=60), []

    def run(before: Prefix, merged: Merged) -> None:
        hook = Hook(site.opened(), before={"commit": Once(barrier.wait)})
        try:
            outcomes.append(mirror.table(hook).apply(before, merged, lambda: True))
        except LostComparison as error:
            outcomes.append(error)

    threads = [threading.Thread(target=run, args=mirror.merged(2, 2)) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return outcomes


def test_m1_of_two_merges_at_once_one_is_refused(mirror: Mirror, site: Site) -> None:
    outcomes = both(mirror, site)
    assert sorted(type(o).__name__ for o in outcomes) == ["LostComparison", "Prefix"]
    assert (mirror.table().standing().events, mirror.rows()) == (6, MERGED)
    assert len(mirror.loaded().metadata.snapshots) == 2


def test_without_the_comparison_both_would_be_done(mirror: Mirror, site: Site) -> None:
    with Planted(TABLE_BUGS["whatever was read, the merge is committed"]) as planted:
        with pytest.raises(AssertionError):
            test_m1_of_two_merges_at_once_one_is_refused(mirror, site)
        assert planted.never_called() == []


# ---------------------------------------------------------------- Spark


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Spark]:
    session = Spark(tmp_path_factory.mktemp("spark"))
    yield session
    session.close()


def test_spark_reads_the_view_and_its_compaction_is_welcome(
    mirror: Mirror, site: Site, spark: Spark, rng: random.Random
) -> None:
    """It compacts between what a merge reads and its commit: that merge begins anew (M1), on the files of Spark."""
    catalog = "iceberg"  # the name that rows of a catalogue in SQL have
    if site.kind == "rest":
        catalog = "mirrors_rest"
        spark.catalog(catalog, type="rest", uri=site.at)
    else:
        spark.catalog(catalog, type="jdbc", warehouse=f"file://{site.folder}/warehouse", **_jdbc(site.at))
    spark(f"CREATE OR REPLACE TEMPORARY VIEW now AS SELECT * FROM {catalog}.{mirror.name} WHERE _op <> 'd'")

    def seen() -> dict[int, str]:
        spark("REFRESH TABLE now")
        rows = spark("SELECT k0, word FROM now")
        assert len({r["k0"] for r in rows}) == len(rows), "a key has two rows"
        return {r["k0"]: r["word"] for r in rows}

    expected = lived(mirror, rng, 4)
    assert seen() == expected == mirror.rows()
    number = mirror.land(u(1, 90_000, "newest"), u(2, 90_001, None))
    before, slow = mirror.merged(number, number)
    _, base = mirror.table().base()
    compact = (
        f"CALL {catalog}.system.rewrite_data_files(table => '{mirror.name}', options => map('rewrite-all', 'true'))"
    )
    hook = Hook(site.opened(), before={"commit": Once(lambda: spark(compact))})
    with pytest.raises(LostComparison, match="merge anew"):
        mirror.table(hook).apply(before, slow, lambda: True)
    _, rewritten = mirror.table().base()
    old = {f.uri for b in base for f in b.files}
    assert rewritten
    assert old.isdisjoint(f.uri for b in rewritten for f in b.files)
    assert mirror.apply(number, number).upto == number
    assert seen() == told(mirror) == mirror.rows()


def _jdbc(url: str) -> dict[str, str]:
    at = make_url(url)
    login = {"jdbc.user": at.username or "", "jdbc.password": at.password or ""}
    return {"uri": f"jdbc:postgresql://{at.host}:{at.port}/{at.database}", **login}
