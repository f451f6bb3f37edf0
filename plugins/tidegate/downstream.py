"""Names for DAGs that read tables which Tidegate fills.

    from tidegate.downstream import table, window_published

    with DAG("daily_report", schedule="@daily", start_date=..., catchup=True):
        window_published("flights") >> report          # every hour of this run's day is in the table

    with DAG("each_hour", schedule=[table("lake.flights")], start_date=...):
        ...                                            # one run for each published generation

Importing it reads nothing, neither the ledger nor a pipeline's YAML. `tidegate.files`, for readers by path, needs no
Airflow.
"""

from __future__ import annotations

from tidegate.airflow.datasets import table
from tidegate.airflow.downstream import WindowPublishedSensor, window_published
from tidegate.files import files_in_force

__all__ = ["WindowPublishedSensor", "files_in_force", "table", "window_published"]
