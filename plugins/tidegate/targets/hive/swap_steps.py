"""`swap: directory`: the next generation takes the place of the one in the table's own directory, by two renames.

`hour` is the table's directory of the window, the only name that is freed and taken again; `built` is where the new
generation was assembled, `retired` the place that belongs to the old one for ever. First `hour -> retired`, then
`built -> hour`; between them the hour is absent. A reader that lists before it reads meets the old generation, the new
one, or an error, never a mix: what it listed of the old one is not at `hour` any more when the new one is.

Why a request that is executed late, long after its task died, does no harm (R4); all renames refuse to replace:

- `built` is a name of one (window, generation, epoch). Only that epoch's assembler creates it or anything in it, before
  BUILT is recorded; once renamed it is absent for ever, so a second `built -> hour` finds no source.
- `retired` is a name of the old generation, which leaves the hour once. `built -> hour` is sent only after `retired`
  has been seen taken, by the rename or, when the hour was lost, by an empty directory. It is never freed again: whoever
  cleans it leaves an empty directory. So `hour -> retired` finds its destination taken whenever the hour may hold
  anything newer.
- Both are sent only for a generation that is SWAPPING. It cannot be given up any more, only finished: a rename that is
  executed early, late or by a dead task is a step on the way to the same end.
- Nothing else creates `hour`: `_SUCCESS` comes into it by a rename from a name of the generation's own, and a rename
  does not make directories.

Look at `built` first, then at `retired`, then at `hour`: renames lead from the first to the last, and `retired` never
becomes free, so a swap that goes on between the looks makes this one try again, or find the work done.
"""

from __future__ import annotations

from enum import Enum

from tidegate.core.base.renames import Seen


class Hour(Enum):
    """What stands in the table's directory."""

    ABSENT = "absent"
    NEW = "the generation that is being swapped in, whole"
    DAMAGED = "the generation that is being swapped in, with files missing"
    OTHER = "something else"


class Do(Enum):
    DONE = "done"
    RETIRE = "rename what stands in the hour to its retired place"
    RESERVE = "nothing stands in the hour: occupy the retired place with an empty directory"
    PLACE = "rename the built directory into the hour"
    ALARM_INCOMPLETE = "the built directory is incomplete"
    ALARM_DAMAGED = "files of the generation have been lost from the table's directory"
    ALARM_FOREIGN = "the table's directory holds something that the ledger does not know"
    ALARM_LOST = "the generation is neither where it was built nor in the table: data lost"

    @property
    def is_alarm(self) -> bool:
        return self.name.startswith("ALARM")


def decide(built: Seen, retired_taken: bool | None, hour: Hour) -> Do:
    """The next step of a swap. `retired_taken` is None if the ledger knows of no generation in the hour."""
    if hour is Hour.NEW:
        return Do.DONE
    if hour is Hour.DAMAGED:
        return Do.ALARM_DAMAGED
    if built is Seen.ABSENT:
        return Do.ALARM_LOST
    if built is Seen.DIFFERS:
        return Do.ALARM_INCOMPLETE
    if hour is Hour.ABSENT:
        return Do.RESERVE if retired_taken is False else Do.PLACE
    return Do.RETIRE if retired_taken is False else Do.ALARM_FOREIGN
