"""`python -m dev.stack up | status | down`: the same as `tidegate stack`."""

from dev.stack.cli import stack

if __name__ == "__main__":
    stack(prog_name="python -m dev.stack")
