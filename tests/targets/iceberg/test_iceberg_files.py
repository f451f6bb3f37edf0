"""pyiceberg's files by our storage (C6): whole or absent, never replaced, never deleted; and what is not imported."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.io import OutputFile
from pyiceberg.manifest import (
    DataFile,
    DataFileContent,
    FileFormat,
    ManifestEntry,
    ManifestEntryStatus,
    read_manifest_list,
    write_manifest,
    write_manifest_list,
)
from pyiceberg.typedef import Record

from tests.targets.iceberg.catalogues import SCHEMA, SPEC
from tidegate.core.base.errors import OutcomeUnknown, PathExists, PathMissing, StorageError
from tidegate.storage.local import LocalStorage
from tidegate.targets.iceberg.file_io import StorageIO

ROOT = Path(__file__).parents[3]


class Counted(LocalStorage):
    """Counts writes and reads; `fails`: what a write raises."""

    def __init__(self) -> None:
        self.writes, self.reads = 0, 0
        self.fails: Exception | None = None

    def write_new(self, path: str, content: bytes) -> None:
        self.writes += 1
        if self.fails is not None:
            raise self.fails
        super().write_new(path, content)

    def read(self, path: str) -> bytes:
        self.reads += 1
        return super().read(path)


def test_a_file_is_written_once_when_its_stream_is_closed(tmp_path: Path) -> None:
    storage = Counted()
    io, path = StorageIO(storage), f"file://{tmp_path}/new/file"
    out = io.new_output(path)
    assert not out.exists()
    with out.create() as stream:
        assert stream.write(b"tide") == 4
        assert stream.tell() == 4
        assert not out.exists(), "others see it whole or not at all"
    stream.close()
    assert (storage.writes, len(out), storage.reads) == (1, 4, 0)
    with pytest.raises(ValueError, match="is closed"):
        stream.write(b"more")
    found = io.new_input(path)
    assert (found.exists(), len(found), storage.reads) == (True, 4, 1)
    with found.open() as f:
        assert (f.seek(2), f.read(1), f.tell(), f.read()) == (2, b"d", 3, b"e")
    assert storage.reads == 1
    assert io.new_input(f"{tmp_path}/new/file").exists(), "Java leaves out slashes"
    with pytest.raises(PathMissing):
        io.new_input(f"file://{tmp_path}/other").open()


@pytest.mark.parametrize("overwrite", [False, True])
def test_nothing_is_replaced(tmp_path: Path, overwrite: bool) -> None:
    (tmp_path / "there").write_bytes(b"first")
    with (
        pytest.raises(PathExists),
        StorageIO(LocalStorage()).new_output(f"file://{tmp_path}/there").create(overwrite) as s,
    ):
        s.write(b"second")
    assert (tmp_path / "there").read_bytes() == b"first"


def test_an_error_leaves_no_file(tmp_path: Path) -> None:
    """Also in the library's writers, which close their streams whatever happened."""
    io = StorageIO(LocalStorage())
    with pytest.raises(KeyError):
        half_a_file(io.new_output(f"file://{tmp_path}/a"))
    with pytest.raises(KeyError):
        half_a_manifest(io.new_output(f"file://{tmp_path}/b"))
    assert list(tmp_path.iterdir()) == []
    try:
        raise KeyError
    except KeyError:  # an error before the stream is not one of its own
        with io.new_output(f"file://{tmp_path}/c").create() as stream:
            stream.write(b"whole")
    assert [p.name for p in tmp_path.iterdir()] == ["c"]


def half_a_file(out: OutputFile) -> None:
    with out.create() as stream:
        stream.write(b"half")
        raise KeyError


def half_a_manifest(out: OutputFile) -> None:
    with write_manifest(2, SPEC, SCHEMA, out, 5, "null") as writer:
        writer.add_entry(entry())
        raise KeyError


def test_a_write_without_an_answer_is_not_sent_again(tmp_path: Path) -> None:
    storage = Counted()
    storage.fails = OutcomeUnknown("no answer")
    out = StorageIO(storage).new_output(f"file://{tmp_path}/a")
    stream = out.create()
    stream.write(b"x")
    with pytest.raises(OutcomeUnknown):
        stream.close()
    stream.close()
    assert storage.writes == 1


def test_nothing_is_deleted(tmp_path: Path) -> None:
    (tmp_path / "there").write_bytes(b"first")
    io, path = StorageIO(LocalStorage()), f"file://{tmp_path}/there"
    for given in (path, io.new_input(path), io.new_output(path)):
        with pytest.raises(StorageError, match="are not deleted"):
            io.delete(given)
    assert (tmp_path / "there").exists()


def test_manifests_are_written_and_read(tmp_path: Path) -> None:
    storage = Counted()
    io = StorageIO(storage)
    with write_manifest(2, SPEC, SCHEMA, io.new_output(f"file://{tmp_path}/m.avro"), 5, "deflate") as writer:
        writer.add_entry(entry())
    manifest = writer.to_manifest_file()
    assert manifest.manifest_length == (tmp_path / "m.avro").stat().st_size
    with write_manifest_list(2, io.new_output(f"file://{tmp_path}/l.avro"), 5, None, 1, "deflate") as listing:
        listing.add_manifests([manifest])
    assert (storage.writes, storage.reads) == (2, 0)
    [found] = read_manifest_list(io.new_input(f"file://{tmp_path}/l.avro"))
    [read] = found.fetch_manifest_entry(io)
    assert (read.data_file.file_path, read.data_file.record_count) == ("file:///x.parquet", 3)
    assert storage.reads == 2


def test_nothing_reaches_pyiceberg_that_has_no_iceberg_table() -> None:
    outside = "tidegate.wiring, tidegate.inspection, tidegate.spec, tidegate.cli.main, tidegate.targets.hive.kind"
    assert imported(outside, ("pyiceberg", "tidegate.targets.iceberg")) == []


def test_pyiceberg_brings_no_library_of_the_worker_and_no_catalogue_of_its_own(tmp_path: Path) -> None:
    """Neither by its import nor by work on a table."""
    work = (
        "from tests.targets.iceberg.catalogues import *\nfrom pathlib import Path\n"
        f"s = Site('sql', Path({str(tmp_path)!r}), 'sqlite:///{tmp_path}/c.db'); c = s.opened(); m = s.made(c)\n"
        "d = c.commit(m, (), snapshot(m, 1)); c.load(d.name)\n"
    )
    unwanted = ("pyarrow", "duckdb", "pandas", "numpy", "fsspec", "airflow")
    catalogues = ("pyiceberg.catalog.sql", "pyiceberg.catalog.rest")
    assert imported("tidegate.targets.iceberg.opening", (*unwanted, *catalogues), work) == []


def entry() -> ManifestEntry:
    file = DataFile.from_args(
        _table_format_version=2,
        content=DataFileContent.DATA,
        file_path="file:///x.parquet",
        file_format=FileFormat.PARQUET,
        partition=Record(100, "a"),
        record_count=3,
        file_size_in_bytes=9,
    )
    return ManifestEntry.from_args(
        _table_format_version=2, status=ManifestEntryStatus.ADDED, snapshot_id=5, data_file=file
    )


def imported(modules: str, unwanted: tuple[str, ...], then: str = "") -> Any:
    code = f"import sys, {modules}\n{then}print([m for m in {unwanted} if m in sys.modules])"
    path = os.pathsep.join([str(ROOT / "plugins"), str(ROOT)])
    done = subprocess.run(
        [sys.executable, "-c", code], env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return eval(done.stdout)
