"""The demo: January 2013's flights out of New York, from Kafka to hours in Hive or Iceberg by Airflow and Spark.

`python -m dev.demo` runs it, `check.py` is the independent checker at its end, `flights.py` the producer.
"""
