"""Bugs in how a source's table is copied (S1 to S8): `test_planted.py` names what finds each."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np

from tests.mutants import seams
from tests.mutants.planting import Bug, Patch, always, nothing
from tidegate.core.base.errors import NotReady
from tidegate.core.copy.port import KeyRange
from tidegate.core.copy.rounds import ChunkState, RoundState
from tidegate.core.mirror.copied import NOTHING
from tidegate.core.mirror.jobs import START
from tidegate.workflow.generation.copies import Taken


class _AskedAfterwards:
    """A reader that asks for LOW once the rows are read."""

    def __init__(self, reader: Any) -> None:
        self._reader = reader

    @contextmanager
    def read(self, *what: Any):
        with self._reader.read(*what) as rows:
            found = _Rows(list(rows.batches()))
            found.low = found.high = rows.high
            yield found


class _Rows:
    low: Any
    high: Any

    def __init__(self, batches: list[Any]) -> None:
        self._batches = batches

    def batches(self):
        return iter(self._batches)


def _low_after_the_query(original, plan, reader, open_storage, chunk, attempt):
    return original(plan, _AskedAfterwards(reader), open_storage, chunk, attempt)


def _as_an_event(original, ctx, chunk):
    return [replace(file, n=0) for file in original(ctx, chunk)]


def _once_anything_is_in(original, rounds, chunks, table, most_rows):
    """What is not read yet is left out."""
    read = {n: [c for c in some if c.state == ChunkState.READ] for n, some in chunks.items()}
    return original([replace(one, ended=True) for one in rounds], read, table, most_rows)


def _at_the_greatest_low(original, rounds, chunks, table, most_rows):
    found = original(rounds, chunks, table, most_rows)
    if found is None or not found.step.sweep:
        return found
    return replace(found, step=replace(found.step, low=table.round(found.step.round).top))


def _given_up_or_not(original, self, name):
    found = original(self, name)
    return [replace(o, state=RoundState.OPEN) if o.state == RoundState.GIVEN_UP else o for o in found]


def _without_the_sweep(original, event, table, has_row, winner, wins, purged_below, swept_below=START):
    return original(event, table, has_row, winner, wins, purged_below)


def _whatever_was_begun_since(original, self, chunk, low, high, files):
    now = self.by_number(chunk.pipeline, [chunk.number])[chunk.number]
    return original(self, replace(chunk, epoch=now.epoch, nonce=now.nonce), low, high, files)


def _but_for_the_purge(original, position, table, purged_below, begins, server=""):
    return original(position, table, START, begins, server)


def _but_for_the_beginning(original, position, table, purged_below, begins, server=""):
    return original(position, table, purged_below, START, server)


def _by_the_ledger_alone(original, ctx, tables, told, facts, why="", only=False, part=None):
    return original(ctx, tables, replace(told, copied=NOTHING), facts, why, only, part)


def _as_events(original, before, receipt):
    return original(before, replace(receipt, events=tuple((abs(batch), rows) for batch, rows in receipt.events)))


def _of_the_first(original, tables, chunks, part=None):
    return original(tables[:1], chunks, part)


def _of_all_keys(original, shape, rows, below, part):
    return original(shape, rows, below, None)


def _everywhere(original, key, everywhere, parts):
    most = (2**62,)
    wide = [replace(one, part=replace(one.part, first=(-(2**62),), last=most)) for one in parts]
    return original(key, everywhere, wide)


def _a_part_too(original, self):
    return next((one for one in reversed(self.rounds) if one.swept), None)


def _to_the_end(original, after, bounds, most, part=None):
    return original(after, bounds, most)


def _without_waiting(original, ctx, before, *more):
    try:
        return original(ctx, before, *more)
    except NotReady:
        return Taken()


def _whatever_is_read(original, rounds, after, by_ms=None):
    return original([replace(one, state=RoundState.WHOLE) for one in rounds], after, by_ms)


def _whenever_it_was_read(original, rounds, after, by_ms=None):
    return original(rounds, after)


def _never_swept(original, plan, shape, rows, merged):
    return original(replace(plan, sweep=False), shape, rows, merged)


def _from_the_greatest_low(original, one, chunks):
    found = original(one, chunks)
    return replace(found, low=found.top)


def _bug(name: str, rule: str, *patches: tuple[str, Any]) -> Bug:
    return Bug(name, rule, "a world", "the test", tuple(Patch(seam, bug) for seam, bug in patches))


def _without_the_last_column(original, ctx, database, reader, columns, part):
    """Of both sides."""
    return original(ctx, database, reader, columns[:-1], part)


def _by_the_sums_alone(original, parts, source, mirror):
    return original(parts, [replace(one, rows=0) for one in source], [replace(one, rows=0) for one in mirror])


def _of_the_first_range(original, keys, ranges):
    """Whatever lies outside."""
    return original(keys, ranges).clip(0)


def _of_the_first_group(original, keys, groups):
    return original(keys, groups).clip(0)


def _of_any_table(original, shape, rows, keys):
    """What its name is."""
    yield from (np.arange(len(rows)) for _ in keys)


def _but_for_the_rest(original, sides, keys):
    return original(sides, keys)[0], 0


def _of_the_tables_read(original, chunks, part, tables):
    return original(chunks, part, ())


def _whatever_the_groups(original, chunks, part, tables):
    return original([replace(c, keys=KeyRange(c.keys.lower, c.keys.upper)) for c in chunks], part, tables)


def _null_is_empty(original, array, form):
    return original(array.fill_null("") if form.name == "text" else array, form)


def _without_a_size(original, array, form):
    return array


def _once_it_is_read(original, one, rounds):
    """Whole or not."""
    open_ = RoundState.OPEN
    return original(one, [replace(r, state=RoundState.WHOLE, done_ms=0) if r.state == open_ else r for r in rounds])


def _whoever_reads_it_again(original, one, rounds, table):
    return original(one, [one], table)


def _whatever_the_table_names(original, one, rounds, table, ttl, now_ms):
    return original(one, rounds, NOTHING, ttl, now_ms)


def _the_newest_too(original, name, newest):
    return original(name, 2**62)


def _asked_once(original, ctx, server=""):
    """Before the topic's ends."""
    answers: list[Any] = []
    ask = ctx.connectors[""]

    def first() -> Any:
        if not answers:
            answers.append(ask())
        return answers[0]

    ctx.connectors[""] = first
    try:
        original(ctx, server)
    finally:
        ctx.connectors[""] = ask


def _whatever_is_behind(original, looks, merged):
    found = original(looks, merged)
    ends = looks[-1].ends if looks else {}
    return original(looks, {p: min(end, ends.get(p, end)) for p, end in merged.items()}) if found else found


def _whatever_was_read(original, self, before):
    found = original(self, before)
    return found if found.complete is None else replace(found, complete=self.complete)


def _whole_or_not(original, self, found):
    return found


def _whatever_keys(original, ctx, round_, compared, seen):
    original(ctx, replace(round_, part=None), compared, seen)


COPY_BUGS = {
    bug.name: bug
    for bug in (
        _bug("LOW is asked for after the query", "S2", (seams.COPY_READ_CHUNK, _low_after_the_query)),
        _bug("rows of a copy have the place of events", "S1", (seams.COPY_FILES, _as_an_event)),
        _bug("numbers of copies go by the ledger alone", "S1", (seams.COPY_BEGIN, _by_the_ledger_alone)),
        _bug("nobody asks whether the topic has begun", "S4", (seams.COPY_UNREAD_TOPIC, always(None))),
        _bug("a chunk below the topic's beginning is taken", "S4", (seams.COPY_TOO_OLD, _but_for_the_beginning)),
        _bug("a sweep does not wait for chunks", "S5", (seams.COPY_TO_MERGE, _once_anything_is_in)),
        _bug("a sweep goes by the greatest LOW", "S5", (seams.COPY_TO_MERGE, _at_the_greatest_low)),
        _bug("a sweep leaves no marker", "S5", (seams.MIRROR_FATES, _without_the_sweep)),
        _bug("LOW falls from copy to copy", "S5", (seams.COPY_FLOOR, always(START))),
        _bug("a copy that was given up is merged", "S6", (seams.COPY_ROUNDS, _given_up_or_not)),
        _bug("a chunk below the purge is merged", "S7", (seams.COPY_TOO_OLD, _but_for_the_purge)),
        _bug("a copy's commit is made on what stands then", "S8", (seams.COPY_SAME, always(True))),
        _bug("an overtaken attempt is accepted", "R9", (seams.COPY_ACCEPT, _whatever_was_begun_since)),
        _bug("a restored ledger gives chunks other ranges", "R11", (seams.COPY_UNKNOWN, always(None))),
        _bug("only the first shard is read", "S11", (seams.COPY_UNCUT, _of_the_first)),
        _bug("events of any table are taken", "S11", (seams.EVENT_OF_TABLE, nothing)),
        _bug("readers see what is copied so far", "S9'", (seams.MIRROR_HIDDEN, always(False))),
        _bug("the sweep of a part takes all keys", "S5", (seams.MIRROR_SWEPT, _of_all_keys)),
        _bug("the sweep of a part leaves no marker", "S5", (seams.COPY_SWEPT_PARTS, always(()))),
        _bug("the marker of a part is one of all keys", "S5", (seams.MIRROR_SWEPT_BELOW, _everywhere)),
        _bug("a part makes the table whole", "S9'", (seams.COPY_WHOLE, _a_part_too)),
        _bug("a part is read to the end of the table", "S5", (seams.COPY_CUT, _to_the_end)),
        _bug("a checksum leaves a column out", "compare", (seams.COPY_NARROW, _without_the_last_column)),
        _bug("a checksum does not count rows", "compare", (seams.COPY_DIFFERING, _by_the_sums_alone)),
        _bug("what was read in part is merged as a whole", "S5", (seams.COPY_READ_ALL, always(True))),
        _bug("keys outside of what was read are surplus", "compare", (seams.COPY_LOCATED, _of_the_first_range)),
        _bug("keys of no group that was read are surplus", "compare", (seams.COPY_GROUPED, _of_the_first_group)),
        _bug("rows count for each shard", "compare", (seams.COPY_OF_TABLES, _of_any_table)),
        _bug("rows of a shard that is gone are left out", "compare", (seams.COPY_OF_MIRROR, _but_for_the_rest)),
        _bug("a shard that was read is merged as all", "S5", (seams.COPY_READ_ALL, _of_the_tables_read)),
        _bug("groups that were read are merged as all", "S5", (seams.COPY_READ_ALL, _whatever_the_groups)),
        _bug("a null has the text of an empty one", "compare", (seams.COPY_TEXT, _null_is_empty)),
        _bug("texts run into each other", "compare", (seams.COPY_SIZED, _without_a_size)),
        _bug("the log's end is asked before the topic's", "S9", (seams.COPY_LOOK, _asked_once)),
        _bug("it is exact with events behind", "S9", (seams.COPY_COMPLETE, _whatever_is_behind)),
        _bug("it is exact with a HIGH above", "S9", (seams.MERGED_COPIED, _whatever_was_read)),
        _bug("it is told of whatever the table is by now", "M1", (seams.MIRROR_STILL, always(True))),
        _bug("it is told before a copy is whole", "S9'", (seams.MAY_TELL, _whole_or_not)),
        _bug("columns that came later are complete", "S9'", (seams.COPY_UNREAD, always(()))),
        _bug("some keys stand for all in a later column", "S9'", (seams.COPY_CONFIRM, _whatever_keys)),
        _bug("a part covers all keys", "S5", (seams.COPY_COVERS, always(True))),
        _bug("what was read goes before a later copy is whole", "S5", (seams.COPY_READ_AGAIN, _once_it_is_read)),
        _bug("what was read again is merged again", "S6", (seams.COPY_BRINGS, _whoever_reads_it_again)),
        _bug("what a table names is forgotten", "audit", (seams.COPY_NEEDLESS, _whatever_the_table_names)),
        _bug("the newest comparison is forgotten", "laps", (seams.COPY_FORGETTABLE, always(True))),
        _bug("numbers of chunks are given again", "S8", (seams.COPY_OF_NO_ROUND, _the_newest_too)),
        _bug("rows of a copy count as events", "balance", (seams.MIRROR_AFTER, _as_events)),
        _bug(
            "no day waits for the copy",
            "S9'",
            (seams.COPIES_WHOLE, always(True)),
            (seams.DAY_COPIED, _without_waiting),
        ),
        _bug(
            "a day takes what is read so far",
            "S9'",
            (seams.COPIES_WHOLE, always(True)),
            (seams.COPY_TO_TAKE, _whatever_is_read),
        ),
        _bug(
            "a day that is built again takes the newest copy",
            "days",
            (seams.DAY_RECORDED, always(None)),
            (seams.COPY_TO_TAKE, _whenever_it_was_read),
        ),
        _bug("a day whose record is lost takes the newest copy", "days", (seams.COPY_TO_TAKE, _whenever_it_was_read)),
        _bug("days do not say which copy they have", "R11", (seams.COPY_FORGOTTEN, always(None))),
        _bug("a day's rows of a copy have the place of events", "S1", (seams.COPY_FILES, _as_an_event)),
        _bug("a day does not sweep", "S5", (seams.DAY_SWEPT, _never_swept)),
        _bug("a day sweeps by the greatest LOW", "S5", (seams.COPY_INSIDE, _from_the_greatest_low)),
        _bug("a day's sweep leaves no marker", "S5", (seams.DAY_SWEPT_BELOW, always(START))),
        _bug("no landed event is asked for", "S4", (seams.COPY_UNREAD_TOPIC, always(None))),
        _bug("a chunk below what has landed is taken", "S4", (seams.COPY_TOO_OLD, _but_for_the_beginning)),
    )
}
