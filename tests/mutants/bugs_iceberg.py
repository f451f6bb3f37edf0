"""Bugs in tables in Iceberg: each takes out one of the rules C1 to C9."""

from __future__ import annotations

from functools import partial

from pyiceberg.manifest import DataFile
from pyiceberg.table.update import AddSnapshotUpdate
from pyiceberg.typedef import Record

from spark_jobs.engine.sinks.stored import _columns
from tests.crash.lakehouse import KIND
from tests.mutants import seams
from tests.mutants.names import BY_ID, BY_PARTITION, CLAIMS, HEALS, IN_FORCE, ONCE, STOPS, THERE, WELCOME
from tests.mutants.planting import Bug, Patch, always, nothing
from tidegate.core.base.errors import CatalogueUnsure
from tidegate.targets.iceberg import snapshot
from tidegate.targets.iceberg.catalogue import Conflict
from tidegate.targets.iceberg.files import below, data_files
from tidegate.targets.iceberg.rules import Do, Held


class _AskedOnce:
    """A fence that is asked now, and answers so whenever it is asked."""

    def __init__(self, fence, location):
        fence.show(location)
        self._fence, self._mine = fence, fence.still_mine()

    def show(self, location):
        pass

    def still_mine(self):
        return self._mine

    def __getattr__(self, name):
        return getattr(self._fence, name)


def _asks_first(original, self, fence, location):
    return original(self, _AskedOnce(fence, location), location)


def _never_stops(original, mine, newest, held, foreign):
    found = original(mine, newest, held, foreign)
    return Do.COMMIT if found is Do.STOP else found


def _rebased(self, fence, loaded, seen, location):
    """As a library does: what was to go goes, what was to come comes, on whatever snapshot is the newest by now."""
    newer = self._load()
    gone = {f.file_path for f in seen.files}
    now = self._look(newer, fence.generation.window).only(lambda f: f.file_path in gone)
    added = data_files(self.definition, newer.metadata, below(location, fence.generation.files), {})
    made = snapshot.replaced(newer.metadata, newer.io, now, added, {"by": "a library"}, None)
    self.catalogue.commit(newer, (), made)


def _rebases_after(refusal):
    def bug(original, self, fence, loaded, seen, location):
        try:
            original(self, fence, loaded, seen, location)
        except refusal:
            _rebased(self, fence, loaded, seen, location)

    return bug


def _same_write_set_again(original, self, fence, loaded, seen, location):
    try:
        original(self, fence, loaded, seen, location)
    except Conflict:
        newer = self._load()
        added = data_files(self.definition, loaded.metadata, below(location, fence.generation.files), {})
        first, *rest = snapshot.replaced(loaded.metadata, loaded.io, seen, added, {"by": "a library"}, None)
        assert isinstance(first, AddSnapshotUpdate)
        anew = {
            "parent_snapshot_id": newer.metadata.current_snapshot_id,
            "sequence_number": newer.metadata.next_sequence_number(),
        }
        again = AddSnapshotUpdate(snapshot=first.snapshot.model_copy(update=anew))
        self.catalogue.commit(newer, (), (again, *rest))


def _by_remembered_paths(original, self, fence, loaded, seen, location):
    ours = self.layout.generations()
    original(self, fence, loaded, seen.only(lambda f: f.file_path.startswith(ours)), location)


def _files_of_an_unsure_commit_go(original, self, fence, loaded, seen, location):
    try:
        original(self, fence, loaded, seen, location)
    except CatalogueUnsure:
        self.site.storage.delete(location)
        raise


def _by_paths(original, definition, seen, wanted, batch_id=0):
    found = original(definition, seen, wanted, batch_id)
    return Held.OTHER if found is Held.REWRITTEN else found


def _values_of_bounds(original, definition, metadata, files, known, batch_id=0):
    return [_cut_off(file) for file in original(definition, metadata, files, known, batch_id)]


def _cut_off(file):
    parts = [file.partition[at] for at in range(len(file.partition))]
    names = ("content", "file_path", "file_format", "record_count", "file_size_in_bytes")
    cut = Record(*(p[:16] if isinstance(p, str) else p for p in parts))
    made = DataFile.from_args(**{name: getattr(file, name) for name in names}, partition=cut)
    made.spec_id = file.spec_id
    return made


_RECORDS = []


def _recorded_later(original, ctx, generation, location):
    _RECORDS[:] = [partial(original, ctx, generation, location)]


def _commits_then_records(original, self, fence, location):
    done = original(self, fence, location)
    while _RECORDS:
        _RECORDS.pop()()
    return done


def _ids_by_order(original, self, logical, constants, form, kind, fields):
    columns = [c.name for c, _ in constants] + [c.name for c in _columns(form, logical)]
    order = {name: n for n, name in enumerate(columns)}
    mine = [path for of, path, _ in fields if of == kind]
    mine.sort(key=lambda path: order.get(path.partition(".")[0], len(order)))
    numbered = tuple((kind, path, n) for n, path in enumerate(mine, 1))
    original(self, logical, constants, form, kind, numbered)


def _to_the_word(original, self, expected, shown):
    return expected == shown


def _as_the_ledger_says(original, windows, first, loaded, fence):
    rows = fence.published(windows.start_ms, fence.generation.window.start_ms + 10 * windows.size_ms)
    return lambda start: start == fence.generation.window.start_ms or start in rows


def _asked_before_the_load(original, self, batches, holds, present):
    held = holds()
    return original(self, batches, lambda: held, present)


def _bug(name, rule, attack, violates, *patches, why=""):
    return Bug(name, rule, attack, violates, patches, why=why, target=KIND)


STANDS_STILL = "a_task_stands_still_before_it_loads"
BUGS = (
    _bug(
        "the ledger is asked before the table is loaded",
        "C1: load, look, ask, commit",
        STANDS_STILL,
        HEALS,
        Patch(seams.ICEBERG_COMMIT, _asks_first),
    ),
    _bug(
        "the ledger is asked before the load, and no newer generation stops the commit",
        "C1, C4",
        STANDS_STILL,
        IN_FORCE,
        Patch(seams.ICEBERG_COMMIT, _asks_first),
        Patch(seams.ICEBERG_DECIDE, _never_stops),
        why="the look at the table is a guard of its own",
    ),
    _bug(
        "a conflict is rebased",
        "C2: no rebase",
        "another_generation_comes_before_a_commit",
        IN_FORCE,
        Patch(seams.ICEBERG_REPLACE, _rebases_after(Conflict)),
    ),
    _bug(
        "a conflict commits the same write set again",
        "C2: no rebase",
        "a_neighbour_commits_before_a_commit",
        IN_FORCE,
        Patch(seams.ICEBERG_REPLACE, _same_write_set_again),
    ),
    _bug(
        "the library tries an unsure commit again",
        "C2: the library's retries are off",
        "the_answer_of_a_commit_is_lost",
        ONCE,
        Patch(seams.ICEBERG_REPLACE, _rebases_after(CatalogueUnsure)),
    ),
    _bug(
        "paths that the ledger remembers are removed",
        "C3: by window",
        "others_compact_a_window_that_is_replayed",
        ONCE,
        Patch(seams.ICEBERG_REPLACE, _by_remembered_paths),
    ),
    _bug(
        "a newer generation in the table does not stop an older one",
        "C4: look",
        "the_ledger_and_its_records_are_older_than_the_table",
        STOPS,
        Patch(seams.ICEBERG_DECIDE, _never_stops),
    ),
    _bug(
        "no tag keeps the snapshot of a publication",
        "C5: the token outlives expiry",
        "a_snapshot_expires_before_the_ledger_knows",
        HEALS,
        Patch(seams.ICEBERG_TAG, nothing),
    ),
    _bug(
        "files of an unsure commit are deleted",
        "C6: unknown is not failure",
        "the_answer_of_a_commit_is_lost",
        THERE,
        Patch(seams.ICEBERG_REPLACE, _files_of_an_unsure_commit_go),
    ),
    _bug(
        "nobody looks at the table's partition spec",
        "C7: pure files",
        "the_partitions_of_the_table_are_changed",
        BY_PARTITION,
        Patch(seams.ICEBERG_IS_OURS, nothing),
    ),
    _bug(
        "partition values are guessed from bounds",
        "C7: values are our own, as add_files' are not",
        "a_site_has_a_long_name",
        BY_PARTITION,
        Patch(seams.ICEBERG_DATA_FILES, _values_of_bounds),
    ),
    _bug(
        "files number their columns by order",
        "Field ids: files have those of the table",
        "a_column_comes_between",
        BY_ID,
        Patch(seams.IDS_IN_FILES, _ids_by_order),
    ),
    _bug(
        "the record is written after the commit",
        "C8: the record is outside",
        "the_ledger_forgets_a_generation_behind_its_commit",
        HEALS,
        Patch(seams.RECORD_A_GENERATION, _recorded_later),
        Patch(seams.ICEBERG_COMMIT, _commits_then_records),
    ),
    _bug(
        "paths are compared instead of rows",
        "C9: compaction is welcome",
        "others_compact_a_window_that_is_cleared",
        WELCOME,
        Patch(seams.ICEBERG_HELD, _by_paths),
    ),
    _bug(
        "the audit asks of others' files which generation they are of",
        "C9: compaction is welcome",
        "others_compact_a_window_that_is_cleared",
        IN_FORCE,
        Patch(seams.ICEBERG_NEWEST_PLACES, always({})),
        Patch(seams.ICEBERG_AGREES, _to_the_word),
    ),
    _bug(
        "a side table asks the ledger before it loads",
        "C1: of side tables, too",
        "late_rows_are_taken_up_before_a_zombie_shows_them",
        THERE,
        Patch(seams.ICEBERG_SIDE_CHANGE, _asked_before_the_load),
    ),
    _bug(
        "a table claims what the ledger has in force",
        "complete-through: never more than the table shows",
        "the_table_is_rolled_back",
        CLAIMS,
        Patch(seams.ICEBERG_STANDS, _as_the_ledger_says),
    ),
)
