"""What every workflow uses: the context, renames, the check that no commit was lost, running a job."""
