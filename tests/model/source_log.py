"""A model of what is read of a topic whose log changes under its reader.

Producers append, retention drops the oldest record, a new leader takes over cleanly or without the newest record
(an unclean election), a partition is added. Batches are planned, read, sealed; an operator decides about a log that
was cut. Every record that the log has ever held below a planned end is read once, or is a recorded loss.

It is apart from the model of batches and hours, which takes the log as it is: together they could not be explored.
"""

from __future__ import annotations

from typing import NamedTuple

from tests.model.engine import BLOCK, Model, Switches, Violation

PARTITIONS = (0, 1)  # the second one is added later


class Log(NamedTuple):
    """One partition: (record, epoch of the leader that took it) by offset, the log start, the leader's epoch."""

    records: tuple
    start: int
    epoch: int

    @property
    def end(self):
        return len(self.records)

    def end_of(self, epoch):
        """What OffsetForLeaderEpoch answers: where records of later leaders begin."""
        return next((o for o, (_, e) in enumerate(self.records) if e > epoch), self.end)


class Cfg(Switches):
    """Rules as switches, and what a scenario sets; the defaults are the whole protocol."""

    late_start = 0  # where a partition that came later begins: 0 | 'log start'
    remember = True  # a cut that was found stops planning until somebody decides
    epochs = True  # plans pin leader epochs, and ask where later leaders' records begin
    seal_asks = True  # R6: seal asks again
    epoch_of_cut = True  # after a decision the log is known by the leader that was asked, not by today's
    fence = True  # R5: plans and decisions commit on the version that they read
    procs = ()
    env = ()
    env_kills = ()
    no_crash = ()
    eager = ()
    live = frozenset()
    budget = (1, 0, 0, 4)  # crashes, lost replies, in-flight requests, environment events
    most = 3  # records of a partition

    def init(self, _cfg):
        first = Log((("a", 1), ("b", 1)), 0, 1)
        return {"log": (first, None), "v": 0, "ends": (), "cuts": (), "batches": (), "losses": frozenset(), "uid": 0}


# ---------------------------------------------------------------- what tasks ask and change


def look(s, cfg):
    return s["v"], s["ends"], s["cuts"], next((i for i, b in enumerate(s["batches"]) if b[0] != "LANDED"), None)


def describe(s, cfg):
    return tuple(s["log"])


def cut_below(s, cfg, ends):
    """(partition, cut, planned end, leader's epoch) where the log was cut below it, as far as anybody can tell."""
    found = []
    for p, end, epoch in ends:
        log = s["log"][p]
        at = log.end_of(epoch) if cfg.epochs else log.end
        if at < end:
            found.append((p, at, end, log.epoch))
    return tuple(found)


def remember(s, cfg, version, cuts):
    if cfg.fence and s["v"] != version:
        return "lost"
    if cfg.remember:
        s["cuts"], s["v"] = cuts, version + 1
    return "ok"


def commit(s, cfg, version, ranges, ends, lost):
    if cfg.fence and (s["v"] != version or s["cuts"]):
        return "lost"
    if any(b[0] != "LANDED" for b in s["batches"]):
        return "lost"
    if not s["ends"]:  # the first batch goes by source.start
        s["first"] = tuple((p, s["log"][p].start) for p, _, _ in ends)
    s["batches"] = (*s["batches"], ("PLANNED", ranges, ends, ()))
    s["ends"], s["v"], s["losses"] = ends, s["v"] + 1, s["losses"] | lost
    return len(s["batches"]) - 1


def read(s, cfg, i):
    """Every range to its planned end, at one moment; None where the log does not hold it."""
    rows = []
    for p, a, z in s["batches"][i][1]:
        log = s["log"][p]
        if log.end < z or log.start > a:
            return None
        rows += [record for record, _ in log.records[a:z]]
    return tuple(rows)


def seal(s, cfg, i, rows):
    state, ranges, ends, _ = s["batches"][i]
    if state == "LANDED":
        return "ok"
    if cfg.seal_asks and cut_below(s, cfg, ends):
        return "cut"
    s["batches"] = (*s["batches"][:i], ("LANDED", ranges, ends, rows), *s["batches"][i + 1 :])
    return "ok"


def withdraw(s, cfg, i):
    """An operator has an open batch read anew: it goes, and the next plan begins where it began."""
    if i >= len(s["batches"]) or s["batches"][i][0] == "LANDED":
        return "moved on"
    _, ranges, ends, _ = s["batches"][i]
    first = {p: a for p, a, _ in ranges}
    before = s["batches"][i - 1][2] if i else ()
    epochs = {p: e for p, _, e in before}
    s["ends"] = tuple((p, first.get(p, end), epochs.get(p, epoch)) for p, end, epoch in ends)
    s["batches"], s["v"] = s["batches"][:i], s["v"] + 1
    return "ok"


def decide(s, cfg, skip):
    """`source rewind` and `source skip`, about all cuts that are open."""
    if not s["cuts"]:
        return "nothing"
    if skip and any(s["log"][p].end < end for p, _, end, _ in s["cuts"]):
        return "nothing"  # refused until the log has grown past the planned end
    ends = {p: (end, epoch) for p, end, epoch in s["ends"]}
    for p, at, end, epoch in s["cuts"]:
        if skip:
            s["losses"] |= {record for record, _ in s["log"][p].records[at:end]}
        ends[p] = (end if skip else at, epoch if cfg.epoch_of_cut else s["log"][p].epoch)
    s["ends"], s["cuts"], s["v"] = tuple((p, *of) for p, of in sorted(ends.items())), (), s["v"] + 1
    return "ok"


# ---------------------------------------------------------------- what happens to the log


def _changed(s, p, log):
    s["log"] = (*s["log"][:p], log, *s["log"][p + 1 :])


def _taken(log, record):
    return log._replace(records=(*log.records, (record, log.epoch)))


def append(s, cfg):
    """To each partition that is there."""
    for p, log in enumerate(s["log"]):
        if log is not None and log.end < cfg.most:
            s["uid"] += 1
            _changed(s, p, _taken(log, f"n{s['uid']}"))
            return None
    return BLOCK


def retention(s, cfg):
    p = 1 if s["log"][1] is not None else 0
    log = s["log"][p]
    if log.start >= log.end:
        return BLOCK
    _changed(s, p, log._replace(start=log.start + 1))
    return None


def clean_election(s, cfg):
    log = s["log"][0]
    _changed(s, 0, log._replace(epoch=log.epoch + 1))
    return None


def unclean_election(s, cfg):
    log = s["log"][0]
    if log.end == log.start:
        return BLOCK
    _changed(s, 0, Log(log.records[:-1], log.start, log.epoch + 1))
    return None


def add_partition(s, cfg):
    if s["log"][1] is not None:
        return BLOCK
    _changed(s, 1, Log((("x", 1), ("y", 1)), 0, 1))
    return None


# ---------------------------------------------------------------- the task


def ingest(cfg):
    version, ends, cuts, i = yield ("look",)
    if i is None:
        if cuts:
            return "blocked"
        logs = yield ("describe",)
        found = yield ("cut_below", ends)
        if found:
            yield ("remember", version, found)
            return "blocked"
        known = {p: (end, epoch) for p, end, epoch in ends}
        ranges, now, lost = [], [], set()
        for p, log in enumerate(logs):
            if log is None:
                continue
            begun = bool(ends)
            start, _ = known.get(p, (cfg.late_start if begun and cfg.late_start == 0 else log.start, log.epoch))
            if log.end < start:
                return "blocked"
            lost |= {record for record, _ in log.records[start : log.start]}
            start = max(start, log.start)
            if start < log.end:
                ranges.append((p, start, log.end))
            now.append((p, log.end, log.epoch))
        if not ranges and not lost:
            return "nothing"
        i = yield ("commit", version, tuple(ranges), tuple(now), frozenset(lost))
        if not isinstance(i, int):
            return "fail " + i
    rows = yield ("read", i)
    if rows is None:
        return "unreadable"
    return (yield ("seal", i, rows))


ASKED = (look, describe, cut_below, remember, commit, read, seal, withdraw, decide)
EVENTS = (append, retention, clean_election, unclean_election, add_partition)
OPS = {f.__name__: f for f in (*ASKED, *EVENTS)}
PROGRAMS = {"ingest": ingest}


# ---------------------------------------------------------------- what must hold


def invariant(s, cfg):
    seen = set()
    for state, _, _, rows in s["batches"]:
        for record in rows if state == "LANDED" else ():
            if record in seen:
                raise Violation(f"record {record} was read twice")
            seen.add(record)


def heal(model, st):
    """Whatever a person decides, tasks that are run one by one leave no record below a planned end without a fate."""
    for skip in (False, True):
        s = dict(st[0])
        for _ in range(6):
            s, answer = model.to_its_end(s, ("ingest",))
            if answer == "blocked":
                s, _ = model.done(s, ("decide", skip))
            elif answer in ("unreadable", "cut"):
                s, _ = model.done(s, ("withdraw", len(s["batches"]) - 1))
        invariant(s, model.cfg)
        _all_have_a_fate(s)


def _all_have_a_fate(s):
    if s["cuts"] or any(b[0] != "LANDED" for b in s["batches"]):
        return  # a person is told, and nothing goes on meanwhile
    known = {record for b in s["batches"] for record in b[3]} | s["losses"]
    ends, first = {p: end for p, end, _ in s["ends"]}, dict(s.get("first", ()))
    for p, log in enumerate(s["log"]):
        for record, _ in log.records[first.get(p, 0) : ends.get(p, 0)] if log is not None else ():
            if record not in known:
                raise Violation(f"record {record} of partition {p} lies below the planned end: neither read nor lost")


SCENARIOS = {
    "log-cut": (
        {
            "procs": (("t1", ("ingest",), 1), ("t2", ("ingest",), 1)),
            "env": ("append", "clean_election", "unclean_election"),
        },
        {
            "a cut is refused and forgotten": {"remember": False, "epochs": False},
            "no leader epochs: a cut is seen only while the log is short": {"epochs": False},
            "seal does not ask again (R6)": {"seal_asks": False},
            "plans and decisions compare no version (R5)": {"fence": False},
            "a decision pins the leader of its own moment": {"epoch_of_cut": False},
        },
    ),
    "late-partition": (
        {"procs": (("t1", ("ingest",), 2), ("t2", ("ingest",), 1)), "env": ("append", "retention", "add_partition")},
        {"a partition that came later begins at its log start": {"late_start": "log start"}},
    ),
}


def run(name, flip=None, seconds=120, limit=3_000_000):
    """Explore one of SCENARIOS, whole or with the rule `flip` taken out."""
    settings, flips = SCENARIOS[name]
    cfg = Cfg(**settings, **(flips[flip] if flip else {}))
    return Model(cfg, PROGRAMS, OPS, set(), set(), invariant, heal).bfs(seconds=seconds, limit=limit)
