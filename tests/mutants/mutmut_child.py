"""mutmut without its changes of words: `run ...` is its own command; `show` prints the mutants named on standard input.

Messages are for people: a test that holds their every letter is no test of a rule. Runs in the stage's folder.
"""

from __future__ import annotations

import gc
import re
import sys
from pathlib import Path

from mutmut.mutation import mutators


def main() -> None:
    mutators.mutation_operators[:] = [  # type: ignore[index]
        (kind, change) for kind, change in mutators.mutation_operators if change is not mutators.operator_string
    ]
    if sys.argv[1] == "show":
        _show([line.strip() for line in sys.stdin if line.strip()])
        return
    from mutmut.__main__ import cli

    gc.disable()  # a mutant is tried in a fork, which would copy all that a collection looks at
    cli()


def _show(names: list[str]) -> None:
    from mutmut.mutation.diff_apply import find_mutant, get_diff_for_mutant

    for name in names:
        diff = get_diff_for_mutant(name).splitlines()[2:]
        path = Path(str(find_mutant(name).path))
        changed = [line for line in diff if line[:1] in "+-" and line.strip("+- ")]
        print(f"{path}:{_line(path, name, diff)}: {name.rsplit('.', 1)[1]}")
        print("\n".join(f"    {line}" for line in changed))


def _line(path: Path, name: str, diff: list[str]) -> int | str:
    """Where the first changed line is: its place in the function, added to where the function begins."""
    source = path.read_text().splitlines()
    function = re.sub(r"__mutmut_\d+$", "", name.rsplit(".", 1)[1]).split("ǁ")[-1].removeprefix("x_")
    starts = [i for i, line in enumerate(source, 1) if re.match(rf"\s*def {re.escape(function)}\b", line)]
    at = 0
    for line in diff:
        hunk = re.match(r"@@ -(\d+)", line)
        if hunk:
            at = int(hunk.group(1))
        elif line.startswith("-"):
            return starts[0] + at - 1 if starts else "?"
        else:
            at += 1
    return "?"


if __name__ == "__main__":
    main()
