"""Keyed tables in Hive, a partition for each day, behind the target port (R2, R4, R8): all rows at the day's end."""
