"""Tell people, once each: gather what is so, remember what begins and ends, send what has not been told.

Nothing here fails or delays the data's way: `tell` ends by its deadline, whatever a receiver does, and says what it
could not do.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any, Protocol

from tidegate.core.base.errors import LostComparison, SourceError
from tidegate.core.base.wording import in_one_line, those
from tidegate.core.files.receipt import DATA
from tidegate.core.look.concerns import OF_KAFKA
from tidegate.core.look.port import LedgerReads
from tidegate.core.target.tables import columns_of
from tidegate.core.tell import notices as rules
from tidegate.core.tell.notices import AUDIT_FAILED, RAISED, Finding, Message, NotTold
from tidegate.core.tell.pauses import silent
from tidegate.workflow.base.context import Context
from tidegate.workflow.look.status import status as status_of

DEADLINE_S = 45.0
"""For all messages of one run; what is left is sent by the next one."""
MOST_NEWS = 500
"""Events that one run looks at."""


class Channel(Protocol):
    """A way to people. `who` is its name without secrets."""

    who: str

    def send(self, payload: dict[str, Any]) -> None:
        """Raises NotTold: not taken, or unknown."""
        ...


def tell(
    ctx: Context, reads: LedgerReads, channels: Sequence[Channel], board_url: str = "", deadline_s: float = DEADLINE_S
) -> list[str]:
    """What was told, and what could not be, in words. Raises LedgerError."""
    if not channels:
        if ctx.pipeline.webhook_conn_id is None and ctx.pipeline.notify.callback is None:
            _drop(ctx, rules.KINDS)
        return []
    seen = look(ctx, reads)
    ctx.ledger.notices.forget(ctx.name, ctx.clock.now_ms() - rules.KEEP_MS)
    return deliver(ctx, channels, board_url, deadline_s, seen)


def look(ctx: Context, reads: LedgerReads) -> dict[str, Finding]:
    """Remember what begins, what is over, and what has happened since the last look; what holds now, by key."""
    ledger = ctx.ledger.notices
    kinds = ctx.pipeline.notify.kinds
    left_out = [kind for kind in rules.KINDS if kinds and kind not in kinds]
    if left_out:
        _drop(ctx, left_out)
    standing = ledger.standing(ctx.name)
    found, unknown, staying = _conditions(ctx, reads)
    changes = rules.changes(found, standing.values(), (*unknown, *left_out), staying)
    with suppress(LostComparison):  # another run is at it, and sees the same
        for finding in changes.begun:
            ledger.note(ctx.name, finding)
        for notice in changes.over:
            ledger.ended(ctx.name, notice)
    _news(ctx)
    return {finding.key: finding for finding in found}


def _drop(ctx: Context, kinds: Collection[str]) -> None:
    """What stands of these kinds, which are not wanted any more: their end would not be told."""
    for notice in ctx.ledger.notices.standing(ctx.name).values():
        if notice.finding.kind in kinds:
            with suppress(LostComparison):
                ctx.ledger.notices.closed(ctx.name, notice)


def happened(ctx: Context, finding: Finding) -> None:
    """Remember something that could not be seen later."""
    if _wanted(ctx)(finding):
        ctx.ledger.notices.note(ctx.name, finding)


def failed_task(task: str, run: str, attempt: int, what: str, log_url: str) -> Finding:
    """A task whose retries are used up; `attempt` is the number of its last try."""
    key = f"task/{task}/{run}/{attempt}"
    if len(key) > 250:
        key = f"task/{hashlib.sha256(key.encode()).hexdigest()}"
    advice = "the log's last line says what to do; Clear runs it again, and nothing is read or written twice"
    return Finding(
        kind="task_failed",
        key=key,
        subject=task,
        what=f"{task} of run {run} has failed for good: {what}",
        advice=advice,
        once=True,
        log_url=log_url,
    )


def _wanted(ctx: Context) -> Any:
    kinds = ctx.pipeline.notify.kinds
    return lambda finding: not kinds or finding.kind in kinds


def _conditions(ctx: Context, reads: LedgerReads) -> tuple[list[Finding], tuple[str, ...], Collection[str]]:
    """What holds now, the kinds that could not be looked at, and those that a pause on purpose explains."""
    try:
        topic = ctx.log()
    except SourceError:
        topic = None
    status = status_of(ctx, reads, topic, events=1)
    by_key: dict[str, Finding] = {}
    for concern in status.concerns:
        if concern.kind not in rules.KINDS or concern.kind == AUDIT_FAILED:  # whose key is its own
            continue
        key = f"{concern.kind}/{concern.subject}" if concern.subject else concern.kind
        before = by_key.get(key)
        what = f"{before.what}; {concern.what}" if before else concern.what
        advice = before.advice if before else concern.advice
        by_key[key] = Finding(kind=concern.kind, key=key, subject=concern.subject or ctx.name, what=what, advice=advice)
    audit = None if status.survey is None else status.survey.audit
    found = [*by_key.values(), *rules.of_audit(ctx.name, audit)]
    return found, OF_KAFKA if topic is None else (), silent(status.pause, ctx.clock.now_ms())


def _news(ctx: Context) -> None:
    """The first look begins with the newest event: what was before is no news."""
    ledger = ctx.ledger.notices
    old = ledger.read_upto(ctx.name)
    newest = ledger.newest_event(ctx.name)
    if old is not None and newest <= old:
        return
    events = [] if old is None else ledger.happenings(ctx.name, old, rules.NEWS, MOST_NEWS)
    found = [finding for e in events if (finding := rules.of_event(e, _columns(ctx, e))) is not None]
    upto = events[-1].id if len(events) == MOST_NEWS else newest
    with suppress(LostComparison):
        ledger.news(ctx.name, old, upto, list(filter(_wanted(ctx), found)))


def _columns(ctx: Context, event: rules.Happening) -> str:
    if event.what != "spec registered":
        return ""
    version = int(event.subject.removeprefix("spec "))
    if version < 2:
        return ""
    old, new = (ctx.ledger.pipelines.spec(ctx.name, v) for v in (version - 1, version))
    return rules.columns_changed(columns_of(old, DATA), columns_of(new, DATA))


# ---------------------------------------------------------------- sending


def deliver(
    ctx: Context,
    channels: Sequence[Channel],
    board_url: str = "",
    deadline_s: float = DEADLINE_S,
    seen: Mapping[str, Finding] | None = None,
) -> list[str]:
    """Deliver by the first channel, which decides whether people were told; the others get what it took.

    `seen`: what `look` has found; None where it has not looked, and then only what has no end is told: all else may be
    over by now."""
    ledger, now, end = ctx.ledger.notices, ctx.clock.now_ms(), time.monotonic() + deadline_s
    waiting, given_up = rules.messages(ledger.standing(ctx.name).values(), now)
    send = [_in_todays_words(m, seen or {}) for m in waiting if seen is not None or m.notice.finding.once]
    said: list[str] = []
    for notice in given_up:
        with suppress(LostComparison):
            ledger.closed(ctx.name, notice)
        said.append(f"WARNING: given up after a week, no one was told: {notice.finding.what}")
    for number, message in enumerate(send):
        if time.monotonic() > end:
            return [*said, f"WARNING: {those(len(send) - number, 'message', 'wait')} for the next run"]
        body = rules.payload(ctx.name, ctx.pipeline.owner, message, now, board_url)
        try:
            channels[0].send(body)
        except NotTold as e:
            if e.this_one:
                said.append(f"WARNING: not delivered, sent again later: {body['title']}: {in_one_line(e)}")
                continue
            left = len(send) - number
            of = those(left, "message", "were")
            return [*said, f"WARNING: {of} not delivered, to be sent again: {in_one_line(e)}"]
        _remember(ctx, message)
        said.append(f"told {channels[0].who}: {body['title']}")
        said += _also(channels[1:], body)
    return said


def _in_todays_words(message: Message, seen: Mapping[str, Finding]) -> Message:
    """A condition may have changed since it was remembered, as when one of two windows was published."""
    finding = seen.get(message.notice.finding.key)
    if finding is None or message.status != RAISED:
        return message
    return replace(message, notice=replace(message.notice, finding=finding))


def _remember(ctx: Context, message: Message) -> None:
    change = ctx.ledger.notices.told if message.status == RAISED else ctx.ledger.notices.closed
    with suppress(LostComparison):  # another run has told it too, under the same id
        change(ctx.name, message.notice)


def _also(channels: Sequence[Channel], body: dict[str, Any]) -> list[str]:
    said = []
    for channel in channels:
        try:
            channel.send(body)
        except NotTold as e:
            said.append(f"WARNING: not told: {in_one_line(e)}")
    return said
