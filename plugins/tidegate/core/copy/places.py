"""Whether a mirror's connector may have left out what was committed (S12): one that has lost its place in the source's
log begins again further on, and what is in between never comes. Its positions do not say so; two looks do."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from tidegate.core.copy.complete import Look
from tidegate.core.copy.port import NOWHERE, LogPosition, Place
from tidegate.core.copy.rounds import Round
from tidegate.core.mirror.copied import Complete


def lost(last: Look | None, told: LogPosition | None, now: Place, reader: str) -> str:
    """Why what was committed since the `last` look may never come; empty if all of it comes. `told`: up to where a
    table says that it has all, whose looks the ledger has forgotten. `reader`: the connector, or slot.

    The log's begin was asked once the place was known, and only grows: whatever was purged before the connector came
    to this place is below it. So the place of the look before, below it, may have been lost meanwhile. Who looks less
    often than the log is purged cannot tell that from a connector that was always ahead."""
    known = told if last is None else last.position
    other = "" if last is None or last.reader in ("", reader) else last.reader
    if now.position == NOWHERE:
        return "" if known is None or other else "it has no place in the source's log, and it had one"
    if known == NOWHERE:
        return "it had lost its place in the source's log, and goes on from another one"
    if min(known or now.position, now.position) < now.log_begin:
        return "it had noted a place that the source's log does not go back to any more"
    if other and known is not None and now.position > known:
        return f"it is another one than {other}, and further than that was"
    return ""


def connector_of(server: str) -> str:
    """`connector of server a`; of the only one, empty, `connector`."""
    return f"connector of server {server}" if server else "connector"


def helps(pipeline: str, server: str) -> str:
    """What makes good what the connector of a server, of the only one empty, may have left out."""
    of = f"{pipeline} --server {server}" if server else pipeline
    return (
        "see that it runs and has a place (tidegate doctor); after that a copy that begins anew reads all of it: "
        f"tidegate copy {of} --again --why ..., or tidegate compare {of} says whether anything is missing"
    )


def told_of(complete: Complete | None, server: str) -> LogPosition | None:
    """Up to where a table says that it has all, of one server where there are several."""
    if complete is None:
        return None
    return dict(complete.servers).get(server) if server else complete.position


def counting(looks: Iterable[Look], cured: int) -> list[Look]:
    """Those by which a table may tell something. `cured`: the newest copy of all keys that is whole, or comparison of
    them that has found no difference."""
    return [one for one in looks if not one.gap or one.gap < cured]


def uncured(gaps: Mapping[str, int], whole: Sequence[Round]) -> tuple[str, ...]:
    """Servers whose connector may have left something out that no copy of all keys, of `whole` ones, has read since;
    empty is the only one. `gaps`: by server, of its newest look."""
    cured = dict.fromkeys(gaps, 0)
    for one in whole:
        cured[one.server] = max(cured.get(one.server, 0), one.number, one.confirmed)
    return tuple(server for server, gap in sorted(gaps.items()) if gap and gap >= cured[server])
