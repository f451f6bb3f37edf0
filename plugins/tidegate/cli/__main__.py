"""`python -m tidegate.cli`: the same as `tidegate`."""

from tidegate.cli.main import main

if __name__ == "__main__":
    main(prog_name="tidegate")
