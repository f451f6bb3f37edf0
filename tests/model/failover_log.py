"""A source fails over to a copy of its topic with other offsets, and back: F1 to F3, F5 and F6, by enumeration.

Every small history is gone through: a topic (with a control record in it), how far it has landed, what a copier has
brought to the second site (late, with a restart, with a hole, without coordinates), what producers wrote there after
it, how far that has landed; then what the second copier brought back. A copy's coordinate is its place in the topic
that it comes from, and from where on that topic has no record before it. A decision sees offsets and coordinates, for
the rules of hashes contents alone; the truth is by identity: whatever is decided, each record lands once, or is in an
interval that was named as never crossed.
"""

from __future__ import annotations

import itertools
import time
from typing import NamedTuple

from tests.model.engine import Result, Switches


class Entry(NamedTuple):
    """A record of a log: who it is, its own offset, and of a copy its coordinate: (first, offset) in the other log."""

    who: str
    offset: int
    coordinate: tuple[int, int] | None = None


class Cfg(Switches):
    """Rules as switches; the defaults are the whole protocol."""

    rule = "coordinates"  # F1 | hashes: where the last records that landed are found in the copy | pair (F2)
    bare = "refused"  # F1: records without a coordinate below the mark: refused | taken for new ones
    repeats = "skipped"  # F1: skipped | read
    holes = "refused"  # F1: refused | read over
    prefix = "compared"  # F2: all before the pair is compared with what has landed | not
    mark = "fenced"  # F3: nothing is copied behind the mark | unfenced: the copier goes on
    crossed = (
        "remembered"  # F6: what the copy had of the first log, above what had landed, is not read there | forgotten
    )
    read_on = True  # F6: back only once all copies below the mark have landed
    noted = True  # F6: the end of the first log is noted before anything is copied back
    back = False  # whether histories go on to the way back
    kinds = ("exact", "restart", "hole", "bare")  # what copiers do
    trimmed = False  # whether the copy may begin late
    alphabet = ""  # contents for the rules that see no coordinates; "": each record its own
    n_max = 3


def topics(cfg):
    """Logs of up to `n_max` records; a control record may take an offset."""
    for n in range(1, cfg.n_max + 1):
        for hole in (None, *range(1, n)) if cfg.rule == "coordinates" else (None,):
            offsets = [i + (hole is not None and i >= hole) for i in range(n)]
            yield [Entry(f"a{i}", at) for i, at in enumerate(offsets)], offsets[-1] + 1


def copied(cfg, source, start, base):
    """(kind, entries) that a copier may have brought of `source` from its offset `start` on; they begin at `base`."""
    from_start = [e for e in source if e.offset >= start]
    told, first = [], start
    for entry in from_start:
        told.append((entry.who, (first, entry.offset)))
        first = entry.offset + 1
    for t in range(len(told) + 1) if cfg.trimmed else (0,):
        for m in range(t, len(told) + 1):
            for kind, part in variants(cfg, told, t, m):
                bare = kind == "bare"
                yield kind, [Entry(who, base + i, None if bare else c) for i, (who, c) in enumerate(part)]


def variants(cfg, told, t, m):
    yield "exact", told[t:m]
    if "restart" in cfg.kinds:
        for back in range(t, m):
            yield "restart", told[t:m] + told[back:m]
            for short in range(back + 1, m):
                yield "restart", told[t:m] + told[back:short]
    if "hole" in cfg.kinds:
        for gone in range(t + 1, m):
            yield "hole", told[t:gone] + told[gone + 1 : m]
    if "bare" in cfg.kinds and m > t:
        yield "bare", told[t:m]


def crossing(cfg, log, base, mark, landed):
    """(offsets of `log` that may be read below the mark, how far the other log has crossed), or None: refused."""
    following, readable, top = landed, [], 0
    for entry in log:
        if not base <= entry.offset < mark:
            continue
        if entry.coordinate is None:
            if cfg.bare == "refused":
                return None
            readable.append(entry.offset)
            continue
        first, at = entry.coordinate
        top = max(top, at + 1)
        if at < following:
            if at >= landed and cfg.repeats == "read":
                readable.append(entry.offset)
            continue
        if first > following and cfg.holes == "refused":
            return None
        readable.append(entry.offset)
        following = at + 1
    return readable, top


def by_content(cfg, landed, log):
    """The same for copies without coordinates; contents are compared. None: refused."""
    words, there = [e.who for e in landed], [e.who for e in log]
    if cfg.rule == "hashes":
        pattern = words[-2:]
        ends = [j for j in range(len(pattern), len(there) + 1) if there[j - len(pattern) : j] == pattern]
        return ([e.offset for e in log[ends[0] :]], 0) if pattern and len(ends) == 1 else None
    place = len(words)  # the pair is known: both logs begin with the same record
    if place > len(there) or (cfg.prefix == "compared" and there[:place] != words):
        return None
    return [e.offset for e in log[place:]], place


def histories(cfg):
    """Of one failover: (log, its end, landed up to, kind of copier, its entries, new records)."""
    for log, end in topics(cfg):
        for landed in range(end + 1):
            for kind, brought in copied(cfg, log, 0, 0):
                for new in (0, 2) if cfg.back else (0, 1):
                    yield log, end, landed, kind, brought, new


def explore(cfg):
    """(what went wrong first, histories, those that were accepted)."""
    seen = accepted = 0
    for log, end, landed, kind, brought, new in histories(cfg):
        seen += 1
        mark = len(brought)
        if cfg.rule == "coordinates":
            found = crossing(cfg, brought, 0, mark, landed)
        else:
            found = by_content(cfg, [e for e in log if e.offset < landed], brought)
        if found is None:
            continue
        accepted += 1
        readable, top = found
        rest = [e for e in log if e.offset >= max(top, landed)]  # never crossed
        late = [] if cfg.mark == "fenced" else rest[:1]
        second = brought + [Entry(e.who, mark + i) for i, e in enumerate(late)]
        second += [Entry(f"b{i}", mark + len(late) + i) for i in range(new)]
        takes = [e for e in second if e.offset in readable or e.offset >= mark]
        ours = [e.who for e in log if e.offset < landed]
        wrong = _wrong(ours + [e.who for e in takes], log, rest, [e for e in second if e.who[0] == "b"])
        if cfg.back and wrong is None:
            wrong, more, taken = _back(cfg, log, end, landed, top, second, mark, takes, ours)
            seen, accepted = seen + more, accepted + taken
        if wrong is not None:
            told = f"{kind} copier: {brought}; landed up to {landed} of {[e.who for e in log]}"
            return f"{wrong}; {told}", seen, accepted
    return None, seen, accepted


def _back(cfg, log, end, landed, top, second, mark, takes, ours):
    """The second site is read up to some record; then the first one has returned, and a copier has brought back."""
    seen = accepted = 0
    for count in range(len(takes) + 1):
        done = takes[:count]
        reach = takes[count].offset if count < len(takes) else len(second)
        if cfg.read_on and reach < mark:
            continue  # refused: read on first
        for kind, brought in copied(cfg, second, mark, end):
            seen += 1
            first_site = log + brought
            until = end if cfg.noted else next((e.offset for e in first_site if e.coordinate), end + len(brought))
            found = crossing(cfg, first_site, until, end + len(brought), reach)
            if found is None:
                continue
            accepted += 1
            readable, there = found
            skip = max(top, landed) if cfg.crossed == "remembered" else landed
            tail = [e for e in first_site if skip <= e.offset < until]
            back = [e for e in first_site if e.offset in readable]
            got = ours + [e.who for e in done] + [e.who for e in tail] + [e.who for e in back]
            rest = [e for e in second if e.offset >= max(there, reach) and e not in done and e.who[0] == "b"]
            wrong = _wrong(got, log, rest, [e for e in second if e.who[0] == "b"])
            if wrong is not None:
                return f"back ({kind} copier: {brought}, read up to {reach}, mark {mark}): {wrong}", seen, accepted
    return None, seen, accepted


def _wrong(got, log, rest, new):
    """What was lost or landed twice; `rest` was named as never crossed."""
    named = {e.who for e in rest}
    twice = sorted({who for who in got if got.count(who) > 1})
    lost = [e.who for e in (*log, *new) if e.who not in got and e.who not in named]
    both = sorted(who for who in named if who in got)
    if not twice and not lost and not both:
        return None
    return f"twice {twice}, lost {lost}, landed and named as never crossed {both}"


def contents(cfg):
    """(what went wrong, histories, accepted) where equal contents are possible: only such tell what hashes are worth.

    Records are told apart by their place; a rule sees letters."""
    seen = accepted = 0
    for n in range(1, cfg.n_max + 1):
        for letters in itertools.product(cfg.alphabet, repeat=n):
            log = [Entry(f"a{i}", i) for i in range(n)]
            for landed in range(1, n + 1):
                for kind, brought in copied(cfg, log, 0, 0):
                    seen += 1
                    shown = [Entry(letters[int(e.who[1:])], e.offset) for e in brought]
                    found = by_content(cfg, [Entry(letters[e.offset], e.offset) for e in log[:landed]], shown)
                    if found is None:
                        continue
                    accepted += 1
                    got = [e.who for e in log[:landed]] + [e.who for e in brought if e.offset in found[0]]
                    rest = [e for e in log if e.who not in {b.who for b in brought}]
                    wrong = _wrong(got, log, [e for e in rest if e.offset >= landed], [])
                    if wrong is not None:
                        return f"{wrong}; {''.join(letters)}, landed {landed}, {kind}: {brought}", seen, accepted
    return None, seen, accepted


def run(**settings):
    """A result like the checker's; histories count as states, those that were accepted as transitions."""
    cfg, began = Cfg(**settings), time.monotonic()
    wrong, seen, accepted = contents(cfg) if cfg.alphabet else explore(cfg)
    verdict = "ok" if wrong is None else "VIOLATION"
    return Result(verdict, wrong or "", [] if wrong is None else [wrong], seen, accepted, 1, time.monotonic() - began)
