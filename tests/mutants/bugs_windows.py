"""Bugs in the window protocol."""

from __future__ import annotations

from tests.mutants.names import HEALS, IN_FORCE, ONCE, STOPS, THERE, WHOLE
from tests.mutants.planting import Bug, Edit

_REBUILD = "plugins/tidegate/workflow/rebuild.py"
_REPLAYING = "plugins/tidegate/core/replaying.py"
_PUBLICATION = "plugins/tidegate/workflow/publication.py"
_ASSEMBLY = "plugins/tidegate/workflow/assembly.py"
_MOVES = "plugins/tidegate/workflow/moves.py"
_WINDOWS = "plugins/tidegate/adapters/ledger/windows.py"
_INTENTS = "plugins/tidegate/adapters/ledger/intents.py"

_NO_TOTALS = Edit(_REBUILD, "        if rows != s.rows:\n", "        if False:\n")
_TODAYS_CLOCK = Edit(
    _REBUILD,
    "JobPart(batch_id, plan.clock_ms, plan.floor,",
    "JobPart(batch_id, ctx.clock.now_ms(), plan.floor,",
)
_TODAYS_SPEC = Edit(
    _REBUILD,
    "    pinned = None if plan.spec_version == ctx.spec_version else",
    "    pinned = None if True else",
)

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
        (_NO_TOTALS, Edit(_REBUILD, "        if objection is not None:\n", "        if False:\n")),
        why="what was read is compared gap by gap too",
    ),
    Bug(
        "a rebuild reads whatever topic has the name",
        "R1: the plan pins the topic id",
        "the_topic_is_recreated_before_a_rebuild",
        STOPS,
        (
            Edit(_REPLAYING, "    if now.topic_id != topic_id:\n", "    if False:\n"),
            Edit(_REBUILD, "    if now.topic_id == job.topic_id:\n", "    if True:\n"),
            Edit("spark_jobs/engine/job.py", "    if found is not None and found != plan.topic_id:", "    if False:"),
        ),
        why="the job compares too",
    ),
    Bug(
        "vanished values stay in the catalogue",
        "R2: afterwards the catalogue's partitions equal the manifest's",
        "values_vanish_in_a_replay",
        ONCE,
        (
            Edit(_PUBLICATION, "    gone = [v for v in have if v not in want]\n", "    gone = []\n"),
            Edit(
                _PUBLICATION,
                "        have = ctx.catalogue.partitions(table.name, time)\n        if have != want:",
                "        have = ctx.catalogue.partitions(table.name, time)\n"
                "        if any(have.get(v) != place for v, place in want.items()):",
            ),
        ),
        why="reading back would find them",
    ),
    Bug(
        "the catalogue is not read back",
        "R2: locations are read back",
        "the_catalogue_forgets_a_partition",
        WHOLE,
        (Edit(_PUBLICATION, "        if have != want:\n", "        if False:\n"),),
    ),
    Bug(
        "_SUCCESS before the read-back",
        "`_SUCCESS` before the read-back",
        "the_catalogue_forgets_a_partition",
        WHOLE,
        (
            Edit(
                _PUBLICATION,
                "        align_catalogue(ctx, generation, location)\n"
                "        write_success(ctx, generation, location)\n",
                "        write_success(ctx, generation, location)\n"
                "        align_catalogue(ctx, generation, location)\n",
            ),
        ),
    ),
    Bug(
        "what is renamed into the table is not held against the manifest",
        "rename before verify",
        "a_file_is_gone_when_the_hour_is_published",
        WHOLE,
        (
            Edit(
                _PUBLICATION,
                "            manifest_of(generation.files) | _certificate_bytes",
                "            _certificate_bytes",
            ),
        ),
    ),
    Bug(
        "an hour without rows matches any directory",
        "the certificate is part of what must have arrived",
        "a_foreign_directory_lies_in_the_way",
        STOPS,
        (
            Edit(
                _PUBLICATION,
                "            manifest_of(generation.files) | _certificate_bytes(ctx, generation, location),\n",
                "            manifest_of(generation.files),\n",
            ),
        ),
    ),
    Bug(
        "all tries assemble in one directory",
        "R3: assembly has a directory of its own",
        "a_rebuild_dies_half_way",
        ONCE,
        (
            Edit(
                _ASSEMBLY,
                "    directory = ctx.layout.assembly(key.start_ms, number, epoch)\n",
                "    directory = ctx.layout.assembly(key.start_ms, number, 1)\n    epoch = 1\n",
            ),
        ),
    ),
    Bug(
        "files are looked for against their way",
        "R3: files move upward only",
        "a_zombie_moves_a_file_up_at_the_last_moment",
        HEALS,
        (
            Edit(
                _ASSEMBLY,
                "sources[e.path] + tuple(join(d, e.path) for d in lower)",
                "tuple(join(d, e.path) for d in lower) + sources[e.path]",
            ),
        ),
    ),
    Bug(
        "lower epochs are forgotten",
        "R3: a new try takes what a lower epoch has moved",
        "a_zombie_assembles_before_its_successor",
        HEALS,
        (Edit(_ASSEMBLY, "for e in range(1, epoch)]", "for e in ()]"),),
    ),
    Bug(
        "nobody asks for the epoch",
        "R3: the epoch is asked for before each move and each alarm",
        "a_zombie_goes_on_assembling",
        HEALS,
        (Edit(_ASSEMBLY, "        return ctx.ledger.windows.holds(generation)\n", "        return True\n"),),
    ),
    Bug(
        "BUILT without the epoch",
        "R3: BUILT belongs to the epoch that holds the files",
        "a_zombie_says_that_it_is_done",
        HEALS,
        (Edit(_WINDOWS, "        g.c.epoch == generation.epoch,\n        g.c.nonce == generation.nonce,\n", ""),),
    ),
    Bug(
        "unanswered changes are no obstacle",
        "R8: an unanswered intent stops swaps",
        "an_alter_arrives_after_the_next_swap",
        IN_FORCE,
        (Edit(_INTENTS, "    if until is not None:\n", "    if False:\n"),),
    ),
    Bug(
        "no reply counts as an answer",
        "R8: a definite answer removes that call's intent only",
        "an_alter_arrives_after_the_next_swap",
        IN_FORCE,
        (
            Edit(
                _PUBLICATION,
                "            raise  # it may still be executed: the intent stays until its deadline\n",
                "            windows.answer_intent(call_id)\n            raise\n",
            ),
        ),
    ),
    Bug(
        "an intent without another look at the window",
        "R8: the window row is read again",
        "a_zombie_alters_after_the_next_swap",
        IN_FORCE,
        (Edit(_WINDOWS, "            if newest != generation.number or still is None:\n", "            if False:\n"),),
    ),
    Bug(
        "gaps are summed instead of compared",
        "gap summed instead of compared",
        "a_record_moves_before_a_rebuild",
        STOPS,
        (
            Edit(
                "plugins/tidegate/core/rereading.py",
                "    return Rereading(span, without(later, earlier), without(earlier, later))\n",
                "    if sum(map(len, earlier)) == sum(map(len, later)):\n        return Rereading(span, (), ())\n"
                "    return Rereading(span, without(later, earlier), without(earlier, later))\n",
            ),
        ),
    ),
    Bug(
        "merged files' sources go at once",
        "R3: with merging: what was merged stays until it is in force",
        "a_merge_is_not_the_end",
        HEALS,
        (
            Edit(
                "plugins/tidegate/workflow/merging.py",
                "    gone = {(s.batch_id, s.entry.path) for m in merges for s in m.sources}\n",
                "    gone = {(s.batch_id, s.entry.path) for m in merges for s in m.sources}\n"
                "    for m in merges:\n        for s in m.sources:\n"
                "            ctx.storage.delete(join(ctx.layout.landed(s.batch_id), s.entry.path))\n",
            ),
        ),
    ),
    Bug(
        "a lost hour's retired place stays free",
        "R4: a name that was a rename's destination is never freed",
        "a_rename_arrives_after_the_hour_was_lost",
        THERE,
        (
            Edit(
                "plugins/tidegate/core/swap.py",
                "        return Do.RESERVE if retired_taken is False else Do.PLACE\n",
                "        return Do.PLACE\n",
            ),
        ),
        swap="directory",
    ),
    Bug(
        "a retired generation's directory is cleaned whole",
        "R4: a name that was a rename's destination is never freed",
        "a_rename_arrives_after_cleaning",
        THERE,
        (
            Edit(
                "plugins/tidegate/workflow/cleaning_generations.py",
                'gone = [run.delete("generations", join(facts.location, p), decide) for p in ours if p in listing]',
                'gone = [run.delete("generations", facts.location, decide)] if listing else []',
            ),
        ),
        swap="directory",
    ),
)
