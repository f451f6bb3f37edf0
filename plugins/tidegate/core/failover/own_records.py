"""What was written at a site by its own producers, as far as switches tell it: copies among it are behind the mark."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from tidegate.core.failover.states import Failover
from tidegate.core.source.behind import Behind, Own
from tidegate.core.source.coordinates import Coordinate, coordinate_of


def topic_ids(history: Sequence[Failover]) -> set[str]:
    """Ids of all topics that were read: with three sites, copies may be of one that is not the active one any more."""
    return {id_ for one in history for id_ in (one.certificate.before_topic_id, one.certificate.topic_id)}


def sites_read(history: Sequence[Failover]) -> dict[str, str]:
    """The site of each topic that was read, by its id."""
    found: dict[str, str] = {}
    for one in history:
        found |= {one.certificate.before_topic_id: one.before, one.certificate.topic_id: one.site}
    return found


def left_last(history: Sequence[Failover], site: str) -> Failover | None:
    """The switch by which a site was left last; None if it never was."""
    return next((one for one in reversed(history) if one.before == site), None)


def away_since(history: Sequence[Failover], site: str) -> list[Failover]:
    """The switches since a site was left last, newest first. An end of it that was noted after any of them holds: its
    producers write nothing until it is active again (F6)."""
    left = left_last(history, site)
    return [] if left is None else [one for one in reversed(history) if one.number >= left.number]


def behind_of(history: Sequence[Failover], topic_id: str | None) -> Behind | None:
    """For records of this topic; None if no failover has led to it. It says the same of an offset for ever: where the
    copies of the next failover to it may begin was noted once it was not read any more (F6)."""
    to = [one.certificate for one in history if one.certificate.topic_id == topic_id]
    if not to:
        return None
    every = sorted({crossing.partition for certificate in to for crossing in certificate.crossings})
    own = []
    for certificate, later in itertools.zip_longest(to, to[1:]):
        for partition in every:
            here, after = certificate.of(partition), None if later is None else later.of(partition)
            # one that came while the site was active never held copies that were read
            own.append(Own(partition, 0 if here is None else here.mark, None if after is None else after.base))
    return Behind(tuple(sorted(topic_ids(history) - {str(topic_id)})), tuple(own))


def copied_back(
    history: Sequence[Failover], site: str, partition: int, offset: int, values: Sequence[bytes | None]
) -> bool:
    """F6: whether a record of a site that was left may be a copy of what was written elsewhere since; `values`: of its
    headers `tidegate-source`.

    A copy that came behind the mark while the site was active is older than that: its own site has not been active
    since, or its record lies below where that site's own records ended before."""
    away, known = away_since(history, site), topic_ids(history)
    try:
        copy = coordinate_of(values)
    except ValueError:  # no copier should write that; what it is of is not known
        return any((value or b"").partition(b":")[0].decode(errors="replace") in known for value in values)
    if copy is None or not away or copy.topic_id not in known:
        return False
    behind = behind_of(history, away[-1].certificate.before_topic_id)
    return behind is None or not behind.has(partition, offset, values) or _written_since(away, copy)


def _written_since(away: Sequence[Failover], copy: Coordinate) -> bool:
    certificate = next((one.certificate for one in reversed(away) if one.certificate.topic_id == copy.topic_id), None)
    crossing = None if certificate is None else certificate.of(copy.partition)
    return certificate is not None and (crossing is None or copy.offset >= crossing.base)
