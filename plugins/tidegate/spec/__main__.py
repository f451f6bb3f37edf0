"""`python -m tidegate.spec docs | schema | check <folder>`: reference and schema on stdout, a folder's errors."""

from __future__ import annotations

import sys

from tidegate.core.base.errors import SpecError
from tidegate.core.base.wording import many
from tidegate.spec.loader import load_folder
from tidegate.spec.reference import markdown, schema_text

USAGE = "usage: python -m tidegate.spec docs | schema | check <folder>"


def main(arguments: list[str]) -> int:
    """Exit code: 0 well, 1 a pipeline is wrong, 2 wrong arguments."""
    match arguments:
        case ["docs"]:
            sys.stdout.write(markdown())
        case ["schema"]:
            sys.stdout.write(schema_text())
        case ["check", folder]:
            return _check(folder)
        case _:
            print(USAGE, file=sys.stderr)
            return 2
    return 0


def _check(folder: str) -> int:
    try:
        loaded = load_folder(folder)
    except SpecError as e:
        print(e, file=sys.stderr)
        return 1
    errors = [one.error for one in loaded if one.error]
    for error in errors:
        print(error, file=sys.stderr)
    print(f"{len(loaded) - len(errors):,} of {many(len(loaded), 'pipeline')} valid")
    return 1 if errors else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
