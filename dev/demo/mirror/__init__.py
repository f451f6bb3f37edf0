"""The demo of a mirror: a table of a real MariaDB that changes, by Debezium, Spark and Airflow into Iceberg.

`python -m dev.demo.mirror` runs it, `check.py` is the independent checker at its end, `orders.py` makes the changes.
"""
