"""Many windows that are ready are published by one process, oldest first: each by the window protocol, as its own run
would do it."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Protocol

from tidegate.core.base.errors import (
    CatchUpStopped,
    LedgerError,
    LostComparison,
    NotReady,
    SpecError,
    StillClosing,
    StorageAhead,
    TidegateError,
)
from tidegate.core.base.instants import iso
from tidegate.core.publish import catchup as rules
from tidegate.core.publish.catchup import Tally
from tidegate.core.window.readiness import Certificate
from tidegate.core.window.states import WindowKey
from tidegate.workflow.base.context import Context, Published
from tidegate.workflow.publish import archive


class Runs(Protocol):
    """The archive runs of one pipeline."""

    def free(self, key: WindowKey) -> bool:
        """Whether the window still has no run."""
        ...

    def published(self, key: WindowKey, certificate: Certificate, published: Published) -> None:
        """The window gets a run that has succeeded, and others are told of the publication."""
        ...

    def leave(self, key: WindowKey) -> bool:
        """The window gets an ordinary run, which tries it again; False while as many as may be are on their way."""
        ...

    def yields(self) -> bool:
        """Whether somebody more urgent waits for what this process holds."""
        ...


def catch_up(
    ctx: Context, keys: Sequence[WindowKey], ready: int, runs: Runs, clock: Callable[[], float] = time.monotonic
) -> Tally:
    """Publish these windows, of `ready` that there are, until LONGEST_S have passed or somebody more urgent waits.

    A window that fails is left to a run of its own once another has been published since: it was the window's fault.
    Raises CatchUpStopped after FAILURES_IN_A_ROW, and makes no runs for these: something else is down, and the next try
    finds them. Raises at once what concerns all windows."""
    with ctx.target.series():
        return _catch_up(ctx, keys, ready, runs, clock)


def _catch_up(ctx: Context, keys: Sequence[WindowKey], ready: int, runs: Runs, clock: Callable[[], float]) -> Tally:
    tally, began, failed = Tally(ready), clock(), list[WindowKey]()
    now, progress = began, rules.Progress(tally, began, len(keys))
    for key in keys:
        if now - began >= rules.LONGEST_S or (tally.seen and runs.yields()):
            ctx.say("others have their turn now; the next run goes on")
            break
        if not runs.free(key):
            tally.left += 1  # the schedule has come to it
        elif _one(ctx, key, runs, tally, failed):
            _leave(runs, tally, failed)
        elif ctx.pipeline.windows.follows:
            break  # the others are built on it: runs of their own would only wait, and leave no room for its own
        now = clock()
        if line := progress.line(now):
            ctx.say(line)
    _leave(runs, tally, failed)
    ctx.say(progress.last(clock()))
    return tally


def _one(ctx: Context, key: WindowKey, runs: Runs, tally: Tally, failed: list[WindowKey]) -> bool:
    """Whether it was published."""
    try:
        certificate = archive.ready(ctx, key)
        if not certificate.ready:
            raise NotReady(certificate.text())
        published = archive.publish(ctx, key)
    except StillClosing as e:
        tally.closing += 1  # it stays CLOSING, so that later batches bring it nothing: a later run finishes it
        if tally.closing == 1:
            ctx.say(str(e))
        return False
    except NotReady as e:
        ctx.say(f"{iso(key.start_ms)}: {e}")
        tally.left += runs.leave(key)  # its own run waits in the triggerer, for another system's count
        return False
    except LostComparison:
        tally.left += 1  # somebody else works on it
        return False
    except (LedgerError, SpecError, StorageAhead):
        raise
    except TidegateError as e:
        ctx.say(f"{iso(key.start_ms)}: NOT published: {e}")
        failed.append(key)
        if len(failed) == rules.FAILURES_IN_A_ROW:
            raise CatchUpStopped(
                f"{ctx.name}: {len(failed)} windows in a row could not be published, {iso(key.start_ms)} the last: "
                f"{str(e).splitlines()[0]}"
            ) from e
        return False
    tally.published += 1
    runs.published(key, certificate, published)
    return True


def _leave(runs: Runs, tally: Tally, failed: list[WindowKey]) -> None:
    tally.left += sum(runs.leave(key) for key in failed)
    failed.clear()
