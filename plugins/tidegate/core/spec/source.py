"""The compiled section `source`, and the sites that it names."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from tidegate.core.base.plain import LEFT_OUT

KAFKA = "kafka"
"""The kind of source of every pipeline that does not name one."""


@dataclass(frozen=True, kw_only=True)
class Site:
    """A place that has the topic. `copiers`: transactional ids of those that copy it to there."""

    name: str
    conn_id: str
    copiers: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Source:
    """`options`: keys that only this kind of source has, and their values as text, in order of the keys. `sites`: where
    the topic is, or copies of it; the first one is where reading began. `conn_id` is of the active one."""

    conn_id: str
    topic: str
    start: str | int = "earliest"  # earliest | latest | epoch ms
    isolation: str = "read_committed"  # read_committed | read_uncommitted
    gaps: str = "forbid"  # forbid | allow
    on_data_loss: str = "fail"  # fail | record
    loss_warning_ms: int | None = 86_400_000  # time to loss that is worth a warning; None: never
    kind: str = field(default=KAFKA, metadata=LEFT_OUT)
    options: tuple[tuple[str, str], ...] = field(default=(), metadata=LEFT_OUT)
    sites: tuple[Site, ...] = field(default=(), metadata=LEFT_OUT)

    @property
    def site(self) -> str:
        """Name of the site that is read; empty where none are named."""
        return next((site.name for site in self.sites if site.conn_id == self.conn_id), "")

    def at(self, name: str) -> Source:
        """The same source, read at another of its sites."""
        return replace(self, conn_id=next(site.conn_id for site in self.sites if site.name == name))
