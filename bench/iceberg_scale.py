"""What a publication into an Iceberg table costs as the table grows: load, look, commit, and the metadata's size.

    python -m bench.iceberg_scale --windows 10000 --files 100

Files are named, not written: only the control plane's work is measured, on a catalogue in SQLite on this disk.
CPU-seconds of this process, as means of the last tenth of the windows so far.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from pathlib import Path

from tests.targets.iceberg.lab import sqlite
from tests.world import World
from tidegate.core.files.receipt import DATA, FileEntry
from tidegate.core.target.port import Token
from tidegate.targets.iceberg import snapshot
from tidegate.targets.iceberg.definition import Definition
from tidegate.targets.iceberg.expiry import sweep
from tidegate.targets.iceberg.files import data_files, held
from tidegate.targets.iceberg.live import look, newest_token, summary_of, tag_of

HOUR_MS = 3_600_000
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
            window_ms = 1_357_344_000_000 + n * HOUR_MS
            began = time.process_time()
            loaded = catalogue.load(definition.name)
            assert loaded is not None
            wanted = files_of(window_ms, asked.files)
            seen = look(loaded.metadata, loaded.io, {window_ms * 1000})
            newest_token(loaded.metadata, window_ms)
            held(definition, seen, wanted)
            token = Token(pipeline="p", unit=window_ms, generation=1, epoch=1, digest="d" * 64)
            made = data_files(definition, loaded.metadata, wanted, {})
            said = summary_of(token, 1000 * asked.files, f"file:///lake/{window_ms}")
            updates = snapshot.replaced(loaded.metadata, loaded.io, seen, made, said, tag_of(token))
            catalogue.commit(loaded, (), updates)
            spent.append(time.process_time() - began)
            if (n + 1) % SWEPT_EVERY == 0:
                sweep(catalogue, definition.name, lambda publications: publications)
            if (n + 1) in (10, 100) or (n + 1) % max(1, asked.windows // 10) == 0:
                now = catalogue.load(definition.name)
                assert now is not None
                current = now.metadata.current_snapshot()
                assert current is not None
                last = spent[-max(10, len(spent) // 10) :]
                told = {
                    "windows": n + 1,
                    "cpu_s": round(sum(last) / len(last), 3),
                    "worst_cpu_s": round(max(last), 3),
                    "metadata_kb": Path(now.metadata_location.removeprefix("file://")).stat().st_size // 1024,
                    "list_kb": Path(current.manifest_list.removeprefix("file://")).stat().st_size // 1024,
                    "manifests": len(current.manifests(now.io)),
                }
                print(json.dumps(told), flush=True)
        world.close()


if __name__ == "__main__":
    main()
