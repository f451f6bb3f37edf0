"""Scenarios of stores that cannot rename: a record is the landing, files stay where they were written."""

from __future__ import annotations

from tests.model import landing_record, rebuild_in_place
from tests.model.engine import Model

WRITERS = (("I1", ("ingest",), 0), ("I2", ("ingest",), 0))
CLEANER, PUBLISHER, OPERATOR = ("C", ("cleaner",), 0), ("P", ("publisher",), 0), ("O", ("operator",), 0)
GIVES_UP = ("F", ("refusal",), 0)
RESTORED = ("backup", "restore")
LANDINGS = {
    "landing-answers": (
        {"procs": WRITERS, "env": RESTORED, "budget": (0, 1, 1, 2)},
        {
            "an unknown answer is taken for done": {"read_back": False},
            "'exists' is taken as ours": {"compare": False},
            "LANDED is said before the record": {"record_first": False},
        },
    ),
    "landing-cleaned": (
        {"procs": (*WRITERS, CLEANER), "env": RESTORED, "budget": (0, 0, 0, 2)},
        {
            "an attempt goes by the ledger's epoch alone": {"clean_by_record": False},
            "an attempt goes while there is no record": {"clean_unrecorded": True},
        },
    ),
    "landing-adopted": (
        {"procs": (*WRITERS, OPERATOR), "env": ("produce", "restore"), "budget": (0, 0, 0, 2), "begun": False},
        {"an adoption compares offsets, not attempts": {"adopt_nonce": False}},
    ),
    "landing-published": (
        {"procs": (*WRITERS, PUBLISHER, CLEANER), "env": RESTORED, "budget": (0, 0, 0, 2)},
        {"files of a batch that is only SEALED": {"publish_recorded": False}},
    ),
    "landing-refused": (
        {"procs": (*WRITERS, GIVES_UP), "env": ("restore",), "budget": (0, 0, 0, 2)},
        {"an abandonment's mark that exists is taken as ours": {"compare_mark": False}},
    ),
    "landing-given-up": (
        {"procs": (WRITERS[0], GIVES_UP, OPERATOR), "env": RESTORED, "budget": (0, 1, 1, 2)},
        {"an adoption leaves what was given up": {"adopt_given_up": False}},
    ),
    "landing-dropped": (
        {"procs": (WRITERS[0], GIVES_UP, OPERATOR), "env": RESTORED, "budget": (0, 1, 1, 2), "drops": True},
        {
            "an adoption leaves what was given up": {"adopt_given_up": False},
            "an abandonment's mark that exists is taken as ours": {"compare_mark": False},
        },
    ),
}
REBUILDERS = (("R1", ("rebuild",), 0), ("R2", ("rebuild",), 0))
GIVER_UP = ("M", ("maintenance",), 0)
REBUILDS = {
    "rebuild-in-place": (
        {"procs": (*REBUILDERS, CLEANER), "budget": (0, 0, 0, 2)},
        {
            "attempts go once the generation is BUILT": {"clean_built": True},
            "the cleaner asks neither table nor files": {"ask_table": False, "ask_files": False},
        },
    ),
    "rebuild-given-up": (
        {"procs": (REBUILDERS[0], GIVER_UP, CLEANER), "budget": (0, 0, 0, 2)},
        {
            "the cleaner does not ask the table": {"ask_table": False},
            "what was given up goes while a request lives": {"old_requests": False},
            "a commit without a look at its files": {"look_at_files": False},
            "a cleaner's answer is older than the ledger": {"old_deletions": False},
        },
    ),
    "rebuild-shared": (
        {
            "procs": (("B", ("back",), 0), REBUILDERS[0], CLEANER, ("D", ("cleaner",), 0)),
            **{"replaced": True, "most": 4, "env": (), "budget": (0, 0, 0, 0)},
        },
        {
            "the cleaner asks the generation alone that wrote the files": {"ask_sharers": False},
            "a rollback begins with files that are being deleted": {"mark": False},
        },
    ),
    "rebuild-shared-given-up": (
        {
            "procs": (("B", ("back",), 0), GIVER_UP, CLEANER),
            **{"replaced": True, "most": 3, "budget": (0, 1, 1, 2)},
        },
        {
            "the cleaner asks neither the table nor who shares": {"ask_table": False, "ask_sharers": False},
            "files go while a commit of a rollback that was given up lives": {"old_requests": False},
            "records are not looked at after the mark": {"look_at_records": False},
            "a commit without a look at its files": {"look_at_files": False},
        },
    ),
}


def run(name, flip=None, seconds=120, limit=3_000_000):
    """Explore a scenario, whole or with the rule `flip` taken out."""
    of = landing_record if name in LANDINGS else rebuild_in_place
    settings, flips = SCENARIOS[name]
    cfg = of.Cfg(**settings, **(flips[flip] if flip else {}))
    return Model(cfg, of.PROGRAMS, of.OPS, of.UNSURE, of.UNSURE, of.invariant, of.heal).bfs(
        seconds=seconds, limit=limit
    )


SCENARIOS = LANDINGS | REBUILDS
