"""Servers of a mirror whose shards lie on several: each has a log of its own, and positions of two logs say nothing
beside each other (S11). Events of one key are all of one server, so that M2 compares positions of one log."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from tidegate.core.mirror.jobs import Position, ServerLog, spelled


@dataclass(frozen=True)
class Servers:
    """All servers of a mirror, in order. `column`: the logical column of its key that names a row's."""

    column: str
    logs: tuple[ServerLog, ...]


def logs_after(before: Sequence[ServerLog], names: Sequence[str], said: Sequence[ServerLog]) -> tuple[ServerLog, ...]:
    """What is known of the servers of these `names` once a merge has `said` more of some of them; behind them of those
    that are named no more: a marker that is forgotten would let in what a purge has kept out (M5), once one of them is
    named again."""
    old, new = ({log.name: log for log in logs} for logs in (before, said))
    gone = [name for name in old if name not in names]
    after = [further(old.get(name, ServerLog(name)), new.get(name, ServerLog(name))) for name in (*names, *gone)]
    known = (log for log in after if log.name in names or log != ServerLog(log.name))
    return tuple(replace(log, gone=log.name not in names) for log in known)


def purge_words(below: Position, logs: Sequence[ServerLog]) -> str:
    """The marker of the newest purge (M5); of several servers that of each, `name=commit,row,n`, with blanks
    between."""
    return " ".join(f"{log.name}={spelled(log.purged_below)}" for log in logs) if logs else spelled(below)


def further(old: ServerLog, new: ServerLog) -> ServerLog:
    """What both have said of a server, `new` by later merges."""
    last = max((log.last for log in (old, new) if log.last is not None), default=None)
    below, kept_out = max(old.purged_below, new.purged_below), old.below_purge + new.below_purge
    return ServerLog(old.name, old.begins or new.last, last, max(old.newest_ms, new.newest_ms), below, kept_out)
