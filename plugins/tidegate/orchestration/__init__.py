"""Names of 0.1.0, for one release: what Airflow's database and users' DAG files still say of `tidegate.airflow`."""
