"""Where the windows of a pipeline's table are, by name and by path, and how to reach the table."""

from __future__ import annotations

from tidegate.core.base.partition_values import PartitionValues
from tidegate.core.spec.pipeline import Fields
from tidegate.core.target.paths import Layout
from tidegate.core.target.port import Settled, Site
from tidegate.core.window.cut import time_values
from tidegate.core.window.states import BuiltGeneration, WindowKey
from tidegate.targets.hive.ports import Catalogue, PartitionSwitch


class Plain:
    """What a Hive table says where tables of other kinds have more to say."""

    def fields(self) -> Fields:
        """None: files go by the columns' names."""
        return ()

    def agrees(self, expected: str, shown: str) -> bool:
        """A place is a place."""
        return expected == shown

    def sweep(self, settled: Settled) -> list[str]:
        """The table keeps nothing for tasks."""
        return []

    def leftovers(self, now_ms: int) -> list[str]:
        """The table has no files beside its data."""
        return []


class Places:
    """`switch` turns a whole window at once; without it partition by partition."""

    def __init__(self, site: Site, catalogue: Catalogue, switch: PartitionSwitch | None = None) -> None:
        self.site, self.catalogue, self.switch = site, catalogue, switch

    @property
    def name(self) -> str:
        """`database.table`."""
        return self.site.pipeline.sink.table

    @property
    def layout(self) -> Layout:
        """Its paths."""
        return Layout.of(self.site.pipeline)

    def values(self, key: WindowKey) -> PartitionValues:
        """The time partitions of a window."""
        spec = self.site.pipeline
        return time_values(key.start_ms, spec.time_partitions, spec.windows.timezone)

    def home(self, key: WindowKey) -> str:
        """The table's own directory of the window."""
        return self.layout.window(self.values(key))

    def sent_to(self, location: str) -> str:
        """The directory that readers of a generation are sent to."""
        return location

    @property
    def reuses_home(self) -> bool:
        """Swaps by pointer never bring a second generation there."""
        return self.site.pipeline.archive.swap != "pointer"

    def place(self, generation: BuiltGeneration) -> str:
        """The first generation lies in the table's own directory; later ones beside, or there too (swap: directory).

        A swap that has begun ends where it was to end, whatever the spec says by now."""
        key = generation.window
        if generation.location is not None:
            return generation.location
        if generation.number == 1:
            return self.home(key)
        beside = self.layout.generation(key.start_ms, generation.number, generation.epoch)
        if self.site.pipeline.archive.swap == "directory" and not self.site.storage.exists(beside):
            return self.home(key)
        return beside
