"""Bugs in the cleaning of an Iceberg table's own files (C10)."""

from __future__ import annotations

from dataclasses import replace

from tests.crash.lakehouse import KIND
from tests.mutants import seams
from tests.mutants.names import NAMED, THERE, WELCOME
from tests.mutants.planting import Bug, Patch, always


def _of_the_current_snapshot(original, loaded, snapshots):
    return original(loaded, [loaded.metadata.current_snapshot()])


def _lists_of_main(original, metadata):
    tagged = {ref.snapshot_id for name, ref in metadata.refs.items() if name != "main"}
    return {s.manifest_list for s in metadata.snapshots if s.snapshot_id not in tagged}


def _at_once(original, name, made, needed, now_ms):
    return original(name, made, needed, now_ms + 10**12)


def _whatever_commit_it_is_for(original, name, made, needed, now_ms):
    return original(name, made and replace(made, number=-1), needed, now_ms)


def _bug(name, attack, violates, *patches):
    return Bug(name, "C10: what nothing names", attack, violates, patches, target=KIND)


BUSY = "a_busy_table_is_cleaned"
BUGS = (
    _bug(
        "manifests of the current snapshot are kept, and no others",
        BUSY,
        NAMED,
        Patch(seams.ICEBERG_MANIFESTS, _of_the_current_snapshot),
    ),
    _bug("lists of tagged snapshots go", BUSY, NAMED, Patch(seams.ICEBERG_LISTS, _lists_of_main)),
    _bug("the log of metadata is not asked", BUSY, NAMED, Patch(seams.ICEBERG_LOGGED, always(set()))),
    _bug("names do not say whose a file is", BUSY, WELCOME, Patch(seams.ICEBERG_WHOSE, always(True))),
    _bug(
        "a reader is given no time",
        "a_reader_opens_a_snapshot_that_was_let_go",
        NAMED,
        Patch(seams.ICEBERG_MAY_GO, _at_once),
    ),
    _bug(
        "files of an unsure commit are deleted by a cleaner",
        "a_commit_is_executed_after_a_cleaning",
        NAMED,
        Patch(seams.ICEBERG_MAY_GO, _whatever_commit_it_is_for),
    ),
    Bug(
        "a cleaner does not ask who else names a generation's files",
        "L6: shared files stay",
        "a_generation_whose_files_a_rollback_names_is_cleaned",
        THERE,
        (Patch(seams.SHARED_FILES, always(set())),),
        target=KIND,
    ),
)
