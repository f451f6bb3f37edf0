"""Every path that Tidegate reads or writes. Nothing else joins paths.

Below the work directory (`<location>/_tidegate` by default):

    plans/<batch>.<epoch>-<nonce>.json          what an attempt is to do
    tmp/<batch>.<epoch>-<nonce>/                what it writes: data/, late/, dirty/, _receipt.json | failure.json
      _bounds/*.json                            {path: core.target.stored.Bounds}, of kinds of tables that keep them
    tmp/<window>.<generation>.<epoch>-<nonce>.day/  what makes a day of a keyed table: rows and tombstones
    tmp/<window>.dry-<run>.<nonce>/             what a dry run of a replay writes, until it ends
    landed/<batch>/                             the same directory after its one rename
    side/<batch>.late, side/<batch>.dirty       late and dirty files on their way into their tables
    late/_batch=<batch>/<time partitions>/      the late table
    dirty/_batch=<batch>/                       the dirty table
    reopened/<batch>/<window>/                  never cleaned: late files whose rows the window has taken up
    redriven/<batch>/                           never cleaned: dirty files whose rows belong to a redrive by now
    publish/<window>.<generation>.<epoch>/      a window being assembled
    publish/<window>.<generation>.success       its `_SUCCESS` before it is there
      rows/, tombstones/, _day.json             of a keyed table by days: what stands at the day's end
    generations/<window>.<generation>.<epoch>/  published generations beside the table's own directory, and retired ones
    apply/<first>-<last>.<epoch>-<nonce>/       what a merge into a keyed table writes; the table names its files here
    apply/<first>-<last>.<epoch>-<nonce>.json   what it is to do
    copies/<chunk>.<epoch>-<nonce>/             rows of a chunk of the source's table, _receipt.json | failure.json
    copies/<chunk>.<epoch>-<nonce>.json         what a job is to read, by its first chunk
    quarantine/<name>                           what contradicted the ledger, kept for people
    hwm/<batch>                                 never cleaned: the record of a batch that has landed
    hwm/published/<day>/<window>.<gen>.<epoch>  never cleaned: the record of a generation about to be published

On a store without renames (`Layout.in_place`) no file ever moves: it stays in `tmp/<attempt>/` for good, and the record
`hwm/<batch>` alone is the landing. A generation's manifest names its files by URI; its certificate and its bounds are
written to `generations/` at once. `reopened/<batch>/<window>` and `redriven/<batch>` are records there. There is no
`landed/`, `side/`, `late/`, `dirty/` or `publish/`.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime

from tidegate.core.base.partition_values import PartitionValues, partition_path
from tidegate.core.base.storage import can_rename
from tidegate.core.spec.pipeline import Pipeline
from tidegate.core.window.cut import is_number, parse_window_id, window_id

RECEIPT = "_receipt.json"
FAILURE = "failure.json"
BOUNDS = "_bounds"
HANDED = "_events"
"""Below an apply's attempt: events on their way to their buckets, gone before its receipt is there."""
GATHERED = f"{BOUNDS}/gathered.json"
"""Those of a generation's files, in its directory."""
CERTIFICATE = "_certificate.json"
DAY = "_day.json"
"""What a day of a keyed table is made of, `core.daily.day.Day`, in its generation's directory; beside it:"""
ROWS, TOMBSTONES = "rows", "tombstones"
SUCCESS = "_SUCCESS"
DRY_RUN = "dry"


@dataclass(frozen=True, order=True)
class Assembly:
    """One try to build a generation of a window: the name of its directory, and of its record in `hwm/published`."""

    window_ms: int
    number: int
    epoch: int


def parse_assembly(name: str) -> Assembly | None:
    """`<window>.<generation>.<epoch>`; None for anything else."""
    parts = name.split(".")
    if len(parts) != 3 or not all(is_number(part) for part in parts[1:]):
        return None
    try:
        return Assembly(parse_window_id(parts[0]), int(parts[1]), int(parts[2]))
    except ValueError:
        return None


def publication_day(at_ms: int) -> str:
    """`2013-01-05`, in UTC."""
    return datetime.fromtimestamp(at_ms / 1000, UTC).strftime("%Y-%m-%d")


def usual_workdir(location: str) -> str:
    """The work directory of a table, where the YAML names no other."""
    return join(location, "_tidegate")


def join(base: str, *parts: str) -> str:
    """The path of `parts` below `base`. A file that is named by its URI, as those of a store without renames are in a
    generation's manifest, lies where that says."""
    if parts and is_uri(parts[-1]):
        return parts[-1]
    return "/".join([base.rstrip("/"), *(p.strip("/") for p in parts)])


def is_uri(path: str) -> bool:
    """Whether `path` is a whole one. Partition values are escaped, so that no relative path looks like it."""
    return "://" in path


@dataclass(frozen=True)
class Layout:
    """The paths of one pipeline; all are URIs below `location` or `workdir`."""

    location: str
    workdir: str

    @property
    def in_place(self) -> bool:
        """Whether files stay where they were written."""
        return not can_rename(self.workdir)

    @classmethod
    def of(cls, pipeline: Pipeline) -> Layout:
        return cls(pipeline.sink.location, pipeline.sink.workdir)

    def attempt_name(self, batch_id: int, epoch: int, nonce: str) -> str:
        return f"{batch_id}.{epoch}-{nonce}"

    def plans(self) -> str:
        return join(self.workdir, "plans")

    def plan(self, batch_id: int, epoch: int, nonce: str) -> str:
        return join(self.plans(), f"{self.attempt_name(batch_id, epoch, nonce)}.json")

    def attempts(self) -> str:
        return join(self.workdir, "tmp")

    def attempt(self, batch_id: int, epoch: int, nonce: str) -> str:
        return join(self.attempts(), self.attempt_name(batch_id, epoch, nonce))

    def attempt_of(self, uri: str) -> tuple[str, str] | None:
        """(directory of the attempt, path below it) of a file that is named by its URI; None for another one's."""
        return _split(self.attempts(), uri)

    def generation_of(self, uri: str) -> tuple[str, str] | None:
        """The same of a file in a generation's own directory."""
        return _split(self.generations(), uri)

    def holder_of(self, uri: str) -> tuple[str, str] | None:
        """Either of both: a generation's own file may be a later one's, too."""
        return self.generation_of(uri) or self.attempt_of(uri)

    def replay_name(self, start_ms: int, generation: int, epoch: int, nonce: str) -> str:
        return f"{window_id(start_ms)}.{generation}.{epoch}-{nonce}"

    def replay_plan(self, start_ms: int, generation: int, epoch: int, nonce: str) -> str:
        return join(self.plans(), f"{self.replay_name(start_ms, generation, epoch, nonce)}.json")

    def replay_attempt(self, start_ms: int, generation: int, epoch: int, nonce: str) -> str:
        return join(self.attempts(), self.replay_name(start_ms, generation, epoch, nonce))

    def rehearsal_name(self, start_ms: int, run: str, nonce: str) -> str:
        """Of what a dry run of a replay writes: no generation, so that nobody can take it for one."""
        return f"{window_id(start_ms)}.{DRY_RUN}-{run}.{nonce}"

    def redrive_rehearsal_name(self, nonce: str) -> str:
        """Of what a dry run of a redrive writes: no batch, so that nobody can land it."""
        return f"redrive.{DRY_RUN}-{nonce}"

    def merge_name(self, start_ms: int, generation: int, epoch: int, nonce: str) -> str:
        return f"{self.replay_name(start_ms, generation, epoch, nonce)}.merge"

    def merge_plan(self, start_ms: int, generation: int, epoch: int, nonce: str) -> str:
        return join(self.workdir, "plans", f"{self.merge_name(start_ms, generation, epoch, nonce)}.json")

    def merge_attempt(self, start_ms: int, generation: int, epoch: int, nonce: str) -> str:
        return join(self.attempts(), self.merge_name(start_ms, generation, epoch, nonce))

    def day_name(self, start_ms: int, generation: int, epoch: int, nonce: str) -> str:
        """Of the attempt that merges a day's events into the day before."""
        return f"{self.replay_name(start_ms, generation, epoch, nonce)}.day"

    def day_plan(self, name: str) -> str:
        return join(self.plans(), f"{name}.json")

    def day_attempt(self, name: str) -> str:
        return join(self.attempts(), name)

    def landing_zone(self) -> str:
        return join(self.workdir, "landed")

    def landed(self, batch_id: int) -> str:
        return join(self.landing_zone(), str(batch_id))

    def copies(self) -> str:
        return join(self.workdir, "copies")

    def copied(self, attempt: str) -> str:
        """`attempt`: `core.copy.rounds.Chunk.attempt`."""
        return join(self.copies(), attempt)

    def copy_plan(self, attempt: str) -> str:
        return join(self.copies(), f"{attempt}.json")

    def applies(self) -> str:
        return join(self.workdir, "apply")

    def apply(self, name: str) -> str:
        """`name`: `core.mirror.applies.Apply.name`."""
        return join(self.applies(), name)

    def apply_plan(self, name: str) -> str:
        return join(self.applies(), f"{name}.json")

    def high_water_marks(self) -> str:
        return join(self.workdir, "hwm")

    def high_water_mark(self, batch_id: int) -> str:
        return join(self.high_water_marks(), str(batch_id))

    def failover(self, number: int) -> str:
        """The record of a switch to another site of the source."""
        return join(self.workdir, "failovers", str(number))

    def publication_marks(self) -> str:
        return join(self.high_water_marks(), "published")

    def publication_day(self, at_ms: int) -> str:
        """The folder for publications of the UTC day of `at_ms`, so that only the newest need to be listed."""
        return join(self.publication_marks(), publication_day(at_ms))

    def publication_mark(self, at_ms: int, start_ms: int, generation: int, epoch: int) -> str:
        return join(self.publication_day(at_ms), f"{window_id(start_ms)}.{generation}.{epoch}")

    def side_stagings(self) -> str:
        return join(self.workdir, "side")

    def side_staging(self, batch_id: int, kind: str) -> str:
        """`kind`: late | dirty."""
        return join(self.side_stagings(), f"{batch_id}.{kind}")

    def side_table(self, kind: str) -> str:
        return join(self.workdir, kind)

    def side(self, batch_id: int, kind: str) -> str:
        return join(self.side_table(kind), f"_batch={batch_id}")

    def redriven(self, batch_id: int) -> str:
        """Where a batch's dirty files are kept once a redrive has taken up their rows."""
        return join(self.workdir, "redriven", str(batch_id))

    def reopened(self, batch_id: int, start_ms: int) -> str:
        """Where a batch's late files of a window are kept once a generation of it has taken up their rows."""
        return join(self.workdir, "reopened", str(batch_id), window_id(start_ms))

    def quarantines(self) -> str:
        return join(self.workdir, "quarantine")

    def quarantine(self, name: str) -> str:
        return join(self.quarantines(), name)

    def assembly(self, start_ms: int, generation: int, epoch: int) -> str:
        """Where a try to build the generation puts it together."""
        if self.in_place:
            return self.generation(start_ms, generation, epoch)
        return join(self.assemblies(), f"{window_id(start_ms)}.{generation}.{epoch}")

    def assemblies(self) -> str:
        return join(self.workdir, "publish")

    def success_draft(self, start_ms: int, generation: int) -> str:
        """Where a generation's `_SUCCESS` waits to be renamed into its directory."""
        return join(self.assemblies(), f"{window_id(start_ms)}.{generation}.success")

    def generations(self) -> str:
        return join(self.workdir, "generations")

    def generation(self, start_ms: int, generation: int, epoch: int) -> str:
        return join(self.generations(), f"{window_id(start_ms)}.{generation}.{epoch}")

    def empty(self) -> str:
        """An empty directory that new partitions point to until a window's swap."""
        return join(self.workdir, "empty")

    def window(self, time: PartitionValues) -> str:
        """The rename unit: the deepest table directory that depends on time only."""
        return join(self.location, partition_path(time))


def _split(folder: str, uri: str) -> tuple[str, str] | None:
    """(directory in `folder`, path below it) of the file; None for one that lies elsewhere."""
    name, _, below = uri.removeprefix(f"{folder}/").partition("/")
    return (f"{folder}/{name}", below) if uri.startswith(f"{folder}/") and below else None
