"""What is the matter with a pipeline, and what to do about it: the one place that decides it for all views."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from tidegate.core.base.instants import DAY_MS, iso, span
from tidegate.core.base.wording import first_line, those
from tidegate.core.completeness.rules import Held, remedy
from tidegate.core.deliver.due import is_late, lag_ms
from tidegate.core.deliver.states import Backlog
from tidegate.core.deliver.states import Due as Undelivered
from tidegate.core.deliver.units import held_way_on
from tidegate.core.late.reopen import Choice
from tidegate.core.look import blocking, failing, overdue
from tidegate.core.look.copying import of_connectors, of_copy, of_silence
from tidegate.core.look.overdue import Concern, Since, finishing
from tidegate.core.look.status import PipelineStatus
from tidegate.core.look.survey import NOTHING, Block, OpenRow, Survey
from tidegate.core.mirror.applies import Merging
from tidegate.core.replay.abandoned import Unfinished
from tidegate.core.source import loss_warning
from tidegate.core.source.loss_warning import CRITICAL
from tidegate.core.source.trouble import Trouble, What
from tidegate.core.spec.pipeline import Delivery, Pipeline
from tidegate.core.tell import notices
from tidegate.core.tell.pauses import near_loss, silent
from tidegate.core.tell.subjects import said
from tidegate.core.window.cut import parse_window_id, window_end
from tidegate.core.window.due import Due
from tidegate.core.window.kinds import of_kind
from tidegate.core.window.readiness import Certificate
from tidegate.core.window.states import WindowKey

MOST_COMMANDS = 3
KEPT_OUT_MS = 7 * DAY_MS
"""People are told for so long of events that a purge has kept out."""
_STANDS = "the generations in force stay, and cannot be reopened meanwhile"
OF_KAFKA = ("source_reset", "data_loss", "loss_ahead")
"""Conditions that cannot be seen while Kafka gives no answer."""


def concerns(status: PipelineStatus, free: Due, since: Since | None, front: Since | None) -> tuple[Concern, ...]:
    """`free`: the due windows that no other system's count holds, ready since `since`. `front`: when the windows before
    the next one were ready; None: it is not late."""
    pipeline, survey, now_ms = status.pipeline, status.survey, status.now_ms
    if survey is None:
        return ()
    quiet = silent(survey.pause, now_ms)
    unread = None if status.lag is None else status.lag.records
    found = [] if status.contradiction is None else [status.contradiction]
    found += [*_stuck(pipeline.name, survey.blocks, survey.open_batch), *_of_kafka(status)]
    found += [Concern(*odd, "watermark") for odd in blocking.oddities(pipeline.windows, survey.facts, now_ms, unread)]
    waited = None if "late_window" in quiet else since  # no run is expected to publish them
    found += overdue.concerns(pipeline, status.due, free, waited, survey.note, now_ms)
    found += _held_too_long(pipeline, status.held, now_ms)
    found += _late_left(pipeline.name, status.late_left)
    found += [
        *_of_merges(status),
        *of_copy(status),
        *of_connectors(status),
        *of_silence(status),
        *_kept_out_of_days(status),
    ]
    found += _of_deliveries(status)
    found += left_behind(pipeline, survey.replays, now_ms)
    found += [Concern(f.what, f.advice, f.kind, f.subject) for f in notices.of_audit(pipeline.name, survey.audit)]
    found += [late for late in _unready(status, front) if late.kind not in quiet]
    found += failing.of_tasks(pipeline, survey, found, now_ms)
    return (*found, *_of_the_pause(status))


# ---------------------------------------------------------------- what waits for a human


def _stuck(name: str, blocks: Iterable[Block], batch: OpenRow | None) -> Iterator[Concern]:
    for block in blocks:
        what = f"{said(block.subject)} is blocked: {first_line(block.reason)}"
        yield Concern(what, unblocking(name, block.subject), "alarm", block.subject)
    refusal = None if batch is None else batch.refusal
    if batch is not None and refusal is not None:
        what = f"batch {batch.batch_id} was refused: {refusal.first_line}"
        yield Concern(what, refusal.helps(name, batch.batch_id), refusal.notice, f"batch {batch.batch_id}")


def stuck_batch(name: str, blocks: Iterable[Block], batch: OpenRow | None) -> str:
    """What the open batch waits for, and what helps, if only a human can land it: no watermark moves before. "" for
    none."""
    if batch is None:
        return ""
    subject = f"batch {batch.batch_id}"
    found = [c for c in _stuck(name, [b for b in blocks if b.subject == subject], batch)]
    return f"{found[0].what}; {found[0].advice}" if found else ""


def unblocking(name: str, subject: str) -> str:
    """A log that was cut takes a decision; any other block is cleared."""
    kind, _, which = subject.partition(" ")
    if kind == "partition":
        return (
            f"compare with the producers; `tidegate source rewind {name} --why '...'` reads on from there, `tidegate "
            f"source skip {name} --why '...'` records the loss"
        )
    which = iso(parse_window_id(which)) if kind == "window" else which
    return f"find out why, then: tidegate repair {name} --{kind} {which} --why '...'"


# ---------------------------------------------------------------- what only Kafka can say


def _of_kafka(status: PipelineStatus) -> Iterator[Concern]:
    """Concerns about the topic. While Kafka gives no answer, what people were told of: it was not seen to be over."""
    survey, pipeline, topic = status.survey, status.pipeline, status.topic
    assert survey is not None
    if topic is None:
        yield from (Concern(t.what, t.advice, t.kind) for t in survey.told if t.kind in OF_KAFKA)
        return
    accepted = survey.progress.topic_id
    if topic.is_another(accepted):
        what = f"topic {pipeline.source.topic} was recreated: it is {topic.topic_id}, the offsets belong to {accepted}"
        advice = f"if that was on purpose: tidegate source reset {pipeline.name} --why '...'"
        yield Concern(what, advice, "source_reset", topic.topic_id)
    elif status.lag is not None and status.lag.lost:
        what = f"{those(status.lag.lost, 'offset')} gone from the topic before they were read"
        yield Concern(what, "set source.on_data_loss: record in its YAML to go on without them", "data_loss")
    elif status.loss is not None and status.loss.level == CRITICAL:
        advice = loss_warning.remedy(status.loss, pipeline.source.topic, pipeline.name, status.remedy)
        yield Concern(loss_warning.sentence(status.loss), advice, "loss_ahead")


def _of_the_pause(status: PipelineStatus) -> Iterator[Concern]:
    """A pause that lasts longer than was said, or while unread records are about to be lost."""
    pause, loss, now_ms = (status.survey or NOTHING).pause, status.loss, status.now_ms
    if pause is None:
        return
    name = status.name
    if pause.over(now_ms):
        advice = f"tidegate unpause {name}; if it has to last: tidegate pause {name} --why '...' --until ..."
        late = span(now_ms - (pause.until_ms or now_ms))
        yield Concern(f"paused until {iso(pause.until_ms)}, which is over since {late}: {pause.words()}", advice)
    if loss is not None and loss.level != CRITICAL and pause.covers("ingest", now_ms) and near_loss(loss):
        what = f"ingest is paused, and unread records are lost in about {span(loss.stopped_ms or 0)}: {pause.words()}"
        longer = status.remedy(Trouble(What.KEEPS_LITTLE, status.pipeline.source.topic))
        advice = f"tidegate unpause {name} --only ingest; or {longer}"
        yield Concern(what, advice, "loss_ahead")


# ---------------------------------------------------------------- merges


def _of_merges(status: PipelineStatus) -> Iterator[Concern]:
    """A merge that was refused, or batches that wait for one longer than `archive.sla`; events that are kept out."""
    merging, name, now_ms = status.merging, status.name, status.now_ms
    if merging is None:
        return
    yield from _kept_out(name, merging, now_ms)
    if merging.refused is not None:
        apply, why = merging.refused.apply, first_line(merging.refused.why or "")
        merge = f"the merge of batches {apply.first} to {apply.last}" if apply.merges else "a purge of its tombstones"
        what = f"{merge} was refused: {why}"
        advice = f"fix what it says, then: tidegate apply {name} --again"
        yield Concern(what, advice, "refused_merge", apply.subject)
        return
    since, pause = merging.since_ms, (status.survey or NOTHING).pause
    if since is None or now_ms - since <= status.pipeline.archive.sla_ms or "late_merge" in silent(pause, now_ms):
        return
    wait = f"{merging.waiting:,} landed batches wait" if merging.waiting > 1 else "a landed batch waits"
    what = f"{wait} to be merged, the oldest for {span(now_ms - since)}"
    now = f"tidegate apply {name}"
    yield Concern(what, f"is {name}.apply paused, failing or hanging? To merge now: {now}", "late_merge")


def _of_deliveries(status: PipelineStatus) -> Iterator[Concern]:
    """Windows that a further system has refused, or that have waited for it longer than the delivery's SLA."""
    quiet = "late_delivery" in silent((status.survey or NOTHING).pause, status.now_ms)
    for one, backlog in zip(status.pipeline.deliver, status.backlogs, strict=False):
        if backlog.refusal is not None:
            yield _refused_delivery(status.name, backlog, backlog.refusal)
        if quiet:
            continue
        if not is_late(one, backlog, status.now_ms) or backlog.oldest is None:
            continue
        wait = _waiting(one, backlog)
        tried = "" if backlog.held_by else "the last try: "
        last = f"; {tried}{backlog.why}" if backlog.why else ""
        since = span(lag_ms(backlog, status.now_ms))
        what = f"{wait} for the delivery {one.name}, the oldest ({backlog.oldest.unit}) for {since}{last}"
        now = f"tidegate deliver {status.name} --to {one.name}"
        advice = f"is {status.name}.deliver paused, failing, hanging or waiting for a slot? To send them now: {now}"
        if backlog.held_by:
            advice = held_way_on(status.name, one.name, backlog.held_by)
        yield Concern(what, advice, "late_delivery", f"delivery {one.name}")


def _waiting(one: Delivery, backlog: Backlog) -> str:
    if one.side:
        return f"{one.side} rows of {backlog.due:,} batches wait" if backlog.due > 1 else f"{one.side} rows wait"
    return f"{backlog.due:,} published windows wait" if backlog.due > 1 else "a published window waits"


def _refused_delivery(name: str, backlog: Backlog, first: Undelivered) -> Concern:
    at, others = first.unit, f" and {backlog.refused - 1:,} more" if backlog.refused > 1 else ""
    what = f"{at}{others} cannot be delivered to {backlog.name}: {'' if first.row is None else first.row.why}"
    named = f"--{at}" if first.side else at
    advice = f"fix what it says, then: tidegate deliver {name} {named} --to {backlog.name}; or leave it out with --skip"
    return Concern(what, advice, "refused_delivery", f"delivery {backlog.name}")


def _kept_out(name: str, merging: Merging, now_ms: int) -> Iterator[Concern]:
    """M5: an alarm unless they are repeats, which only somebody who looks at a key can tell. It has an end, since the
    number has none."""
    since = merging.kept_out_ms
    if merging.told is None or since is None or now_ms - since > KEPT_OUT_MS:
        return
    events = those(merging.told.below_purge, "event", "were")
    what = f"{events} kept out of the table, older than its purge of tombstones; the last {span(now_ms - since)} ago"
    yield _below_purge(name, what)


def _kept_out_of_days(status: PipelineStatus) -> Iterator[Concern]:
    """The same of a table by days: each day says it once."""
    found = status.kept_out
    if found is None or status.now_ms - found.at_ms > KEPT_OUT_MS:
        return
    ago = span(status.now_ms - found.at_ms)
    yield _below_purge(status.name, f"{found.day} was built without {found.events}; {ago} ago")


def _below_purge(name: str, what: str) -> Concern:
    advice = (
        f"the event log names some: `tidegate where {name} --key ...` says what became of a key, a new event of it "
        "brings it back. The source does not keep what sink.tombstones promises: make it longer, or keep"
    )
    return Concern(what, advice, "below_purge")


# ---------------------------------------------------------------- windows


def _held_too_long(pipeline: Pipeline, held: tuple[Held, ...], now_ms: int) -> list[Concern]:
    """One concern for all windows that another system's count has held for longer than `archive.sla`."""
    long = [h for h in held if now_ms - h.since_ms > pipeline.archive.sla_ms]
    if not long:
        return []
    oldest = long[0]
    what = (
        f"{those(len(long), 'window')} held by another system's count, the oldest "
        f"({iso(oldest.window_ms)}): {oldest.comparison.text}"
    )
    advice = f"find out what is missing; to publish it as it is: {remedy(pipeline.name, oldest.window_ms)}"
    return [Concern(what, advice, "held_window")]


def is_blocked(status: PipelineStatus) -> bool:
    return status.next_window is not None and bool(status.next_window.blockers)


def may_be_unready(status: PipelineStatus) -> bool:
    """Whether `archive.sla` is over since the next window should have been ready, if those before it were in time.

    There is no such time for loads of old data (idle: follow), nor for the first load as long as it comes nearer."""
    waits, windows = status.next_window, status.pipeline.windows
    if waits is None or waits.ready or windows.idle == "follow" or status.survey is None:
        return False
    if _should_ms(status, 0) + status.pipeline.archive.sla_ms >= status.now_ms:
        return False
    coming = status.expected is not None and status.expected.at_ms is not None
    return status.passed_before or not coming


def _should_ms(status: PipelineStatus, front_ms: int) -> int:
    assert status.next_window is not None
    return blocking.should_be_ready_ms(status.pipeline.windows, status.next_window.window, front_ms)


def _unready(status: PipelineStatus, front: Since | None) -> list[Concern]:
    """A concern about a window that is not ready `archive.sla` after it should have been; one that is closing waits for
    its run, whatever the watermark says by now."""
    waits, survey, now_ms, sla_ms = status.next_window, status.survey, status.now_ms, status.pipeline.archive.sla_ms
    if waits is None or survey is None or front is None:
        return []
    late = Since(_should_ms(status, front.ms), front.exact)
    if now_ms - late.ms <= sla_ms:
        return []
    run = closing_step(status, waits.window)
    if run:
        at, ago = iso(waits.window.start_ms), late.words(now_ms)
        return [
            Concern(f"window {at} is closing, and not published {ago} after it should have been", run, "late_window")
        ]
    what = f"window {iso(waits.window.start_ms)} is not ready {late.words(now_ms)} after it should have been: "
    advice, landed_ms = step(status, waits), _landed_ms(survey)
    if landed_ms is not None and now_ms - landed_ms > sla_ms and advice == _of_blockers(status, waits):
        quiet = span(now_ms - landed_ms)
        advice = f"no batch has landed for {quiet}: is {status.name}.ingest paused, or failing? {advice}"
    return [Concern(what + waits.reason, advice, "unready_window")]


def step(status: PipelineStatus, certificate: Certificate) -> str:
    """What helps a window that is not published: its run, if it is closing; else the open batch first, if it waits for
    a human, then records that no batch has read, then who blocks it."""
    run = closing_step(status, certificate.window)
    if run:
        return run
    name, survey, pipeline = status.name, status.survey or NOTHING, status.pipeline
    stuck = stuck_batch(name, survey.blocks, survey.open_batch)
    if stuck:
        return stuck
    unread = {} if status.lag is None else status.lag.partitions
    scheduled, landed_ms = pipeline.ingest.schedule is not None, _landed_ms(survey)
    reading = blocking.unread_step(name, certificate, unread, survey.pause, scheduled, landed_ms)
    return reading or _of_blockers(status, certificate)


def closing_step(status: PipelineStatus, key: WindowKey) -> str:
    """What publishes a window whose closing has begun; "" for a window where it has not. Closing is never taken back:
    it waits for the batches that were planned before it, and for its run, and for no watermark."""
    name, survey = status.name, status.survey or NOTHING
    if key.start_ms in survey.building:
        return f"if no run is at work: {overdue.run(name, survey.note, key)}"
    following, batch = survey.closing.get(key.start_ms), survey.open_batch
    if following is None:
        return ""
    if batch is None or batch.batch_id >= following:
        return overdue.run(name, survey.note, key)
    stuck = stuck_batch(name, survey.blocks, batch)
    return stuck or f"nothing if {name}.ingest is running; otherwise look at its last run"


def _of_blockers(status: PipelineStatus, certificate: Certificate) -> str:
    return blocking.next_step(status.name, status.pipeline.windows, certificate, status.remedy)


def _landed_ms(survey: Survey) -> int | None:
    return None if survey.progress.landed is None else survey.progress.landed.landed_ms


def _late_left(name: str, left: tuple[Choice, ...]) -> list[Concern]:
    """What was refused needs a human; what is over its budget may stay in the late table for good."""
    refused = [c for c in left if not c.over]
    if not refused:
        return []
    at = iso(refused[0].window.start_ms)
    others = f" and {len(refused) - 1:,} more" if len(refused) > 1 else ""
    what, advice = f"reopening {at}{others} was refused: its late rows wait", f"tidegate reopen {name} {at} says why"
    return [Concern(what, advice, "late_rows")]


def late_words(left: tuple[Choice, ...], name: str) -> str:
    """Words about windows whose late rows wait although `late.reopen_after` is over; "" for none."""
    over = [c for c in left if c.over]
    if not over:
        return ""
    at, others = iso(over[0].window.start_ms), f" and {len(over) - 1:,} more" if len(over) > 1 else ""
    words = f"late rows of {at}{others} wait, over the budget: {'; '.join(over[0].over)}"
    return f"{words}; to take them up: tidegate reopen {name} {at} --over-budget --why '...'"


def left_behind(pipeline: Pipeline, found: Iterable[Unfinished], now_ms: int) -> list[Concern]:
    """Replays and rollbacks that no task has worked on for hours: a killed one, or one that Kafka's retention or an
    outage has stopped on its way."""
    left = [u for u in found if not u.at_work(now_ms)]
    concerns = []
    alone = [u for u in left if of_kind(u.kind).restores or of_kind(u.kind).rereads]
    replays = [u.window_ms for u in left if u not in alone]
    if replays:
        runs = _runs(pipeline, replays)
        commands = [f"tidegate replay {pipeline.name} -s {iso(a)} -e {iso(b)}" for a, b in runs[:MOST_COMMANDS]]
        more = f", and so on for {len(runs) - MOST_COMMANDS:,} more ranges" if len(runs) > MOST_COMMANDS else ""
        windows = f"{len(replays):,} window{'s' if len(replays) > 1 else ''}"
        what = f"a replay of {windows} from {iso(replays[0])} on has stopped on its way: {_STANDS}"
        concerns.append(Concern(what, f"to go on: {'; '.join(commands)}{more}", "replay_left", iso(replays[0])))
    for u in alone[:MOST_COMMANDS]:
        which = "second reading" if of_kind(u.kind).rereads else "rollback"
        what = f"a {which} of {iso(u.window_ms)} has stopped on its way: {_STANDS}"
        advice = finishing(pipeline.name, u.window_ms, u.kind)
        concerns.append(Concern(what, advice, "replay_left", iso(u.window_ms)))
    return concerns


def _runs(pipeline: Pipeline, starts: list[int]) -> list[tuple[int, int]]:
    """First and last of windows that follow each other."""
    found: list[tuple[int, int]] = []
    for start in starts:
        if found and window_end(found[-1][1], pipeline.windows) == start:
            found[-1] = found[-1][0], start
        else:
            found.append((start, start))
    return found
