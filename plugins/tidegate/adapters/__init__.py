"""The rest of the outside world: Airflow connections, child processes, webhooks, Prometheus."""
