from spark_jobs import executor

executor.check_archive()
