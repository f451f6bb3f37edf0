"""Every small history of two logs, decided by the product's own rule: what is accepted lands once.

The histories, and what is true of them, are the models (`tests/model/failover_log.py`, `failover_pair.py`,
`failover_third.py`)."""

from __future__ import annotations

from typing import Any

import pytest

from tests.failover.planted import FAILOVER_BUGS
from tests.model import failover_log, failover_pair, failover_third
from tests.model.scenarios.sites import LOGS, PAIRS, THIRD
from tests.mutants.planting import Planted
from tidegate.core.base.offsets import Interval
from tidegate.core.failover import counting
from tidegate.core.failover.crossing import Pair, Refusal, RefusalKind, Walk
from tidegate.core.failover.origins import Origins
from tidegate.core.source.behind import Behind, Own
from tidegate.core.source.coordinates import OWN, Coordinate

BY_COORDINATES = [name for name, (settings, _) in LOGS.items() if settings.get("rule") is None]


def crossing(cfg: Any, log: list[failover_log.Entry], base: int, mark: int, landed: int) -> Any:
    """`failover_log.crossing`, by the walk."""
    walk = Walk(0, "t", landed, base, mark)
    there = [entry for entry in log if base <= entry.offset < mark]
    for entry in there:
        values = [] if entry.coordinate is None else [Coordinate("t", 0, *entry.coordinate).text()]
        if not walk.see(entry.offset, values):
            break
    found = walk.end()
    if found.refusals:
        return None
    readable = [e.offset for e in there if not any(e.offset in one for one in found.stretches)]
    assert len(readable) == found.to_read
    return readable, found.crossed or 0


@pytest.mark.parametrize("name", BY_COORDINATES)
def test_what_is_accepted_lands_once(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = failover_log.run(**LOGS[name][0])
    monkeypatch.setattr(failover_log, "crossing", crossing)
    mine = failover_log.run(**LOGS[name][0])
    assert (mine.verdict, mine.what) == ("ok", "")
    assert (mine.states, mine.trans) == (whole.states, whole.trans)  # neither stricter nor more lenient


@pytest.mark.parametrize("bug", ["a hole is read over", "repeats are read"])
def test_a_planted_bug_is_found(bug: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(failover_log, "crossing", crossing)
    with Planted(FAILOVER_BUGS[bug]):
        try:
            found = failover_log.run(**LOGS["failover-there"][0])
        except AssertionError:
            return  # what is said to be read is not what is
    assert found.verdict == "VIOLATION"


def decide(cfg: Any, landed: list, end: int, brought: list, said: tuple[int, int]) -> Any:
    """`failover_pair.decide`, by the product's counting; stamps are times of day."""
    pair, base = Pair(*said), brought[0][0] if brought else said[1]
    mark = base + len(brought)
    copies = [one for one in brought if one[0] >= pair.here]
    if counting.objection(0, pair, end, base, mark) is not None:
        return None
    known = counting.Landed(tuple(Interval(offset, offset + 1) for offset, _ in landed if offset >= pair.before))
    walk, counts = Walk(0, "t", end, base, mark), counting.coordinates("t", 0, pair, known, end)
    for offset, _ in copies:
        assert walk.see(offset, [next(counts).text()])
    stamps = dict(landed)
    places = known.last(counting.MOST, below=len(copies))
    rows = [counting.Row(i, offset, ord(stamps[offset])) for i, offset in places if stamps[offset] is not None]
    if counting.proof(0, pair, known, rows, [o for o, _ in copies], [ord(stamp) for _, stamp in copies]) is not None:
        return None
    found = walk.end()
    assert not found.refusals
    readable = [offset for offset, _ in copies if offset >= found.first_to_read]
    assert len(readable) == found.to_read
    return readable, found.crossed or said[0]


def _remembered(cfg: Any, landed: list, end: int, brought: list, said: tuple[int, int]) -> Any:
    key = (tuple(landed), end, tuple(brought), said)
    if key not in _DECIDED:
        _DECIDED[key] = decide(cfg, landed, end, brought, said)
    return _DECIDED[key]


_DECIDED: dict[Any, Any] = {}
"""The same copies come again and again, whatever has happened before."""


def measured(log: list, landed: int, takes: list) -> int | None:
    """`failover_pair.measured`, by the product's."""
    ours, copies = ([counting.Copied(e.offset, 0, None, e.who.encode()) for e in part] for part in (log, takes))
    there = (one for one in ours if one.offset >= landed)
    found = counting.crossed_end(0, landed, len(takes), there, iter(copies))
    return None if isinstance(found, Refusal) else found


@pytest.mark.parametrize("name", PAIRS)
def test_what_is_counted_lands_once(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = failover_pair.run(**PAIRS[name][0])
    monkeypatch.setattr(failover_pair, "decide", _remembered)
    monkeypatch.setattr(failover_pair, "measured", measured)
    monkeypatch.setattr(counting, "FEWEST", failover_pair.Cfg.fewest)
    mine = failover_pair.run(**PAIRS[name][0])
    assert (mine.verdict, mine.what) == ("ok", "")
    assert (mine.states, mine.trans) == (whole.states, whole.trans)  # neither stricter nor more lenient
    assert mine.trans > 100


def third(cfg: Any, log: list[failover_third.Entry], landed: int, own: int, bergen: Any) -> Any:
    """`failover_third.crossing`, by the walk; the log that is left is asked where the copies do not say it."""
    for asked in (False, True):
        origins = Origins(0, Behind(("oslo",), (Own(0, own, None),)))
        for one in bergen[landed:] if asked and bergen is not None else ():
            origins.see(one.offset, [] if one.coordinate is None else [Coordinate("oslo", 0, *one.coordinate).text()])
        walk = Walk(0, "bergen", landed, 0, len(log), ("oslo",), origins)
        for entry in log:
            of = None if entry.of is None else "oslo" if entry.of else OWN
            if not walk.see(entry.offset, [Coordinate("bergen", 0, *entry.coordinate, of).text()]):
                break
        found = walk.end()
        if not found.refusals:
            readable = [e.offset for e in log if not any(e.offset in one for one in found.stretches)]
            assert len(readable) == found.to_read
            return readable, found.crossed or 0
        assert [one.kind for one in found.refusals] == [RefusalKind.ORIGIN]
    return None


@pytest.mark.parametrize("name", THIRD)
def test_what_lay_behind_the_mark_lands_once(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = failover_third.run(**THIRD[name][0])
    monkeypatch.setattr(failover_third, "crossing", third)
    mine = failover_third.run(**THIRD[name][0])
    assert (mine.verdict, mine.what) == ("ok", "")
    assert (mine.states, mine.trans) == (whole.states, whole.trans)  # neither stricter nor more lenient
