"""Sends windows to a further system: what is due, oldest first, or the windows that somebody names (D1 to D11).

Of a delivery of late or dirty rows a window is a batch.

Any of it may be run again, by several tasks at once: a try is begun by a compare-and-set, and one that was overtaken
shows nothing. What is wrong with one delivery, or one window of it, holds up no other.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, replace

from tidegate.core.base.errors import (
    DeliveryAhead,
    DeliveryDenied,
    DeliveryRefused,
    DeliveryUnsure,
    LedgerError,
    LostComparison,
    TidegateError,
)
from tidegate.core.base.wording import many
from tidegate.core.deliver import units
from tidegate.core.deliver.due import by_columns_of_today, differs, may_pass, of_window_in_words, unknown_generation
from tidegate.core.deliver.parts import Differing, differing, in_words
from tidegate.core.deliver.port import Standing
from tidegate.core.deliver.sender import Sender
from tidegate.core.deliver.states import REFUSED as HELD
from tidegate.core.deliver.states import SENDING, SKIPPED, STANDING, Delivered, Due
from tidegate.core.spec.pipeline import Delivery
from tidegate.core.window.cut import window_from
from tidegate.core.window.states import WindowKey
from tidegate.workflow.base.context import ATTEMPTS, Context, guard
from tidegate.workflow.base.outcome import FAILED, REFUSED, first_line
from tidegate.workflow.deliver import content
from tidegate.workflow.deliver.content import Content
from tidegate.workflow.deliver.places import check

AT_ONCE = 100
"""Windows that one look at the ledger names."""
EVER = -(2**62), 2**62
"""[first, until) of the starts of all windows (UTC ms)."""
DOWN = 3
"""After so many windows in a row that the next try may heal, the system is taken for down: the rest waits."""
DELIVERED, UNCHANGED, OVERTAKEN, LEFT_OUT = "delivered", "unchanged", "overtaken", "skipped"
DIFFERS, WAITS = "differs", "waits"
CATCHES_UP = "it catches up by itself; if it does not, look there at why (of ClickHouse: system.replicas)"


@dataclass(frozen=True, kw_only=True)
class Sent:
    """What became of a window. `what`: delivered, unchanged (it stands there as it should), overtaken, skipped,
    refused (a person has to decide) or failed (the next try may heal it), the last two with `why` and `advice`. Where
    it was compared only: differs, or waits (its generation in force has not come there yet). What is due waits where
    rows that it holds have not left another table there. `parts`: of one that was found to differ, the partitions that
    do. `behind`: copies there (replicas) that do not show it, in words. `side`: as `Delivery.side`."""

    window_ms: int
    generation: int
    what: str
    rows: int = 0
    why: str = ""
    advice: str = ""
    parts: tuple[Differing, ...] = ()
    behind: tuple[str, ...] = ()
    side: str = ""

    @property
    def unit(self) -> str:
        """The window or batch in words."""
        return units.in_words(self.side, self.window_ms)

    @property
    def well(self) -> bool:
        return self.what not in (REFUSED, FAILED, DIFFERS)


def deliver(
    ctx: Context, delivery: Delivery, sender: Sender, go_on: Callable[[], bool] = lambda: True
) -> Iterator[Sent]:
    """Send what is due, oldest first, as long as `go_on`; then remove stagings that nobody needs. Raises TidegateError
    before the first window; afterwards errors are told of."""
    yield from _each(ctx, delivery, sender, _due(ctx, delivery), go_on, lambda one: one)
    _sweep(ctx, delivery, sender)


def verify(
    ctx: Context,
    delivery: Delivery,
    sender: Sender,
    windows: Sequence[WindowKey],
    go_on: Callable[[], bool] = lambda: True,
    why: str = "",
) -> Iterator[Sent]:
    """Compare these windows with what stands there, and send what differs or is missing (D8). With `why`, what stands
    is sent once more whatever it is, and what was skipped, too."""
    if not windows:
        return
    ledger = ctx.ledger.deliveries
    wanted = {key.start_ms for key in windows}
    found = ledger.in_force(ctx.name, delivery.name, min(wanted), max(wanted) + 1)

    def to_send(one: Due) -> Due | Sent:
        return _again(ctx, one, why) if why else _verified(ctx, sender, one)

    yield from _each(ctx, delivery, sender, (one for one in found if one.window_ms in wanted), go_on, to_send)
    _sweep(ctx, delivery, sender)


def compare(
    ctx: Context,
    delivery: Delivery,
    sender: Sender,
    windows: Sequence[WindowKey] | None = None,
    but: Collection[int] = (),
) -> Iterator[Sent]:
    """Compare what stands there with what was delivered, and change nothing: these windows (in order), or all that were
    ever sent, without those that begin at `but`. Raises TidegateError before the first; afterwards errors are told."""
    guard(ctx)
    ledger = ctx.ledger.deliveries
    first, until = EVER if windows is None else (windows[0].start_ms, windows[-1].start_ms + 1)
    wanted = None if windows is None else {key.start_ms for key in windows}
    found = (
        one
        for one in ledger.in_force(ctx.name, delivery.name, first, until)
        if one.window_ms not in but and (one.row is not None if wanted is None else one.window_ms in wanted)
    )

    def told(one: Due) -> Sent:
        try:
            verdict = _compared(ctx, sender, one)
        except DeliveryDenied:
            raise
        except DeliveryRefused as e:  # only what sends makes tables and columns
            missing = f"if the table there, or a column of it, is missing: tidegate compare {ctx.name} --to "
            e.advice = "; ".join(filter(None, (e.advice, f'{missing}{delivery.name} --fix --why "..."')))
            raise
        if verdict.behind:
            return replace(verdict, what=FAILED, rows=0, why="; ".join(verdict.behind), advice=CATCHES_UP)
        if verdict.what != DIFFERS:
            return verdict
        parted = _by_partition(ctx, sender, one, verdict)
        if ledger.get(ctx.name, delivery.name, one.window_ms) != one.row:  # all windows were looked up hours ago
            raise LostComparison("another try was begun while it was compared")
        return replace(parted, advice=_way_on(ctx, delivery, one))

    yield from _each(ctx, delivery, sender, found, lambda: True, told)


def fix(ctx: Context, delivery: Delivery, sender: Sender, found: Sequence[Sent], why: str) -> list[Sent]:
    """What was `found`, and what became of the windows that differed: they are sent once more. `prepare` comes before
    they are compared: a table that was dropped there has none of them. Raises TidegateError."""
    wanted = [content.key(ctx, one.side, one.window_ms) for one in found if one.what == DIFFERS]
    if not wanted:
        return list(found)
    done = {one.window_ms: one for one in verify(ctx, delivery, sender, wanted, why=why)}
    return [replace(done.get(one.window_ms, one), parts=one.parts) for one in found]


def _by_partition(ctx: Context, sender: Sender, one: Due, verdict: Sent) -> Sent:
    """Which partitions of a window differ. One that cannot be read as a whole differs all the same."""
    if one.side:
        return verdict  # a batch is one part
    files = content.of(ctx, one).generation
    try:
        parts = sender.parts(one.window_ms, files)
    except TidegateError as e:
        return replace(verdict, why=f"{verdict.why}; its partitions could not be compared: {first_line(e)}")
    return replace(verdict, why=in_words(parts, verdict.why), parts=differing(parts))


def _way_on(ctx: Context, delivery: Delivery, one: Due) -> str:
    named = f"--{one.unit}" if one.side else one.unit
    return f"to send it again: tidegate deliver {ctx.name} {named} --to {delivery.name}"


def skip(ctx: Context, delivery: Delivery, windows: Sequence[WindowKey], why: str) -> list[Sent]:
    """Leave the generation in force of these windows out: what does not stand there is not due any more."""
    ledger, done = ctx.ledger.deliveries, []
    wanted = {key.start_ms for key in windows}
    for one in ledger.in_force(ctx.name, delivery.name, min(wanted), max(wanted) + 1):
        state = None if one.row is None or one.row.generation != one.generation else one.row.state
        if one.window_ms not in wanted or state == STANDING:
            continue
        if state != SKIPPED:
            ledger.skip(ctx.name, delivery.name, one, content.of(ctx, one).digest, why)
        done.append(_told(one, LEFT_OUT, why=why))
    return done


# ---------------------------------------------------------------- which windows


def _due(ctx: Context, delivery: Delivery) -> Iterator[Due]:
    """Each window once: one that was refused stays due, and must not be met again."""
    seen: set[tuple[int, int]] = set()
    while True:
        found = ctx.ledger.deliveries.due(ctx.name, delivery.name, delivery.since_ms, AT_ONCE + len(seen))
        fresh = [one for one in found if (one.window_ms, one.generation) not in seen]
        if not fresh:
            return
        seen |= {(one.window_ms, one.generation) for one in fresh}
        yield from fresh


def _each(
    ctx: Context,
    delivery: Delivery,
    sender: Sender,
    found: Iterator[Due],
    go_on: Callable[[], bool],
    to_send: Callable[[Due], Due | Sent],
) -> Iterator[Sent]:
    down, known = 0, ctx.newest_spec()
    for one in found:
        if not go_on():
            return
        check(ctx, delivery, known)
        sent = _one(ctx, delivery, sender, one, to_send)
        down = down + 1 if sent.what == FAILED and not sent.behind else 0
        _say(ctx, delivery, sent)
        yield sent
        if down == DOWN:
            ctx.say(f"{delivery.name}: {many(DOWN, 'window')} in a row failed: the rest waits for the next try")
            return


def _one(ctx: Context, delivery: Delivery, sender: Sender, one: Due, to_send: Callable[[Due], Due | Sent]) -> Sent:
    try:
        wanted = to_send(one)
        return wanted if isinstance(wanted, Sent) else _send(ctx, delivery, sender, wanted)
    except LostComparison as e:
        return _told(one, OVERTAKEN, why=first_line(e))
    except LedgerError:
        raise
    except TidegateError as e:
        return _told(one, FAILED if may_pass(e) else REFUSED, why=first_line(e), advice=e.advice)


def _told(one: Due, what: str, rows: int = 0, why: str = "", advice: str = "", behind: tuple[str, ...] = ()) -> Sent:
    return Sent(
        window_ms=one.window_ms,
        generation=one.generation,
        what=what,
        rows=rows,
        why=why,
        advice=advice,
        behind=behind,
        side=one.side,
    )


def _verified(ctx: Context, sender: Sender, one: Due) -> Due | Sent:
    """D8: what stands there as it was read back is left alone."""
    found, row = _compared(ctx, sender, one), one.row
    if row is None or found.what in (UNCHANGED, LEFT_OUT, WAITS):
        return one if found.what == WAITS else found
    if found.what == REFUSED:
        return replace(one, row=ctx.ledger.deliveries.again(row, "somebody named the window"))
    ctx.say(f"{row.name}: {one.unit}: {found.why}: it is sent again")
    return replace(one, row=ctx.ledger.deliveries.again(row, found.why))


def _compared(ctx: Context, sender: Sender, one: Due) -> Sent:
    """What stands there beside what was read back when it came; the system is asked where anything should stand."""
    row, said = one.row, _told(one, WAITS)
    if row is None or row.generation != one.generation or row.state not in (STANDING, SKIPPED, HELD):
        return replace(said, why=of_window_in_words(row, one.generation))
    if row.state != STANDING:
        return replace(said, what=LEFT_OUT if row.state == SKIPPED else REFUSED, why=row.why)
    found = sender.standing(one.window_ms)
    why = differs(row, found)
    if why is not None and not (by_columns_of_today(row, found) and _is_as_its_files(ctx, sender, one)):
        return replace(said, what=DIFFERS, why=why)
    assert row.content is not None
    return replace(said, what=UNCHANGED, rows=row.content.rows, behind=found.behind)


def _is_as_its_files(ctx: Context, sender: Sender, one: Due) -> bool:
    """Whether each partition holds what the files here make of today's columns."""
    if one.side:
        return False  # batches are copied as files
    files = content.of(ctx, one).generation
    try:
        return not differing(sender.parts(one.window_ms, files))
    except TidegateError:
        return False


def _again(ctx: Context, one: Due, why: str) -> Due:
    if one.row is None:
        return one
    if one.row.state not in (STANDING, SKIPPED, HELD):
        return replace(one, row=replace(one.row, stood_ms=None))  # what it has read back makes no difference
    return replace(one, row=ctx.ledger.deliveries.again(one.row, why))


# ---------------------------------------------------------------- one window


def _send(ctx: Context, delivery: Delivery, sender: Sender, one: Due) -> Sent:
    held = content.held_by(ctx, delivery.name, one)
    if held:
        advice = units.held_way_on(ctx.name, delivery.name, held)
        return _told(one, WAITS, why=units.held_in_words(delivery.name, held), advice=advice)
    found, row = content.of(ctx, one), one.row
    if row is not None and row.state == SENDING and _stands(ctx, delivery, sender, row, one, found.rows):
        return _told(one, DELIVERED, found.rows)
    above = 0
    for _ in range(ATTEMPTS):
        tried = ctx.ledger.deliveries.take(ctx.name, delivery.name, one, found.digest, ctx.nonce(), above)
        try:
            standing = _try(ctx, delivery, sender, tried, found)
        except DeliveryAhead as e:
            above = _above(ctx, one, tried, e)
            one = replace(one, row=tried)
            continue
        except (LostComparison, LedgerError):
            raise
        except TidegateError as e:
            _remember(ctx, tried, e)
            raise
        return _told(one, DELIVERED, found.rows, behind=standing.behind)
    raise LostComparison(f"{one.unit}: other tries keep coming before this one")


def _stands(ctx: Context, delivery: Delivery, sender: Sender, row: Delivered, one: Due, rows: int) -> bool:
    """Whether the try whose end nobody has told of has come to its end: its own token says so, or it has read back what
    stands there still. Raises DeliveryUnsure as long as that does not count as delivered."""
    if row.generation != one.generation:
        return False
    found = sender.standing(one.window_ms)
    if found.content.rows != rows or (found.token != row.token and found.content != row.lacks):
        return False
    if found.lacking:
        raise DeliveryUnsure(found.lacking, advice=CATCHES_UP)
    ctx.ledger.deliveries.stands(row, found.content, delivery.place)
    return True


def _try(ctx: Context, delivery: Delivery, sender: Sender, tried: Delivered, found: Content) -> Standing:
    attempt = tried.attempt(found.rows)
    standing = sender.send(attempt, found.generation, lambda: ctx.ledger.deliveries.holds(tried))
    if standing.content.rows != found.rows:
        there = f"{standing.content.rows:,} rows stand there"
        raise DeliveryRefused(f"{there}, the generation has {found.rows:,}", retry=False)
    if standing.lacking:
        ctx.ledger.deliveries.failed(tried, standing.lacking, standing.content)
        raise DeliveryUnsure(standing.lacking, advice=CATCHES_UP)
    ctx.ledger.deliveries.stands(tried, standing.content, delivery.place)
    return standing


def _remember(ctx: Context, tried: Delivered, error: TidegateError) -> None:
    """What no retry heals is not tried again by itself: it may take an hour's rows each time."""
    tell = ctx.ledger.deliveries.failed if may_pass(error) else ctx.ledger.deliveries.refuse
    tell(tried, first_line(error))


def _above(ctx: Context, one: Due, tried: Delivered, ahead: DeliveryAhead) -> int:
    """The epoch that the next try has to be above: the system has seen it, and a ledger that was restored has not.

    Raises DeliveryRefused for a generation that this ledger does not know, LostComparison if it does by now."""
    if ahead.generation <= one.generation:
        return ahead.epoch
    newest = _newest(ctx, one)
    if newest > one.generation:
        raise LostComparison(f"generation {newest} of {one.unit} is in force by now")
    error = unknown_generation(ctx.name, one, ahead)
    _remember(ctx, tried, error)
    raise error


def _newest(ctx: Context, one: Due) -> int:
    if one.side:
        return ctx.ledger.deliveries.side_files(ctx.name, one.side, one.window_ms)[0]
    return ctx.ledger.windows.get(ctx.name, window_from(one.window_ms, ctx.pipeline.windows)).current or 0


def _sweep(ctx: Context, delivery: Delivery, sender: Sender) -> None:
    """What cannot be removed now is removed by a later run."""
    try:
        for line in sender.sweep(lambda found: ctx.ledger.deliveries.needed(ctx.name, delivery.name, found)):
            ctx.say(f"{delivery.name}: {line}")
    except LedgerError:
        raise
    except TidegateError as e:
        ctx.say(f"{delivery.name}: stagings stay for now: {first_line(e)}")


def _say(ctx: Context, delivery: Delivery, sent: Sent) -> None:
    told = f"{many(sent.rows, 'row')}" if sent.well and not sent.why else sent.why
    number = f"{'version' if sent.side else 'generation'} {sent.generation}"
    ctx.say(f"{delivery.name}: {sent.unit} {number} {sent.what}: {told}")
    for one in sent.behind:
        ctx.say(f"{delivery.name}: {sent.unit}: {one}")
