"""Clear in the Airflow UI."""
