"""Since which position of the source nothing in the table is older (S9'), and who is asked (S10)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from tidegate.core.base.errors import LedgerError, LostComparison, NoPlace, SourceError, TidegateError
from tidegate.core.copy import places
from tidegate.core.copy.complete import Look, complete, of_all, unmerged, unread, worth_telling
from tidegate.core.copy.port import NOWHERE, Place
from tidegate.core.copy.rounds import Round
from tidegate.core.mirror.applies import Told
from tidegate.core.mirror.copied import Complete, Copied, CopyStep
from tidegate.core.mirror.jobs import ServerLog
from tidegate.core.spec.pipeline import Pipeline
from tidegate.workflow.base.context import ATTEMPTS, Context
from tidegate.workflow.base.servers import names
from tidegate.workflow.source import log_cut


def look(ctx: Context, server: str = "") -> None:
    """Ask each connector, or that of one server, and its source how far they are, then the topic where it ends, and
    remember that. Whoever gives no answer holds up no merge.

    S10: the position is read before the ends; the time is taken before the end of the source's log is read. S9: a log
    that seems to end there is asked once more, after the ends."""
    asked = [one for one in ctx.connectors if server in ("", one)]
    if not asked:
        return
    assert ctx.keyed is not None
    table = Told.by(ctx.keyed.standing())
    for name in asked:
        for _ in range(ATTEMPTS):
            if _looked(ctx, name, table):
                break


def _looked(ctx: Context, server: str, table: Told) -> bool:
    """Whether nothing is left to be remembered: another task may have looked meanwhile, of what this one has not seen.

    S12: the looks before are read before the connector is asked, and the newest copy, which may lack what it has left
    out, after it. The table is asked itself: a ledger that was restored knows less of its copies (R11)."""
    looks = ctx.ledger.copies.newest_looks(ctx.name)
    last, at_ms = looks.get(server), ctx.clock.now_ms()
    ends, silence = dict[int, int](), ""
    try:
        place, ends = _asked(ctx, server)
    except LedgerError:
        raise
    except NoPlace as e:
        place, silence = Place(NOWHERE, NOWHERE), str(e)
    except TidegateError as e:
        return _nobody_says(ctx, server, str(e))
    if _is_anothers(ctx, server, place, table):
        return True
    reader = _reader(ctx, server)
    why = places.lost(last, places.told_of(table.copied.complete, server), place, reader)
    if silence and not why:
        return _nobody_says(ctx, server, silence)
    gap = 0 if last is None else last.gap
    if why:
        gap = max(gap, _newest_copy(ctx, table))
        said = silence.splitlines()[0] if silence else why
        help = places.helps(ctx.name, server)
        ctx.say(f"{ctx.name}: its {places.connector_of(server)} may have left out changes: {said}. What to do: {help}")
    found = Look(
        position=place.position,
        log_end=place.log_end,
        at_ms=at_ms,
        ends=ends,
        server=server,
        reader=reader,
        gap=gap,
        number=1 + max((one.number for one in looks.values()), default=0),
    )
    try:
        ctx.ledger.copies.looked(ctx.name, found)
    except LostComparison:
        return not why  # what another task has seen at this very moment is as good, but for a loss
    return True


def _nobody_says(ctx: Context, server: str, why: str) -> bool:
    ctx.say(f"{ctx.name}: nobody says how far its {places.connector_of(server)} is: {why.splitlines()[0]}")
    return True


def _is_anothers(ctx: Context, server: str, place: Place, table: Told) -> bool:
    """Whether it is a place in another server's log, which would pass for one that was delivered long ago."""
    merged = table.of_server(server).last_position
    if merged is None or place.position == NOWHERE or place.log_end[0] >= merged[0]:
        return False
    of = f"the log of server {server}" if server else "the source's log"
    ctx.say(f"{ctx.name}: {of} ends at {place.log_end[0]}, before merged events: it is another server's log")
    return True


def _asked(ctx: Context, server: str) -> tuple[Place, dict[int, int]]:
    """How far the connector is, and the topic's ends, those of partitions too whose records are all gone: they may have
    gone before they were read. Raises TidegateError, also for ends of another log than the one that batches have read:
    they may be below what was read, and not read (R6)."""
    ask, read = ctx.connectors[server], ctx.ledger.batches.planning_view(ctx.name)
    place, topic = ask(), ctx.log()
    if topic.is_another(read.accepted_topic_id) or log_cut.of(ctx, read, topic):
        raise SourceError(f"topic {topic.topic} is another log than the one that was read: it was recreated, or cut")
    if place.log_end <= place.position:
        place = place._replace(log_end=ask().log_end)
    return place, {number: lane.high_watermark for number, lane in topic.partitions.items() if lane.high_watermark}


def _reader(ctx: Context, server: str) -> str:
    """The connector, or slot; empty where the YAML names none."""
    each = () if ctx.pipeline.copy is None else ctx.pipeline.copy.each
    return next((one.slot or one.connector or "" for one in each if one.name == server), "")


def _newest_copy(ctx: Context, table: Told) -> int:
    """The greatest number of a copy that has begun; 0 for none."""
    newest = ctx.ledger.copies.newest(ctx.name)
    return max(0 if newest is None else newest.number, table.copied.newest)


def told(ctx: Context, table: Told, upto: int, step: CopyStep | None = None) -> Complete | None:
    """What the table may tell once it holds batches 1 to `upto`, and what `step` brings, if a copy of it is whole; no
    more than `caught_up_with`: nothing where that copy lacks a column, and nothing of looks at a connector that may
    have left out something since that copy began (S12). Of several servers it tells of each that it can (S11)."""
    after = table.copied if step is None else step.after(table.copied)
    found, rounds = dict[str, Complete | None](), ctx.ledger.copies.rounds(ctx.name)
    then = replace(Told.by(table), upto=upto, copied=after)
    for server in names(ctx) or ("",):
        lacks, cured, compared = made_good(ctx.pipeline, then, server, rounds)
        one = None if lacks else caught_up_with(ctx, table, upto, server, cured)
        # a comparison knows no place of its rows (S9)
        found[server] = one if one is None or not compared else replace(one, exact=False)
    if not names(ctx):
        return found[""]
    # how old rows of a server that is named no more are, nobody says
    return of_all({log.name: None for log in after.servers if not _is_dropped(after, log, rounds)} | found)


def _is_dropped(table: Copied, log: ServerLog, rounds: Iterable[Round]) -> bool:
    """Whether the table has no rows of a server: they were dropped, and no event has come since."""
    whole = table.whole_of(log.name)
    drops = any(one.drops and whole is not None and one.number == whole.number for one in rounds)
    return drops and table.none_since(log)


def made_good(pipeline: Pipeline, table: Told, server: str, rounds: Iterable[Round]) -> tuple[bool, int, bool]:
    """Whether the newest copy of all keys lacks a column that came later, or has dropped all rows; its number, or that
    of the comparison that found the same later: what the connector has left out before is in the table (S12); and
    whether it is the latter."""
    whole = table.copied.whole_of(server)
    number = 0 if whole is None else whole.number
    read = next((one.as_of(table) for one in rounds if one.number == number), None)
    if read is None:
        return False, number, False
    return read.drops or bool(unread(pipeline, read.columns)), max(number, read.confirmed), read.confirmed > number


def further(ctx: Context, table: Told) -> Complete | None:
    """What the table may tell as it is, where that is worth a commit that merges nothing."""
    found = table.copied.may_tell(told(ctx, table, table.upto))
    return found if worth_telling(table.copied.complete, found) else None


def caught_up_with(ctx: Context, table: Told, upto: int, server: str = "", cured: int | None = None) -> Complete | None:
    """Up to where all events of the only server, or of one, are merged once the table holds batches 1 to `upto`;
    nothing where a purge has kept one of them out, which may have been news (M5), or a person has decided between
    events. `cured`: the newest copy or comparison of all its keys; None: of what its connector sends, whatever that has
    left out."""
    if server not in ctx.connectors or table.of_server(server).below_purge or table.copied.by_hand:
        return None
    looks = [one for one in ctx.ledger.copies.looks(ctx.name) if one.server == server]
    if cured is not None:
        looks = places.counting(looks, cured)
    return complete(looks, ctx.ledger.copies.merged_ends(ctx.name, upto))


def unmerged_now(ctx: Context, upto: int) -> list[tuple[int, int, int]]:
    """(partition, offset that batches 1 to `upto` have read, offset at the newest look), exclusive, of partitions that
    have more; for people."""
    looks = ctx.ledger.copies.looks(ctx.name)
    merged = ctx.ledger.copies.merged_ends(ctx.name, upto)
    return unmerged(looks[-1], merged) if looks and merged else []
