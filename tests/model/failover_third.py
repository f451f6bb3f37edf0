"""A third site takes over from a second one, where copies of the first lie behind the mark (F3), by enumeration.

Oslo fails over to Bergen; its copier is started again, so copies of Oslo's records, of some that had crossed or of
others, lie among the records of Bergen's producers. Bergen is read up to some record, and fails over to a copy of
itself, Tromso. There such a copy of a copy has a coordinate in Bergen's log as all others do. In the end Oslo and
Bergen have returned, and what never crossed has been read there: each record has landed once.
"""

from __future__ import annotations

import itertools
import time
from typing import NamedTuple

from tests.model.engine import Result, Switches


class Entry(NamedTuple):
    """A record of a log: who it is, and its offset there. Of a copy `coordinate`: (first, offset) in the log that it is
    a copy of; `of`: whether the record there was a copy itself, None where the copier does not say."""

    who: str
    offset: int
    coordinate: tuple[int, int] | None = None
    of: bool | None = None


class Cfg(Switches):
    """Rules as switches; the defaults are the whole protocol."""

    strays = "settled"  # F3: what lay behind the mark as a copy is not read at a third site | read: as a new record
    hole = "counted"  # F1: it has crossed, as far as holes go | not
    tells = (True, False)  # whether the copier to the third site says what was a copy before
    unknown = "refused"  # F3: where the copier does not say, and the log cannot be asked: refused | read
    n_max = 2  # Oslo's records
    own = 2  # Bergen's


def bergens(cfg):
    """(Oslo's records, landed, crossed, Bergen's log): all that may lie behind the mark, in any order."""
    for n in range(1, cfg.n_max + 1):
        for crossed, landed in itertools.product(range(n + 1), repeat=2):
            copies = [Entry(f"a{i}", i, (i, i)) for i in range(crossed)]
            for own, start in itertools.product(range(cfg.own + 1), range(n)):
                for count in range(n - start + 1):
                    late = [f"a{i}" for i in range(start, start + count)]
                    for places in itertools.combinations(range(own + count), count):
                        who = iter(late), iter([f"b{i}" for i in range(own)])
                        behind = [next(who[0] if i in places else who[1]) for i in range(own + count)]
                        told = [
                            Entry(w, crossed + i, (int(w[1:]),) * 2 if w[0] == "a" else None)
                            for i, w in enumerate(behind)
                        ]
                        yield n, landed, crossed, copies + told


def tromsos(cfg, bergen):
    """(whether its copier tells, its entries): late, or with a restart."""
    for tells, count in itertools.product(cfg.tells, range(len(bergen) + 1)):
        copies = [((e.offset, e.offset), e) for e in bergen[:count]]
        for again in (count, *range(count)):
            part = copies + copies[again:]
            said = [(c, e, e.coordinate is not None if tells else None) for c, e in part]
            yield tells, [Entry(e.who, i, c, of) for i, (c, e, of) in enumerate(said)]


def crossing(cfg, log, landed, own, bergen):
    """(offsets of `log` that are read, how far the other log has crossed), or None: refused. `own`: from there on the
    other log has what its producers wrote; `bergen`: that log, None where it cannot be asked."""
    following, readable, top = landed, [], 0
    for entry in log:
        first, at = entry.coordinate
        top = max(top, at + 1)
        if at < following:
            continue
        if first > following:
            return None
        stray = at >= own and entry.of
        if at >= own and entry.of is None:
            if bergen is None and cfg.unknown == "refused":
                return None
            stray = any(e.offset == at and e.coordinate is not None for e in bergen or ())
        stray = stray and cfg.strays == "settled"
        if not stray:
            readable.append(entry.offset)
        if not stray or cfg.hole == "counted":
            following = at + 1
    return readable, top


def explore(cfg):
    """(what went wrong first, histories, those that were accepted)."""
    seen = accepted = 0
    for n, landed, mark, bergen in bergens(cfg):
        ours = [f"a{i}" for i in range(landed)]
        ours += [e.who for e in bergen[:mark] if e.offset >= landed]  # what crossed, and had not landed in Oslo
        tail_of_oslo = [f"a{i}" for i in range(max(landed, mark), n)]
        for reach in range(mark, len(bergen) + 1):  # all copies have landed (F6)
            there = [e.who for e in bergen[mark:reach] if e.coordinate is None]
            for (tells, log), answers in itertools.product(tromsos(cfg, bergen), (True, False)):
                seen += 1
                found = crossing(cfg, log, reach, mark, bergen if answers else None)
                if found is None:
                    if tells or answers or all(e.coordinate[1] < reach for e in log):
                        return f"refused without a reason: {log}", seen, accepted
                    continue
                accepted += 1
                readable, top = found
                rest = [e.who for e in bergen if e.offset >= max(top, reach) and e.coordinate is None]
                got = [*ours, *there, *(e.who for e in log if e.offset in readable), *rest, *tail_of_oslo]
                every = {f"a{i}" for i in range(n)} | {e.who for e in bergen}
                twice = sorted({who for who in got if got.count(who) > 1})
                if twice or set(got) != every:
                    told = f"Oslo landed up to {landed}, mark {mark}, Bergen {bergen}, read up to {reach}, Tromso {log}"
                    return f"twice {twice}, lost {sorted(every - set(got))}; {told}", seen, accepted
    return None, seen, accepted


def run(**settings):
    """A result like the checker's; histories count as states, those that were accepted as transitions."""
    cfg, began = Cfg(**settings), time.monotonic()
    wrong, seen, accepted = explore(cfg)
    verdict = "ok" if wrong is None else "VIOLATION"
    return Result(verdict, wrong or "", [] if wrong is None else [wrong], seen, accepted, 1, time.monotonic() - began)
