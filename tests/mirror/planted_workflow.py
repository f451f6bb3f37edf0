"""Bugs in how merges are begun, judged, recorded, told and cleaned away: `test_planted.py` names what finds each."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tests.mutants import seams
from tests.mutants.planting import Bug, Patch, always, nothing
from tidegate.core.clean.rules import Verdict
from tidegate.core.mirror.applies import REFUSED
from tidegate.core.mirror.jobs import START
from tidegate.core.mirror.next_merge import BatchRange
from tidegate.targets.iceberg.catalogue import Conflict
from tidegate.targets.iceberg.live import said_by
from tidegate.targets.mirror.prefix import ATTEMPT

_GO = Verdict(True, "it is over")


# ---------------------------------------------------------------- columns that grow, days


def _as_the_yaml_has_it(original, column, accepted):
    return column


def _without_conflicts(original, generation, built, noted):
    return original(generation, built, {})


def _as_of_any_time(original, seen, before_ms):
    return original(seen, 2**62)


def _as_if_a_row(original, self, value, found):
    from spark_jobs.engine.formats.json_rows import Row

    return original(self, value, Row({}, None, {}))


# ---------------------------------------------------------------- tries


def _by_its_batches(original, metadata, attempt):
    """Another try of the same batches is taken for this one."""
    range_, _, _ = attempt.partition(".")
    return any(str(said_by(s).get(ATTEMPT, "")).startswith(f"{range_}.") for s in metadata.snapshots)


def _of_any_batches(original, tried, first):
    return tried.why if tried is not None and tried.state == REFUSED else None


def _whatever_became_of_it(original, tried, first):
    return None if tried is None or tried.apply.first != first else tried.why or str(tried.state)


def _by_the_epoch(original, self):
    return f"{self.first}-{self.last}.{self.epoch}-n"


def _taken_from_then_on(original, ctx, table, told, commit, conflicts):
    asked = vars(ctx).setdefault("asked", conflicts)
    return original(ctx, table, told, commit, asked)


def _as_if_no_cut_were_wanted(original, lacking, cut_before, purge, copy=None, tell=None):
    """Merges go first."""
    return original(lacking, None if lacking is not None else cut_before, purge, copy, tell)


def _without_why(original, apply, conflicts="", *more, **named):
    return original(apply, "", *more, **named)


def _for_good(original, self, apply):
    """Whoever has begun holds it."""
    return True


# ---------------------------------------------------------------- the range, and how far the table is


def _with_the_last_one_again(original, name, upto, landed, newest, open_batch=None, most_rows=None):
    found = original(name, upto, landed, newest, open_batch, most_rows)
    return found and BatchRange(max(1, found.first - 1), found.last)


def _as_the_first_batch(original, pipeline, merged, sums, before, copied):
    return original(pipeline, replace(merged, last=merged.first), sums, before, copied)


def _of_this_merge(original, before, receipt):
    """The table's sums are those of its newest merge."""
    return original(replace(before, events=0), receipt)


def _without_its_time(original, metadata):
    return replace(original(metadata), newest_ms=0)


def _only_forward(original, self, c, name, old, now):
    if old is None or now.upto > old.upto:
        original(self, c, name, old, now)


def _look_with_the_copy_read_late(original, ctx, most_events=10**9, why=""):
    from tidegate.workflow.apply.apply import seen, taken_back

    found = seen(ctx, most_events)
    old = ctx.ledger.applies.told(ctx.name)
    ctx.ledger.applies.stands(ctx.name, old, found.told, why)
    if taken_back(old, found.told):
        ctx.say(f"it had {old.upto}: somebody has taken it back")
    return found


def _see_with_the_landed_read_first(original, ctx, most_events=10**9):
    from tidegate.workflow.apply.apply import Seen, Told, next_range

    landed = ctx.ledger.applies.landed(ctx.name, 0)
    prefix = ctx.keyed.standing()
    return Seen(Told.by(prefix), next_range("t", prefix.upto, landed.rows, landed.newest, landed.open_batch))


def _rebased(original, self, loaded, before, merged):
    """As a library does by itself: what was refused is committed on what stands then."""
    try:
        return original(self, loaded, before, merged)
    except Conflict:
        return original(self, self._load(), before, merged)


# ---------------------------------------------------------------- purges


def _as_of_now(original, now):
    return now.now_ms


def _without_its_marker(original, pipeline, merged, sums, before, copied):
    silent = replace(merged, receipt=replace(merged.receipt, purged_below=None))
    return original(pipeline, silent, sums, before, copied)


def _none(original, shape, made, below):
    return original(shape, made, (0, 0, 0))


def _whatever_was_begun_before(original, self, name):
    """Also one that has come to nothing."""
    newest = self.newest(name)
    return newest if newest is not None and not newest.apply.merges else None


def _of_the_newest_landed(original, self, name, upto, before_ms):
    return original(self, name, 2**62, before_ms)


# ---------------------------------------------------------------- cuts


def _all_but_one(original, plan, open_storage, group, attempt):
    done = original(plan, open_storage, group, attempt)
    return replace(done, buckets=done.buckets[1:])


def _those_of_the_spec(original, ctx, table, told):
    return table.buckets


def _those_of_the_spec_if_nobody_says(original, ctx, table, told):
    return told.buckets or table.buckets


def _beside_what_was_there(original, self, loaded, before, merged):
    """The files of before stay where no new one takes their bucket."""
    return original(self, loaded, before, replace(merged, anew=False))


# ---------------------------------------------------------------- cleaning


def _by_age(original, apply, tried, ttl, now_ms):
    """An open try is as old as its beginning."""
    return original(
        apply, tried and replace(tried, state=REFUSED, done_ms=tried.done_ms or tried.began_ms), ttl, now_ms
    )


def _known_or_not(original, apply, tried, ttl, now_ms):
    return _GO if tried is None else original(apply, tried, ttl, now_ms)


def _at_once(original, apply, tried, ttl, now_ms):
    return _GO if tried is not None and tried.done_ms is not None else original(apply, tried, ttl, now_ms)


def _by_the_current_snapshot(original, self):
    loaded = self.catalogue.load(self.name)
    snapshot = loaded.metadata.current_snapshot()
    return frozenset(
        entry.data_file.file_path
        for manifest in snapshot.manifests(loaded.io)
        for entry in manifest.fetch_manifest_entry(loaded.io, discard_deleted=True)
    )


# ---------------------------------------------------------------- readers of changes


def _from_the_token_on(original, name, after, until, landed):
    found = original(name, after, until, landed)
    return found and BatchRange(max(1, found.first - 1), found.last)


def _but_for_the_first(original, name, after, until, landed):
    found = original(name, after, until, landed)
    return found and (BatchRange(found.first + 1, found.last) if found.first < found.last else None)


def _over_a_hole(original, name, after, until, landed):
    whole = dict.fromkeys(range(after + 1, landed.newest + 1), 0) | dict(landed.rows)
    return original(name, after, until, replace(landed, rows=whole))


def _token_of_the_newest(original, ledger, spec, after, until=None):
    _, files = original(ledger, spec, after, until)
    return ledger.applies.landed(spec.name, after).newest, files


def _token_of_the_last_with_events(original, ledger, spec, after, until=None):
    _, files = original(ledger, spec, after, until)
    return max((f.batch_id for f in files), default=after), files


# ---------------------------------------------------------------- where --key


def _each_version_once(original, events, most):
    return original({e.version: e for e in events}.values(), most)


def _of_the_last_files(original, self, files):
    *_, kept = [[], *(original(self, [f]) for f in files)]
    return kept


def _as_if_merged(original, merged, waiting, count, most, *rest, **named):
    return original(merged, (), count, most, *rest, **named)


def _no_conflicts(original, waits, standing):
    return set()


def _as_if_published(original, ctx, reads):
    return [replace(d, published=True) for d in original(ctx, reads)]


def _once(original, ctx, reads, rows, key, day=None, most=1_000):
    from tidegate.workflow.look.where_key import _by_days

    return _by_days(ctx, reads, rows, key, day, most)


# ---------------------------------------------------------------- the audit


def _but(words: str) -> Any:
    def without(original, self, table):
        return (p for p in original(self, table) if words not in p.what)

    return without


def _bug(name: str, rule: str, *patches: tuple[str, Any]) -> Bug:
    return Bug(name, rule, "a world", "the test", tuple(Patch(seam, bug) for seam, bug in patches))


TRIES = (
    _bug("a try is judged by another one of its batches", "C2", (seams.MIRROR_HAS, _by_its_batches)),
    _bug("a refusal is not asked for", "M7", (seams.MIRROR_REFUSE_AGAIN, nothing)),
    _bug("a refusal is not written down", "M7", (seams.APPLIES_REFUSE, nothing)),
    _bug("a refusal holds for any batches", "M7", (seams.MIRROR_REFUSED_AGAIN, _of_any_batches)),
    _bug("whatever the newest try came to, it is refused", "M7", (seams.MIRROR_REFUSED_AGAIN, _whatever_became_of_it)),
    _bug("tries are named by their epoch alone", "R9", (seams.MIRROR_NAME, _by_the_epoch)),
    _bug("conflicts are taken in every merge that follows", "M7", (seams.MIRROR_COMMITTED, _taken_from_then_on)),
    _bug("nobody records that conflicts were taken", "M7", (seams.MIRROR_BEGIN, _without_why)),
    _bug("an overtaken try is held for good", "C1", (seams.APPLIES_HOLDS, _for_good)),
)
RANGES = (
    _bug("the last batch is merged again", "M3", (seams.MIRROR_NEXT, _with_the_last_one_again)),
    _bug("the table says the first of its merge's batches", "M3", (seams.MIRROR_SUMMARY, _as_the_first_batch)),
    _bug("the sums are those of one merge", "balance", (seams.MIRROR_AFTER, _of_this_merge)),
    _bug("events that the ledger does not know are not missed", "balance", (seams.MIRROR_OTHER_EVENTS, nothing)),
    _bug("a receipt that does not add up is believed", "balance", (seams.MIRROR_RECEIPT, always([]))),
    _bug("the copy only goes forward", "M4", (seams.APPLIES_COPY, _only_forward)),
    _bug("nobody is told of a table that was taken back", "M4", (seams.MIRROR_TAKEN_BACK, always(False))),
    _bug("the copy is read after the table", "M4", (seams.MIRROR_LOOK, _look_with_the_copy_read_late)),
    _bug("what has landed is read before the table", "M4", (seams.MIRROR_SEEN, _see_with_the_landed_read_first)),
    _bug("the table does not know how late its events are", "M8", (seams.MIRROR_TOLD, _without_its_time)),
    _bug("any key will do", "keys", (seams.KEY_OF_MESSAGES, always(None))),
    _bug("a refused commit is made on what stands then", "M1", (seams.MIRROR_COMMIT, _rebased)),
)
PURGES = (
    _bug("what came lately sets the position", "M6", (seams.MIRROR_SETTLED, _as_of_now)),
    _bug("nobody asks what is still to come", "M6", (seams.MIRROR_PURGE_REFUSAL, always(None))),
    _bug("a batch that waits says what is still to come", "M6", (seams.APPLIES_HORIZON, _of_the_newest_landed)),
    _bug("a purge leaves no marker", "M5", (seams.MIRROR_SUMMARY, _without_its_marker)),
    _bug("rows that a purge keeps out are damage", "M5", (seams.MIRROR_KEPT_OUT, _none)),
    _bug("a purge that died counts as done", "upkeep", (seams.APPLIES_UPKEEP, _whatever_was_begun_before)),
    _bug("a purge is done in each run", "upkeep", (seams.MIRROR_IDLE, always(False))),
)
CUTS = (
    _bug("a cut loses a bucket", "balance", (seams.MIRROR_RECUT, _all_but_one)),
    _bug(
        "a cut loses a bucket, and nobody counts",
        "balance",
        (seams.MIRROR_RECUT, _all_but_one),
        (seams.MIRROR_CUT_ERRORS, always([])),
    ),
    _bug("any number of buckets will do", "cut", (seams.MIRROR_CUT_REFUSAL, always(None))),
    _bug("merges go by the spec's number of buckets", "cut", (seams.MIRROR_BUCKETS_NOW, _those_of_the_spec)),
    _bug("merges go before a cut", "cut", (seams.MIRROR_NEXT_COMMIT, _as_if_no_cut_were_wanted)),
    _bug("a silent table has the spec's number", "cut", (seams.MIRROR_BUCKETS_NOW, _those_of_the_spec_if_nobody_says)),
    _bug("a cut leaves files of before", "cut", (seams.MIRROR_COMMIT, _beside_what_was_there)),
)
CLEANING = (
    _bug("open tries are cleaned by age", "R7", (seams.MIRROR_TRY_IS_OVER, _by_age)),
    _bug("tries that the ledger does not know are cleaned", "R7", (seams.MIRROR_TRY_IS_OVER, _known_or_not)),
    _bug("tries are cleaned at once", "R7", (seams.MIRROR_TRY_IS_OVER, _at_once)),
    _bug("the table is not asked which files it names", "R7", (seams.MIRROR_NAMED, always(frozenset()))),
    _bug("only the current snapshot's files are kept", "R7", (seams.MIRROR_NAMED, _by_the_current_snapshot)),
)
READERS = (
    _bug("a token repeats its batch", "token", (seams.CHANGES_BETWEEN, _from_the_token_on)),
    _bug("a token skips a batch", "token", (seams.CHANGES_BETWEEN, _but_for_the_first)),
    _bug("a hole is passed over", "token", (seams.CHANGES_BETWEEN, _over_a_hole)),
    _bug("a token is beyond what was read", "token", (seams.CHANGES_READ, _token_of_the_newest)),
    _bug("a token is stuck before empty batches", "token", (seams.CHANGES_READ, _token_of_the_last_with_events)),
    _bug("repeats of a key are not told", "where", (seams.KEY_NEWEST, _each_version_once)),
    _bug("only the last files of a key are told", "where", (seams.KEY_FILES, _of_the_last_files)),
    _bug("events of a key that wait are not told", "where", (seams.KEY_HISTORY, _as_if_merged)),
    _bug("conflicts of a key are not told", "where", (seams.KEY_CONFLICTS, _no_conflicts)),
    _bug("days that are not published are told as merged", "where", (seams.DAY_EVENTS, _as_if_published)),
    _bug("files of days that move are looked for once", "R10", (seams.DAY_ASKED, _once)),
    _bug("the audit compares no events", "audit", (seams.AUDIT_KEYED, _but("which have landed"))),
    _bug("the audit passes over a table that is ahead", "audit", (seams.AUDIT_KEYED, _but("the newest that has"))),
    _bug("the audit passes over changed rows", "audit", (seams.AUDIT_KEYED, _but("bucket"))),
)
GROWTH = (
    _bug("a narrower type is taken for a wider one", "schema", (seams.TAKES_THE_TYPE, always(True))),
    _bug("nobody keeps the type that a column has grown to", "schema", (seams.AS_GROWN, _as_the_yaml_has_it)),
    _bug("what an expression reads grows", "schema", (seams.READ_BY_EXPRESSIONS, always(frozenset()))),
    _bug("any message's schema widens a column", "schema", (seams.WIDER_BY_THE_SCHEMA, _as_if_a_row)),
)
DAYS = (
    _bug("a rebuild forgets that conflicts were taken", "M7", (seams.DAY_TAKEN_BEFORE, always(""))),
    _bug("nobody records why a day took conflicts", "M7", (seams.DAY_BUILT, _without_conflicts)),
    _bug("a day purges what came lately", "M6", (seams.DAY_SETTLED, _as_of_any_time)),
    _bug("a day does not ask what is still to come", "M6", (seams.MIRROR_PURGE_REFUSAL, always(None))),
    _bug("a day's purge leaves no marker", "M5", (seams.DAY_PURGED, always(START))),
    _bug("a day that is built again purges by the YAML", "days", (seams.DAY_RECORDED, always(None))),
)
WORKFLOW_BUGS = {bug.name: bug for bug in (*TRIES, *RANGES, *PURGES, *CUTS, *CLEANING, *READERS, *GROWTH, *DAYS)}
