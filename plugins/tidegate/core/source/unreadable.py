"""Why a range of a topic cannot be read, in words for people: each is a failure with its place and what to do."""

from __future__ import annotations

from tidegate.core.base.offsets import OffsetRange
from tidegate.core.files.failure import JobError, refuse


def recreated(topic: str, planned: str, found: str) -> JobError:
    return refuse(
        f"topic {topic} has id {found}, planned was {planned}: it was deleted and created again",
        advice="if the topic was recreated on purpose, run `tidegate source reset <pipeline> --why '...'`",
    )


def no_partition(wanted: OffsetRange) -> JobError:
    return refuse(
        f"topic {wanted.topic} has no partition {wanted.partition} on this broker",
        advice="check that the connection points to the cluster that was planned from",
        partition=wanted.partition,
        retry=True,
    )


def gone(wanted: OffsetRange, at: int, now: str) -> JobError:
    """`now`: what the log holds. No retry brings offsets back."""
    return refuse(
        f"data loss: {wanted.topic} partition {wanted.partition}, planned offsets [{wanted.start}, {wanted.end}) "
        f"are not all in the topic any more; {now}",
        advice="no retry brings them back. For a batch: source.on_data_loss: record, then `tidegate repair <pipeline> "
        "--reread <batch>` reads what is left and records the rest as lost; if nothing is left, `tidegate repair "
        "<pipeline> --abandon <batch>`. A replay leaves the current generation as it is",
        partition=wanted.partition,
        offset=at,
    )


def damaged(wanted: OffsetRange, at: int, why: str) -> JobError:
    """The client goes on behind such records as if there were none: with `gaps: allow` no check would notice."""
    return refuse(
        f"{wanted.topic} partition {wanted.partition}: the records at offset {at} are damaged ({why})",
        advice="the broker's log, or what lies between, has changed them: look at the leader's disk, or make another "
        "replica the leader; the next try reads the same offsets",
        partition=wanted.partition,
        offset=at,
        retry=True,
    )


def stalled(wanted: OffsetRange, at: int, seconds: float, why: str) -> JobError:
    return refuse(
        f"no progress in {seconds:g} s: {wanted.topic} partition {wanted.partition} at offset {at} "
        f"of [{wanted.start}, {wanted.end})" + (f"; {why}" if why else ""),
        advice="check the broker and the partition's leader; the next try reads the same offsets",
        partition=wanted.partition,
        offset=at,
        retry=True,
    )
