"""Half of a call: what is left when a step over several files, directories or partitions ends in its middle."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from tests.hooks import Died, Hook, Once, die
from tidegate.core.target.paths import RECEIPT, join
from tidegate.targets.hive.ports import TableDef


def partly(port: str, method: str, real: Any, args: tuple[Any, ...]) -> Callable[[], None] | None:
    """Does a part of the call, for certain less than all; None if it is one step, done or not done."""
    find = _PARTS.get(f"{port}.{method}")
    return find(real, *args) if find else None


def _make_dirs(storage: Any, directory: str) -> Callable[[], None] | None:
    if not storage.renames:
        return None
    missing = []
    while not storage.exists(directory):
        missing.append(directory)
        directory = directory.rsplit("/", 1)[0]
    if len(missing) < 2:
        return None
    return lambda: storage.make_dirs(missing[len(missing) // 2])


def _delete(storage: Any, path: str) -> Callable[[], None] | None:
    files = storage.list_files(path) if not storage.renames or _is_directory(path) else None
    if not files or len(files) < 2:
        return None

    def half() -> None:
        for f in files[: len(files) // 2]:
            storage.delete(join(path, f.path))

    return half


def _write_new(storage: Any, path: str, content: bytes) -> Callable[[], None] | None:
    """Appears whole or not at all; what a crash leaves is the file that it was written to first."""
    if not storage.renames:
        return None

    def half() -> None:
        parent = path.rsplit("/", 1)[0]
        storage.make_dirs(parent)
        Path(f"{parent.removeprefix('file://')}/._tidegate.0123456789abcdef01234567").write_bytes(content[:7])

    return half


def _add_partitions(catalogue: Any, table: str, locations: dict[Any, str]) -> Callable[[], None] | None:
    """Statements go to the server in portions."""
    some = dict(list(locations.items())[: len(locations) // 2])
    return (lambda: catalogue.add_partitions(table, some)) if some else None


def _drop_partitions(catalogue: Any, table: str, values: list[Any]) -> Callable[[], None] | None:
    some = values[: len(values) // 2]
    return (lambda: catalogue.drop_partitions(table, some)) if some else None


def _evolve_table(catalogue: Any, table: TableDef) -> Callable[[], None] | None:
    """Several statements: a part of the columns is there."""
    there = {name for name, _ in catalogue._tables[table.name].definition.columns}
    added = [column for column in table.columns if column[0] not in there]
    if len(added) < 2:
        return None
    some = replace(table, columns=tuple(c for c in table.columns if c not in added[1:]))
    return lambda: catalogue.evolve_table(some)


def _run(launcher: Any, plan_path: str) -> Callable[[], None]:
    """The job dies at its second file, or, if it writes only one, before its receipt."""

    def before_receipt(path: str, _content: bytes) -> None:
        if path.endswith(RECEIPT):
            die()

    def half() -> None:
        whole = launcher.storage
        launcher.storage = Hook(whole, before={"open_new": Once(die, at=2), "write_new": before_receipt})
        try:
            launcher.run(plan_path)
        except Died:
            return
        finally:
            launcher.storage = whole
        raise AssertionError(f"the job on {plan_path} did not end in its middle")

    return half


def _commit_group(source: Any, group: str, topic: str, offsets: dict[int, int], *_: str) -> Callable[[], None] | None:
    some = dict(list(offsets.items())[: len(offsets) // 2])
    return (lambda: source.remember(group, topic, some)) if some else None


def _is_directory(path: str) -> bool:
    return Path(path.removeprefix("file://")).is_dir()


_PARTS: dict[str, Callable[..., Callable[[], None] | None]] = {
    "storage.make_dirs": _make_dirs,
    "storage.delete": _delete,
    "storage.write_new": _write_new,
    "catalogue.add_partitions": _add_partitions,
    "catalogue.evolve_table": _evolve_table,
    "catalogue.drop_partitions": _drop_partitions,
    "launcher.run": _run,
    "source.remember": _commit_group,
}
