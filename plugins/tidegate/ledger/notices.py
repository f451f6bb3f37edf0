"""What people were told of, and how far the event log was read for them. Every change compares what was read."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Collection, Sequence
from typing import Any

from sqlalchemy import and_, delete, func, insert, select, union_all, update
from sqlalchemy.engine import Connection

from tidegate.core.base.errors import LostComparison
from tidegate.core.base.plain import dumps, loads
from tidegate.core.look.survey import Told
from tidegate.core.tell.notices import AuditOutcome, FailedTask, Finding, Happening, Notice
from tidegate.core.tell.pauses import Pause
from tidegate.core.window.states import CURRENT, WindowKey
from tidegate.ledger import schema
from tidegate.ledger.pauses import SUBJECT, newest_of, pause_of
from tidegate.ledger.store import Part, read_as, row_of

n, e = schema.notices, schema.events
AUDIT, AUDITED = "audit", "audited"
"""Subject and word of the event that says how an audit ended."""
TASK, FAILED, WORKS = "task", "failed for good", "works again"
"""The beginning of the subject of events about a task, and what they say."""
_CURSOR = "events read"
"""Key of the row that says how far the event log was read; it is always closed."""


class SqlNotices(Part):
    """core.notices.NoticeLedger on PostgreSQL or SQLite."""

    def standing(self, name: str) -> dict[str, Notice]:
        statement = select(n).where(n.c.pipeline == name, n.c.closed_ms.is_(None)).order_by(n.c.first_ms, n.c.key)
        with self._store.begin() as c:
            return {row.key: _notice(row) for row in c.execute(statement)}

    def note(self, name: str, finding: Finding) -> None:
        with self._store.begin() as c:
            self._note(c, name, finding)

    def _note(self, c: Connection, name: str, finding: Finding) -> None:
        row, now, content = row_of(c, n, pipeline=name, key=finding.key), self._store.now_ms(), dumps(finding)
        if row is None:
            c.execute(insert(n).values(pipeline=name, key=finding.key, content=content, first_ms=now))
        elif finding.once:
            return
        elif row.ended_ms is not None and row.closed_ms is None:  # people know of it, and not that it was over
            self._change(c, name, _notice(row), ended_ms=None, content=content)
        elif row.ended_ms is not None:
            fresh = max(now, row.first_ms + 1)  # an id of its own
            values = {"first_ms": fresh, "told_ms": None, "ended_ms": None, "closed_ms": None}
            self._change(c, name, _notice(row), content=content, **values)

    def told(self, name: str, notice: Notice) -> None:
        now = self._store.now_ms()
        ends = {"ended_ms": now, "closed_ms": now} if notice.finding.once else {}
        with self._store.begin() as c:
            self._change(c, name, notice, told_ms=now, **ends)

    def ended(self, name: str, notice: Notice) -> None:
        now = self._store.now_ms()
        with self._store.begin() as c:
            self._change(c, name, notice, ended_ms=now, closed_ms=now if notice.told_ms is None else None)

    def closed(self, name: str, notice: Notice) -> None:
        now = self._store.now_ms()
        with self._store.begin() as c:
            self._change(c, name, notice, ended_ms=notice.ended_ms or now, closed_ms=now)

    def _change(self, c: Connection, name: str, old: Notice, **values: Any) -> None:
        key = old.finding.key
        same = and_(n.c.pipeline == name, n.c.key == key, n.c.first_ms == old.first_ms)
        for column, was in ((n.c.told_ms, old.told_ms), (n.c.ended_ms, old.ended_ms), (n.c.closed_ms, old.closed_ms)):
            same = and_(same, column.is_(None) if was is None else column == was)
        self._store.compare_and_set(c, update(n).where(same).values(**values), f"notice {key} of {name}")

    def forget(self, name: str, before_ms: int) -> None:
        old = and_(n.c.pipeline == name, n.c.closed_ms < before_ms, n.c.key != _CURSOR)
        with self._store.begin() as c:
            c.execute(delete(n).where(old))

    # ------------------------------------------------------------ the event log

    def read_upto(self, name: str) -> int | None:
        with self._store.begin() as c:
            row = row_of(c, n, pipeline=name, key=_CURSOR)
        return None if row is None else int(row.content)

    def newest_event(self, name: str) -> int:
        with self._store.begin() as c:
            return c.scalar(select(func.max(e.c.id)).where(e.c.pipeline == name)) or 0

    def happenings(self, name: str, after: int, whats: Collection[str], limit: int) -> list[Happening]:
        statement = select(e).where(e.c.pipeline == name, e.c.id > after, e.c.what.in_(sorted(whats)))
        with self._store.begin() as c:
            found = c.execute(statement.order_by(e.c.id).limit(limit)).all()
        return [read_as(Happening, x, detail=json.loads(x.detail)) for x in found]

    def news(self, name: str, old: int | None, upto: int, findings: Sequence[Finding]) -> None:
        mine, now = and_(n.c.pipeline == name, n.c.key == _CURSOR), self._store.now_ms()
        with self._store.begin() as c:
            if old is None:
                key = {"pipeline": name, "key": _CURSOR}
                c.execute(insert(n).values(**key, content=str(upto), first_ms=now, closed_ms=now))
            else:
                change = update(n).where(mine, n.c.content == str(old)).values(content=str(upto))
                self._store.compare_and_set(c, change, f"news of {name}")
            for finding in findings:
                self._note(c, name, finding)

    # ------------------------------------------------------------ audits

    def newest_windows(self, name: str, limit: int) -> list[WindowKey]:
        """Windows by their own key, newest first: a window has few generations."""
        g, w = schema.generations, schema.windows
        mine = and_(w.c.pipeline == g.c.pipeline, w.c.start_ms == g.c.window_ms)
        statement = select(w.c.start_ms, w.c.end_ms).select_from(g.join(w, mine))
        statement = statement.where(g.c.pipeline == name, g.c.state == CURRENT)
        with self._store.begin() as c:
            rows = c.execute(statement.order_by(g.c.window_ms.desc()).limit(limit)).all()
        return [WindowKey(row.start_ms, row.end_ms) for row in rows]

    def audit(self, name: str) -> AuditOutcome | None:
        with self._store.begin() as c:
            return newest_audits(c, [name]).get(name)

    def audited(self, name: str, problems: int, first: str, advice: str, depth: str) -> None:
        detail = {"problems": problems, "first": first, "advice": advice, "depth": depth}
        with self._store.begin() as c:
            self._store.note(c, name, AUDITED, AUDIT, detail)

    # ------------------------------------------------------------ tasks

    def task_failed(self, name: str, task: str, what: str, advice: str) -> None:
        said = {"what": what, "advice": advice}
        with self._store.begin() as c:
            newest = c.execute(select(e.c.what, e.c.detail).where(e.c.id == newest_of(name, _task(task)))).first()
            if newest is None or newest.what != FAILED or json.loads(newest.detail) != said:
                self._store.note(c, name, FAILED, _task(task), said)

    def task_works(self, name: str, task: str) -> None:
        with self._store.begin() as c:
            newest = c.scalar(select(e.c.what).where(e.c.id == newest_of(name, _task(task))))
            if newest == FAILED:
                self._store.note(c, name, WORKS, _task(task))


def _task(task: str) -> str:
    return f"{TASK} {task}"[:200]


def failed_tasks(c: Connection, names: Sequence[str]) -> dict[str, list[FailedTask]]:
    """Tasks of which the newest event says that they have failed for good, the oldest first: one statement."""
    about = and_(e.c.pipeline.in_(names), e.c.subject > f"{TASK} ", e.c.subject < f"{TASK}!")
    newest = select(func.max(e.c.id)).where(about).group_by(e.c.pipeline, e.c.subject)
    found: dict[str, list[FailedTask]] = defaultdict(list)
    for x in c.execute(select(e).where(e.c.id.in_(newest), e.c.what == FAILED).order_by(e.c.id)):
        said = json.loads(x.detail)
        found[x.pipeline].append(FailedTask(x.at_ms, x.subject.removeprefix(f"{TASK} "), said["what"], said["advice"]))
    return found


def newest_audits(c: Connection, names: Sequence[str]) -> dict[str, AuditOutcome]:
    """As below."""
    return audits_and_pauses(c, names)[0]


def audits_and_pauses(c: Connection, names: Sequence[str]) -> tuple[dict[str, AuditOutcome], dict[str, Pause]]:
    """What the newest events about audits and about pauses say: one statement, for each pipeline a probe of an index
    each."""
    p, columns = schema.pipelines, [e.c[x] for x in ("id", "at_ms", "what", "subject", "detail")]

    def newest(subject: str, what: str | None = None) -> Any:
        found = p.join(e, e.c.id == newest_of(p.c.name, subject, what))
        return select(p.c.name, *columns).select_from(found).where(p.c.name.in_(names))

    audits: dict[str, AuditOutcome] = {}
    pauses: dict[str, Pause] = {}
    for row in c.execute(union_all(newest(AUDIT, AUDITED), newest(SUBJECT))):
        if row.subject == AUDIT:
            detail = json.loads(row.detail)
            audits[row.name] = AuditOutcome(row.at_ms, detail["problems"], detail["first"], detail["advice"])
        elif (pause := pause_of(row)) is not None:
            pauses[row.name] = pause
    return audits, pauses


def told_and_untold(c: Connection, names: Sequence[str] | None = None) -> tuple[dict[str, list[Told]], dict[str, int]]:
    """Counts by pipeline (None: of all): conditions that people were told of and that have not ended, the oldest first;
    and how many messages they should have had by now."""
    told: dict[str, list[Told]] = defaultdict(list)
    untold: dict[str, int] = Counter()
    statement = select(n).where(n.c.closed_ms.is_(None)).order_by(n.c.first_ms, n.c.key)
    for x in c.execute(statement if names is None else statement.where(n.c.pipeline.in_(names))):
        untold[x.pipeline] += x.told_ms is None or x.ended_ms is not None
        finding = json.loads(x.content)
        if x.ended_ms is None and isinstance(finding, dict) and not finding.get("once"):
            told[x.pipeline].append(Told(finding["kind"], finding["what"], finding.get("advice", ""), x.first_ms))
    return told, untold


def _notice(row: Any) -> Notice:
    if row is None:
        raise LostComparison("no such notice")
    return read_as(Notice, row, finding=loads(Finding, row.content))
