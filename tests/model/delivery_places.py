"""A delivery goes to another place: hosts with the YAML of before and that of today send one window at once."""

from __future__ import annotations

from typing import NamedTuple

from tests.model.engine import UNK, Model, Switches, Violation

OLD, NEW = 0, 1


class Row(NamedTuple):
    """The ledger's row."""

    epoch: int = 0
    state: str = "NONE"


class Cfg(Switches):
    """Rules as switches; the defaults are the whole protocol."""

    stood = "asked"  # STANDING is said where the delivery goes there, by the same commit | not asked
    moved = "at once"  # what stands or is under way is due by the commit that notes the place | after | before | never
    refused = True  # a host whose YAML names a place of before sends nothing

    eager, no_crash, env, env_kills, live = (), (), (), (), frozenset()
    procs, budget = (), (0, 0, 0, 0)

    def init(self, _cfg):
        return {"row": Row(), "known": OLD, "earlier": (), "moves": 0, ("shown", OLD): False, ("shown", NEW): False}


def look(s, cfg):
    return s["known"], s["earlier"], s["row"]


def move(s, cfg, known, place):
    if s["known"] != known:
        return "lost"
    s["known"], s["earlier"], s["moves"] = place, (*s["earlier"], known), s["moves"] + 1
    return due_again(s, cfg) if cfg.moved == "at once" else "ok"


def due_again(s, cfg):
    if s["row"].state in ("SENDING", "STANDING"):
        s["row"] = Row(s["row"].epoch, "PENDING")
    return "ok"


def take(s, cfg, row):
    if s["row"] != row:
        return "lost"
    s["row"] = Row(row.epoch + 1, "SENDING")
    return s["row"]


def show(s, cfg, place):
    s["shown", place] = True
    return "ok"


def stand(s, cfg, place, row):
    if s["row"] != row or (cfg.stood == "asked" and s["known"] != place):
        return "lost"
    s["row"] = row._replace(state="STANDING")
    return "ok"


def deliver(cfg, place):
    known, earlier, _ = yield ("look",)
    if cfg.refused and place in earlier:
        return "refused: the YAML of before"
    if known != place:
        if cfg.moved == "before":
            yield ("due_again",)
        if (yield ("move", known, place)) in ("lost", UNK):
            return "fail: run it again"
        if cfg.moved == "after":
            yield ("due_again",)
    _, _, row = yield ("look",)
    if row.state == "STANDING":
        return "ok"
    row = yield ("take", row)
    if row in ("lost", UNK):
        return "fail: overtaken"
    yield ("show", place)
    return "ok" if (yield ("stand", place, row)) == "ok" else "fail: overtaken"


def invariant(s, cfg):
    if s["row"].state == "STANDING" and not s["shown", s["known"]]:
        raise Violation("the ledger says that it stands where nothing stands")
    if s["moves"] > 1:
        raise Violation("hosts send it to their places in turns")


def heal(model, st):
    """All tasks are killed, and hosts have the YAML of today."""
    s = model.alone(st[0], lambda: deliver(model.cfg, NEW), 3)
    if s["row"].state != "STANDING" or not s["shown", NEW]:
        raise Violation(f"not healed: {s['row']}")


OPS = {f.__name__: f for f in (look, move, due_again, take, show, stand)}
SCENARIOS = {
    "delivery-moved": (
        {"procs": (("old", ("deliver", OLD), 1), ("new", ("deliver", NEW), 1)), "budget": (1, 1, 0, 0)},
        {
            "STANDING is said wherever the delivery goes": {"stood": "not asked"},
            "what stood is not due again": {"moved": "never"},
            "what stood is due again after the place was noted": {"moved": "after"},
            "what stood is due again before the place is noted": {"moved": "before"},
            "a host with the YAML of before moves it back": {"refused": False},
        },
    ),
}


def run(name, flip=None, seconds=120, limit=3_000_000):
    """Explore one of SCENARIOS, whole or with the rule `flip` taken out."""
    settings, flips = SCENARIOS[name]
    model = Model(
        Cfg(**(settings | (flips[flip] if flip else {}))),
        {"deliver": deliver},
        OPS,
        ("move", "due_again", "take", "stand"),
        (),
        invariant,
        heal,
    )
    return model.bfs(seconds=seconds, limit=limit)
