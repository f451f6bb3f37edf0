"""Bugs in replays of several windows, and of rows that come from files."""

from __future__ import annotations

from tests.mutants.names import FATE, ONCE, STOPS
from tests.mutants.planting import Bug, Edit

_REBUILD = "plugins/tidegate/workflow/rebuild.py"
_COPYING = "spark_jobs/engine/copying.py"

BUGS = (
    Bug(
        "rows of a shared reading go to the first window",
        "Replay: membership is decided by each batch's plan",
        "hours_are_rebuilt_together",
        STOPS,
        (
            Edit(
                "spark_jobs/engine/targets.py",
                "        wanted = pc.and_(pc.is_in(routed.window, self._starts), pc.invert(late))\n",
                "        wanted = pc.and_(pc.is_in(routed.window, self._starts), pc.invert(late))\n"
                "        routed.window = pc.if_else(wanted, self._starts[0], routed.window)\n",
            ),
        ),
        why="counts by batch differ from the ledger's, so nothing is published",
    ),
    Bug(
        "rows of a shared reading go to the first window and are not compared",
        "Replay: membership is decided by each batch's plan",
        "hours_are_rebuilt_together",
        FATE,
        (
            Edit(
                "spark_jobs/engine/targets.py",
                "        wanted = pc.and_(pc.is_in(routed.window, self._starts), pc.invert(late))\n",
                "        wanted = pc.and_(pc.is_in(routed.window, self._starts), pc.invert(late))\n"
                "        routed.window = pc.if_else(wanted, self._starts[0], routed.window)\n",
            ),
            Edit(_REBUILD, "        if rows != s.rows:\n", "        if False:\n"),
        ),
    ),
    Bug(
        "files give rows of batches that are read again",
        "Replay: each row from one origin",
        "an_hour_is_rebuilt_from_kafka_and_files",
        ONCE,
        (
            Edit(_COPYING, "    if copy.wanted is None:\n", "    if True:\n"),
            Edit(_REBUILD, "    _compare_copied(window, choice, found)\n", "    del choice\n"),
        ),
        why="what was taken is compared with the ledger",
    ),
    Bug(
        "rows of files are taken whatever decoded them",
        "Replay: today's columns are decoded, or are what they were",
        "records_are_gone_and_a_column_needs_them",
        STOPS,
        (
            Edit(
                "plugins/tidegate/core/replaying.py",
                "        if there is None or there.hidden or not _kept(there, column, before, now):\n",
                "        if there is None or there.hidden:\n",
            ),
        ),
    ),
    Bug(
        "one window that is overtaken ends the range",
        "Replay: one window never spoils another",
        "another_task_takes_one_of_the_hours",
        STOPS,
        (
            Edit(
                "plugins/tidegate/workflow/replay.py",
                "            except (MovedOn, LostComparison):\n                outcome = self._overtaken(",
                "            except ZeroDivisionError:\n                outcome = self._overtaken(",
            ),
        ),
        why="the lost comparison becomes the window's outcome",
    ),
)
