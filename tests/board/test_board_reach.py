"""What the board keeps between pages, when settings change below it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import board_app  # first: it sets Airflow's home
import pytest
from sqlalchemy import event

from tests.world import make_pipeline
from tidegate.board import reach as reaching
from tidegate.board import views
from tidegate.core.spec.pipeline import Pipeline
from tidegate.ledger import SqlLedger
from tidegate.ledger.migrate import migrate


def ledger_of(folder: Path, spec: Pipeline) -> str:
    address = f"sqlite:///{folder}/{spec.owner}.db"
    migrate(address)
    made = SqlLedger(address)
    made.pipelines.register(spec, "f" * 64)
    made.close()
    return address


def test_another_ledger_is_taken_whole_and_the_old_one_let_go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A webserver lives for weeks; the ledger moves to another host, its password is changed."""
    spec = make_pipeline("file:///lake")
    first, second = (ledger_of(tmp_path, replace(spec, owner=owner)) for owner in ("one", "two"))
    (tmp_path / "none").mkdir()
    board_app.use(monkeypatch, tmp_path / "one.db", tmp_path / "none")
    reach, gone = views.reach, list[Any]()
    assert reach.pipeline(spec.name).owner == "one"
    before = reach.ledger()
    event.listen(before.store.engine, "engine_disposed", gone.append)
    assert reach.ledger() is before

    monkeypatch.setenv("AIRFLOW_CONN_TIDEGATE_LEDGER", second)
    assert reach.ledger() is before, "the address is asked for now and then"
    monkeypatch.setattr(reaching, "ADDRESS_S", 0.0)
    with before.store.begin() as under_way:
        assert reach.pipeline(spec.name).owner == "two", "not what the other ledger had under this name and number"
        assert gone == [before.store.engine]
        assert under_way.exec_driver_sql("SELECT count(*) FROM pipelines").scalar() == 1, "a page goes on to its end"
    after = reach.ledger()
    assert reach.ledger() is after, "the same address, the same connections"
    assert reach.acting("board, nina").store.engine is after.store.engine
    assert gone == [before.store.engine]
    monkeypatch.setenv("AIRFLOW_CONN_TIDEGATE_LEDGER", first)
    assert reach.pipeline(spec.name).owner == "one"
