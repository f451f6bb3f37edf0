"""Bugs in the window protocol."""

from __future__ import annotations

from dataclasses import replace

from tests.mutants import seams
from tests.mutants.names import HEALS, IN_FORCE, ONCE, STOPS, THERE, WHOLE
from tests.mutants.planting import Bug, Patch, always, nothing, without
from tidegate.core.base.errors import CatalogueError, CatalogueUnsure
from tidegate.core.files.second_reading import SecondReading
from tidegate.core.target.paths import join
from tidegate.core.window.transitions import BUILD
from tidegate.ledger import intents
from tidegate.targets.hive import table as hive
from tidegate.targets.hive.success_marker import write_success
from tidegate.targets.hive.swap_steps import Do


def _by_todays_clock(original, ctx, chooser, batch_id, spans):
    return replace(original(ctx, chooser, batch_id, spans), clock_ms=ctx.clock.now_ms())


def _by_todays_spec(original, *args):
    return replace(original(*args), pinned=None)


def _whatever_has_the_name(original, span, batch_id, topic_id, now, *rest):
    return original(span, batch_id, topic_id if now is None else now.topic_id, now, *rest)


def _wanted_ones_only(original, table, at, want):
    have = table.catalogue.partitions(table.name, at)
    original(table, at, want if all(have.get(v) == place for v, place in want.items()) else have)


def _success_first(original, table, fence, location, want=None):
    write_success(table, fence.generation.window, fence.generation.number, location)
    return original(table, fence, location, want)


def _certificate_alone(original, table, generation, location):
    return hive._certificate_bytes(table, generation, location)


def _of_the_first_epoch(original, self, start_ms, generation, epoch):
    return original(self, start_ms, generation, 1)


def _against_their_way(original, ctx, generation, path, sources):
    return tuple(reversed(original(ctx, generation, path, sources)))


def _sources_alone(original, ctx, generation, path, sources):
    return sources


def _without_epoch(original, table, step):
    terms = original(table, step)
    return without(terms, "epoch", "nonce") if step.transition is BUILD else terms


def _definite(original, self, change):
    def answered():
        try:
            change()
        except CatalogueUnsure as e:
            raise CatalogueError(*e.args, advice=e.advice) from e

    original(self, answered)


def _not_looked_at_again(original, self, generation, location, ttl_ms):
    now_ms = self._store.instant
    with self._store.begin() as c:
        intents.refuse_doubt(c, generation, location, now_ms)
        return intents.declare(c, generation, location, now_ms + ttl_ms)


def _by_their_sums(original, span, before, now):
    missing = [original(span, (), gaps).vanished for gaps in (before, now)]
    earlier, later = (sum(map(len, gaps)) for gaps in missing)
    return SecondReading(span, (), ()) if earlier == later else original(span, before, now)


def _sources_go_at_once(original, ctx, generation, landed):
    result = original(ctx, generation, landed)
    for item in (f for f in landed if f not in result.left):
        ctx.storage.delete(join(ctx.layout.landed(item.batch_id), item.entry.path))
    return result


def _nothing_is_reserved(original, built, retired_taken, hour):
    found = original(built, retired_taken, hour)
    return Do.PLACE if found is Do.RESERVE else found


def _the_directory(original, self, location, paths, decide):
    return [self._run.delete("generations", location, decide)] if paths else []


_NO_TOTALS = Patch(seams.OTHER_ROWS, nothing)
_TODAYS_CLOCK = Patch(seams.PART_OF_A_REBUILD, _by_todays_clock)
_TODAYS_SPEC = Patch(seams.PART_OF_A_REBUILD, _by_todays_spec)

BUGS = (
    Bug(
        "a rebuild judges by today's clock",
        "R1: every replay decides by the pinned clock",
        "a_record_from_the_future_meets_a_later_clock",
        HEALS,
        (_TODAYS_CLOCK,),
    ),
    Bug(
        "a rebuild judges by today's clock and is not compared",
        "R1: every replay decides by the pinned clock",
        "a_record_from_the_future_meets_a_later_clock",
        ONCE,
        (_TODAYS_CLOCK, _NO_TOTALS),
    ),
    Bug(
        "a rebuild routes by today's spec",
        "R1: every replay decides by the pinned spec",
        "event_time_changes_before_a_rebuild",
        HEALS,
        (_TODAYS_SPEC,),
    ),
    Bug(
        "a rebuild routes by today's spec and is not compared",
        "R1: every replay decides by the pinned spec",
        "event_time_changes_before_a_rebuild",
        ONCE,
        (_TODAYS_SPEC, _NO_TOTALS),
    ),
    Bug(
        "a rebuild's rows are not compared with the ledger",
        "a rebuild never changes what belongs to a window",
        "the_topic_forgets_a_record_before_a_rebuild",
        STOPS,
        (_NO_TOTALS, Patch(seams.OBJECTION_TO_GAPS, nothing)),
        why="what was read is compared gap by gap too",
    ),
    Bug(
        "a rebuild reads whatever topic has the name",
        "R1: the plan pins the topic id",
        "the_topic_is_recreated_before_a_rebuild",
        STOPS,
        (
            Patch(seams.GONE_FROM_KAFKA, _whatever_has_the_name),
            Patch(seams.RECREATED_MEANWHILE, nothing),
            Patch(seams.JOB_CHECKS_TOPIC, nothing),
        ),
        why="the job compares too",
    ),
    Bug(
        "vanished values stay in the catalogue",
        "R2: afterwards the catalogue's partitions equal the manifest's",
        "values_vanish_in_a_replay",
        ONCE,
        (Patch(seams.VANISHED_VALUES, always([])), Patch(seams.READ_BACK, _wanted_ones_only)),
        why="reading back would find them",
    ),
    Bug(
        "the catalogue is not read back",
        "R2: locations are read back",
        "the_catalogue_forgets_a_partition",
        WHOLE,
        (Patch(seams.READ_BACK, nothing),),
    ),
    Bug(
        "_SUCCESS before the read-back",
        "`_SUCCESS` before the read-back",
        "the_catalogue_forgets_a_partition",
        WHOLE,
        (Patch(seams.ALIGN_CATALOGUE, _success_first),),
    ),
    Bug(
        "what is renamed into the table is not compared with the manifest",
        "rename before verify",
        "a_file_is_gone_when_the_hour_is_published",
        WHOLE,
        (Patch(seams.MUST_ARRIVE, _certificate_alone),),
    ),
    Bug(
        "an hour without rows matches any directory",
        "the certificate is part of what must have arrived",
        "a_foreign_directory_lies_in_the_way",
        STOPS,
        (Patch(seams.CERTIFICATE_BYTES, always({})),),
    ),
    Bug(
        "all tries assemble in one directory",
        "R3: assembly has a directory of its own",
        "a_rebuild_dies_half_way",
        ONCE,
        (Patch(seams.ASSEMBLY_DIRECTORY, _of_the_first_epoch),),
    ),
    Bug(
        "files are looked for against their way",
        "R3: files move upward only",
        "a_zombie_moves_a_file_up_at_the_last_moment",
        HEALS,
        (Patch(seams.PLACES_OF_A_FILE, _against_their_way),),
    ),
    Bug(
        "lower epochs are forgotten",
        "R3: a new try takes what a lower epoch has moved",
        "a_zombie_assembles_before_its_successor",
        HEALS,
        (Patch(seams.PLACES_OF_A_FILE, _sources_alone),),
    ),
    Bug(
        "nobody asks for the epoch",
        "R3: the epoch is asked for before each move and each alarm",
        "a_zombie_goes_on_assembling",
        HEALS,
        (Patch(seams.HOLDS_THE_EPOCH, always(True)),),
    ),
    Bug(
        "BUILT without the epoch",
        "R3: BUILT belongs to the epoch that holds the files",
        "a_zombie_says_that_it_is_done",
        HEALS,
        (Patch(seams.COMPARED, _without_epoch),),
    ),
    Bug(
        "unanswered changes are no obstacle",
        "R8: an unanswered intent stops swaps",
        "an_alter_arrives_after_the_next_swap",
        IN_FORCE,
        (Patch(seams.REFUSE_DOUBT, nothing),),
    ),
    Bug(
        "no reply counts as an answer",
        "R8: a definite answer removes that call's intent only",
        "an_alter_arrives_after_the_next_swap",
        IN_FORCE,
        (Patch(seams.FENCED_CHANGE, _definite),),
    ),
    Bug(
        "an intent without another look at the window",
        "R8: the window row is read again",
        "a_zombie_alters_after_the_next_swap",
        IN_FORCE,
        (Patch(seams.DECLARE_INTENT, _not_looked_at_again),),
    ),
    Bug(
        "gaps are summed instead of compared",
        "gap summed instead of compared",
        "a_record_moves_before_a_rebuild",
        STOPS,
        (Patch(seams.COMPARE_GAPS, _by_their_sums),),
    ),
    Bug(
        "merged files' sources go at once",
        "R3: with merging: what was merged stays until it is in force",
        "a_merge_is_not_the_end",
        HEALS,
        (Patch(seams.MERGE_SMALL, _sources_go_at_once),),
    ),
    Bug(
        "a lost hour's retired place stays free",
        "R4: a name that was a rename's destination is never freed",
        "a_rename_arrives_after_the_hour_was_lost",
        THERE,
        (Patch(seams.SWAP, _nothing_is_reserved),),
        swap="directory",
    ),
    Bug(
        "a retired generation's directory is cleaned whole",
        "R4: a name that was a rename's destination is never freed",
        "a_rename_arrives_after_cleaning",
        THERE,
        (Patch(seams.DELETE_RETIRED_FILES, _the_directory),),
        swap="directory",
    ),
)
