"""A snapshot made by hand: what stands for a unit goes, its new files come, the token is in the summary, in one commit.

Low-level on purpose: the library's own overwrite reads every manifest of the table, and its retries are a rebase (C2).
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Literal

from pyiceberg.io import FileIO, OutputFile
from pyiceberg.manifest import (
    DataFile,
    ManifestContent,
    ManifestEntry,
    ManifestEntryStatus,
    ManifestFile,
    ManifestWriter,
    ManifestWriterV2,
    write_manifest_list,
)
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.refs import MAIN_BRANCH, SnapshotRefType
from pyiceberg.table.snapshots import (
    Operation,
    Snapshot,
    SnapshotSummaryCollector,
    Summary,
    update_snapshot_summaries,
)
from pyiceberg.table.update import (
    AddSnapshotUpdate,
    RemoveSnapshotRefUpdate,
    SetSnapshotRefUpdate,
    TableUpdate,
)

from tidegate.targets.iceberg import merging, names
from tidegate.targets.iceberg.live import Found, Look, first_copy, first_unit, newest, unit_of
from tidegate.targets.iceberg.tags import FIRST_COPY

CODEC: Literal["deflate"] = "deflate"


def replaced(
    metadata: TableMetadata,
    io: FileIO,
    seen: Look,
    added: list[DataFile],
    said: dict[str, str],
    tag: str | None,
    hidden: bool = False,
) -> tuple[TableUpdate, ...]:
    """Return the commit after which `added` stand where the files that were seen stood. Writes its manifests,
    under names that nobody else uses; those of a refused commit stay, and no table has them.

    `hidden`: on the branch of the first copy; the first commit that is not hidden makes it what readers see."""
    maker = _Maker(metadata, io)
    manifests = maker.added(added)
    going = [*seen.found, *seen.deletes]  # a delete file means rows of its own partition only (C7)
    taken = {one.manifest.manifest_path for one in going}
    for one in going:
        manifests.append(maker.without(one))
    manifests += maker.merged([m for m in seen.manifests if m.manifest_path not in taken and _lives(m)])
    snapshot = maker.snapshot(manifests, maker.summary(added, [*seen.files, *seen.delete_files], said))
    refs = [(FIRST_COPY if hidden else MAIN_BRANCH, SnapshotRefType.BRANCH)]
    if tag is not None:
        refs.append((tag, SnapshotRefType.TAG))
    shows = not hidden and first_copy(metadata) is not None
    return (
        AddSnapshotUpdate(snapshot=snapshot),
        *(
            SetSnapshotRefUpdate.model_validate({"ref-name": n, "type": kind, "snapshot-id": snapshot.snapshot_id})
            for n, kind in refs
        ),
        *((RemoveSnapshotRefUpdate.model_validate({"ref-name": FIRST_COPY}),) if shows else ()),
    )


def _lives(manifest: ManifestFile) -> bool:
    """Whether it has more than files that are gone: these tell one commit's story only."""
    return manifest.has_added_files() or manifest.has_existing_files()


def _entries(manifest: ManifestFile) -> int:
    return (manifest.added_files_count or 0) + (manifest.existing_files_count or 0)


@dataclass
class _Maker:
    """The files of one commit to come."""

    metadata: TableMetadata
    io: FileIO
    id: int = field(init=False)
    spec_id: int = field(init=False)
    sequence: int = field(init=False)
    name: str = field(init=False)
    written: int = 0

    def __post_init__(self) -> None:
        self.id = self.metadata.new_snapshot_id()
        self.spec_id = self.metadata.default_spec_id
        self.sequence = self.metadata.next_sequence_number()
        self.name = names.stamp(self.metadata.table_uuid)

    def added(self, files: list[DataFile]) -> list[ManifestFile]:
        """A manifest of these files; none for an empty unit."""
        if not files:
            return []
        with self._manifest(self.spec_id) as writer:
            for file in files:
                writer.add(_entry(ManifestEntryStatus.ADDED, self.id, file))
        return [writer.to_manifest_file()]

    def without(self, one: Found) -> ManifestFile:
        """The manifest again, in which the unit's files are gone."""
        gone = {id(file) for file in one.files}
        with self._manifest(one.manifest.partition_spec_id, one.manifest.content) as writer:
            for entry in one.entries:
                if id(entry.data_file) in gone:
                    writer.delete(entry)
                else:
                    writer.existing(entry)
        return writer.to_manifest_file()

    def merged(self, manifests: list[ManifestFile]) -> list[ManifestFile]:
        """The same entries in fewer manifests, where that is due: the library's own merge knows no order."""
        ours = [m for m in manifests if m.content == ManifestContent.DATA and m.partition_spec_id == self.spec_id]
        ours.sort(key=lambda m: first_unit(self.metadata, m))
        run = merging.chosen([_entries(m) for m in ours])
        if not run:
            return manifests
        going = [ours[n] for n in run]
        entries = [e for m in going for e in m.fetch_manifest_entry(self.io, discard_deleted=True)]
        entries.sort(key=lambda e: unit_of(self.metadata, e.data_file))
        with self._manifest(self.spec_id) as writer:
            for entry in entries:
                writer.existing(entry)
        gone = {m.manifest_path for m in going}
        return [writer.to_manifest_file(), *(m for m in manifests if m.manifest_path not in gone)]

    def summary(self, added: Iterable[DataFile], removed: Iterable[DataFile], said: dict[str, str]) -> Summary:
        collector, removed = SnapshotSummaryCollector(), list(removed)
        schema, specs = self.metadata.schema(), self.metadata.specs()
        for file in added:
            collector.add_file(file, schema, specs[self.metadata.default_spec_id])
        for file in removed:
            collector.remove_file(file, schema, specs[file.spec_id])
        before = newest(self.metadata)
        return update_snapshot_summaries(
            Summary(Operation.OVERWRITE if removed else Operation.APPEND, **collector.build(), **said),
            None if before is None else before.summary,
        )

    def snapshot(self, manifests: list[ManifestFile], summary: Summary) -> Snapshot:
        before = newest(self.metadata)
        parent = None if before is None else before.snapshot_id
        output = self._output(f"snap-{self.id}-{self.sequence}-{self.name}.avro")
        with write_manifest_list(
            format_version=self.metadata.format_version,
            output_file=output,
            snapshot_id=self.id,
            parent_snapshot_id=parent,
            sequence_number=self.sequence,
            avro_compression=CODEC,
        ) as writer:
            writer.add_manifests(manifests)
        return Snapshot.model_validate(
            {
                "snapshot-id": self.id,
                "parent-snapshot-id": parent,
                "manifest-list": output.location,
                "sequence-number": self.sequence,
                "timestamp-ms": max(int(time.time() * 1000), self.metadata.last_updated_ms),  # hosts' clocks differ
                "summary": summary,
                "schema-id": self.metadata.current_schema_id,
            }
        )

    def _manifest(self, spec_id: int, content: ManifestContent = ManifestContent.DATA) -> ManifestWriter:
        self.written += 1
        make = ManifestWriterV2 if content == ManifestContent.DATA else _DeletesWriter
        return make(
            self.metadata.specs()[spec_id],
            self.metadata.schema(),
            self._output(f"{self.name}-{self.sequence}-m{self.written}.avro"),
            self.id,
            CODEC,
        )

    def _output(self, name: str) -> OutputFile:
        return self.io.new_output(f"{self.metadata.location.rstrip('/')}/metadata/{name}")


class _DeletesWriter(ManifestWriterV2):
    """The library writes no manifest of delete files."""

    def content(self) -> ManifestContent:
        return ManifestContent.DELETES

    @property
    def _meta(self) -> dict[str, str]:
        return {**super()._meta, "content": "deletes"}


def _entry(status: ManifestEntryStatus, snapshot_id: int, file: DataFile) -> ManifestEntry:
    return ManifestEntry.from_args(
        status=status, snapshot_id=snapshot_id, sequence_number=None, file_sequence_number=None, data_file=file
    )
