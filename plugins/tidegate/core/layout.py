"""Every path that Tidegate reads or writes, and how partition values are spelled. Nothing else joins paths.

Below the work directory (`<location>/_tidegate` by default):

    plans/<batch>.<epoch>-<nonce>.json          what an attempt is to do
    tmp/<batch>.<epoch>-<nonce>/                what it writes: data/, late/, dirty/, _receipt.json | failure.json
    tmp/<window>.dry-<run>.<nonce>/             what a dry run of a replay writes, until it ends
    landed/<batch>/                             the same directory after its one rename
    side/<batch>.late, side/<batch>.dirty       late and dirty files on their way into their tables
    late/_batch=<batch>/<time partitions>/      the late table
    dirty/_batch=<batch>/                       the dirty table
    reopened/<batch>/<window>/                  never cleaned: late files whose rows the window has taken up
    redriven/<batch>/                           never cleaned: dirty files whose rows belong to a redrive by now
    publish/<window>.<generation>.<epoch>/      a window being assembled
    publish/<window>.<generation>.success       its `_SUCCESS` before it is there
    generations/<window>.<generation>.<epoch>/  published generations beside the table's own directory, and retired ones
    quarantine/<name>                           what contradicted the ledger, kept for people
    hwm/<batch>                                 never cleaned: the record of a batch that has landed
    hwm/published/<day>/<window>.<gen>.<epoch>  never cleaned: the record of a generation about to be published
"""

from __future__ import annotations

import re
import zoneinfo
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from tidegate.core.pipeline import Pipeline, Windows
from tidegate.core.zones import day_start, times_that_go_back

HIVE_NULL = "__HIVE_DEFAULT_PARTITION__"
RECEIPT = "_receipt.json"
FAILURE = "failure.json"
CERTIFICATE = "_certificate.json"
SUCCESS = "_SUCCESS"
MAX_NAME_BYTES = 255
DRY_RUN = "dry"
MINUTE_MS, HOUR_MS, DAY_MS = 60_000, 3_600_000, 86_400_000

# Hive's FileUtils.charToEscape, plus what is no URI text (HiveServer2 refuses it in SET LOCATION), plus `.` alone and
# `..`, which Hive forgets and every filesystem collapses.
_ESCAPED = re.compile(r"[\x00-\x20\x7f\"#%'*/:=?\\{}\[\]^<>|`]")


def escape(value: str | None) -> str:
    """A partition value as a directory name, Hive's way; null and the empty string are Hive's default partition."""
    if value is None or value == "":
        return HIVE_NULL
    if value in (".", ".."):
        return value.replace(".", "%2E")
    return _ESCAPED.sub(lambda m: f"%{ord(m.group()):02X}", value)


def unescape(name: str) -> str | None:
    """The inverse of `escape`, but for the empty string, which comes back as null."""
    if name == HIVE_NULL:
        return None
    return re.sub(r"%([0-9A-Fa-f]{2})", lambda m: chr(int(m.group(1), 16)), name)


def fits(value: str | None, column: str) -> bool:
    """Whether `column=value` can be a directory name (255 bytes, no NUL)."""
    return value is None or ("\x00" not in value and len(f"{column}={escape(value)}".encode()) <= MAX_NAME_BYTES)


PartitionValues = tuple[tuple[str, str | None], ...]
"""(column, value) pairs in the table's partition order; a None value is Hive's default partition."""

MAX_PARTITION_NAME = 767
"""Characters of a partition's whole name that Hive's metastore can store (PARTITIONS.PART_NAME)."""
_ESCAPED_BY_HIVE = re.compile(r"[\x01-\x1f\"#%'*/:=?\\{\[\]^\x7f]")


def metastore_name_length(values: PartitionValues) -> int:
    """Length of the name that the metastore gives the partition: `date=2013-01-05/hour=04/site=a%2Fb`.

    Its own escaping, which leaves blanks as they are, and Java's characters: what is beyond 16 bits counts as two."""
    return sum(_java_length(name) + 1 + _escaped_length(value) for name, value in values) + max(0, len(values) - 1)


def _escaped_length(value: str | None) -> int:
    if value is None or value == "":
        return len(HIVE_NULL)
    return _java_length(value) + 2 * len(_ESCAPED_BY_HIVE.findall(value))


def _java_length(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode("utf-16-le", "surrogatepass")) // 2


def partition_path(values: PartitionValues) -> str:
    return "/".join(f"{column}={escape(value)}" for column, value in values)


def parse_partition_path(path: str) -> PartitionValues:
    pairs = (part.partition("=") for part in path.split("/") if part)
    return tuple((column, unescape(value)) for column, _, value in pairs)


def window_id(start_ms: int) -> str:
    """A window's name in paths and commands: its start in UTC, `20130105T040000Z`."""
    return datetime.fromtimestamp(start_ms / 1000, UTC).strftime("%Y%m%dT%H%M%SZ")


def parse_window_id(text: str) -> int:
    return int(datetime.strptime(text, "%Y%m%dT%H%M%SZ").replace(tzinfo=UTC).timestamp() * 1000)


def is_number(text: str) -> bool:
    """Whether it is a number as names spell it: digits, none of them a zero in front."""
    return text.isascii() and text.isdigit() and str(int(text)) == text


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


def time_values(start_ms: int, names: tuple[str, ...], timezone: str) -> PartitionValues:
    """The time partitions of the window that starts at `start_ms`, in the pipeline's zone.

    Where clocks go back, the second 01:00 renders `01-fold`: two instants never share a directory.
    """
    local = datetime.fromtimestamp(start_ms / 1000, zoneinfo.ZoneInfo(timezone))
    text = {
        "date": local.strftime("%Y-%m-%d"),
        "hour": local.strftime("%H") + ("-fold" if local.fold else ""),
        "minute": local.strftime("%M"),
    }
    return tuple((name, text[name]) for name in names)


def window_start(event_ms: int, windows: Windows) -> int:
    """Start (UTC ms) of the window that holds `event_ms`.

    Windows below a day are cut in UTC from `windows.start` on, so that a change of clocks never makes two overlap;
    day windows are local days.
    """
    if windows.size_ms < DAY_MS:
        return event_ms - (event_ms - windows.start_ms) % windows.size_ms
    zone = zoneinfo.ZoneInfo(windows.timezone)
    day = datetime.fromtimestamp(event_ms / 1000, zone).date()
    start = day_start(day, zone)
    # where clocks go back over midnight, the end of the day before is read once more: it belongs to the day begun
    while (following := day_start(day + timedelta(days=1), zone)) <= event_ms:
        day, start = day + timedelta(days=1), following
    return start


def window_end(start_ms: int, windows: Windows) -> int:
    """End (exclusive, UTC ms): a local day has 23, 24 or 25 hours, and up to 48 where the calendar repeats one."""
    if windows.size_ms < DAY_MS:
        return start_ms + windows.size_ms
    zone = zoneinfo.ZoneInfo(windows.timezone)
    # the next date's beginning, not this time tomorrow: where clocks change at midnight a day may begin at 01:00
    return day_start(datetime.fromtimestamp(start_ms / 1000, zone).date() + timedelta(days=1), zone)


def window_named(values: PartitionValues, windows: Windows) -> int | None:
    """The window (its start) whose time partitions are `values`, as `time_values` spells them; None if none is.

    Raises ValueError for what is no date, hour or minute.
    """
    names, text = tuple(name for name, _ in values), {name: value or "" for name, value in values}
    hour = text.get("hour", "00").removesuffix("-fold")
    first = datetime.fromisoformat(f"{text.get('date', '')}T{hour}:{text.get('minute', '00')}")
    finest = MINUTE_MS if "minute" in names else HOUR_MS if "hour" in names else DAY_MS
    zone = zoneinfo.ZoneInfo(windows.timezone)
    for fold in (0, 1):
        earliest = int(first.replace(tzinfo=zone, fold=fold).timestamp() * 1000)
        # a window may begin anywhere within the minute, hour or day that names it
        start = window_start(earliest, windows)
        while start <= earliest + finest:
            if time_values(start, names, windows.timezone) == values:
                return start
            start = window_end(start, windows)
    return None


def shared_directory(windows: Windows, names: tuple[str, ...]) -> tuple[int, int] | None:
    """Two windows (starts) from `windows.start` on that `names` would give one directory; None if there are none.

    It takes clocks that go back from within a named hour, by less than the size of a window.
    """
    if windows.size_ms >= DAY_MS:
        return None
    cell = MINUTE_MS if "minute" in names else HOUR_MS
    for change in times_that_go_back(windows.timezone, windows.start_ms):
        if change.local_ms % cell == 0:
            continue
        reach = change.back_ms + cell
        start = max(windows.start_ms, window_start(change.at_ms - reach, windows))
        seen: dict[PartitionValues, int] = {}
        while start <= change.at_ms + reach:
            other = seen.setdefault(time_values(start, names, windows.timezone), start)
            if other != start:
                return other, start
            start += windows.size_ms
    return None


def join(base: str, *parts: str) -> str:
    return "/".join([base.rstrip("/"), *(p.strip("/") for p in parts)])


@dataclass(frozen=True)
class Layout:
    """The paths of one pipeline; all are URIs below `location` or `workdir`."""

    location: str
    workdir: str

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

    def landing_zone(self) -> str:
        return join(self.workdir, "landed")

    def landed(self, batch_id: int) -> str:
        return join(self.landing_zone(), str(batch_id))

    def high_water_marks(self) -> str:
        return join(self.workdir, "hwm")

    def high_water_mark(self, batch_id: int) -> str:
        return join(self.high_water_marks(), str(batch_id))

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
