"""Windows are rebuilt: where their rows come from, dry runs, rollbacks, what a run is asked for."""
