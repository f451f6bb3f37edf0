"""Spark's side: jobs and child processes that the control plane starts. They use the core and the storage adapters."""

from spark_jobs import executor

executor.check_archive()
