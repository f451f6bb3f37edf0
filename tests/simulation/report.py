"""What many lives were like, for people: by setting, and in all."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable

from tests.simulation.life import Lived
from tests.simulation.verdicts import DATA, DIRTY, DROPPED, LATE, REASONS, REROUTED, TURNED_AWAY, Tally


def total(lives: Iterable[Lived]) -> Tally:
    whole = Tally()
    for one in lives:
        for name, value in vars(one.tally).items():
            if isinstance(value, Counter):
                getattr(whole, name).update(value)
            else:
                setattr(whole, name, getattr(whole, name) + value)
    return whole


def text(lives: list[Lived], seconds: float) -> str:
    """A page."""
    groups: dict[str, list[Lived]] = defaultdict(list)
    for one in sorted(lives, key=lambda x: (x.setting.size, x.setting.title)):
        groups[one.setting.title].append(one)
    lines = [
        f"{'windows, idle':<18}{'lives':>6}{'windows':>9}{'records':>10}{'batches':>9}{'empty':>7}"
        f"{'late':>8}{'dirty':>8}{'filtered':>9}{'worst delay':>13}"
    ]
    for title, group in groups.items():
        lines.append(_row(title, len(group), total(group)))
    whole = total(lives)
    lines += [_row("all", len(lives), whole), ""]
    lines += _facts(whole, lives)
    lines.append(f"{seconds:.0f} s of CPU")
    return "\n".join(lines)


def _row(title: str, lives: int, t: Tally) -> str:
    late = t.places[LATE] + t.places[REROUTED] + t.places[DROPPED]
    worst = f"{max(t.delays)} batch" if t.delays else "-"
    return (
        f"{title:<18}{lives:>6}{t.closes:>9,}{t.records:>10,}{t.batches:>9,}{t.empty:>7,}"
        f"{_share(late, t):>8}{_share(t.places[DIRTY], t):>8}{_share(t.places[TURNED_AWAY], t):>9}{worst:>13}"
    )


def _share(n: int, t: Tally) -> str:
    return f"{100 * n / t.records:.1f} %" if t.records else "-"


def _facts(t: Tally, lives: list[Lived]) -> list[str]:
    places = (DATA, LATE, REROUTED, DROPPED, DIRTY, TURNED_AWAY)
    lines = ["where the records are:", *(f"  {t.places[p]:>12,}  {p}" for p in places)]
    lines.append(f"  {t.lost:>12,}  offsets recorded as lost, of {t.abandoned} abandoned batches and to retention")
    lines += ["why rows are late:", *(f"  {t.reasons[r]:>12,}  {r}" for r in REASONS)]
    lines += ["batches from when a window could have been ready until it was:", *_histogram(t.delays)]
    if t.catching_up:
        lines += ["the same where max_records makes a backlog wait:", *_histogram(_coarse(t.catching_up))]
    lines += ["batches from ready to CLOSED, archive runs being prompt:", *_histogram(t.waits)]
    lines += ["why the watermark moved back:", *(f"  {n:>12,}  {why}" for why, n in sorted(t.back.items()))]
    meetings: Counter[str] = Counter()
    for one in lives:
        meetings.update(one.meetings)
    lines += ["what met:", *(f"  {n:>12,}  {what}" for what, n in sorted(meetings.items()))]
    return lines


def _coarse(counts: Counter[int]) -> Counter[int]:
    """Above ten by powers of two."""
    coarse: Counter[int] = Counter()
    for n, count in counts.items():
        coarse[n if n <= 4 else 1 << (n.bit_length() - 1)] += count
    return coarse


def _histogram(counts: Counter[int]) -> list[str]:
    return [f"  {count:>12,}  {n}" for n, count in sorted(counts.items())]
