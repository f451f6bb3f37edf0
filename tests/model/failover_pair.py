"""A failover by a known pair of offsets, and back: rule F2, by enumeration.

An exact copier brings each record once, in order, and says nowhere what it is a copy of. An operator says one pair: an
offset of the topic, and where its copy is; he may be wrong by a few records. What has landed says at which offsets
there was a record, and of most of them (not of those that were filtered) when: its stamp. Stamps of different records
may be equal. The rule counts: the k-th copy from the pair on is of the k-th record from the pair on. It believes that
once the rows that have landed have the stamps of their copies, and would not have them if all were shifted.

The truth is by identity, as in `failover_log.py`: whatever is accepted, each record lands once, or is named.
"""

from __future__ import annotations

import itertools
import time
from typing import NamedTuple

from tests.model.engine import Result, Switches


class Entry(NamedTuple):
    """A record of a log: who it is, its offset, its stamp, and whether it has a row once it has landed."""

    who: str
    offset: int
    stamp: str
    row: bool = True


class Cfg(Switches):
    """Rules as switches; the defaults are the whole protocol."""

    compared = True  # F2: stamps of the rows that have landed are compared with those of their copies
    shifts = "refused"  # F2: an overlap that fits in another place too proves nothing | accepted
    fewest = 2  # F2: so many rows are compared at least, and the operator is wrong by fewer records than that
    holes = "known"  # F2: offsets without a record are known of what has landed | each offset counts as a record
    crossed = "measured"  # F6: what crossed above what had landed is compared between both logs | counted
    back_pair = "noted"  # F6: on the way back the pair is where the first log's end was noted | any
    back = False  # whether histories go on to the way back
    kinds = ("exact",)  # what copiers do: exact | restart | hole
    early = (0,)  # how many records had been copied back when the end was noted
    slips = (-1, 0, 1)  # how far the operator's pair is wrong
    n_min = 1
    n_max = 3
    new = 1  # records that producers write at the second site


def topics(cfg):
    """Logs of up to `n_max` records and the offset behind them; one offset may hold a control record, or none does."""
    for n in range(cfg.n_min, cfg.n_max + 1):
        for hole in (None, *range(n + 1)):
            offsets = [i + (hole is not None and i >= hole) for i in range(n)]
            for stamps in itertools.product("st", repeat=n):
                for hidden in (None, *range(n)):
                    log = [Entry(f"a{i}", offsets[i], stamps[i], i != hidden) for i in range(n)]
                    yield log, n + (hole is not None)


def copied(cfg, source, base):
    """(kind, entries) that a copier may have brought of records, in order; they begin at `base`."""
    for m in range(len(source) + 1):
        parts = [("exact", source[:m])]
        if "restart" in cfg.kinds:
            parts += [("restart", source[:m] + source[back:m]) for back in range(m)]
        if "hole" in cfg.kinds:
            parts += [("hole", source[:gone] + source[gone + 1 : m]) for gone in range(1, m - 1)]
        for kind, part in parts:
            yield kind, [Entry(e.who, base + i, e.stamp) for i, e in enumerate(part)]


def pairs(cfg, source, brought):
    """What an operator may say: the offset of a record, and the place of its copy, or of one near by."""
    for i, slip in itertools.product(range(len(source)), cfg.slips):
        there = brought[0].offset + i + slip if brought else None
        if there is not None and there >= brought[0].offset:
            yield source[i].offset, there


def decide(cfg, landed, end, brought, pair):
    """(copies that are read, how far the other log has crossed), or None: refused. `landed`: (offset, stamp or None if
    there is no row) of each record that has landed; `end`: up to where; `brought`: (offset, stamp) of each copy."""
    a, b = pair
    known = [one for one in landed if one[0] >= a]
    if cfg.holes != "known":
        stamps = dict(known)
        known = [(offset, stamps.get(offset)) for offset in range(a, end)]
    copies = [one for one in brought if one[0] >= b]
    if a > end or (cfg.compared and not proven(cfg, [s for _, s in known], [s for _, s in copies])):
        return None
    over = len(known)
    if len(copies) < over:
        return [], known[len(copies) - 1][0] + 1 if copies else a
    return [offset for offset, _ in copies[over:]], end + len(copies) - over


def proven(cfg, known, copies):
    rows = [i for i, stamp in enumerate(known[: len(copies)]) if stamp is not None]
    if len(rows) < cfg.fewest or any(known[i] != copies[i] for i in rows):
        return False
    if cfg.shifts == "accepted":
        return True
    return not any(fits(known, copies, rows, sign * by) for by in range(1, cfg.fewest) for sign in (1, -1))


def fits(known, copies, rows, by):
    pairs = [(known[i], copies[i + by]) for i in rows if 0 <= i + by < len(copies)]
    return bool(pairs) and all(one == other for one, other in pairs)


def explore(cfg):
    """(what went wrong first, histories, those that were accepted)."""
    seen = accepted = 0
    for log, end in topics(cfg):
        for landed, (kind, brought) in itertools.product(range(end + 1), list(copied(cfg, log, 0))):
            for pair in pairs(cfg, log, brought):
                seen += 1
                found = decide(cfg, _landed(log, 0, landed), landed, _shown(brought), pair)
                if found is None:
                    continue
                accepted += 1
                told = f"{kind} copier: {brought}; landed up to {landed} of {log}; pair {pair}"
                ours = [e.who for e in log if e.offset < landed]
                takes = [e for e in brought if e.offset in found[0]]
                crossed = {e.who for e in brought}
                got = ours + [e.who for e in takes]
                wrong = _wrong(got, [e.who for e in log if e.who in crossed])
                if cfg.back and wrong is None:
                    wrong, more, taken = _back(cfg, log, end, landed, brought, takes, found[1], ours)
                    seen, accepted = seen + more, accepted + taken
                if wrong is not None:
                    return f"{wrong}; {told}", seen, accepted
    return None, seen, accepted


def _landed(log, low, high):
    return [(e.offset, e.stamp if e.row else None) for e in log if low <= e.offset < high]


def _shown(log):
    return [(e.offset, e.stamp) for e in log]


def measured(log, landed, takes):
    """Where the copies that were read end in the log that they are of, by both logs (F6); None: they differ."""
    there = [e for e in log if e.offset >= landed][: len(takes)]
    if [e.who for e in there] != [e.who for e in takes]:
        return None
    return there[-1].offset + 1 if there else landed


def _back(cfg, log, end, landed, brought, takes, top, ours):
    """All copies have landed, and some new records; the first site has returned, and a copier has brought back."""
    seen = accepted = 0
    mark = len(brought)
    left = max(top, landed)
    if cfg.crossed == "measured":
        found = measured(log, landed, takes)
        if found is None:
            return None, 1, 0
        left = max(left, found)
    for stamps in itertools.product("st", repeat=cfg.new):
        new = [Entry(f"b{i}", mark + i, stamps[i]) for i in range(cfg.new)]
        for count, (_, back), early in itertools.product(range(cfg.new + 1), list(copied(cfg, new, end)), cfg.early):
            if early > len(back):
                continue
            noted = end + early
            said = [(mark + i, noted) for i in range(early + 1)] if cfg.back_pair == "any" else [(mark, noted)]
            for pair in said:
                seen += 1
                reach = mark + count
                copies = [e for e in back if e.offset >= noted]
                read = decide(cfg, _landed(new, mark, reach), reach, _shown(copies), pair)
                if read is None:
                    continue
                accepted += 1
                tail = [e for e in log + back if left <= e.offset < noted]
                got = [*ours, *(e.who for e in takes), *(e.who for e in new[:count]), *(e.who for e in tail)]
                got += [e.who for e in back if e.offset in read[0]]
                crossed = {e.who for e in back}
                wrong = _wrong(got, [e.who for e in log] + [e.who for e in new[:count]] + sorted(crossed))
                if wrong is not None:
                    return f"back ({back}, read up to {reach}, mark {mark}, pair {pair}): {wrong}", seen, accepted
    return None, seen, accepted


def _wrong(got, owed):
    """What landed twice, and of `owed` what did not."""
    twice = sorted({who for who in got if got.count(who) > 1})
    lost = sorted({who for who in owed if who not in got})
    return f"twice {twice}, lost {lost}" if twice or lost else None


def run(**settings):
    """A result like the checker's; histories count as states, those that were accepted as transitions."""
    cfg, began = Cfg(**settings), time.monotonic()
    wrong, seen, accepted = explore(cfg)
    verdict = "ok" if wrong is None else "VIOLATION"
    return Result(verdict, wrong or "", [] if wrong is None else [wrong], seen, accepted, 1, time.monotonic() - began)
