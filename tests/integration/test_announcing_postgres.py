"""Many tasks tell of one generation at the same time: one event in Airflow's database, on a real PostgreSQL."""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from threading import Barrier
from types import SimpleNamespace

import airflow_home  # noqa: F401  (before airflow)
import pytest
from airflow.models.base import Base
from airflow.models.dag import DagModel
from airflow.models.dataset import DagScheduleDatasetReference, DatasetDagRunQueue, DatasetEvent, DatasetModel
from sqlalchemy import create_engine
from sqlalchemy.engine import Engine, make_url
from sqlalchemy.orm import Session

from dev.stack.info import StackInfo
from tests.world import HOUR, T0, make_pipeline
from tidegate.airflow import datasets
from tidegate.core.tell.announcement import Notice
from tidegate.core.window.states import WindowKey

PIPELINE = make_pipeline("file:///lake/readings")
NOTICE = Notice(
    window=WindowKey(T0, T0 + HOUR),
    number=1,
    kind="archive",
    rows=3,
    digest="d",
    location="file:///x",
    published_ms=T0,
    announced=False,
    files=1,
    partitions=1,
    first_batch=1,
    last_batch=1,
    batches=1,
    late_rows=0,
    taken_up=0,
    rerouted_rows=0,
    certificate=None,
)
TI = SimpleNamespace(task_id="publish", dag_id="readings.archive", run_id="r", map_index=-1)
TRIES = 8
MODELS = (DagModel, DatasetModel, DatasetEvent, DagScheduleDatasetReference, DatasetDagRunQueue)


@pytest.fixture
def airflow(postgres: StackInfo) -> Iterator[Engine]:
    """Airflow's tables on PostgreSQL; it knows the dataset."""
    server, name = make_url(postgres.ledger_url), f"airflow_{uuid.uuid4().hex[:10]}"
    admin = create_engine(server, isolation_level="AUTOCOMMIT")
    with admin.connect() as c:
        c.exec_driver_sql(f"CREATE DATABASE {name}")
    engine = create_engine(server.set(database=name), pool_size=TRIES)
    Base.metadata.create_all(engine, tables=[model.__table__ for model in MODELS])
    with Session(engine) as session:
        session.add(DatasetModel(uri=datasets.dataset_of(PIPELINE).uri))
        session.commit()
    yield engine
    engine.dispose()
    with admin.connect() as c:
        c.exec_driver_sql(f"DROP DATABASE {name} WITH (FORCE)")
    admin.dispose()


def test_whoever_tells_at_the_same_time_there_is_one_event_for_a_generation(airflow: Engine) -> None:
    together = Barrier(TRIES, timeout=60)

    def tell(number: int) -> bool | None:
        with Session(airflow) as session:
            session.connection()
            together.wait()
            done = datasets.register(PIPELINE, replace(NOTICE, number=number), TI, session)
            session.commit()
        return done

    with ThreadPoolExecutor(TRIES) as pool:
        done = Counter(pool.map(tell, [1, 2] * (TRIES // 2)))
    assert done == {True: 2, False: TRIES - 2}
    with Session(airflow) as session:
        assert sorted(event.extra["generation"] for event in session.query(DatasetEvent)) == [1, 2]
