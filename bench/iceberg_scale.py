"""What a publication into an Iceberg table costs as the table grows: load, look, commit, and the metadata's size.

    python -m bench.iceberg_scale --windows 10000 --files 100

Files are named, not written: only the control plane's work is measured, on a catalogue in SQLite on this disk.
CPU-milliseconds of this process; `median` and `worst` of the windows since the line before.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import time
from pathlib import Path

from tests.targets.iceberg.lab import sqlite
from tests.world import World
from tidegate.core.files.receipt import DATA, FileEntry
from tidegate.core.target.port import Token
from tidegate.targets.iceberg import snapshot
from tidegate.targets.iceberg.catalogue import Catalogue
from tidegate.targets.iceberg.definition import Definition
from tidegate.targets.iceberg.expiry import sweep
from tidegate.targets.iceberg.files import data_files, held
from tidegate.targets.iceberg.live import look, newest_token, summary_of
from tidegate.targets.iceberg.tags import tag_of

FIRST_MS, HOUR_MS = 1_357_344_000_000, 3_600_000
SWEPT_EVERY = 100


def files_of(window_ms: int, count: int) -> list[tuple[str, FileEntry]]:
    made = []
    for n in range(count):
        entry = FileEntry(
            path=f"site=s{n}/b1-part-{n}.parquet", kind=DATA, window_ms=window_ms, values=(("site", f"s{n}"),),
            rows=1000, bytes=50_000, min_event_ms=window_ms, max_event_ms=window_ms, checksum=n, partitions=(),
        )  # fmt: skip
        made.append((f"file:///lake/{window_ms}/{entry.path}", entry))
    return made


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--windows", type=int, default=1000)
    parser.add_argument("--files", type=int, default=100)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "world").mkdir()
        world = World(folder / "world")
        definition = Definition(world.pipeline, DATA)
        catalogue = sqlite(folder)
        definition.bring_up(catalogue, lambda line: None)
        spent: list[float] = []
        for n in range(asked.windows):
            began = time.process_time()
            publish(catalogue, definition, FIRST_MS + n * HOUR_MS, 1, asked.files)
            spent.append(time.process_time() - began)
            if (n + 1) % SWEPT_EVERY == 0:
                sweep(catalogue, definition.name, lambda publications: publications)
            if (n + 1) in (10, 100, 1_000) or n + 1 == asked.windows or (n + 1) % 2_000 == 0:
                said = told(catalogue, definition, n + 1) | {"median_ms": ms(statistics.median(spent))}
                print(json.dumps(said | {"worst_ms": ms(max(spent))}), flush=True)
                spent.clear()
        for n in range(0, asked.windows, max(1, asked.windows // 50)):
            began = time.process_time()
            publish(catalogue, definition, FIRST_MS + n * HOUR_MS, 2, asked.files)
            spent.append(time.process_time() - began)
        said = told(catalogue, definition, asked.windows) | {"replay_ms": ms(statistics.median(spent))}
        print(json.dumps(said | {"worst_replay_ms": ms(max(spent))}), flush=True)
        world.close()


def publish(catalogue: Catalogue, definition: Definition, window_ms: int, generation: int, files: int) -> None:
    """One round of a publication: what it loads, looks at, and commits."""
    loaded = catalogue.load(definition.name)
    assert loaded is not None
    wanted = files_of(window_ms, files)
    seen = look(loaded.metadata, loaded.io, {window_ms * 1000})
    newest_token(loaded.metadata, window_ms)
    held(definition, seen, wanted)
    token = Token(pipeline="p", unit=window_ms, generation=generation, epoch=1, digest="d" * 64)
    made = data_files(definition, loaded.metadata, wanted, {})
    said = summary_of(token, 1000 * files, f"file:///lake/{window_ms}")
    catalogue.commit(loaded, (), snapshot.replaced(loaded.metadata, loaded.io, seen, made, said, tag_of(token)))


def told(catalogue: Catalogue, definition: Definition, windows: int) -> dict[str, float]:
    """What a look at a window costs now, and how big the table's own files are."""
    looks: list[float] = []
    for n in range(0, windows, max(1, windows // 10)):
        began = time.process_time()
        now = catalogue.load(definition.name)
        assert now is not None
        look(now.metadata, now.io, {(FIRST_MS + n * HOUR_MS) * 1000})
        looks.append(time.process_time() - began)
    current = now.metadata.current_snapshot()
    assert current is not None
    return {
        "windows": windows,
        "look_ms": ms(statistics.median(looks)),
        "metadata_kb": Path(now.metadata_location.removeprefix("file://")).stat().st_size // 1024,
        "list_kb": Path(current.manifest_list.removeprefix("file://")).stat().st_size // 1024,
        "manifests": len(current.manifests(now.io)),
    }


def ms(seconds: float) -> int:
    return round(1000 * seconds)


if __name__ == "__main__":
    main()
