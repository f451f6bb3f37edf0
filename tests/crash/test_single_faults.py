"""Every state-changing port call of both protocols fails once, in each way; the tasks are run again; nothing shows.

The sites are not listed by hand: a fault-free run counts the calls, and each call of it becomes a case.
"""

from __future__ import annotations

import inspect
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.crash.faults import CHANGING, KINDS, Faults
from tests.crash.scenario import STEPS, Snapshot, run_step, state
from tests.world import World
from tidegate.core import ledger as ledger_ports
from tidegate.core import ports


class Reference:
    """The fault-free run: a snapshot before each step, the state after it, the calls in it."""

    def __init__(self, folder: Path) -> None:
        self.world_folder = folder / "world"
        self.world_folder.mkdir()
        faults = Faults()
        world = World(self.world_folder, wrap=faults.wrap)
        self.before: list[Snapshot] = []
        self.calls: list[list[str]] = []
        self.after: list[dict[str, Any]] = []
        for number, step in enumerate(STEPS):
            self.before.append(Snapshot.of(world, folder / f"before-{number}"))
            start = len(faults.calls)
            run_step(world, step)
            self.calls.append(faults.calls[start:])
            self.after.append(state(world))


@pytest.fixture(scope="module")
def reference(tmp_path_factory: pytest.TempPathFactory) -> Reference:
    return Reference(tmp_path_factory.mktemp("crash"))


def test_the_reference_meets_every_outcome(reference: Reference) -> None:
    last = reference.after[-1]
    assert last["windows"] == {"00": [(0, 0), (0, 1)], "01": [(0, 2), (0, 5)]}
    assert (last["late"], last["dirty"]) == ([(0, 4)], [(0, 3)])
    assert last["batches"] == ["LANDED", "LANDED"]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("number", range(len(STEPS)), ids=[s.name for s in STEPS])
def test_any_single_fault_heals(reference: Reference, number: int, kind: str) -> None:
    fired: Counter[str] = Counter()
    for site in range(len(reference.calls[number])):
        faults = Faults(site, kind)
        world = reference.before[number].restore(reference.world_folder, faults)
        where = f"{STEPS[number].name}, call {site} ({reference.calls[number][site]}), {kind}"
        try:
            run_step(world, STEPS[number])
            assert faults.fired == reference.calls[number][site], f"{where}: the fault did not fire"
            assert state(world) == reference.after[number], where
            fired[faults.fired] += 1
        except Exception as e:
            raise AssertionError(f"{where}: {e}\nsaid: {world.said[-6:]}") from e
        finally:
            world.close()
    assert sum(fired.values()) == len(reference.calls[number])


def test_every_changing_call_is_a_site(reference: Reference) -> None:
    """A new port method must be declared as changing or looking, and every changing one must be met by the scenario."""
    looking = {
        "storage": {"list_files", "list_names", "exists", "read"},
        "catalogue": {"partitions", "execute"},
        "batches": {
            "planning_view", "bound", "get", "open", "refusal", "side_duties", "manifest_files", "gaps", "newest_spec",
        },
        "windows": {
            "facts", "get", "generation", "certificate", "holds", "landed_files", "owed", "published_starts",
        },
        "launcher": set(),
        "source": {"describe", "offsets_for_time", "client_settings", "committed_group"},
    }  # fmt: skip
    protocols = {
        "storage": ports.Storage,
        "catalogue": ports.Catalogue,
        "batches": ledger_ports.BatchLedger,
        "windows": ledger_ports.WindowLedger,
        "launcher": ports.Launcher,
        "source": ports.Source,
    }
    for name, protocol in protocols.items():
        methods = {m for m, f in inspect.getmembers(protocol, inspect.isfunction) if not m.startswith("_")}
        assert methods - looking[name] - CHANGING[name] == set(), f"{name}: neither changing nor looking"
    met = {call for calls in reference.calls for call in calls}
    all_sites = {f"{port}.{method}" for port, methods in CHANGING.items() for method in methods}
    # these belong to operators, alarms, refusals and races, which have tests of their own
    elsewhere = {"batches.bind", "batches.replan", "batches.refuse", "batches.adopt", "batches.abandon",
                 "batches.block", "windows.block", "storage.delete"}  # fmt: skip
    assert all_sites - met == elsewhere | {"catalogue.drop_partitions"}
