"""`python -m tidegate.embedded up | status | down`: the same as `tidegate stack`."""

from tidegate.embedded.cli import stack

if __name__ == "__main__":
    stack(prog_name="python -m tidegate.embedded")
