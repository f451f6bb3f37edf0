"""Import this before anything of Airflow's: a home, a database and an environment that end with the test run.

Airflow reads its settings when it is imported, and makes `~/airflow` when nobody tells it another place.
"""

from __future__ import annotations

import atexit
import functools
import os
import shutil
import sys
import tempfile
from pathlib import Path

HOME = Path(tempfile.mkdtemp(prefix="tidegate-airflow-"))
CHECKOUT = Path(__file__).resolve().parents[1]

if "airflow" in sys.modules:
    raise RuntimeError("airflow was imported before tests/airflow_home.py")
atexit.register(shutil.rmtree, HOME, ignore_errors=True)

ENVIRONMENT = {
    "AIRFLOW_HOME": str(HOME),
    "AIRFLOW__CORE__DAGS_FOLDER": str(CHECKOUT / "dags"),
    "AIRFLOW__CORE__PLUGINS_FOLDER": str(CHECKOUT / "plugins"),
    "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
    "AIRFLOW__CORE__UNIT_TEST_MODE": "False",
    "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": f"sqlite:///{HOME}/airflow.db",
    "AIRFLOW__DATABASE__LOAD_DEFAULT_CONNECTIONS": "False",
    "AIRFLOW__USAGE_DATA_COLLECTION__ENABLED": "False",
    "AIRFLOW__LOGGING__LOGGING_LEVEL": "WARNING",
    "TIDEGATE_LAKE": str(HOME / "lake"),
    "PYTHONPATH": os.pathsep.join((str(CHECKOUT / "plugins"), str(CHECKOUT))),
}
os.environ.update(ENVIRONMENT)


@functools.cache
def make_database() -> None:
    """Airflow's schema, once; takes seconds, so only for tests that need it."""
    from airflow.utils.db import initdb

    initdb(load_connections=False)
