"""What operators do in Airflow, on a real scheduler: Clear, backfill, kill.

One stack for the whole folder (fixture `rig`, package scope), many tiny pipelines in it (`rig.add`, one for each case:
they run side by side). `harness` says how a case is written.
"""
