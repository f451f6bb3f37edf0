"""The DAGs of every pipeline in `pipelines/`: Airflow finds this file, a user adds a pipeline by one YAML beside it."""

from tidegate.airflow.factory import build_dags

globals().update(build_dags())
