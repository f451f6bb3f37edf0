"""Bugs in the batch protocol."""

from __future__ import annotations

from dataclasses import replace

from tests.mutants import seams
from tests.mutants.names import BALANCE, FATE, HEALS, ONCE, OWN, STOPS, THERE
from tests.mutants.planting import Bug, Patch, always, nothing, without
from tidegate.core.base.plain import to_plain
from tidegate.core.base.renames import Do, Seen, decide
from tidegate.core.target.paths import join
from tidegate.core.window import lateness
from tidegate.workflow.base import records, renames


def floor_now(ctx):
    """The floor that a plan made now would pin."""
    not_open = ctx.ledger.batches.planning_view(ctx.name).not_open
    return lateness.floor_of(ctx.pipeline.windows, not_open, ctx.clock.now_ms(), ctx.pipeline.late_policy)


def with_floor(job, floor):
    return replace(job, parts=tuple(replace(part, floor=floor) for part in job.parts))


def _by_todays_windows(original, ctx, batch):
    return with_floor(original(ctx, batch), replace(floor_now(ctx), reroute_ms=batch.plan.floor.reroute_ms))


def _by_todays_spec(original, ctx, batch):
    return replace(original(ctx, batch), pipeline=to_plain(ctx.pipeline))


def _on_any_version(original, self, plan, version, run):
    original(self, plan, self.planning_view(plan.pipeline).version, run)


def _by_a_sequence(original, self, plan, version, run):
    view = self.planning_view(plan.pipeline)
    original(self, replace(plan, batch_id=view.next_batch_id), view.version, run)


def _without_epoch(original, table, step):
    terms = original(table, step)
    return without(terms, "epoch", "nonce") if "revision" in step.as_read else terms


def _read_later(original, ctx, batch):
    original(ctx, batch)
    return ctx.ledger.batches.get(ctx.name, batch.plan.batch_id)


def _incomplete_is_renamed(original, source, destination):
    """And found whole afterwards."""
    wrong = {(Seen.DIFFERS, Seen.ABSENT): Do.RENAME, (Seen.ABSENT, Seen.DIFFERS): Do.DONE}
    return wrong.get((source, destination)) or original(source, destination)


def _destination_first(original, storage, source, destination, manifest):
    there = renames.look(storage, destination, manifest)
    return renames.look(storage, source, manifest), there


def _believed_when_sent(original, storage, source, destination, manifest, still_mine, quarantine):
    if decide(renames.look(storage, source, manifest), renames.look(storage, destination, manifest)) is Do.RENAME:
        renames.try_rename(storage, source, destination)
    else:
        original(storage, source, destination, manifest, still_mine, quarantine)


def _mark_first(original, ctx, batch):
    records.mark_batch(ctx, batch)
    original(ctx, batch)


def _losses_are_skipped(original, pipeline, view, topic, first_offsets):
    recording = replace(pipeline, source=replace(pipeline.source, on_data_loss="record"))
    return original(recording, view, topic, first_offsets)[0], ()


def _from_the_earliest(original, self, kind, ours):
    reset = {"auto.offset.reset": "earliest"} if "auto.offset.reset" in ours else {}
    return original(self, kind, ours | reset)


def _but_for_open_transactions(original, self):
    return self.end == self.last_stable_offset


def _said_before_moved(original, ctx, batch_id, files):
    ctx.ledger.batches.mark_side(ctx.name, batch_id, "moved")
    original(ctx, batch_id, files)


def _said_before_registered(original, ctx, batch_id, files, tables):
    ctx.ledger.batches.mark_side(ctx.name, batch_id, "registered")
    original(ctx, batch_id, files, tables)


def _where_the_job_wrote(original, ctx, batch_id, kind, *_):
    return join(ctx.layout.landed(batch_id), kind)


BUGS = (
    Bug(
        "an attempt judges by the windows of its own time",
        "R1: the plan pins the floor",
        "an_hour_closes_while_a_batch_is_written",
        BALANCE,
        (Patch(seams.JOB_OF_A_BATCH, _by_todays_windows), Patch(seams.CHECK_WINDOWS, nothing)),
        why="what is sealed is compared with the plan's floor and policy",
    ),
    Bug(
        "an attempt takes the spec of its own time",
        "R1: the plan pins the spec",
        "the_spec_changes_between_two_tries",
        FATE,
        (Patch(seams.JOB_OF_A_BATCH, _by_todays_spec),),
    ),
    Bug(
        "a plan commits on any version",
        "R5: a plan commits on the version that it read",
        "an_hour_closes_between_gathering_and_planning",
        ONCE,
        (Patch(seams.INSERT_PLAN, _on_any_version),),
    ),
    Bug(
        "closing raises no version",
        "R5: a plan sees that a window has begun to close",
        "an_hour_closes_between_gathering_and_planning",
        ONCE,
        (Patch(seams.RAISE_VERSION, nothing),),
        why="CLOSING and CLOSED both raise it",
    ),
    Bug(
        "closing has one step",
        "R5: closing waits for the batches planned before",
        "an_hour_closes_over_an_open_batch",
        ONCE,
        (Patch(seams.UNFINISHED_BELOW, always([])),),
    ),
    Bug(
        "two plans of the same offsets",
        "R5: the version and the next batch id are compared",
        "two_schedulers_plan_at_once",
        ONCE,
        (Patch(seams.INSERT_PLAN, _by_a_sequence),),
        why="the batch id is taken anew, as from a sequence, so that its key does not refuse the second plan",
    ),
    Bug(
        "the topic id is not compared at seal",
        "R6: topic id and listing are compared again",
        "the_topic_is_recreated_under_the_job",
        STOPS,
        (Patch(seams.CHECK_TOPIC, nothing),),
    ),
    Bug(
        "the listing is not compared at seal",
        "R6: topic id and listing are compared again",
        "a_file_is_gone_when_the_attempt_is_sealed",
        THERE,
        (Patch(seams.CHECK_LISTING, nothing),),
    ),
    Bug(
        "a batch is sealed without its epoch",
        "seal without epoch check",
        "a_zombie_seals_what_was_cleaned_away",
        THERE,
        (Patch(seams.COMPARED, _without_epoch),),
        why="the nonce stands for the epoch",
    ),
    Bug(
        "the attempt's directory is named by a later read",
        "R9: a directory is named by what the comparison returned",
        "another_task_takes_the_batch_at_once",
        OWN,
        (Patch(seams.TAKE_THE_BATCH, _read_later),),
    ),
    Bug(
        "an incomplete source is renamed",
        "R10: rename before verify",
        "a_file_is_gone_when_the_batch_lands",
        STOPS,
        (Patch(seams.RECOVERY, _incomplete_is_renamed),),
        why="the second look would find that the destination is not whole",
    ),
    Bug(
        "the destination is looked at first",
        "R10: the source first, then the destination",
        "a_rename_is_executed_between_two_looks",
        HEALS,
        (Patch(seams.LOOK_AT_BOTH, _destination_first),),
    ),
    Bug(
        "an unknown rename is taken for done",
        "R10: unknown is resolved by looking",
        "the_reply_of_a_rename_is_lost",
        THERE,
        (Patch(seams.MOVE_DIRECTORY, _believed_when_sent),),
    ),
    Bug(
        "an alarm without another look at the ledger",
        "R10: the ledger is read again before an alarm",
        "a_zombie_goes_on_assembling",
        HEALS,
        (Patch(seams.ASK_BEFORE_ALARM, nothing),),
    ),
    Bug(
        "the high-water mark is written before the rename",
        "a mark stands for files that have moved",
        "the_process_ends_between_mark_and_rename",
        THERE,
        (Patch(seams.RENAME_AND_MARK, _mark_first),),
    ),
    Bug(
        "lost offsets are skipped",
        "offsets that are gone stop the pipeline or stand in the ledger",
        "retention_passes_before_planning",
        ONCE,
        (Patch(seams.STARTS_OF_A_PLAN, _losses_are_skipped),),
    ),
    Bug(
        "auto.offset.reset=earliest",
        "a planned offset that is gone is an error",
        "retention_passes_under_the_job",
        ONCE,
        (Patch(seams.KAFKA_CLIENT, _from_the_earliest),),
    ),
    Bug(
        "a partition with an open transaction is drained",
        "drained: planned end = last stable offset = high watermark",
        "a_transaction_is_open_when_an_hour_ends",
        FATE,
        (Patch(seams.DRAINED, _but_for_open_transactions),),
    ),
    Bug(
        "late rows are said to have moved before they have",
        "a flag follows what it says",
        "the_process_ends_before_late_rows_are_moved",
        ONCE,
        (
            Patch(seams.MOVE_SIDE_FILES, _said_before_moved),
            Patch(seams.OWES_SIDE_FILES, always(True)),
        ),
    ),
    Bug(
        "late rows are said to be registered before they are",
        "a flag follows what it says",
        "the_process_ends_before_late_rows_are_registered",
        ONCE,
        (Patch(seams.REGISTER_SIDE_FILES, _said_before_registered),),
    ),
    Bug(
        "the job's own directory becomes part of the late table",
        "a directory of a table is never one that a job wrote to",
        "a_duplicate_spark_task_still_writes",
        ONCE,
        (Patch(seams.STAGE_SIDE_FILES, _where_the_job_wrote),),
    ),
)
