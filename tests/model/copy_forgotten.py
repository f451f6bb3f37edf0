"""A model of rounds that are forgotten: `copy_rounds.py`, with a cleaner, and with a table that is taken back.

A round is *covered* once a later one, which has read at least its keys, is whole: its sweep stands in the table, and
all rows of these keys are the later round's, or newer. The commit of the sweep lets the table forget what it covers; a
cleaner deletes their files, and the ledger forgets them. A table that is taken back to a tag has its old rounds again.
The next merges bring the table what it lacks and the ledger still has. Covered rounds are not merged again, even if
the ledger still has them.
"""

from __future__ import annotations

from tests.model import copy_rounds
from tests.model.copy_rounds import BLOCK, OPS, PROGRAMS, Resting, Violation, newest, stand

OF_THE_TABLE = ("row", "marker", "swept", "done")
ALONE = ("chunks", "purged", "sweeps")


class Cfg(copy_rounds.Cfg):
    """Rules as switches; the defaults are the whole protocol."""

    covers = "keys"  # a later round: keys (its keys are at least the earlier one's) | any
    covered_by = "whole"  # a later round that is: whole (its sweep stood in the table) | read (all of it) | begun
    skips = True  # a round that is covered is not merged again, whether it is forgotten or not
    forgets = "covered"  # by the table, at a sweep: covered (rounds) | older (ones)
    in_order = True  # S6: a round is merged once those before it are in again

    def init(self, _cfg):
        s = super().init(_cfg) | {"gone": frozenset()}
        s["whole"] = s["sweeps"] = frozenset({1})
        s["tag"] = of_table(s)
        return s

    def keys_of(self, r):
        return set(self.part.get(r, self.keys))


def of_table(s):
    """What a snapshot holds."""
    return frozenset((k, v) for k, v in s.items() if k in ALONE or k[0] in OF_THE_TABLE)


def covered(s, cfg, r):
    """Whether a later round stands for it, by what the ledger knows."""
    return any(
        later > r and known(s, cfg, later) and (cfg.covers == "any" or cfg.keys_of(later) >= cfg.keys_of(r))
        for later in range(1, s["round"] + 1)
    )


def known(s, cfg, r):
    if cfg.covered_by == "read":
        return all(("accepted", r, i) in s for i in cfg.chunks_of(r))
    return cfg.covered_by == "begun" or r in s["whole"]


# ---------------------------------------------------------------- operations


def chunk(s, cfg, r, i, mine):
    """As merges do it: the oldest round that the table lacks comes first."""
    for older in range(1, r) if cfg.in_order else ():
        merge_again(s, cfg, older)
    return copy_rounds.chunk(s, cfg, r, i, mine)


def sweep(s, cfg, r):
    answer = copy_rounds.sweep(s, cfg, r)
    if answer == "ok":
        s["whole"], s["sweeps"] = s["whole"] | {r}, s["sweeps"] | {r}
        kept = [c for c in s["chunks"] if c[0] >= r or not lets_go(cfg, r, c[0])]
        s["chunks"] = frozenset(kept)
    return answer


def lets_go(cfg, r, older):
    """Whether the sweep of a round lets the table forget an older one."""
    return cfg.forgets == "older" or cfg.covers == "any" or cfg.keys_of(r) >= cfg.keys_of(older)


def forget(s, cfg, r):
    """The cleaner deletes the files of a round that is covered and that the table does not name."""
    if r not in s["over"] or not covered(s, cfg, r) or stand(s, r):
        return BLOCK
    s["gone"] = s["gone"] | {r}
    return "ok"


def tag(s, cfg):
    s["tag"] = of_table(s)
    return "ok"


def back(s, cfg):
    """A person takes the table back to the tag: the ledger knows what it knew."""
    for k in [k for k in s if k[0] in OF_THE_TABLE]:
        del s[k]
    s.update(dict(s["tag"]))
    return "ok"


def merge_again(s, cfg, r):
    """What is read of a round, and lacks in the table; then its sweep."""
    if (cfg.skips and covered(s, cfg, r)) or r < newest(s) or (r in s["over"] and r not in s["whole"]):
        return "ok"
    lacking = [i for i in cfg.chunks_of(r) if i not in stand(s, r)]
    if lacking and r in s["gone"]:
        s["bad"] = f"round {r} is to be merged again, and its files are gone"
    for i in lacking:
        copy_rounds.chunk(s, cfg, r, i, None)
    if r in s["whole"] or lacking:
        sweep(s, cfg, r)
    return "ok"


# ---------------------------------------------------------------- what must hold


def invariant(s, cfg):
    if s.get("bad"):
        raise Violation(s["bad"])
    copy_rounds.invariant(s, cfg)
    if max(s["whole"]) not in s["sweeps"]:
        return  # it was taken back: the next merge brings what it lacks
    named = {c[0] for c in s["chunks"]}
    for k, row in s.items():
        r = row[0][1] if k[0] == "row" else 0
        if r and (r not in named or r in s["gone"]):
            raise Violation(f"an audit cannot tell where the row of {k[1]} comes from: round {r} is forgotten")


def rest(s, cfg):
    copy_rounds.rest(s, cfg)
    last = max(r for r in s["whole"] if r not in cfg.part)
    if len(stand(s, last)) < len(cfg.chunks_of(last)) or last not in s["sweeps"]:
        raise Violation(f"round {last} was whole, and the table lacks it for good")


# ---------------------------------------------------------------- tasks


def cleaner(cfg, *rounds):
    for r in rounds:
        yield ("forget", r)


def tagger(cfg):
    yield ("tag",)


def taker(cfg, *rounds):
    """Takes the table back, and merges again: events, then rounds."""
    yield ("back",)
    for q, events in enumerate(cfg.events):
        for j in range(len(events)):
            yield ("event", q, j)
    for r in rounds:
        yield ("merge_again", r)


OF_FORGETTING = (chunk, sweep, forget, tag, back, merge_again)


def build(**settings):
    """A model of a scenario's settings."""
    programs = PROGRAMS | {f.__name__: f for f in (cleaner, tagger, taker)}
    ops = OPS | {f.__name__: f for f in OF_FORGETTING} | {"event": copy_rounds.event}
    return Resting(Cfg(**settings), programs, ops, invariant, rest)
