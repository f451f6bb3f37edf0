"""Traces in which the database fails over and forgets commits while the tasks that made them live on (R12 to R15)."""

from __future__ import annotations

from typing import Any

from tests.hooks import Died, Hook, Once, catalogue_of, die, use_catalogue
from tests.mutants.names import HEALS, IN_FORCE, ONCE, require
from tests.mutants.stage import Stage, record, refused, window
from tidegate.core.base.errors import StorageAhead
from tidegate.workflow.batch import ingest
from tidegate.workflow.late import reopen
from tidegate.workflow.publish import archive
from tidegate.workflow.restore import adoption


class _EarlierLook:
    """Storage as a plan saw it that looked for records before there was one."""

    def __init__(self, storage: Any) -> None:
        self._storage = storage

    def __getattr__(self, name: str) -> Any:
        return getattr(self._storage, name)

    def list_names(self, path: str) -> list[str] | None:
        return [] if path.endswith("/hwm/published") else self._storage.list_names(path)


def _fails_over(stage: Stage, left: bytes, land: bool = True) -> None:
    """A plan that is under way commits by what is left of the ledger, in which hour 0 is open, and brings it a row."""
    stage.close()
    stage.database.write_bytes(left)
    stage.produce(record("straggler", 0.6))
    ctx = stage.context()
    ctx.storage = _EarlierLook(ctx.storage)  # type: ignore[assignment]
    ingest.plan(ctx, "r2")
    if land:
        _lands(stage)
    stage.close()


def _lands(stage: Stage) -> None:
    ingest.write(stage.context(), "r2")
    ingest.land(stage.context(), "r2")
    stage.close()


def _adopts(stage: Stage) -> None:
    def adopt() -> None:
        ctx = stage.context()
        adoption.adopt(ctx, adoption.survey(ctx), "failover")

    stage.tried(adopt, "repair --adopt")


def _published_anew(stage: Stage) -> None:
    """What is set aside waits in a directory of a higher epoch: the next try takes it from there."""
    stage.settle()
    stage.at_rest()


def _publishes_meanwhile(stage: Stage, port: str, land: bool = True, **when: str) -> StorageAhead | None:
    """Publish hour 0; at the call that is named the database fails over to what it was before. Why it stopped."""
    left = stage.database.read_bytes()
    hooks = {moment: {call: Once(lambda: _fails_over(stage, left, land))} for moment, call in when.items()}
    ctx = stage.hooked(port, **hooks)
    stopped = refused(lambda: archive.publish(ctx, window(0)), StorageAhead)
    stage.close()
    return stopped  # type: ignore[return-value]


def the_ledger_forgets_the_generation_during_a_long_statement(stage: Stage) -> None:
    """R12: behind the table's statement the ledger is asked again, and the task begins anew: nobody has to adopt."""
    stage.first_hours()
    stage.ingest("r1")
    stopped = _publishes_meanwhile(stage, "catalogue", after="ensure_table")
    require(stopped is None, HEALS, f"it waits for an operator: {stopped}")
    stage.at_rest()


def the_ledger_forgets_the_generation_behind_its_record(stage: Stage) -> None:
    """R12: SWAPPING commits before anything moves into the table's own directory, where readers by path look."""
    stage.first_hours()
    stage.ingest("r1")
    _publishes_meanwhile(stage, "windows", before="begin_swap")
    there = (stage.folder / "lake/readings/date=2013-01-05/hour=00").exists()
    require(not there, IN_FORCE, "hour 0 is in the table, and the ledger knows of no generation of it")
    _adopts(stage)
    _published_anew(stage)


def a_batch_is_open_when_a_forgotten_generation_is_adopted(stage: Stage) -> None:
    """R14: batch 2 was planned with hour 0 open, and brings it a row after the adoption."""
    stage.first_hours()
    stage.ingest("r1")
    _publishes_meanwhile(stage, "windows", land=False, before="publish")
    _adopts(stage)
    _lands(stage)
    _adopts(stage)
    _published_anew(stage)


def a_batch_lands_before_a_forgotten_generation_is_adopted(stage: Stage) -> None:
    """R15: the generation's record does not have the row that batch 2 has brought: it is set aside."""
    stage.first_hours()
    stage.ingest("r1")
    _publishes_meanwhile(stage, "windows", before="publish")
    _adopts(stage)
    _published_anew(stage)


def a_replay_comes_to_a_reopening_whose_swap_was_forgotten(stage: Stage) -> None:
    """R13: the reopening's late rows have left the late table already."""
    stage.hour_0_published()
    stage.produce(record("late", 0.5))
    stage.ingest("r2")
    left: list[bytes] = []
    ctx = stage.hooked("windows", before={"begin_swap": lambda *_, **__: left.append(stage.database.read_bytes())})
    use_catalogue(ctx, Hook(catalogue_of(ctx), after={"drop_partitions": die}))
    try:
        reopen.reopen(ctx, window(0), "test")
    except Died:
        stage.close()
    require(bool(left), ONCE, "the reopening had nothing to swap in")
    stage.database.write_bytes(left[0])
    stage.other_columns()
    stage.replay(0)
    stage.close()
    stage.at_rest()
