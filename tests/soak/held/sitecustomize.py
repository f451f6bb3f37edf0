"""For PYTHONPATH of a job: its Python driver waits before it writes its last file, the receipt.

Python imports this module by itself; the product knows nothing of it. The driver's first new file in its attempt's
directory is the receipt (its workers write the data). It says `<name>.waiting`, and goes on when `<name>.go` is there,
both in the folder TIDEGATE_HELD.
"""

import os
import sys
import time
from pathlib import Path


def _hold(event: str, arguments: tuple) -> None:
    if event != "open" or not isinstance(arguments[0], str) or "/tmp/" not in arguments[0]:
        return
    path = Path(arguments[0])
    if not path.name.startswith("._tidegate.") or path.parent.parent.name != "tmp":
        return
    waiting = Path(os.environ["TIDEGATE_HELD"]) / f"{path.parent.name}.waiting"
    if waiting.exists():
        return
    waiting.touch()
    go = waiting.with_suffix(".go")
    while not go.exists():
        time.sleep(0.01)


if "TIDEGATE_HELD" in os.environ and any(word.endswith(("land.py", "serve.py")) for word in sys.orig_argv[1:3]):
    sys.addaudithook(_hold)
