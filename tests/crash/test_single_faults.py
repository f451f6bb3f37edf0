"""Every state-changing port call of a pipeline's life fails once, in each way; the tasks are run again; nothing shows.

The sites are not listed by hand: a fault-free life counts the calls, and each call of it becomes cases. After each case
the tables hold what they hold without a fault, the deep audit balances, and nobody had to repair what was not broken.
About 5,700 cases on all cores. `make test` takes one for each method and half of its kinds, and draws a hundredth of
the others by the run's seed; `make test-faults` takes all.
"""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import random
from collections import Counter
from concurrent.futures import Future
from typing import Any

import pytest

from tests.crash.cases import ways
from tests.crash.faults import (
    CHANGING,
    KINDS,
    OF_A_COPY,
    OF_A_DELIVERY,
    OF_A_LAKEHOUSE,
    OF_A_MIRROR,
    OF_EVOLUTION,
    OVERTAKEN,
    Call,
)
from tests.crash.life import STEPS
from tests.crash.matrix import Case, drawn, kinds_of
from tests.crash.pool import Pool, failures, told
from tidegate import core

PORTS = {
    "Storage": "storage",
    "hive.Catalogue": "catalogue",
    "iceberg.Catalogue": "iceberg",
    "PartitionSwitch": "switch",
    "PipelineLedger": "pipelines",
    "BatchLedger": "batches",
    "WindowLedger": "windows",
    "RecoveryLedger": "recovery",
    "CleaningLedger": "cleaning",
    "RedriveLedger": "redrives",
    "TruthLedger": "truths",
    "ReopenLedger": "reopenings",
    "RollbackLedger": "rollbacks",
    "ReplayLedger": "replays",
    "DueLedger": "due",
    "TotalsLedger": "totals",
    "LedgerRepairs": "repairs",
    "ApplyLedger": "applies",
    "CopyLedger": "copies",
    "SchemaLedger": "schema_changes",
    "DeliveryLedger": "deliveries",
    "Sender": "sender",
    "Launcher": "launcher",
    "Source": "source",
}
"""The ports by their protocols' names."""

NO_PORTS = {
    "AnnouncementLedger", "Clock", "DirtyReader", "EventReader", "FileReader", "GroundsLedger", "Ledger",
    "LedgerReads", "RowReader", "Cut", "Line", "SurveyLedger", "Truth", "Wait", "WaitLedger",
    "Fence", "Intents", "SideTarget", "Site", "Target", "Targets",  # they hold storage, the catalogue and the ledger
    "PrefixTarget",
    "Checksums", "ChunkReader", "Database", "Rows",  # a copy only reads there
    "TableSource",  # the same: tests/offline/test_faults.py
    "FurtherSystem",  # the other end of the sender
    "CutLedger",  # no log is cut in this life, so that no fault meets it here: tests/source/test_log_cut.py
    "FailoverLedger", "Standby",  # one site is all of this life: tests/failover/test_lost_answers.py
    "PauseLedger",  # what operators said of a pause, on which no data rests: tests/contract/test_ledger_pauses.py
    "NoticeLedger",  # what people were told, on which no data rests: tests/tell/test_notices.py loses its replies
}  # fmt: skip
"""Protocols that change nothing, or only hold ports."""

LOOKING = {
    "storage": {"list_files", "list_names", "exists", "read"},
    "catalogue": {"partitions", "examine", "check_table", "keeping_sessions"},
    "switch": set(),
    "iceberg": {"load", "answers"},
    "pipelines": {"spec", "specs", "newest", "row", "blocks"},
    "batches": {
        "planning_view", "bound", "get", "open", "refusal", "side_duties", "manifest_files", "gaps", "newest_spec",
        "newest_zone", "values",
    },
    "windows": {
        "facts", "earlier_facts", "get", "generation", "certificate", "holds", "still", "landed_files", "owed",
        "published_starts", "grounds",
    },
    "recovery": {
        "identity", "record", "decoders", "newest_publication_ms", "begun_ms", "unknown_generations",
        "unfinished_generations", "contributors",
    },
    "cleaning": {"batches", "uncleaned_batches", "generations", "uncleaned_generations", "history"},
    # nothing but time rests on asking for a turn: tests/dirty/test_redrive_turn.py
    "redrives": {"dirty_batches", "counts", "duties", "in_the_way", "asked", "ask", "withdraw"},
    "truths": {"known"},
    "reopenings": {"candidates", "duties", "unfinished"},
    "rollbacks": {"generations", "of"},
    "replays": {"rebuilt_by", "unfinished"},
    "due": {"note", "published_within", "rows_within", "located", "unpublished", "starts_within"},
    "totals": set(),
    "repairs": {"released"},
    "applies": {"told", "landed", "rows", "newest", "upkeep", "horizon", "tries", "holds"},
    "copies": {"newest", "rounds", "chunks", "by_number", "looks", "newest_looks", "merged_ends"},
    "schema_changes": {"changes"},
    "deliveries": {"get", "within", "standing", "due", "in_force", "holds", "needed", "not_left", "side_files",
                   "goes_to"},
    "sender": {"missing", "tries", "standing", "parts", "close"},
    "launcher": set(),
    "source": {"look", "offsets_at", "for_workers", "remembered", "cuts"},
}  # fmt: skip
WORKERS = {"storage": {"open_new"}}
"""What only the engine asks of a port."""


class Matrix:
    """The pool with the fault-free life, and the groups of cases that have been sent to it."""

    def __init__(self, pool: Pool, wanted: set[tuple[int, str]]) -> None:
        self.calls, self.after = pool.submit(told).result()
        self._pool, self._sent = pool, {}
        for group in sorted(wanted):
            self._sent[group] = self._send(*group)

    def cases(self, step: int, kind: str) -> list[Case]:
        return drawn(self.calls, step, kind)

    def _send(self, step: int, kind: str) -> Future[list[str]]:
        return self._pool.submit(failures, self.cases(step, kind))

    def failures(self, step: int, kind: str) -> list[str]:
        return self._sent[step, kind].result()


@pytest.fixture(scope="module")
def matrix(request: pytest.FixtureRequest, pool: Pool) -> Matrix:
    """Everything that was selected is under way at once, so that no core waits for another."""
    mine = [item for item in request.session.items if item.path == request.path and hasattr(item, "callspec")]
    chosen = [item.callspec.params for item in mine]
    wanted = {(p["number"], p["kind"]) for p in chosen if {"number", "kind"} <= p.keys()}
    return Matrix(pool, wanted)


def test_the_reference_meets_every_outcome(matrix: Matrix) -> None:
    meets_every_outcome(matrix.after[-1])


def meets_every_outcome(last: dict[str, Any]) -> None:
    """Whatever kind of table readers read."""
    assert last["windows"] == {
        "00": [(0, 1, None, "b"), (0, 2, None, "c"), (0, 3, None, "b"), (0, 6, None, None)],
        "01": [(0, 21, 5, "a"), (0, 4, 1, "a"), (0, 7, 1, "a")],
        "02": [(1, 0, 1, "a"), (1, 3, 1, "b")],
        "03": [(0, 9, 1, "a"), (1, 1, 1, "a")],
        "05": [(0, 20, 5, "a"), (0, 22, 1, "a")],
    }
    assert (last["late"], last["dirty"]) == ([], [(0, 5), (0, 8), (0, 13), (0, 17), (1, 2)])
    assert last["batches"] == ["LANDED"] * 4 + ["ABANDONED"] + ["LANDED"] * 10
    assert last["closed"] == dict.fromkeys((0, 1, 2, 3, 4, 5), "CLOSED")
    assert set(last["published"]) == {0, 1, 2, 3, 4, 5}
    assert (last["blocked"], last["quarantined"]) == ([], ["record-20130105T010000Z"])  # it was set aside


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("number", range(len(STEPS)), ids=[s.name for s in STEPS])
def test_any_single_fault_heals(matrix: Matrix, number: int, kind: str) -> None:
    assert matrix.failures(number, kind) == []


def test_there_are_enough_sites(matrix: Matrix) -> None:
    """Printed with `-s` or on failure: how many sites each method has, and how often they fail in which way."""
    calls = [call for step in matrix.calls for call in step]
    print(table(calls))
    assert len(calls) >= 120
    assert len({call.site for call in calls}) >= 120
    assert {kind for call in calls for kind in call.kinds()} == set(KINDS)


def test_each_method_fails_in_half_of_its_ways_in_every_run(
    matrix: Matrix, monkeypatch: pytest.MonkeyPatch, rng: random.Random
) -> None:
    """Whatever the seed draws beside; and in each of them for some seed."""
    taken = [
        case for step in range(len(STEPS)) for kind in (*KINDS, *OVERTAKEN) for case in drawn(matrix.calls, step, kind)
    ]
    assert len(taken) == len(set(taken))
    met = {(matrix.calls[case.step][case.at].method, case.kind) for case in taken}
    known = kinds_of(matrix.calls)
    every = {(method, kind) for method, kinds in known.items() for kind in kinds}
    assert met >= {(method, kind) for method, kinds in known.items() for kind in ways(method, kinds)}
    assert met <= every
    seeds, some = [rng.randrange(2**32) for _ in range(60)], set[tuple[str, str]]()
    for seed in seeds:
        monkeypatch.setenv("TIDEGATE_TEST_SEED", str(seed))
        some |= {(method, kind) for method, kinds in known.items() for kind in ways(method, kinds)}
    assert some == every


def table(calls: list[Call]) -> str:
    kinds, sites = Counter[str](), Counter[str]()
    for call in calls:
        sites[call.method] += 1
        kinds[call.method] += len(call.kinds())
    lines = [f"{method:32} {n:4} sites {kinds[method]:5} cases" for method, n in sorted(sites.items())]
    return "\n".join([*lines, f"{'in all':32} {sum(sites.values()):4} sites {sum(kinds.values()):5} cases"])


def test_every_changing_call_is_a_site(matrix: Matrix) -> None:
    """A new port method must be declared as changing or looking, and every changing one must be met by the life."""
    found = protocols()
    assert set(found) - NO_PORTS == set(PORTS), "a port that no fault meets"
    for name, port in PORTS.items():
        declared = methods_of(found[name]) | WORKERS.get(port, set())
        assert declared - LOOKING[port] == CHANGING[port], f"{port}: neither changing nor looking"
    met = {call.method for step in matrix.calls for call in step}
    every = {f"{port}.{method}" for port, methods in CHANGING.items() for method in methods}
    assert every - met == OF_A_LAKEHOUSE | OF_A_MIRROR | OF_A_COPY | OF_A_DELIVERY | OF_EVOLUTION


def protocols() -> dict[str, Any]:
    """Every protocol class of the core, and those by which Hive and Iceberg's catalogues themselves are asked."""
    names = [m.name for m in pkgutil.walk_packages(core.__path__, "tidegate.core.")] + list(_OF_TABLES)
    modules = [importlib.import_module(name) for name in names]
    return {
        f"{_OF_TABLES[module.__name__]}.{name}"
        if module.__name__ in _OF_TABLES and name == "Catalogue"
        else name: found
        for module in modules
        for name, found in vars(module).items()
        if getattr(found, "_is_protocol", False) and found.__module__ == module.__name__
    }


_OF_TABLES = {"tidegate.targets.hive.ports": "hive", "tidegate.targets.iceberg.catalogue": "iceberg"}
"""Both call theirs `Catalogue`."""


def methods_of(protocol: Any) -> set[str]:
    return {m for m, f in inspect.getmembers(protocol, inspect.isfunction) if not m.startswith("_")}
