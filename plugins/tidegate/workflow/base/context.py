"""What every workflow works with: one pipeline and the ports to gather from and to apply to."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, cast

from tidegate.core.base.clock import Clock
from tidegate.core.base.errors import SpecError, StepMissing
from tidegate.core.base.storage import Storage
from tidegate.core.batch.launcher import Launcher
from tidegate.core.batch.states import Batch, LandedBatch, SealedBatch
from tidegate.core.completeness.port import Truth
from tidegate.core.copy.port import Place
from tidegate.core.deliver.sender import Sender
from tidegate.core.failover.states import Standby
from tidegate.core.files.receipt import DIRTY, LATE, FileEntry
from tidegate.core.ledger import BatchLedger, Ledger
from tidegate.core.source.port import LogState, Source
from tidegate.core.spec.compatibility import incompatible, moved, renumbered
from tidegate.core.spec.pipeline import Delivery, Fields, Pipeline
from tidegate.core.target.paths import Layout, join
from tidegate.core.target.port import PrefixTarget, SideTarget, Target, Targets, Unit
from tidegate.core.window.states import WindowKey
from tidegate.kinds import SourceKind, source_kind, target_kind

ATTEMPTS = 8
"""How often one task looks again after a lost comparison or an unknown outcome; then its retry goes on."""

REQUEST_TTL_MS = 600_000
"""How long after its intent an unanswered catalogue request may still be executed (`hive.request_ttl`)."""


Connector = Callable[[], Place]
"""Says how far the connector of a mirror is, then its source's log (S10, S12). Raises SourceError; NoPlace."""


def _nonce() -> str:
    return uuid.uuid4().hex[:8]


def _unregistered(pipeline: Pipeline) -> int:
    raise NotImplementedError(f"this context of {pipeline.name} registers nothing")


def _no_sender(delivery: Delivery) -> Sender:
    raise NotImplementedError(f"this context sends nothing to {delivery.name}")


def _no_standby(site: str) -> Standby:
    raise NotImplementedError(f"this context does not reach site {site}")


@dataclass(kw_only=True)
class Context:
    """`spec_version` is the ledger's number of `pipeline`; `say` takes progress lines for the task log.

    `local_launcher` runs jobs that are too small for Spark; without it `launcher` runs them too. `truth` is there
    if the spec names another system that counts windows; `connectors` say how far those of a mirror's servers are, by
    the server's name, empty where there is but one: those of which the spec names who says it.
    `conflicts`: why a person lets the order decide between contradicting events of the days that are built (M7).
    `register` gives a changed pipeline its version; `sender` opens a further system, which the caller closes;
    `standby` the source at another site, by its name.
    `target` is the pipeline's table if it is published by windows, `keyed` if by prefixes of batches; `sides` are those
    of its late and dirty rows."""

    pipeline: Pipeline
    spec_version: int
    ledger: Ledger
    source: Source
    storage: Storage
    tables: Targets
    launcher: Launcher
    clock: Clock
    say: Callable[[str], None] = print
    nonce: Callable[[], str] = field(default=_nonce)
    request_ttl_ms: int = REQUEST_TTL_MS
    local_launcher: Launcher | None = None
    truth: Truth | None = None
    connectors: Mapping[str, Connector] = field(default_factory=dict)
    conflicts: str = ""
    register: Callable[[Pipeline], int] = field(default=_unregistered)
    sender: Callable[[Delivery], Sender] = field(default=_no_sender)
    standby: Callable[[str], Standby] = field(default=_no_standby)
    target: Target = field(init=False)
    keyed: PrefixTarget | None = field(init=False, default=None)
    sides: dict[str, SideTarget] = field(init=False)
    _landed: dict[int, str] = field(init=False, default_factory=dict)
    _newest_spec: int | None = field(init=False, default=None)
    _landed_fields: Fields = field(init=False, default=())

    def __post_init__(self) -> None:
        table = self.tables.data(self)
        if table.unit is Unit.PREFIX:
            self.keyed = cast(PrefixTarget, table)
        self.target = cast(Target, table if self.keyed is None else _NoWindows(self.name))
        self.sides = {kind: self.tables.side(self, kind) for kind in (LATE, DIRTY)}

    @property
    def table(self) -> Target | PrefixTarget:
        """The pipeline's own table, whatever its unit is."""
        return self.target if self.keyed is None else self.keyed

    @property
    def name(self) -> str:
        return self.pipeline.name

    def log(self, topic: str = "") -> LogState:
        """The pipeline's log as the source tells it now, under the id that the ledger has accepted. Raises SourceError.

        Whoever compares it with the ledger reads the ledger first: a log that is accepted meanwhile is another one."""
        found = self.source.look(topic or self.pipeline.source.topic)
        if found.traits.identity:
            return found
        row = self.ledger.pipelines.row(self.name)
        return found.known_as(None if row is None else row.accepted_topic_id)

    @property
    def kind(self) -> SourceKind:
        """The kind of the pipeline's source: how people call it, and what to do about its troubles."""
        return source_kind(self.pipeline.source.kind)

    @property
    def layout(self) -> Layout:
        return Layout.of(self.pipeline)

    def newest_spec(self) -> int:
        """The number of the newest spec that the ledger had when this was asked first."""
        if self._newest_spec is None:
            self._newest_spec = self.ledger.pipelines.newest(self.name)
        return self._newest_spec

    def landed_fields(self) -> Fields:
        """How files that have landed call their columns, where files have to say ids: as the newest spec whose plans
        did. A table never calls a field otherwise. Raises LedgerError."""
        if not self._landed_fields and target_kind(self.pipeline.sink.kind).stored is not None:
            pinned = (spec.sink.fields for spec in reversed(self.ledger.pipelines.specs(self.name)))
            self._landed_fields = next(filter(None, pinned), ())
        return self._landed_fields

    def landed(self, batch_id: int) -> str:
        """Directory of a landed batch's files, as `landed` says; the ledger is asked once.

        Paths of its manifest are below it, but for files that have moved on."""
        if not self.layout.in_place:
            return self.layout.landed(batch_id)
        if batch_id not in self._landed:
            batch = self.ledger.batches.get(self.name, batch_id)
            if not isinstance(batch, LandedBatch):
                return landed(self.layout, batch)  # a ledger that fails over may forget it
            self._landed[batch_id] = landed(self.layout, batch)
        return self._landed[batch_id]

    def named(self, batch_id: int, files: Iterable[FileEntry]) -> list[FileEntry]:
        """Files of a landed batch as tables take them: where nothing moves, by their URIs."""
        if not self.layout.in_place:
            return list(files)
        return [replace(f, path=join(self.landed(batch_id), f.path)) for f in files]


class _NoWindows:
    """Stands for the table of windows of a pipeline that has none: each question is a fault of Tidegate."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, asked: str) -> Any:
        raise StepMissing(f"{self._name} has no windows: nothing of it is published by the window")


def landed(layout: Layout, batch: Batch) -> str:
    """Directory (URI) of a landed batch's files: `landed/<batch>`, or where nothing moves, the attempt that landed."""
    if layout.in_place and isinstance(batch, SealedBatch | LandedBatch):
        return layout.attempt(batch.plan.batch_id, batch.epoch, batch.nonce)
    return layout.landed(batch.plan.batch_id)  # in place, and not SEALED: nothing is there


def landed_by(ledger: BatchLedger, spec: Pipeline, batch_id: int) -> str:
    """As `landed`; the ledger is asked only where the answer depends on it. Raises LedgerError."""
    layout = Layout.of(spec)
    return landed(layout, ledger.get(spec.name, batch_id)) if layout.in_place else layout.landed(batch_id)


def guard(ctx: Context) -> None:
    """Refuse a spec under which landed batches and published windows would mean something else.

    Raises SpecError (a human decides), naming each key with its old and new value."""
    version = ctx.ledger.batches.newest_spec(ctx.name)
    if version is None or version == ctx.spec_version:
        return
    error = contradiction(ctx.ledger.pipelines.spec(ctx.name, version), ctx.pipeline)
    if error is not None:
        raise error


def contradiction(old: Pipeline, new: Pipeline) -> SpecError | None:
    """What `guard` says of `new`, where the newest batch was planned under `old`; None if it says nothing."""
    table = target_kind(new.sink.kind)
    reasons = incompatible(old, new, table.promotes)
    reasons += renumbered(old, new, source_kind(new.source.kind).numbering) + moved(old, new, table.fixed)
    if not reasons:
        return None
    return SpecError(
        f"{new.name}: batches have landed under the spec as it was: {'; '.join(reasons)}",
        advice="take the change back, or make it a pipeline of its own (another name, table and location)",
    )


@dataclass(frozen=True, kw_only=True)
class Published:
    """What stands in the table for a window. `new` is False when an existing generation was verified or unchanged."""

    window: WindowKey
    generation: int
    new: bool
    rows: int
    digest: str
    location: str
    note: str = ""
