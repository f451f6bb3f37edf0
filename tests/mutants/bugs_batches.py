"""Bugs in the batch protocol."""

from __future__ import annotations

from tests.mutants.names import FATE, HEALS, ONCE, OWN, STOPS, THERE
from tests.mutants.planting import Bug, Edit

_INGEST = "plugins/tidegate/workflow/ingest.py"
_SEALING = "plugins/tidegate/workflow/sealing.py"
_LANDING = "plugins/tidegate/workflow/landing.py"
_MOVES = "plugins/tidegate/workflow/moves.py"
_BATCHES = "plugins/tidegate/adapters/ledger/batches.py"
_RECOVERY = "plugins/tidegate/core/recovery.py"
_PLANNING = "plugins/tidegate/core/planning.py"

BUGS = (
    Bug(
        "an attempt judges by the windows of its own time",
        "R1: the plan pins the floor",
        "an_hour_closes_while_a_batch_is_written",
        FATE,
        (
            Edit(
                _INGEST,
                "JobPart(plan_.batch_id, plan_.clock_ms, plan_.floor, plan_.ranges, plan_.rules_version)",
                "JobPart(plan_.batch_id, plan_.clock_ms, planning.floor_of(spec.windows, "
                "ctx.ledger.batches.planning_view(ctx.name).not_open, plan_.clock_ms), "
                "plan_.ranges, plan_.rules_version)",
            ),
            Edit("plugins/tidegate/workflow/sealing.py", "    _check_windows(ctx, plan, receipt)\n", ""),
        ),
        why="what is sealed is held against the plan's floor and policy",
    ),
    Bug(
        "an attempt takes the spec of its own time",
        "R1: the plan pins the spec",
        "the_spec_changes_between_two_tries",
        FATE,
        (
            Edit(
                _INGEST,
                "    if plan_.spec_version != ctx.spec_version:\n        spec = ",
                "    if False:\n        spec = ",
            ),
        ),
    ),
    Bug(
        "a plan commits on any version",
        "R5: a plan commits on the version that it read",
        "an_hour_closes_between_gathering_and_planning",
        ONCE,
        (Edit(_BATCHES, "                p.c.version == version,\n", ""),),
    ),
    Bug(
        "closing raises no version",
        "R5: a plan sees that a window has begun to close",
        "an_hour_closes_between_gathering_and_planning",
        ONCE,
        (
            Edit(
                "plugins/tidegate/adapters/ledger/windows.py",
                "                self._store.raise_version(c, name, pipeline.version)\n",
                "",
            ),
            Edit(
                "plugins/tidegate/adapters/ledger/windows.py",
                "            self._store.raise_version(c, name)\n            batches = reopenings.contributors",
                "            batches = reopenings.contributors",
            ),
        ),
        why="CLOSED raises it too",
    ),
    Bug(
        "closing has one step",
        "R5: closing waits for the batches planned before",
        "an_hour_closes_over_an_open_batch",
        ONCE,
        (
            Edit(
                "plugins/tidegate/adapters/ledger/windows.py",
                "            if waiting:\n                return waiting\n",
                "",
            ),
        ),
    ),
    Bug(
        "two plans of the same offsets",
        "R5: the version and the next batch id are compared",
        "two_schedulers_plan_at_once",
        ONCE,
        (
            Edit(
                _BATCHES,
                "                p.c.version == version,\n                p.c.next_batch_id == batch_id,\n",
                "",
            ),
            Edit(_BATCHES, "next_batch_id=batch_id + 1)", "next_batch_id=p.c.next_batch_id + 1)"),
            Edit(
                _BATCHES,
                "        with self._store.begin() as c:\n            compare = update(p)",
                "        with self._store.begin() as c:\n"
                "            batch_id = row_of(c, p, name=name).next_batch_id\n"
                "            plan = type(plan)(**{**vars(plan), 'batch_id': batch_id})\n"
                "            compare = update(p)",
            ),
        ),
        why="the batch id is taken anew, as from a sequence, so that its key does not refuse the second plan",
    ),
    Bug(
        "the topic id is not compared at seal",
        "R6: topic id and listing are compared again",
        "the_topic_is_recreated_under_the_job",
        STOPS,
        (
            Edit(
                _SEALING,
                "    if topic_id != plan.topic_id:\n        raise TopicRecreated",
                "    if False:\n        raise TopicRecreated",
            ),
        ),
    ),
    Bug(
        "the listing is not compared at seal",
        "R6: topic id and listing are compared again",
        "a_file_is_gone_when_the_attempt_is_sealed",
        THERE,
        (
            Edit(
                _SEALING,
                "        if there.get(f.path) != f.bytes:\n            found = ",
                "        if False:\n            found = ",
            ),
        ),
    ),
    Bug(
        "a batch is sealed without its epoch",
        "seal without epoch check",
        "a_zombie_seals_what_was_cleaned_away",
        THERE,
        (Edit(_BATCHES, "            b.c.epoch == epoch,\n            b.c.nonce == nonce,\n", ""),),
        why="the nonce stands for the epoch",
    ),
    Bug(
        "the attempt's directory is named by a later read",
        "R9: a directory is named by what the comparison returned",
        "another_task_takes_the_batch_at_once",
        OWN,
        (
            Edit(
                _INGEST,
                "    writing = ctx.ledger.batches.take(batch, ctx.nonce())\n",
                "    ctx.ledger.batches.take(batch, ctx.nonce())\n"
                "    writing = ctx.ledger.batches.get(ctx.name, batch_id)\n",
            ),
        ),
    ),
    Bug(
        "an incomplete source is renamed",
        "R10: rename before verify",
        "a_file_is_gone_when_the_batch_lands",
        STOPS,
        (
            Edit(
                _RECOVERY, "(Seen.DIFFERS, Seen.ABSENT): Do.ALARM_INCOMPLETE", "(Seen.DIFFERS, Seen.ABSENT): Do.RENAME"
            ),
            Edit(
                _MOVES,
                "        try_rename(storage, source, destination)\n    raise OutcomeUnknown",
                "        try_rename(storage, source, destination)\n        return\n    raise OutcomeUnknown",
            ),
        ),
        why="the second look would find that the destination is not whole",
    ),
    Bug(
        "the destination is looked at first",
        "R10: the source first, then the destination",
        "a_rename_is_executed_between_two_looks",
        HEALS,
        (
            Edit(
                _MOVES,
                "        seen = look(storage, source, manifest)  # the source first: see core.recovery\n"
                "        todo = decide(seen, look(storage, destination, manifest))\n",
                "        there = look(storage, destination, manifest)\n"
                "        todo = decide(look(storage, source, manifest), there)\n",
            ),
        ),
    ),
    Bug(
        "an unknown rename is taken for done",
        "R10: unknown is resolved by looking",
        "the_reply_of_a_rename_is_lost",
        THERE,
        (
            Edit(
                _MOVES,
                "        try_rename(storage, source, destination)\n    raise OutcomeUnknown",
                "        try_rename(storage, source, destination)\n        return\n    raise OutcomeUnknown",
            ),
        ),
    ),
    Bug(
        "an alarm without another look at the ledger",
        "R10: the ledger is read again before an alarm",
        "a_zombie_goes_on_assembling",
        HEALS,
        (
            Edit(
                _MOVES,
                '            if not still_mine():\n                raise MovedOn\n            raise FilesLost(f"data',
                '            raise FilesLost(f"data',
            ),
        ),
    ),
    Bug(
        "the high-water mark is written before the rename",
        "a mark stands for files that have moved",
        "the_process_ends_between_mark_and_rename",
        THERE,
        (
            Edit(
                _LANDING,
                "            move_directory(ctx.storage, source, landed",
                "            records.mark_batch(ctx, batch)\n            move_directory(ctx.storage, source, landed",
            ),
        ),
    ),
    Bug(
        "lost offsets are skipped",
        "offsets that are gone stop the pipeline or stand in the ledger",
        "retention_passes_before_planning",
        ONCE,
        (
            Edit(_PLANNING, '            if pipeline.source.on_data_loss != "record":', "            if False:"),
            Edit(_PLANNING, "            losses.append(loss)\n", ""),
        ),
    ),
    Bug(
        "auto.offset.reset=earliest",
        "a planned offset that is gone is an error",
        "retention_passes_under_the_job",
        ONCE,
        (Edit("spark_jobs/engine/fetch.py", '"auto.offset.reset": "error"', '"auto.offset.reset": "earliest"'),),
    ),
    Bug(
        "a partition with an open transaction is drained",
        "drained: planned end = last stable offset = high watermark",
        "a_transaction_is_open_when_an_hour_ends",
        FATE,
        (
            Edit(
                "plugins/tidegate/core/batch.py",
                "return self.end == self.last_stable_offset == self.high_watermark",
                "return self.end == self.last_stable_offset",
            ),
        ),
    ),
    Bug(
        "late rows are said to have moved before they have",
        "a flag follows what it says",
        "the_process_ends_before_late_rows_are_moved",
        ONCE,
        (
            Edit(
                _LANDING,
                "    for kind, entries in files.items():\n        if entries:\n            _move_side",
                '    ctx.ledger.batches.mark_side(ctx.name, batch_id, "moved")\n'
                "    for kind, entries in files.items():\n        if entries:\n            _move_side",
            ),
            Edit(
                _LANDING,
                "return isinstance(now, LandedBatch) and not now.side_moved",
                "return isinstance(now, LandedBatch)",
            ),
        ),
    ),
    Bug(
        "late rows are said to be registered before they are",
        "a flag follows what it says",
        "the_process_ends_before_late_rows_are_registered",
        ONCE,
        (
            Edit(
                _LANDING,
                "            _register_side(ctx, batch_id, files, tables)\n",
                '            ctx.ledger.batches.mark_side(ctx.name, batch_id, "registered")\n'
                "            _register_side(ctx, batch_id, files, tables)\n",
            ),
        ),
    ),
    Bug(
        "the job's own directory becomes part of the late table",
        "a directory of a table is never one that a job wrote to",
        "a_duplicate_spark_task_still_writes",
        ONCE,
        (
            Edit(
                _LANDING,
                "        move_directory(ctx.storage, staging, target, manifest, still_owed, quarantine)",
                "        move_directory(ctx.storage, join(landed, kind), target, manifest, still_owed, quarantine)",
            ),
            Edit(
                _LANDING, "                move_files(ctx.storage, wanted, staging, still_owed)", "                pass"
            ),
        ),
    ),
)
