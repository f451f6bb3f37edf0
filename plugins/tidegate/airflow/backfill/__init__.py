"""Ranges of windows by Airflow's runs: `tidegate backfill`, and `airflow dags backfill` itself."""
