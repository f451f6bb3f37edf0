"""The rules of the protocol as switches, and what a state is made of.

The defaults of `Cfg` are the whole protocol; a scenario takes one rule out.
"""

from __future__ import annotations

from collections import namedtuple

from tests.model.engine import Switches

Rec = namedtuple("Rec", "rid w app w2")  # w: window by spec 1 ('dirty' = undecodable); w2: by spec 2
File = namedtuple("File", "name kind w app recs")  # kind: w (data), late, dirty, re (reopen), rc (receipt)
B = namedtuple("B", "state epoch ranges floors target man spec tid drained")
W = namedtuple("W", "state gen epoch contrib man cur swap")  # cur = (gen, location, files) in force


class Cfg(Switches):
    """Every rule as a switch, and what a scenario sets; the defaults are the whole protocol."""

    plan = "cas"  # cas | loose (look, ask Kafka, insert without comparing)
    seal = "closing"  # naive (sensor looked, CAS only) | tx (checks in the CAS) | closing (two steps)
    stat = "src_first"  # src_first | dst_first: order of looking after an unsure rename
    match = "subset"  # subset (manifest within listing) | exact
    src_match = True  # 'there | absent -> rename' only if the source holds the manifest
    reread = True  # re-read the ledger before an alarm or a quarantine
    seal_own = True  # a lost seal comparison re-reads: SEALED by my epoch is success
    asm_epoch = True  # assembly has its own epoch and directory
    clean_dir = True  # merge jobs write to a work directory, manifest files are moved to the one that is renamed
    pub_cas = True  # ASSEMBLED(epoch) is recorded before the rename into the table
    contrib = "frozen"  # a generation's batches are fixed when its number is taken | 'build' (looked up later)
    pin_route = True  # replay routes by the batch's own spec and floors
    replay_check = True  # replay's rows per batch must equal the recorded totals
    alter_fence = True  # an ALTER in doubt blocks the next swap and the retirement, until it can't execute any more
    intent_per_call = True  # a definite answer removes that call's intent only (not the one of an earlier try)
    add_fence = True  # the first ADD PARTITION is an ALTER like any other
    exact_parts = True  # a swap also drops partitions that the new generation lacks
    one_alter = True  # all partitions of a window change in one metastore call
    three_step = False  # ADD new values at an empty directory; one alter of old and new; DROP the empty ones
    tid = ("plan", "seal")  # where the topic id is compared
    swapdir_tomb = True  # names used as a rename's destination are never freed
    clean_identity = True  # a retired directory is deleted only if it is the generation in its name
    clean_landed = "published"  # published (all its windows, no late work pending) | eager
    late = "side"  # side | drop | reroute | reopen
    reroute_target = "plan"  # plan (frozen) | write (looked up when the job runs)
    mode = "move"  # move | merge
    hwm = True  # plan refuses when storage knows a newer batch than the ledger
    ask_before_record = True  # R12: the ledger is asked before a record is written
    swap_first = True  # R12: SWAPPING is committed before anything moves to where readers look
    keep_recorded = True  # R13: a generation that storage has a record of is finished, not given up
    shown_again = True  # R13: taking a reopening back makes its late rows' partitions due again
    adopt_closing = True  # R14: an adopted window closes in two steps while a batch is open
    survey_building = True  # R15: an adoption looks at records of generations that the ledger has begun anew
    built_first = True  # R15: the directory that a late rename would take is moved first, then the table's
    set_aside = True  # R15: a record that contradicts the ledger is set aside, its files go back
    alarm_ok = False
    bug = ""  # planted, to see that the checker sees: seal-epoch | clean-current | land-early
    check_loc = True
    # scenario
    windows = (0, 1)
    cap = 9
    log = {}
    ends = None
    procs = ()
    env = ()
    env_kills = ()
    no_crash = ()
    budget = (0, 0, 0, 0)  # crashes, lost replies, in-flight requests, environment events
    heal_windows = None
    heal_replays = ()
    heal_on = True
    max_try = 4
    adopt = True  # a landed directory found before the ledger says SEALED is adopted (the ledger lost a commit)
    name_by_cas = True  # directories are named by what the comparison answered, not by a later read
    records = False  # scenario: storage keeps records of generations, the late tables are modelled
    gap_ok = False  # swap: directory: the hour may be absent between the two renames
    eager = ("w_files", "token", "wait_token")
    live = frozenset()

    def init(self, cfg):
        return base_state(cfg)


def base_state(cfg):
    parts = len(cfg.log[1])
    s = {
        "pl": (0, 1, (0,) * parts, None),
        "tid": 1,
        "acc": 1,
        "spec": 1,
        "gap_ok": cfg.gap_ok,
        "records": cfg.records,
        "end": cfg.ends or tuple(len(x) for x in cfg.log[1]),
    }
    for w in cfg.windows:
        s["w", w] = W("OPEN", 0, 0, (), (), None, None)
    return s
