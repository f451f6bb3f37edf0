"""What is the matter with the copy of a mirror's source table, or with its connector, and what to do about it."""

from __future__ import annotations

from collections.abc import Iterator

from tidegate.core.base.instants import span
from tidegate.core.copy.places import connector_of, helps
from tidegate.core.copy.rounds import Reading, RoundState
from tidegate.core.look.overdue import Concern
from tidegate.core.look.status import PipelineStatus
from tidegate.core.look.survey import NOTHING
from tidegate.core.mirror.applies import Merging
from tidegate.core.mirror.copied import NOTHING as NO_COPY
from tidegate.core.spec.copy import Copy
from tidegate.core.tell.pauses import silent

KIND, LOST_PLACE, NO_WORD = "late_copy", "lost_place", "silent_connector"


def of_copy(status: PipelineStatus) -> Iterator[Concern]:
    """A copy that has not begun, or of which nothing was read, for longer than `archive.sla`: until the first one is
    whole readers see nothing."""
    copy, name, now_ms = status.pipeline.copy, status.name, status.now_ms
    if copy is None or copy.schedule is None or KIND in silent((status.survey or NOTHING).pause, now_ms):
        return
    go_on = f"is {name}.copy or {name}.apply paused, failing or hanging? To go on now: tidegate copy {name}"
    waits = _of_servers if copy.servers else _waits
    for server, what, since_ms, advice in waits(copy, status.reading, status.merging):
        if now_ms - since_ms > max(status.pipeline.archive.sla_ms, _patience_ms(copy)):
            yield Concern(f"{what} for {span(now_ms - since_ms)}", advice or go_on, KIND, _subject(server))


def of_connectors(status: PipelineStatus) -> Iterator[Concern]:
    """S12: a connector that may have left something out, until a copy that began later is whole."""
    copy = status.pipeline.copy
    named = () if copy is None else [one.name for one in copy.each]
    for server in () if status.reading is None else status.reading.gaps:
        if server in named:  # nobody reads one that is gone
            what = f"the {connector_of(server)} has lost its place in the source's log"
            helped = helps(status.name, server)
            yield Concern(f"{what}: changes may be missing in the table", helped, LOST_PLACE, _subject(server))


def of_silence(status: PipelineStatus) -> Iterator[Concern]:
    """Nobody has said for longer than `archive.sla` how far a connector is, as each run of `apply` asks. A login which
    is not good any more stops nothing else."""
    copy, reading, now_ms = status.pipeline.copy, status.reading, status.now_ms
    if copy is None or reading is None or "late_merge" in silent((status.survey or NOTHING).pause, now_ms):
        return
    named = {one.name for one in copy.each if one.is_told}
    for server, asked_ms in reading.asked:
        if server in named and now_ms - asked_ms > status.pipeline.archive.sla_ms:
            what = f"nobody has said for {span(now_ms - asked_ms)} how far the {connector_of(server)} is"
            advice = (
                "until somebody does the table cannot say that it has become newer. Renew what `tidegate doctor "
                f"{status.name}` names: a login of the source's database or of Kafka Connect, or the connector"
            )
            yield Concern(what, advice, NO_WORD, _subject(server))


def _subject(server: str) -> str:
    return f"server {server}" if server else ""


_Waits = Iterator[tuple[str, str, int, str]]
"""(server, what has not gone on, since when in UTC ms, what helps if it is no task)."""


def _waits(_copy: Copy, reading: Reading | None, merging: Merging | None) -> _Waits:
    """Nothing is read before an event is merged (S4)."""
    if reading is not None:
        yield from _not_gone_on(reading, "")
        return
    if merging is None or merging.first_ms is None or merging.told is None or merging.told.begins is None:
        return
    yield "", "the first copy of the source's table has not begun", merging.first_ms, ""


def _of_servers(copy: Copy, reading: Reading | None, merging: Merging | None) -> _Waits:
    """Each of several servers has a copy of its own, and readers wait for all (S11), one without events too. A server
    that came later has not been there for longer than its spec."""
    table = NO_COPY if merging is None or merging.told is None else merging.told.copied
    since_ms = 0 if merging is None else max(merging.first_ms or 0, merging.spec_ms or 0)
    reads = set() if reading is None else {one.round.server for one in reading.under_way}
    for log in (one for one in table.servers if one.name in [each.name for each in copy.servers]):
        if reading is not None:
            yield from _not_gone_on(reading, log.name)
        dropped = reading is not None and log.name in reading.dropped
        if log.name in reads or (table.whole_of(log.name) is not None and not dropped):
            continue
        first = f"the first copy of server {log.name}"
        if log.begins is None:
            helped = "does its connector run, and send to the topic? Then change a row of the table there"
            yield log.name, f"{first} has waited for an event of its table", since_ms, helped
        else:
            yield log.name, f"{first} has not begun", since_ms, ""


def _not_gone_on(reading: Reading, server: str) -> _Waits:
    for one in reading.under_way:
        if one.round.state == RoundState.OPEN and one.round.server == server:
            yield server, f"{one.round.words} has not gone on", one.since_ms or one.round.begun_ms, ""


def _patience_ms(copy: Copy) -> int:
    """Twice the time in which a chunk is read by one of the tasks that share `rate`."""
    return 0 if copy.rate is None else 2_000 * copy.chunk_rows * copy.tasks // copy.rate
