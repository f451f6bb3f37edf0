"""Starts the real parts (Kafka, PostgreSQL, Hive, Airflow) on one machine, without containers."""
