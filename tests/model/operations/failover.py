"""Atomic operations around a ledger that forgets its last commits while tasks live on: records, SWAPPING, adoption.

Storage keeps a record of each generation that is about to be shown (R11). It is ("rec", window, number) in the state,
and no failover takes it back.
"""

from __future__ import annotations

from collections import namedtuple

from tests.model.engine import BLOCK
from tests.model.operations.window import bump, contributions
from tests.model.rules import File
from tests.model.state import batches, open_batch

Record = namedtuple("Record", "number contrib kind built location man")
"""`built`: the directory that the generation was built in; `location`: where readers look for it."""


def _recorded(s):
    return {k[1:]: v for k, v in s.items() if isinstance(k, tuple) and k[0] == "rec"}


def _is_unknown(s, cfg, w, number):
    x = s["w", w]
    if x.state == "CLOSING" and number == 1 and cfg.adopt_closing:
        return False  # the close goes on, and ends with this generation or with a contradiction
    return x.gen < number


def unknown(s, cfg):
    """Whether storage has a record of a generation that the ledger does not know."""
    return any(_is_unknown(s, cfg, w, number) for w, number in _recorded(s))


def recorded(s, cfg, w, number):
    """Whether storage has a record of the generation."""
    return ("rec", w, number) in s


def highest(s, cfg, w, number):
    """Return the highest epoch of which the generation has a directory."""
    marks = [k[1].partition("/")[2].split(".") for k in s if isinstance(k, tuple) and k[0] == "d" and k[1][:3] == "pub"]
    return max((int(e) for a, b, e in marks if (int(a), int(b)) == (w, number)), default=0)


# ------------------------------------------------------------ one generation


def g_begin(s, cfg, w, kind):
    """CURRENT is the newest: the next generation begins to be built."""
    x = s["w", w]
    if x.state != "PUBLISHED":
        return "lost"
    s["w", w] = x._replace(state="REPLAY", gen=x.gen + 1, epoch=(0, 0))
    s["kind", w] = kind
    return "ok"


def g_take(s, cfg, w, number, above):
    """Take the generation by an epoch; a nonce tells equal epochs of two histories apart."""
    x = s["w", w]
    if x.state not in ("SEALED", "ASSEMBLING", "REPLAY") or x.gen != number:
        return "lost"
    s["takes"] = s.get("takes", 0) + 1
    old = x.epoch[0] if isinstance(x.epoch, tuple) else x.epoch
    token = (max(old, above) + 1, s["takes"])
    s["w", w] = x._replace(state="REPLAY" if x.state == "REPLAY" else "ASSEMBLING", epoch=token)
    files = tuple(f for i in x.contrib for f in s["b", i].man if f.kind == "w" and f.w == w) if number == 1 else ()
    return token, files, x.contrib, g_kind(s, cfg, w)


def g_kind(s, cfg, w):
    """Return the kind of the window's newest generation."""
    return s.get(("kind", w), "archive")


def g_holds(s, cfg, w, number, token):
    """Whether the generation is still being built by this epoch."""
    x = s["w", w]
    return x.state in ("ASSEMBLING", "REPLAY") and (x.gen, x.epoch) == (number, token)


def g_remake(s, cfg, w, number, epoch, kind):
    """The job of a replay or a reopening: copies of what is in force, and the late rows that wait."""
    cur = s["w", w].cur
    if cur is None:
        return "lost"
    path = f"gen/{w}.{number}.{epoch[0]}-{epoch[1]}"
    have = {r for f in cur[2] for r in f.recs}
    late = [] if kind == "replay" else [f for _, f in _late(s, w) if not set(f.recs) <= have]
    files = tuple(File((number, epoch, f.name), "w", w, f.app, f.recs) for f in [*cur[2], *late])
    s["d", path] = frozenset(files)
    return path, files


def g_built(s, cfg, w, number, token, path, man):
    """BUILDING(epoch) -> BUILT."""
    if not g_holds(s, cfg, w, number, token):
        return "lost"
    x = s["w", w]
    s["w", w] = x._replace(state="ASSEMBLED" if number == 1 else "REBUILT", man=(path, man), swap=None)
    return "ok"


def g_still(s, cfg, w, number, path):
    """Whether the generation is BUILT or SWAPPING, with the content that this task has built."""
    x = s["w", w]
    return x.state in ("ASSEMBLED", "REBUILT") and x.gen == number and x.man[0] == path


def g_mark(s, cfg, w, number, contrib, kind, path, location, man):
    """Write the record, which is never replaced."""
    s.setdefault(("rec", w, number), Record(number, contrib, kind, path, location, man))
    return "ok"


def g_swap(s, cfg, w, number, path):
    """BUILT -> SWAPPING: from here on nobody gives the generation up."""
    x = s["w", w]
    if not g_still(s, cfg, w, number, path):
        return "lost"
    s["w", w] = x._replace(swap=True)
    return "ok"


def g_show(s, cfg, w, number, path, location):
    """Point readers at the generation. Stands for the statements, each of which asks the ledger before (R8)."""
    x = s["w", w]
    if not (g_still(s, cfg, w, number, path) and x.swap):
        return "lost"
    for k in [k for k in s if isinstance(k, tuple) and k[0] == "h" and k[1] == w]:
        del s[k]
    for app in {f.app for f in x.man[1]}:
        s["h", w, app] = location
    return "ok"


def g_publish(s, cfg, w, number, path, location):
    """SWAPPING -> CURRENT."""
    x = s["w", w]
    if not (g_still(s, cfg, w, number, path) and x.swap):
        return "lost"
    s["w", w] = x._replace(state="PUBLISHED", cur=(number, location, x.man[1]), man=(), swap=None)
    return "ok"


def g_discard(s, cfg, w, number, token=None):
    """Give a generation up, BUILT or (of this epoch) BUILDING: the one in force is the newest again."""
    x = s["w", w]
    held = x.state == "REBUILT" if token is None else (x.state, x.epoch) == ("REPLAY", token)
    if x.gen != number or x.swap or not held:
        return "lost"
    s["w", w] = x._replace(state="PUBLISHED", man=())
    return "ok"


def g_met(s, cfg, w, number):
    """Whether readers may have met a generation that is to be given up, by storage and the catalogue."""
    record = s.get(("rec", w, number))
    if record is None:
        return False
    have = {r for f in s["w", w].cur[2] for r in f.recs}
    return any(not set(f.recs) <= have for f in record.man) or any(
        loc == record.location for k, loc in s.items() if isinstance(k, tuple) and k[0] == "h" and k[1] == w
    )


def g_take_back(s, cfg, w, number):
    """BUILT -> BUILDING, by an epoch of its own: from here on the task that has built it cannot swap it in (R13)."""
    x = s["w", w]
    if x.state != "REBUILT" or x.gen != number or x.swap:
        return "lost"
    s["takes"] = s.get("takes", 0) + 1
    s["w", w] = x._replace(state="REPLAY", man=(), epoch=(x.epoch[0] + 1, s["takes"]))
    if cfg.shown_again:
        s.update({("side", i): "due" for i, _ in _late(s, w)})
    return (x.epoch[0] + 1, s["takes"])


# ------------------------------------------------------------ the late table


def _late(s, w):
    found = [(i, f) for i, b in batches(s) if b.state == "LANDED" for f in b.man if f.kind == "re" and f.w == w]
    return sorted(found, key=repr)


def late_waits(s, cfg, w):
    """Whether late rows of the window have been landed that the generation in force does not hold."""
    have = {r for f in s["w", w].cur[2] for r in f.recs} if s["w", w].cur else set()
    return any(not set(f.recs) <= have for _, f in _late(s, w))


def late_hide(s, cfg, w):
    """Drop the late partitions whose rows the generation brings."""
    for i, _ in _late(s, w):
        s["late gone", i] = True
    return "ok"


def late_settle(s, cfg):
    """Do what maintenance owes the late table: add what is due, drop what a generation in force holds."""
    for k in [k for k in s if isinstance(k, tuple) and k[0] == "side"]:
        del s[k]
        s.pop(("late gone", k[1]), None)
    for w in cfg.windows:
        have = {r for f in s["w", w].cur[2] for r in f.recs} if s["w", w].cur else set()
        for i, f in _late(s, w):
            if set(f.recs) <= have:
                s["late gone", i] = True
    return "ok"


def late_visible(s, i):
    """Whether readers of the late table meet the batch's rows."""
    return ("late gone", i) not in s


# ------------------------------------------------------------ the operator


def ahead_somewhere(s, cfg):
    """Wait until a task would say that storage is ahead of the ledger, or contradicts it."""
    return "ok" if survey(s, cfg) else BLOCK


def survey(s, cfg):
    """Return the records that the ledger does not know, or whose generation it has begun anew."""
    found = []
    for (w, number), record in sorted(_recorded(s).items()):
        x = s["w", w]
        begun_anew = x.gen == number and x.state in ("SEALED", "ASSEMBLING", "REPLAY") and x.contrib != record.contrib
        given_up = x.gen == number and x.state == "PUBLISHED" and x.cur[0] < number and record.kind == "reopen"
        if x.gen < number or ((begun_anew or given_up) and cfg.survey_building):
            found.append((w, number))
    return tuple(found)


def restore(s, cfg, w, number):
    """Write the generation back as BUILT, where record and ledger agree of which batches it is."""
    record, x = s.get(("rec", w, number)), s["w", w]
    if record is None or (x.state == "PUBLISHED" and (x.gen > number or x.cur[0] >= number)):
        return "lost"
    if x.state in ("OPEN", "CLOSING"):
        if cfg.adopt_closing and open_batch(s) is not None:
            if x.state == "OPEN":
                s["w", w] = x._replace(state="CLOSING", epoch=s["pl"][1])
                bump(s)
            return "closing"
        if contributions(s, w) != record.contrib:
            return "contradicts"
        bump(s)
    elif x.contrib != record.contrib:
        return "contradicts"
    elif x.gen == number and x.state not in ("SEALED", "ASSEMBLING", "REPLAY", "PUBLISHED"):
        return "lost"
    state = "ASSEMBLED" if number == 1 else "REBUILT"
    s["kind", w] = record.kind
    s["w", w] = x._replace(
        state=state, gen=number, contrib=record.contrib, man=(record.built, record.man), epoch=(0, 0), swap=None
    )
    return "ok"


def aside_files(s, cfg, w, number):
    """Bring a first generation's files to a directory of its own, where the next try looks.

    From where it was built, else from the table: so a rename that its task still sends finds nothing to move.
    """
    record = s.get(("rec", w, number))
    if record is None or number > 1 or s["w", w].state in ("ASSEMBLED", "PUBLISHED"):
        return "nothing"
    fresh = f"pub/{w}.{number}.{highest(s, cfg, w, number) + 1}"
    for place in (record.built, record.location) if cfg.built_first else (record.location,):
        if set(record.man) <= set(s.get(("d", place), ())) and ("d", place) in s:
            s["d", fresh] = s.pop(("d", place))
            return "ok"
    return "nothing"


def aside_record(s, cfg, w, number):
    """Move the record to where nobody looks for records."""
    s.pop(("rec", w, number), None)
    return "ok"


# ------------------------------------------------------------ the failover


def _of_windows(s):
    return [k for k in s if isinstance(k, tuple) and k[0] in ("w", "kind", "side")]


def note_commits(s, cfg):
    """From here on commits can be lost."""
    if "noted" in s:
        return BLOCK
    s["noted"] = frozenset((k, s[k]) for k in _of_windows(s))
    s["noted at"] = s["pl"]
    return None


def lose_commits(s, cfg):
    """The database fails over: what windows have committed since is lost. No batch was planned in between."""
    if s.get("noted") in (None, "lost") or s["noted at"][1] != s["pl"][1]:
        return BLOCK
    before = dict(s["noted"])
    if all(s.get(k) == v for k, v in before.items()):
        return BLOCK
    for k in _of_windows(s):
        del s[k]
    s.update(before)
    s["pl"], s["noted"] = s["noted at"], "lost"
    return None
