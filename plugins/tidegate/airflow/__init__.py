"""Pipelines as Airflow sees them: DAGs, operators, sensors, timetable. Thin."""
