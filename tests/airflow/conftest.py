"""Gives Airflow its home before any test file here imports Airflow, whichever is collected first."""

import airflow_home  # noqa: F401
