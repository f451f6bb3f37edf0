"""The page in the Airflow UI: pipelines, windows, batches, and what an operator may do to them."""
