"""How far a copy is, in words."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tidegate.core.base.instants import iso
from tidegate.core.base.wording import many
from tidegate.core.copy.places import connector_of
from tidegate.core.copy.rounds import BRINGS_NOTHING, Reading, RoundState
from tidegate.core.mirror.applies import Told
from tidegate.core.mirror.copied import NOTHING, Copied, numbers
from tidegate.core.mirror.jobs import ServerLog

MANY_PARTS = 100
"""Copies of parts, each about 200 bytes of each snapshot's summary: then people are told how they go."""


def how_far(reading: Reading | None, told: Told | None, asks: bool, unread: Sequence[str] = ()) -> str:
    """What stands in the table of copies, what those under way wait for, and since when nothing is older. `reading`: by
    the ledger; None before the first copy. `asks`: whether anybody says how far the connector is. `unread`: columns
    that came after the newest whole copy."""
    table = NOTHING if told is None else told.copied
    gone = [log.name for log in table.servers if log.gone]
    whole, said = table.whole, []
    if table.servers:
        said.append(_of_servers(table, () if reading is None else reading.dropped))
    elif whole is not None:
        said.append(f"whole since copy {whole.number}, read from {_position(whole.low[:2])} on")
    if told is not None and whole is None and table.complete is not None:
        said.append(_age(told, asks, None))
    if told is not None and whole is not None:
        one = " --server" if table.servers else ""
        helps = f"compare{one} tells, and copy --again{one} reads them"
        said.append(
            _lacks(unread, whole.number, helps)
            if unread
            else _age(told, asks, None if reading is None else reading.asked_ms)
        )
        gaps = () if reading is None else reading.gaps
        said += [f"the {connector_of(server)} may have left out changes" for server in gaps if server not in gone]
        if len(table.swept_parts) > MANY_PARTS:
            said.append(
                f"each snapshot names {len(table.swept_parts)} copies of some keys: tidegate copy --again{one} reads "
                "all, and they are forgotten"
            )
    if reading is None:
        said.append("nothing of the source's table is read yet")
        return "; ".join(said)
    for each in reading.under_way:
        if each.round.server in gone:
            said.append(f"{each.round.words} goes on no more")
            continue
        is_open = each.round.state == RoundState.OPEN
        said.append(_under_way(each, table) if is_open else f"{each.round.words} is read to be compared")
    if reading.round.state in BRINGS_NOTHING:
        said.append(f"{reading.round.words} has ended: {reading.round.why}")
    return "; ".join(said)


def _of_servers(table: Copied, dropped: Sequence[str]) -> str:
    """`server a: whole since copy 1; server b: no copy is whole yet`."""
    return "; ".join(f"server {log.name}: {_of_server(table, log, dropped)}" for log in table.servers)


def _of_server(table: Copied, log: ServerLog, dropped: Sequence[str]) -> str:
    if log.gone and log.name in dropped and table.none_since(log):
        return "copy.servers names it no more, and its rows were dropped"
    if log.gone:
        drops = f"tidegate copy --drop --server {log.name} drops them"
        return f"copy.servers names it no more, and its rows stay as they are: {drops}"
    one = None if log.name in dropped else table.whole_of(log.name)
    return "no copy is whole yet" if one is None else f"whole since copy {one.number}"


def how_far_by_days(reading: Reading | None, unread: Sequence[str] = ()) -> str:
    """The same of a mirror by days, whose days say which copy they have."""
    said = _by_days(reading)
    if reading is None or reading.whole is None or not unread:
        return said
    return f"{said}; {_lacks(unread, reading.whole, 'copy --again reads them')}"


def _by_days(reading: Reading | None) -> str:
    if reading is None:
        return "nothing of the source's table is read yet; no day is published before it is"
    words = reading.round.words
    if reading.round.state == RoundState.WHOLE:
        return f"{words} is whole ({many(reading.rows, 'row')}): the next day that is built has its rows, if none has"
    before = "" if reading.whole is None else f"copy {reading.whole} is whole; "
    if reading.round.state != RoundState.OPEN:
        return f"{before}{words} has ended: {reading.round.why}"
    cut = f"{reading.chunks:,} chunks" + ("" if reading.round.ended else " so far")
    read = f"{reading.read:,} of {cut} read ({many(reading.rows, 'row')})"
    return f"{before}{words}: {read}; the next day after it takes it whole"


def _under_way(reading: Reading, table: Copied) -> str:
    """`copy 1: 12 of 40 chunks read (1,200,000 rows), 8 merged; readers see an empty table until it is whole`."""
    inside = table.round(reading.round.number)
    merged = 0 if inside is None else len(numbers(inside.chunks))
    cut = f"{reading.chunks:,} chunks" + ("" if reading.round.ended else " so far")
    read = f"{reading.read:,} of {cut} read ({many(reading.rows, 'row')})"
    words = f"{reading.round.words}: {read}, {merged:,} merged"
    if table.hidden:
        until = "a copy of each server" if reading.round.server else "it"
        return f"{words}; readers see an empty table until {until} is whole"
    if table.whole is None:
        return f"{words}; until it is whole the table lacks rows"
    return words


def _lacks(columns: Sequence[str], copied: int, helps: str) -> str:
    """What no event tells: see core.copy.complete.unread."""
    what = f"columns {', '.join(columns)} came" if len(columns) > 1 else f"column {columns[0]} came"
    return (
        f"{what} after copy {copied}: rows that have not changed since are null there, whatever the source has (a "
        f"default, or a column that was renamed): tidegate {helps}"
    )


def _age(told: Told, asks: bool, asked_ms: int | None) -> str:
    """S9', or why it is not known."""
    found, unknown = told.copied.complete, "it cannot say since when nothing is older"
    if found is not None:
        at = None if found.at_ms is None else iso(found.at_ms)
        if found.exact:
            instant = "" if at is None else f", at {at} or a moment later"
            return f"it is exactly what the source had at {_position(found.position)}{instant}"
        instant = "" if at is None else f", what the source had at {at}"
        since = f"nothing in it is older than {found.spelled if found.servers else _position(found.position)}{instant}"
        return "; ".join([since, *_silent(told, [name for name, _ in found.servers])])
    if told.copied.by_hand:
        return f"{unknown}: a person has let the order decide between events that contradict each other"
    if told.below_purge:
        return f"{unknown}: a purge has kept events out"
    if not asks:
        return f"{unknown}: nobody says how far the connector is (copy.connector or copy.slot)"
    if asked_ms is None:
        return f"{unknown}: the connector has not said yet how far it is"
    return (
        f"{unknown}: what the connector had delivered at {iso(asked_ms)} is not merged, or records were lost "
        f"(tidegate apply --dry-run names the partitions)"
    )


def _silent(told: Told, known: Sequence[str]) -> Iterator[str]:
    """Servers of which nothing is known, and why if a purge is to blame."""
    for log in told.copied.servers:
        if log.name not in known and not log.gone:  # of that one it is said before
            why = ": a purge has kept events out" if told.of_server(log.name).below_purge else ""
            yield f"of server {log.name} it cannot say so{why}"


def _position(at: tuple[int, int]) -> str:
    return f"({at[0]}, {at[1]})"
