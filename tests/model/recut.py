"""A keyed table that is cut into another number of buckets between merges: `mirror.py`, with the bucket of each file.

A merge reads and replaces only the buckets that its keys fall into, by the number that the table says. A cut writes the
whole table anew. Each host cuts to the number in its own YAML before it merges, and may have an old one.
"""

from __future__ import annotations

from tests.model import mirror
from tests.model.engine import BLOCK, UNK, Model, Violation


class Cfg(mirror.Cfg):
    """The rules about cuts as switches, beside those of the merge."""

    buckets = 4  # of the YAML, where a task is given no other number
    hashes = {}  # by key
    made = 0  # the table has batch 1 at first, in so many buckets; 0: it has none
    eager = ("wait_landed", "mark")
    attempts = 4  # of one task: hosts that want different numbers do not go on for ever
    over = "nothing"  # M1: what may have been committed since the table was read: nothing | cuts (a merge looks for
    # merges alone) | merges (a cut looks for nothing)
    said = "commit"  # the table's number of buckets: in the commit that cuts it | after it
    merges_by = "base"  # the number that a merge goes by: of the snapshot that it merges into | of the look before
    cut_of = "base"  # a cut is made anew where the look before said another number | it goes by what that said

    def init(self, cfg):
        s = super().init(cfg)
        if self.made:
            commit(s, cfg, 0, mirror.merged(cfg, (), cfg.batches[1], 0), 1, len(cfg.batches[1]), self.made)
        return s


def bucket(cfg, key, number):
    return cfg.hashes[key] % number


def misplaced(cfg, rows, number, touched=None):
    """Whether files of these buckets (all of them) hold keys of others: what each job looks for."""
    read = [(file, row) for file, row in rows if touched is None or file[1] in touched]
    return any(bucket(cfg, row.key, number) != file[1] for file, row in read)


# ---------------------------------------------------------------- what tasks ask and change


def look(s, cfg):
    """The last batch in the table, and its number of buckets."""
    return s["table"].upto, s.get("buckets", 0)


def load_cut(s, cfg):
    """A snapshot, and the number of buckets in its summary; 0 before the first commit."""
    return s["table"], s.get("buckets", 0)


def commit(s, cfg, snapshot, changes, upto, events, number):
    """As of any merge; its files are those of buckets by `number`, which it leaves as the table's."""
    if cfg.over == "cuts" and s.get("merged", 0) <= snapshot:
        snapshot = s["table"].snapshot
    answer = mirror.commit(s, cfg, snapshot, changes, upto, events)
    if answer == "ok":
        s["merged"] = s["table"].snapshot
        new = s["table"].snapshot
        rows = (((new, bucket(cfg, row.key, number)) if file == new else file, row) for file, row in s["table"].rows)
        s["table"] = s["table"]._replace(rows=frozenset(rows))
        s["buckets"] = s.get("buckets") or number
    return answer


def cut_commit(s, cfg, snapshot, read, number):
    """Rows and tombstones that were read lie in other files; nothing else changes (M1)."""
    table = s["table"]
    if cfg.over != "merges" and table.snapshot != snapshot:
        return "conflict"
    new = table.snapshot + 1
    written = {((new, bucket(cfg, row.key, number)), row) for _, row in read}
    s["table"] = table._replace(snapshot=new, rows=frozenset((table.rows - read) | written))
    if cfg.said == "commit":
        s["buckets"] = number
    return "ok"


def say_buckets(s, cfg, number):
    s["buckets"] = number
    return "ok"


def restore(s, cfg):
    """A person takes the table back to its beginning, which says no number."""
    answer = mirror.restore(s, cfg)
    if answer is not BLOCK:
        s["buckets"] = 0
    return answer


# ---------------------------------------------------------------- tasks


def apply(cfg, first, last, wanted=None):
    """Cut the table if the host wants another number of buckets, then merge `first` to `last` as `mirror.apply`."""
    wanted = wanted or cfg.buckets
    yield ("wait_landed", last)
    for _ in range(cfg.attempts):
        upto, told = yield ("look",)
        if last <= upto and told == wanted:
            yield ("mark", first, last)
            return "ok"
        table, has = yield ("load_cut",)
        if table.upto != upto:
            continue
        if not mirror.balanced(table):
            return "alarm: rows that nobody purged are gone"
        if told and told != wanted:
            answer = yield from cut(cfg, table, told, has, wanted)
        else:
            answer = yield from merge(cfg, table, first, last, (has if cfg.merges_by == "base" else told) or wanted)
        if answer not in ("ok", "conflict"):
            return answer
    return "fail: other tasks change the table"


def cut(cfg, table, told, has, wanted):
    """A cut of a table of `told` buckets, as a look has said, of which there are `has` in the snapshot."""
    if cfg.cut_of == "base" and has != told:
        return "conflict"
    if misplaced(cfg, table.rows, told):
        return "alarm: files hold keys of other buckets"
    answer = yield ("cut_commit", table.snapshot, table.rows, wanted)
    if answer == "ok" and cfg.said == "after":
        yield ("say_buckets", wanted)
    return "fail" if answer == UNK else answer


def merge(cfg, table, first, last, number):
    begin = max(first, table.upto + 1)
    if begin > table.upto + 1:
        return "refused: the batches before are not in the table"
    events = [e for n in range(begin, last + 1) for e in cfg.batches[n]]
    if misplaced(cfg, table.rows, number, {bucket(cfg, e.key, number) for e in events}):
        return "alarm: files hold keys of other buckets"
    there = [(file, row) for file, row in table.rows if file[1] == bucket(cfg, row.key, number)]
    changes = mirror.merged(cfg, there, events, table.purged_below)
    answer = yield ("commit", table.snapshot, changes, last, len(events), number)
    return "fail" if answer == UNK else answer


def invariant(s, cfg):
    """Every call for a person is wrong here: no stranger writes, so nothing needs one."""
    mirror.invariant(s, cfg)
    if s.get("alarm"):
        raise Violation(f"a false {s['alarm']}")


MINE = (look, load_cut, commit, cut_commit, say_buckets, restore)
OPS = mirror.OPS | {f.__name__: f for f in MINE}
PROGRAMS = {"apply": apply, "purge": mirror.purge}


def build(**settings):
    """A model of a scenario's settings."""
    commits = ("commit", "cut_commit", "purge_commit")
    return Model(Cfg(**settings), PROGRAMS, OPS, commits, commits, invariant, mirror.heal)
