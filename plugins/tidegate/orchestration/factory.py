"""`build_dags` by its name of 0.1.0: DAG files of users call it."""

from tidegate.airflow.factory import build_dags

__all__ = ["build_dags"]
