"""The demo of a mirror: two shards of a table in a real MariaDB, by Debezium, Spark and Airflow into Iceberg.

`python -m dev.demo.mirror` runs it, `check.py` is the independent checker at its end, `orders.py` makes the changes.
"""
