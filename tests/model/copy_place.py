"""A model of a connector that loses its place in the source's log (S12): what is told of its mirror then?

The connector notes how far it has delivered. While it is down its source may purge the log beyond that place, or a
person may forget it; then it begins at the log's end, and what was written in between never comes. An observer looks
at the place and at the log's oldest part, one look after the other, and tells what `copy_complete.py` proves of a
connector that goes on where it was. A copy reads the row anew; a comparison knows contents alone, and finds that it
is the source's. A source's transaction n has position n.
"""

from __future__ import annotations

from tests.model.engine import BLOCK, Violation
from tests.model.full_copy import Resting, Settings


class Cfg(Settings):
    """Rules as switches; the defaults are the whole protocol."""

    writes = 3
    forgets = ""  # a person makes the connector forget its place, while the log is there: and it waits until that was
    # seen | or makes one of another name, which waits for nobody (renamed)
    compared = "last"  # S12: the log's oldest part is compared with the place of the look before | of this look alone
    asked = "after"  # S12: the log's oldest part is asked once the place is known | before it
    again = True  # S12: the look that finds the connector at a new place counts as one that found it lost
    carried = True  # S12: a look knows what the looks before it have found
    cures = "begun"  # S12: a copy counts that began after the newest such look | that became whole after it
    none = True  # S12: where the connector had a place, none is a loss
    names = True  # S12: a connector of another name, that is further, may have lost something
    contents = 99  # so many transactions in a row have different ones
    compares = False  # a comparison, and no copy
    waits = True  # S12: a comparison counts once what was in the topic is merged
    mends = False  # before it compares, some keys are read; the copy is given up then, and its chunk stays
    backs = False  # a person takes the table back to before all that
    batches = True  # S12: a comparison counts while the table has the batches that it had
    chunks = True  # S12: and the chunks of copies

    always = (("deliver",), ("apply",))
    procs = (
        ("S", ("source",), 0),
        ("C", ("connector",), 1),
        ("O", ("observer",), 0),
        ("K", ("copier",), 0),
        ("P", ("person",), 0),
    )
    looks = 2
    budget = (1, 0, 0, 0)
    no_crash = ("source", "observer", "copier", "person")

    def init(self, _cfg):
        row = (0, 0)  # position, the transaction whose value it has
        return {
            "n": 0,
            "oldest": 0,
            "name": 0,
            "offset": 0,
            "read": 0,
            "topic": (),
            "done": 0,
            "row": row,
            "chunk": 0,
            "claimed": (0, 0),  # what was in the table when it was compared: events, and a chunk
            "round": 1,
            "whole": 1,
            "open": False,
            "looks": ((0, 0, 0),),  # (place, name, the newest copy that began before it was whole again)
            "told": 0,
            "seen": False,  # that the connector has no place
        }


# ---------------------------------------------------------------- the source and the connector


def write(s, cfg):
    s["n"] += 1
    return "ok"


def purge(s, cfg):
    s["oldest"] = s["n"]
    return "ok"


def forget(s, cfg):
    if not cfg.forgets:
        return "never"
    s["offset"], s["name"] = None, s["name"] + (cfg.forgets == "renamed")
    return "ok"


def resume(s, cfg):
    """Begin at the place that was noted, or at the log's end where it is gone: a person wanted that."""
    at = s["offset"]
    if cfg.forgets == "seen" and at is None and not s["seen"]:
        return BLOCK
    s["read"] = s["n"] if at is None or at < s["oldest"] else at
    return "ok"


def send(s, cfg):
    """Read the next transaction and hand its event to the broker."""
    if s["read"] >= s["n"]:
        return BLOCK
    s["read"] += 1
    s["topic"] = (*s["topic"], s["read"])
    return "ok"


def deliver(s, cfg):
    """The connector notes how far it is: not before it has begun."""
    if s["read"] is None or s["offset"] == s["read"]:
        return BLOCK
    s["offset"] = s["read"]
    return "ok"


def down(s, cfg):
    s["read"] = None
    return "ok"


# ---------------------------------------------------------------- the mirror, its copies, the observer


def apply(s, cfg):
    if s["done"] >= len(s["topic"]):
        return BLOCK
    n = s["topic"][s["done"]]
    s["done"] += 1
    s["row"] = max(s["row"], (n, n))
    return "ok"


def begin(s, cfg):
    s["round"] += 1
    return s["round"]


def copy(s, cfg):
    s["row"] = max(s["row"], (s["n"], s["n"]))
    return "ok"


def equal(s, cfg, number, end):
    """Compare the row with the source's; where they are the same, that counts as a copy."""
    if cfg.waits and s["done"] < end:
        return BLOCK
    if s["row"][1] % cfg.contents == s["n"] % cfg.contents:
        s["whole"], s["claimed"] = number, (s["done"], s["chunk"])
    return "ok"


def mend(s, cfg):
    """A chunk of some keys, the row among them; it is older than what commits later."""
    s["row"], s["chunk"] = max(s["row"], (s["n"], s["n"])), s["n"]
    return "ok"


def back(s, cfg):
    """The table is what it was at first, and tells what it told then; the chunk is of a copy that was given up."""
    s["done"], s["row"], s["chunk"], s["told"] = 0, (0, 0), 0, 0
    return "ok"


def whole(s, cfg, number):
    s["whole"] = number
    return "ok"


def place(s, cfg):
    s["seen"] = s["seen"] or s["offset"] is None
    return s["offset"], s["name"]


def oldest(s, cfg):
    return s["oldest"]


def ends(s, cfg):
    return len(s["topic"])


def newest(s, cfg):
    return s["round"]


def note(s, cfg, found, log, round_):
    """What the look says; the newest copy that does not cure."""
    (at, name), (last, known, carried) = found, s["looks"][-1]
    if at is None and not cfg.none:
        return "nobody knows"
    lost = at is None or at < log
    if cfg.compared == "last" and cfg.again:
        lost = lost or last is None or last < log
    elif cfg.compared == "last":
        lost = lost or (last is not None and last < log and at == last)
    if cfg.names and name != known and at is not None and last is not None and at > last:
        lost = True
    carried = carried if cfg.carried else 0
    if lost:
        carried = max(carried, round_ if cfg.cures == "begun" else s["whole"])
    s["looks"] = (*s["looks"], (at, name, carried))
    return carried


def tell(s, cfg, found, carried, end):
    """Tell the place of a look once the topic's end is merged, and nothing is lost that no copy has read since."""
    if s["done"] < end:
        return BLOCK
    events, chunk = s["claimed"]
    stands = (not cfg.batches or s["done"] >= events) and (not cfg.chunks or s["chunk"] >= chunk)
    whole = s["whole"] if stands else 1
    if found[0] is not None and whole > carried:
        s["told"] = max(s["told"], found[0])
    return "ok"


# ---------------------------------------------------------------- what must hold


def invariant(s, cfg):
    since = {n % cfg.contents for n in range(s["told"], s["n"] + 1)}
    if s["row"][1] < s["told"] and s["row"][1] % cfg.contents not in since:
        raise Violation(f"told that nothing is older than {s['told']}: the row is as of {s['row'][1]}")


# ---------------------------------------------------------------- tasks


def source(cfg):
    for n in range(cfg.writes):
        yield ("write",)
        if n + 2 == cfg.writes:
            yield ("purge",)


def connector(cfg):
    yield ("down",)
    yield ("forget",)
    yield ("resume",)
    for _ in range(cfg.writes):
        yield ("send",)


def observer(cfg):
    for _ in range(cfg.looks):
        log = (yield ("oldest",)) if cfg.asked == "before" else None
        found = yield ("place",)
        if log is None:
            log = yield ("oldest",)
        end = yield ("ends",)
        round_ = yield ("newest",)
        carried = yield ("note", found, log, round_)
        if carried != "nobody knows":
            yield ("tell", found, carried, end)


def copier(cfg):
    if cfg.mends:
        yield ("mend",)
    number = yield ("begin",)
    if cfg.compares:
        end = yield ("ends",)
        yield ("equal", number, end)
        return
    yield ("copy",)
    yield ("whole", number)


def person(cfg):
    if cfg.backs:
        yield ("back",)


PROGRAMS = {f.__name__: f for f in (source, connector, observer, copier, person)}
OPS = {f.__name__: f for f in (write, purge, forget, resume, send, deliver, down, apply, begin, copy, whole, equal)}
OPS |= {f.__name__: f for f in (place, oldest, ends, newest, note, tell, mend, back)}


def build(**settings):
    """A model of a scenario's settings."""
    return Resting(Cfg(**settings), PROGRAMS, OPS, invariant, lambda s, cfg: None)
