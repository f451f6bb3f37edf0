"""The only legal reading of a rename that may or may not have happened (R10).

Look at the source first, then at the destination, never the other way round: a rename that is executed between the two
looks then shows as absent/matches, not as there/there. *Matches* means that every file of the manifest is there with
its length; other files are not data. Before any alarm or quarantine the ledger is read again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import Enum


class Seen(Enum):
    """A directory (or file) compared with a manifest."""

    ABSENT = "absent"
    MATCHES = "matches"
    DIFFERS = "differs"  # there, but not all of the manifest: incomplete, or something else


class Do(Enum):
    RENAME = "rename"
    DONE = "done"
    DELETE_SOURCE = "delete the source, done"
    QUARANTINE = "quarantine the source, alarm"
    ALARM_INCOMPLETE = "the source is incomplete"
    ALARM_DIFFERS = "the destination holds something else"
    ALARM_LOST = "neither the source nor the destination is there: data lost"

    @property
    def is_alarm(self) -> bool:
        return self not in (Do.RENAME, Do.DONE, Do.DELETE_SOURCE)


_TABLE = {
    (Seen.MATCHES, Seen.ABSENT): Do.RENAME,
    (Seen.DIFFERS, Seen.ABSENT): Do.ALARM_INCOMPLETE,
    (Seen.ABSENT, Seen.MATCHES): Do.DONE,
    (Seen.MATCHES, Seen.MATCHES): Do.DELETE_SOURCE,
    (Seen.DIFFERS, Seen.MATCHES): Do.DELETE_SOURCE,
    (Seen.MATCHES, Seen.DIFFERS): Do.QUARANTINE,
    (Seen.DIFFERS, Seen.DIFFERS): Do.QUARANTINE,
    (Seen.ABSENT, Seen.DIFFERS): Do.ALARM_DIFFERS,
    (Seen.ABSENT, Seen.ABSENT): Do.ALARM_LOST,
}


def decide(source: Seen, destination: Seen) -> Do:
    return _TABLE[source, destination]


def held_against(manifest: Mapping[str, int], listing: Iterable[tuple[str, int]] | None) -> Seen:
    """`manifest`: relative path -> bytes; `listing`: (path, bytes) of what is there, None if the directory is absent.

    An empty manifest matches any directory that is there.
    """
    if listing is None:
        return Seen.ABSENT
    found = dict(listing)
    return Seen.MATCHES if all(found.get(path) == size for path, size in manifest.items()) else Seen.DIFFERS
