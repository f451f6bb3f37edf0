"""A model of batches on a store that cannot rename: the record of a batch, put if absent, is its landing.

Two writers, whose requests are lost or come late, a ledger that is restored from a backup at any moment, an operator
who adopts what storage knows, a batch that is given up, a publisher that refers to files where they lie, and a cleaner
that asks the ledger, then storage, and deletes later. An attempt is told by its nonce; its files and receipt come at
once.
"""

from __future__ import annotations

from typing import NamedTuple

from tests.model.engine import BLOCK, UNK, Switches, Violation


class Batch(NamedTuple):
    """What the ledger has; offsets [lo, hi)."""

    state: str
    epoch: int
    nonce: int
    lo: int
    hi: int


class Attempt(NamedTuple):
    """A prefix with files of [lo, hi); as a record: the landing that names it. Nonce 0: the mark of an abandonment."""

    batch: int
    epoch: int
    nonce: int
    lo: int
    hi: int


OVER = ("LANDED", "ABANDONED")


class Cfg(Switches):
    """Rules as switches, and what a scenario sets; the defaults are the whole protocol."""

    record_first = True  # the record is put before the ledger says LANDED
    compare = True  # "exists" is ours only if the record names this attempt
    read_back = True  # an unknown answer is read back
    clean_by_record = True  # an attempt goes only once the batch's record names another one
    clean_unrecorded = False  # ... or while there is no record
    adopt_nonce = True  # an operator's adoption compares attempts, not only offsets
    adopt_given_up = True  # an operator's adoption takes up what the ledger gave up, if it has landed
    compare_mark = True  # the mark of an abandonment that finds a landing is no mark
    publish_recorded = True  # files are those of LANDED batches, not of SEALED ones
    procs = ()
    env = ("produce", "backup", "restore")
    env_kills = ()
    no_crash = ()
    eager = ()
    live = frozenset()
    budget = (0, 1, 1, 2)  # crashes, lost answers, requests in flight, environment events
    most = 2  # records of the log
    begun = True  # the first batch is PLANNED
    drops = False  # what is given up is gone for good, as offsets of Kafka are; a redrive's rows are due again

    def init(self, _cfg):
        first = (Batch("PLANNED", 0, 0, 0, 1),) if self.begun else ()
        return {"end": 1, "batches": first, "backup": first, "attempts": frozenset(), "table": (), "uid": 0}


def due(cfg, batches):
    """Where the next batch begins."""
    if not batches:
        return 0
    return batches[-1].lo if batches[-1].state == "ABANDONED" and not cfg.drops else batches[-1].hi


def attempt_of(number, batch):
    return Attempt(number, batch.epoch, batch.nonce, batch.lo, batch.hi)


# ---------------------------------------------------------------- the ledger


def look(s, cfg):
    return s["batches"]


def plan(s, cfg, seen):
    if s["batches"] != seen:
        return "lost"
    if due(cfg, seen) == s["end"]:
        return "nothing"
    s["batches"] = (*seen, Batch("PLANNED", 0, 0, due(cfg, seen), s["end"]))
    return "ok"


def _swap(s, number, seen, new):
    if len(s["batches"]) < number or s["batches"][number - 1] != seen:
        return "lost"
    s["batches"] = (*s["batches"][: number - 1], new, *s["batches"][number:])
    return new


def take(s, cfg, number, seen):
    """R9: the attempt is named by what this returns."""
    new = _swap(s, number, seen, seen._replace(state="WRITING", epoch=seen.epoch + 1, nonce=s["uid"] + 1))
    if new != "lost":
        s["uid"] += 1
    return new


def seal(s, cfg, number, seen, of):
    """Of its own attempt, or of the recorded one (R11)."""
    return _swap(s, number, seen, seen._replace(state="SEALED", epoch=of.epoch, nonce=of.nonce))


def land(s, cfg, number, seen):
    return _swap(s, number, seen, seen._replace(state="LANDED"))


def abandon(s, cfg, number, seen):
    return _swap(s, number, seen, seen._replace(state="ABANDONED"))


def withdraw(s, cfg, number, seen):
    if s["batches"][number - 1 :] != (seen,):
        return "lost"
    s["batches"] = s["batches"][: number - 1]
    return "ok"


def adopt(s, cfg, seen, found):
    if s["batches"] != seen:
        return "lost"
    if due(cfg, seen) != found.lo:
        return "contradiction"
    state = "LANDED" if found.nonce else "ABANDONED"
    s["batches"] = (*seen, Batch(state, found.epoch, found.nonce, found.lo, found.hi))
    return "ok"


# ---------------------------------------------------------------- storage, the table


def record(s, cfg, number):
    return s.get(("hwm", number))


def put(s, cfg, found):
    """If absent."""
    if ("hwm", found.batch) in s:
        return "exists"
    s["hwm", found.batch] = found
    return "ok"


def complete(s, cfg, attempt):
    return attempt in s["attempts"]


def write(s, cfg, attempt):
    s["attempts"] |= {attempt}


def names(s, cfg):
    return tuple(sorted(s["attempts"]))


def delete(s, cfg, attempt):
    s["attempts"] -= {attempt}


def load(s, cfg):
    return s["table"]


def commit(s, cfg, seen, new):
    if s["table"] != seen:
        return "conflict"
    s["table"] = new
    return "ok"


# ---------------------------------------------------------------- what happens


def produce(s, cfg):
    if s["end"] == cfg.most:
        return BLOCK
    s["end"] += 1
    return None


def backup(s, cfg):
    if s["backup"] == s["batches"]:
        return BLOCK
    s["backup"] = s["batches"]
    return None


def restore(s, cfg):
    if s["backup"] == s["batches"]:
        return BLOCK
    s["batches"] = s["backup"]
    return None


# ---------------------------------------------------------------- tasks


def ingest(cfg):
    batches = yield ("look",)
    if not batches or batches[-1].state in OVER:
        if (yield from _contradicted(cfg, batches)):
            return "ahead"
        if (yield ("record", len(batches) + 1)) is not None:
            return "ahead"
        answer = yield ("plan", batches)
        if answer != "ok":
            return "nothing" if answer == "nothing" else "fail"
        batches = yield ("look",)
    number = len(batches)
    if not batches or batches[-1].state in OVER:
        return "fail"
    batch = batches[-1]
    if batch.state != "SEALED":
        batch = yield from _sealed(cfg, number, batch)
        if isinstance(batch, str):
            return batch
    return (yield from _land(cfg, number, batch))


def _sealed(cfg, number, batch):
    found = yield ("record", number)
    if found is not None:
        if (found.lo, found.hi) != (batch.lo, batch.hi) or not found.nonce:
            return "ahead"
        batch = yield ("seal", number, batch, found)
    else:
        if batch.state == "PLANNED" or not (yield ("complete", attempt_of(number, batch))):
            batch = yield ("take", number, batch)
            if batch == "lost":
                return "fail"
            yield ("write", attempt_of(number, batch))
        batch = yield ("seal", number, batch, batch)
    return "fail" if batch == "lost" else batch


def _land(cfg, number, batch):
    mine = attempt_of(number, batch)
    if not cfg.record_first:
        if (yield ("land", number, batch)) == "lost":
            return "fail"
        yield ("put", mine)
        return "ok"
    answer = yield ("put", mine)
    if (answer == UNK and cfg.read_back) or (answer == "exists" and cfg.compare):
        found = yield ("record", number)
        if found is None:
            return "fail"
        if found != mine if cfg.compare else False:
            return "ahead"
    return "fail" if (yield ("land", number, batch)) == "lost" else "ok"


def refusal(cfg):
    """A redrive that is refused, or a batch that a person gives up: ABANDONED in the ledger, then its mark."""
    batches = yield ("look",)
    if not batches or batches[-1].state not in ("PLANNED", "WRITING"):
        return "nothing"
    batch = yield ("abandon", len(batches), batches[-1])
    if batch != "lost":
        yield from _contradicted(cfg, (*batches[:-1], batch))
    return "ok"


def _contradicted(cfg, batches):
    """Marks have no holes: whether storage says that the batch which was abandoned last has landed."""
    if not batches or batches[-1].state != "ABANDONED":
        return False
    mark = Attempt(len(batches), 0, 0, batches[-1].lo, batches[-1].hi)
    answer = yield ("put", mark)
    if answer == "ok" or (answer == "exists" and not cfg.compare_mark):
        return False
    return (yield ("record", len(batches))) != mark


def operator(cfg):
    """`repair --adopt`: what storage knows beyond the ledger."""
    batches = yield ("look",)
    if batches and batches[-1].state != "LANDED" and (cfg.adopt_given_up or batches[-1].state != "ABANDONED"):
        last = batches[-1]
        found = yield ("record", len(batches))
        if found is not None and not _is_of(cfg, found, last):
            if (yield ("withdraw", len(batches), last)) == "lost":
                return "fail"
            batches = batches[:-1]
    found = yield ("record", len(batches) + 1)
    if found is None:
        return "nothing"
    return (yield ("adopt", batches, found))


def _is_of(cfg, found, batch):
    if batch.state == "SEALED" and cfg.adopt_nonce:
        return found.nonce == batch.nonce
    if batch.state == "ABANDONED":
        return not found.nonce
    return bool(found.nonce) and (found.lo, found.hi) == (batch.lo, batch.hi)


def publisher(cfg):
    """Files of landed batches, where they lie."""
    batches = yield ("look",)
    table = yield ("load",)
    shown = {a.batch for a in table}
    told = ("LANDED",) if cfg.publish_recorded else ("LANDED", "SEALED")
    new = tuple(attempt_of(i + 1, b) for i, b in enumerate(batches) if b.state in told and i + 1 not in shown)
    if not new:
        return "nothing"
    return (yield ("commit", table, (*table, *new)))


def cleaner(cfg):
    """Asks the ledger, then storage, deletes later."""
    batches = yield ("look",)
    for attempt in (yield ("names",)):
        if len(batches) < attempt.batch or not _overtaken(attempt, batches[attempt.batch - 1]):
            continue
        if cfg.clean_by_record:
            found = yield ("record", attempt.batch)
            if found == attempt or (found is None and not cfg.clean_unrecorded):
                continue
        yield ("delete", attempt)
    return "ok"


def _overtaken(attempt, batch):
    if batch.state in OVER:
        return batch.nonce != attempt.nonce or batch.state == "ABANDONED"
    return attempt.epoch < batch.epoch


OF_LEDGER = (look, plan, take, seal, land, abandon, withdraw, adopt)
OF_STORAGE = (complete, write, record, put, names, delete, load, commit)
OPS = {f.__name__: f for f in (*OF_LEDGER, *OF_STORAGE, produce, backup, restore)}
PROGRAMS = {f.__name__: f for f in (ingest, refusal, operator, publisher, cleaner)}
UNSURE = {"put"}


# ---------------------------------------------------------------- what must hold


def invariant(s, cfg):
    for key, found in s.items():
        if isinstance(key, tuple) and key[0] == "hwm" and found.nonce and found not in s["attempts"]:
            raise Violation(f"the record of batch {found.batch} names files that are gone")
    for i, b in enumerate(s["batches"]):
        if b.state == "LANDED" and s.get(("hwm", i + 1)) != attempt_of(i + 1, b):
            raise Violation(f"batch {i + 1} is LANDED, storage's record says otherwise")
    seen = set()
    for a in s["table"]:
        if a not in s["attempts"]:
            raise Violation(f"the table names files of batch {a.batch} that are gone")
        for offset in range(a.lo, a.hi):
            if offset in seen:
                raise Violation(f"offset {offset} is in the table twice")
            seen.add(offset)


def heal(model, st):
    """Every task is killed, requests in flight are executed or never were; tasks run one by one bring all records."""
    flying = sorted((k for k in st[0] if isinstance(k, tuple) and k[0] == "fly"), key=str)
    for executed in (True, False) if flying else (True,):
        s = {k: v for k, v in st[0].items() if k not in flying}
        for k in flying if executed else ():
            s, _ = model.done(s, st[0][k])
        for _ in range(2 * model.cfg.most + 2):
            s, answer = model.to_its_end(s, ("ingest",))
            if answer == "ahead":
                s, answer = model.to_its_end(s, ("operator",))
            if answer == "contradiction":
                raise Violation("storage and ledger contradict each other")
            s, _ = model.to_its_end(s, ("publisher",))
            s, _ = model.to_its_end(s, ("cleaner",))
            invariant(s, model.cfg)
        if model.to_its_end(s, ("ingest",))[1] == "ahead":
            raise Violation("storage tells of more than the ledger knows, whatever is adopted")
        for i, b in enumerate(s["batches"]):
            if b.state == "ABANDONED" and s["hwm", i + 1].nonce:
                raise Violation(f"batch {i + 1} is given up for good, though it has landed")
        shown = sorted(offset for a in s["table"] for offset in range(a.lo, a.hi))
        given_up = [b for b in s["batches"] if b.state == "ABANDONED"] if model.cfg.drops else []
        dropped = sorted(offset for b in given_up for offset in range(b.lo, b.hi))
        if sorted(shown + dropped) != list(range(s["end"])):
            gone = f", and {dropped} were given up" if dropped else ""
            raise Violation(f"of {s['end']} records the table has {shown}{gone}, whatever is run again")
