"""One task of a DAG as a process: `python -m tests.soak.task SCENE WHAT [SUBJECT] [--stop-at PORT.METHOD:WHEN[:N]]
[--engine spark|here]`.

WHAT is plan, write, land, ingest (all three), publish, replay or maintain; SUBJECT is the run's name, or the window's
start (UTC ms). With --stop-at the process stops itself (SIGSTOP) before or after the n-th call of that port's method:
whoever started it then decides what becomes of it.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

from tests.hooks import Once
from tests.soak.scene import Scene, window
from tidegate.core.base.errors import TidegateError
from tidegate.workflow.base.context import Context
from tidegate.workflow.batch import ingest
from tidegate.workflow.maintain import reconcile
from tidegate.workflow.publish import archive
from tidegate.workflow.replay import replay

DONE, AGAIN, HUMAN, NOTHING, BROKEN = 0, 1, 2, 3, 4
"""Exit codes: done; a retry may help; the error says that no retry helps; nothing to read; not an error of ours."""


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("scene", type=Path)
    parser.add_argument("what")
    parser.add_argument("subject", nargs="?", default="")
    parser.add_argument("--stop-at")
    parser.add_argument("--engine", choices=("spark", "here"), help="other than the scene's")
    asked = parser.parse_args(arguments)
    try:
        scene = Scene.load(asked.scene)
        scene = replace(scene, engine=asked.engine or scene.engine)
        ctx = scene.context(_say, f"{asked.what} {asked.subject}", _stopping(asked.stop_at))
        try:
            return _do(ctx, asked.what, asked.subject)
        finally:
            ctx.ledger.close()
    except TidegateError as e:
        _say(f"{type(e).__name__}: {e}")
        return AGAIN if e.retry else HUMAN
    except Exception:
        import traceback

        traceback.print_exc()
        return BROKEN


def _do(ctx: Context, what: str, subject: str) -> int:
    if what in ("plan", "ingest") and ingest.plan(ctx, subject) is None:
        return NOTHING
    if what in ("write", "ingest"):
        ingest.write(ctx, subject)
    if what in ("land", "ingest"):
        _say("a backlog is left" if ingest.land(ctx, subject) else "no backlog is left")
    if what in ("publish", "replay"):
        step = archive.publish if what == "publish" else replay.replay
        published = step(ctx, window(int(subject)))
        if published.new:
            archive.announced(ctx, published)
        _say(f"generation {published.generation}: {published.rows} rows, new: {published.new} {published.note}")
    if what == "maintain":
        for line in reconcile.maintain(ctx):
            _say(line)
    return DONE


def _stopping(where: str | None) -> dict[str, dict[str, Any]]:
    if where is None:
        return {}
    place, when, *number = where.split(":")
    port, method = place.split(".")
    stop = Once(lambda: os.kill(os.getpid(), signal.SIGSTOP), int(number[0]) if number else 1)
    return {port: {when: {method: stop}}}


def _say(line: str) -> None:
    print(line, flush=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
