"""Numbers, instants and spans as the templates show them."""

from __future__ import annotations

import re
import zoneinfo
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from tidegate.core.base.instants import DAY_MS, HOUR_MS, iso, span
from tidegate.core.base.wording import first_line, many, size
from tidegate.core.tell.subjects import meant, said
from tidegate.core.window.cut import parse_window_id, window_id

UTC_NAMES = ("UTC", "Etc/UTC", "Z")


def number(value: int | None) -> str:
    """`12,345`; `?` for what is not known."""
    return "?" if value is None else f"{value:,}"


def counted(value: int | None, what: str) -> str:
    """`1 row`, `12,345 rows`; `? rows` for what is not known."""
    return f"? {what}s" if value is None else many(value, what)


def utc(ms: int | None) -> str:
    """`2026-11-22 02:10`, with seconds only where there are any; `never` for None."""
    if ms is None:
        return "never"
    return iso(ms // 1000 * 1000).replace("T", " ").removesuffix("Z")


def local(ms: int | None, zone: str) -> str:
    """`03:10 CET`, with the date where it is another than UTC's; empty where the zone is UTC."""
    if ms is None or zone in UTC_NAMES:
        return ""
    try:
        at = datetime.fromtimestamp(ms / 1000, zoneinfo.ZoneInfo(zone))
        same_day = at.date() == datetime.fromtimestamp(ms / 1000, UTC).date()
    except (ValueError, OverflowError, OSError):
        return ""
    return at.strftime("%H:%M %Z" if same_day else "%Y-%m-%d %H:%M %Z")


def ago(ms: int | None, now_ms: int) -> str:
    """`5 min ago`, `in 2.0 h`, `never`."""
    if ms is None:
        return "never"
    return f"in {span(ms - now_ms)}" if ms > now_ms + 1000 else f"{span(max(0, now_ms - ms))} ago"


def size_of(window_ms: int) -> str:
    """Length of a window: `a day`, `1 hour`, `15 min`."""
    if window_ms >= DAY_MS:
        return "a day"
    return span(window_ms) if window_ms % HOUR_MS else many(window_ms // HOUR_MS, "hour")


@dataclass(frozen=True)
class Task:
    """Try of a task, as actors are named in the event log; without a number: the newest."""

    dag_id: str
    run_id: str
    task_id: str
    try_number: str


def task(actor: str) -> Task | None:
    """The task in `airflow <dag>/<run>/<task> try <n>`; None for another actor."""
    found = _TASK.fullmatch(actor)
    return None if found is None else Task(*found.groups())


def asked_task(detail: Any) -> Task | None:
    """The run that an entry of the event log started or cleared: `{"airflow_run": "<dag>/<run>", …}`."""
    named = detail.get("airflow_run") if isinstance(detail, dict) else None
    if not isinstance(named, str) or named.count("/") != 1:
        return None
    dag_id, run_id = named.split("/")
    return Task(dag_id, run_id, str(detail.get("airflow_task") or "replay"), "")


@dataclass(frozen=True)
class Subject:
    """Subject of an event that has a page."""

    batch_id: int | None = None
    window_ms: int | None = None


def subject(text: str) -> Subject:
    """The subject in `batch 12` or `window 20130105T040000Z`, or what a delivery sent: `delivery shop
    2013-01-05T04:00Z`, `delivery shop.late batch 12`."""
    delivered = _DELIVERED.fullmatch(text)
    text = text if delivered is None else delivered[1] or meant(f"window {delivered[2]}")
    kind, _, name = text.partition(" ")
    if kind == "batch" and name.isdecimal():
        return Subject(batch_id=int(name))
    try:
        return Subject(window_ms=parse_window_id(name)) if kind == "window" else Subject()
    except ValueError:
        return Subject()


_DELIVERED = re.compile(r"delivery \S+ (?:(batch \d+)|(\S+))")
_TASK = re.compile(r"airflow ([^/ ]+)/(.+)/([^/ ]+) try (\d+)")
FILTERS = {
    "tg_task": task,
    "tg_asked_task": asked_task,
    "tg_subject": subject,
    "tg_said": said,
    "tg_window_id": window_id,
    "tg_number": number,
    "tg_size_of": size_of,
    "tg_counted": counted,
    "tg_utc": utc,
    "tg_stamp": iso,
    "tg_local": local,
    "tg_ago": ago,
    "tg_span": span,
    "tg_size": size,
    "tg_line": first_line,
}
