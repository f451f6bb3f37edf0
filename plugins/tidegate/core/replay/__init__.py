"""Rebuilt windows: where their rows come from, dry runs, rollbacks, the conf of a run."""
