"""What people are told of, once each: a condition while it holds and again when it is over, an event once.

A finding is what is so now; a notice is a finding that the ledger remembers, with what has been told of it. Times are
UTC ms.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from tidegate.core.base.errors import TidegateError
from tidegate.core.base.instants import iso
from tidegate.core.base.wording import many, those
from tidegate.core.batch.states import REDRIVE
from tidegate.core.window.states import WindowKey

CRITICAL, WARNING, INFO = "critical", "warning", "info"
AUDIT_FAILED = "audit_failed"

KINDS: dict[str, str] = {
    "late_window": CRITICAL,
    "unready_window": CRITICAL,
    "late_merge": CRITICAL,
    "late_copy": CRITICAL,
    "lost_place": CRITICAL,
    "silent_connector": WARNING,
    "refused_merge": CRITICAL,
    "late_delivery": CRITICAL,
    "refused_delivery": CRITICAL,
    "dirty_limit": CRITICAL,
    "refused": CRITICAL,
    "alarm": CRITICAL,
    "data_loss": CRITICAL,
    "loss_ahead": CRITICAL,
    "source_reset": CRITICAL,
    AUDIT_FAILED: CRITICAL,
    "task_failed": CRITICAL,
    "schema_change": INFO,
    "below_purge": WARNING,
    "held_window": WARNING,
    "late_rows": WARNING,
    "replay_left": WARNING,
    "watermark": WARNING,
}
"""Kind -> severity; docs/notifications.md explains each."""

RAISED, RESOLVED = "raised", "resolved"
KEEP_MS = 30 * 86_400_000
"""Notices are forgotten this long after they were told."""
GIVE_UP_MS = 7 * 86_400_000
"""A message that could not be delivered for so long is of no use any more."""
MOST_TEXT = 3_000
"""Characters of a text; receivers cut or refuse longer ones."""


class NotTold(TidegateError):
    """A channel did not take a message, or it is unknown whether it did. It is sent again later, under the same id.

    `this_one`: it refuses this message, others may get through."""

    retry = True

    def __init__(self, message: str, *, advice: str = "", this_one: bool = False) -> None:
        super().__init__(message, advice=advice)
        self.this_one = this_one


@dataclass(frozen=True, kw_only=True)
class Finding:
    """`key` is the same for as long as it is the same condition; `once`: it happened, and has no end."""

    kind: str
    key: str
    subject: str
    what: str
    advice: str = ""
    once: bool = False
    log_url: str = ""

    @property
    def severity(self) -> str:
        return KINDS[self.kind]


@dataclass(frozen=True)
class Notice:
    """`told_ms`: people were told of it; `ended_ms`: it is over; `closed_ms`: there is nothing left to tell."""

    finding: Finding
    first_ms: int
    told_ms: int | None = None
    ended_ms: int | None = None
    closed_ms: int | None = None


@dataclass(frozen=True)
class Happening:
    """An entry of the event log that may be news."""

    id: int
    at_ms: int
    actor: str
    what: str
    subject: str
    detail: Any


@dataclass(frozen=True)
class AuditOutcome:
    """`problems` as the newest audit in the event log found them; `first` is one of them, in words."""

    at_ms: int
    problems: int
    first: str = ""
    advice: str = ""


@dataclass(frozen=True)
class FailedTask:
    """A task without retries left, as `orders.copy copy`: what its last line said, and what to do."""

    at_ms: int
    task: str
    what: str
    advice: str = ""


class NoticeLedger(Protocol):
    """Raises LedgerError; LostComparison where somebody else has changed the same notice meanwhile."""

    def standing(self, name: str) -> dict[str, Notice]:
        """Notices of which something may have to be told still, by key."""
        ...

    def note(self, name: str, finding: Finding) -> None:
        """Remember it. Of one that is over and told of, a new time begins; one that is over and not told of goes on."""
        ...

    def told(self, name: str, notice: Notice) -> None:
        """People were told of it; one without an end is closed by that."""
        ...

    def ended(self, name: str, notice: Notice) -> None:
        """Note that it is over; if no one was told of it, there is nothing to tell."""
        ...

    def closed(self, name: str, notice: Notice) -> None:
        """People were told that it is over, or it is given up."""
        ...

    def forget(self, name: str, before_ms: int) -> None:
        """Delete notices that were closed before."""
        ...

    def read_upto(self, name: str) -> int | None:
        """The id of the last event that was looked at; None before the first look."""
        ...

    def newest_event(self, name: str) -> int:
        """0 before the first."""
        ...

    def happenings(self, name: str, after: int, whats: Collection[str], limit: int) -> list[Happening]:
        """Events with these words after that id, oldest first."""
        ...

    def news(self, name: str, old: int | None, upto: int, findings: Sequence[Finding]) -> None:
        """Remember what happened up to that event, in one transaction with how far was read."""
        ...

    def newest_windows(self, name: str, limit: int) -> list[WindowKey]:
        """Windows that have a generation in force, newest first."""
        ...

    def audit(self, name: str) -> AuditOutcome | None:
        """The newest one."""
        ...

    def audited(self, name: str, problems: int, first: str, advice: str, depth: str) -> None:
        """An event that says how an audit ended."""
        ...

    def task_failed(self, name: str, task: str, what: str, advice: str) -> None:
        """An event that says that a task has no retries left; none where the newest one says the same: a task that
        fails every ten minutes has failed since then."""
        ...

    def task_works(self, name: str, task: str) -> None:
        """An event that says that the task has ended well since; none where the newest one does not say that it
        failed."""
        ...


# ---------------------------------------------------------------- what is to be remembered


@dataclass(frozen=True)
class Changes:
    begun: tuple[Finding, ...]
    over: tuple[Notice, ...]


def changes(
    found: Iterable[Finding],
    standing: Iterable[Notice],
    unknown: Collection[str] = (),
    staying: Collection[str] = (),
) -> Changes:
    """`unknown`: kinds that could not be looked at now, which therefore neither begin nor end. `staying`: kinds that do
    not end now, as while a pause on purpose explains them: nothing was published after all."""
    now = {one.key: one for one in found if one.kind not in unknown}
    known = {notice.finding.key: notice for notice in standing}
    begun = tuple(one for key, one in now.items() if key not in known or known[key].ended_ms is not None)
    over = tuple(
        notice
        for key, notice in known.items()
        if key not in now
        and notice.ended_ms is None
        and not notice.finding.once
        and notice.finding.kind not in (*unknown, *staying)
    )
    return Changes(begun, over)


NEWS = ("spec registered", "topic accepted", "planned", "abandoned")
"""Events that may be worth a message; most of the plans are not."""


def of_event(event: Happening, columns: str = "") -> Finding | None:
    """`columns`: what a newly registered spec changes of the table, in words. None: nothing to tell of."""
    key = f"event/{event.id}"
    if event.what == "spec registered":
        if not columns:
            return None
        return Finding(
            kind="schema_change",
            key=key,
            subject=event.subject,
            what=f"{event.subject} changes the columns: {columns}",
            once=True,
        )
    if event.what == "topic accepted":
        before = _field(event.detail, "before")
        what = f"the topic was recreated and accepted by {event.actor}: it is {event.subject}, before it was {before}"
        return Finding(
            kind="source_reset",
            key=key,
            subject=event.subject,
            what=what,
            advice="offsets of the new topic are read from its start",
            once=True,
        )
    if event.what == "abandoned" and _field(event.detail, "kind") == REDRIVE:
        return None  # its rows stay what they were
    if event.what == "abandoned":
        what = f"{event.subject} was given up by {event.actor}: {_field(event.detail, 'reason')}"
        return Finding(
            kind="data_loss", key=key, subject=event.subject, what=what, advice="its records are in no table", once=True
        )
    losses = _field(event.detail, "losses")
    if event.what != "planned" or not isinstance(losses, list) or not losses:
        return None
    lost = sum(int(x["end"]) - int(x["start"]) for x in losses)
    places = ", ".join(f"partition {x['partition']}: {x['start']} to {x['end']}" for x in losses[:5])
    what = f"{those(lost, 'offset', 'were')} gone from the topic before {event.subject} read them ({places})"
    advice = "the ledger has recorded them as lost; give the topic a longer retention, or the pipeline more room"
    return Finding(kind="data_loss", key=key, subject=event.subject, what=what, advice=advice, once=True)


def _field(detail: Any, name: str) -> Any:
    return detail.get(name) if isinstance(detail, dict) else None


def of_audit(name: str, outcome: AuditOutcome | None) -> list[Finding]:
    if outcome is None or not outcome.problems:
        return []
    problems = many(outcome.problems, "problem")
    what = f"the audit of {iso(outcome.at_ms)} found {problems}, the first: {outcome.first}"
    return [
        Finding(
            kind=AUDIT_FAILED,
            key="audit",
            subject="audit",
            what=what,
            advice=outcome.advice or f"tidegate audit {name} shows them all",
        )
    ]


def columns_changed(old: Sequence[tuple[str, str]], new: Sequence[tuple[str, str]]) -> str:
    """(name, type) of the table's columns before and after, the difference in words; empty where there is none."""
    before, after = dict(old), dict(new)
    added = [f"{name} {after[name]}" for name in after if name not in before]
    gone = [name for name in before if name not in after]
    other = [f"{n} from {before[n]} to {after[n]}" for n in after if n in before and before[n] != after[n]]
    parts = (("new", added), ("no longer filled", gone), ("changed", other))
    return "; ".join(f"{word}: {', '.join(names)}" for word, names in parts if names)


# ---------------------------------------------------------------- what is to be told


@dataclass(frozen=True)
class Message:
    """`status` is raised or resolved."""

    notice: Notice
    status: str


def messages(standing: Iterable[Notice], now_ms: int) -> tuple[list[Message], list[Notice]]:
    """What to send, oldest first, and what is given up."""
    send, given_up = [], []
    for notice in sorted(standing, key=lambda n: n.first_ms):
        if notice.closed_ms is not None:
            continue
        if now_ms - (notice.ended_ms or notice.first_ms) > GIVE_UP_MS and (notice.told_ms is None or notice.ended_ms):
            given_up.append(notice)
        elif notice.told_ms is None:
            send.append(Message(notice, RAISED))
        elif notice.ended_ms is not None:
            send.append(Message(notice, RESOLVED))
    return send, given_up


_OVER = {
    "late_window": "published after all",
    "unready_window": "no window is late any more",
    "dirty_limit": "the batch is not refused any more",
    "refused": "the batch is not refused any more",
    "late_merge": "all batches are merged",
    "late_copy": "the copy goes on",
    "lost_place": "a later copy has all of it",
    "silent_connector": "the connector is heard again",
    "late_delivery": "the windows stand there",
    "refused_delivery": "no window is refused any more",
    "refused_merge": "the merge is not refused any more",
    "audit_failed": "the audit finds nothing any more",
}


def payload(pipeline: str, owner: str, message: Message, now_ms: int, board_url: str = "") -> dict[str, Any]:
    """The JSON that receivers get; docs/notifications.md promises its names. `text` is for chats: nothing in it can
    mention people or pretend to be a link."""
    notice, found = message.notice, message.notice.finding
    over = message.status == RESOLVED
    links = {"board": board_url, "log": found.log_url}
    title = f"{pipeline}: {_OVER.get(found.kind, 'over')}" if over else f"{pipeline}: {found.kind.replace('_', ' ')}"
    lines = [f"[{'resolved' if over else found.severity}] {title}", found.what]
    lines += [f"What to do: {found.advice}"] if found.advice and not over else []
    links = {name: url for name, url in links.items() if url}
    text = [*(harmless(line) for line in lines), *links.values()]
    return {
        "version": 1,
        "id": f"{pipeline}/{found.key}/{notice.first_ms}/{message.status}",
        "status": message.status,
        "pipeline": pipeline,
        "owner": owner,
        "kind": found.kind,
        "severity": found.severity,
        "subject": found.subject,
        "title": title,
        "what": found.what[:MOST_TEXT],
        "advice": found.advice[:MOST_TEXT],
        "since": iso(notice.first_ms),
        "ended": None if notice.ended_ms is None else iso(notice.ended_ms),
        "at": iso(now_ms),
        "links": links,
        "text": "\n".join(text),
    }


def harmless(text: str) -> str:
    """The text for Slack, Mattermost and Teams: no markup that calls people, hides an address or breaks a line."""
    text = re.sub(r"[\x00-\x08\x0b-\x1f\x7f\u2028\u2029\u202a-\u202e\u2066-\u2069]", " ", text[:MOST_TEXT])
    text = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return text.replace("@", "@\u200b").replace("](", "]\u200b(")
