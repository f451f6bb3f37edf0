"""Guarded renames: look, decide by the one table of core.base.renames, act, look again (R10)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from tidegate.core.base.errors import Alarm, FilesLost, OutcomeUnknown, PathExists, PathMissing
from tidegate.core.base.renames import Do, Seen, decide, held_against
from tidegate.core.base.storage import Storage
from tidegate.core.base.wording import many
from tidegate.core.files.receipt import FileEntry
from tidegate.core.target.paths import join
from tidegate.workflow.base.context import ATTEMPTS
from tidegate.workflow.base.listing import present, sizes


class MovedOn(Exception):
    """The ledger has moved on: somebody else did, or does, this work. Stop quietly."""


def manifest_of(files: Iterable[FileEntry]) -> dict[str, int]:
    return {f.path: f.bytes for f in files}


def look(storage: Storage, directory: str, manifest: Mapping[str, int]) -> Seen:
    there = sizes(storage, directory, manifest)
    return held_against(manifest, None if there is None else there.items())


def move_directory(
    storage: Storage,
    source: str,
    destination: str,
    manifest: Mapping[str, int],
    still_mine: Callable[[], bool],
    quarantine: str,
) -> None:
    """Bring the directory that holds `manifest` from `source` to `destination`, whatever earlier tries have done.

    `still_mine` re-reads the ledger: asked before any alarm. Raises MovedOn, Alarm, or OutcomeUnknown when looking
    `ATTEMPTS` times did not settle it."""
    storage.make_dirs(parent(destination))
    for _ in range(ATTEMPTS):
        todo = decide(*_look_at_both(storage, source, destination, manifest))
        if todo is Do.DONE:
            return
        if todo.is_alarm:
            _ask_before_alarm(still_mine)
            raise _alarm(storage, todo, source, destination, manifest, quarantine)
        if todo is Do.DELETE_SOURCE:
            storage.delete(source)
            return
        try_rename(storage, source, destination)
    raise OutcomeUnknown(f"renaming {source} to {destination} has no certain outcome yet")


def _look_at_both(storage: Storage, source: str, destination: str, manifest: Mapping[str, int]) -> tuple[Seen, Seen]:
    """The source first, then the destination: see core.recovery."""
    seen = look(storage, source, manifest)
    return seen, look(storage, destination, manifest)


def _ask_before_alarm(still_mine: Callable[[], bool]) -> None:
    """R10: before any alarm the ledger is read again. Raises MovedOn."""
    if not still_mine():
        raise MovedOn


def move_out(
    storage: Storage,
    source: str,
    destination: str,
    manifest: Mapping[str, int],
    still_mine: Callable[[], bool],
    quarantine: str,
) -> None:
    """`move_directory` out of a side table, which leaves an empty directory; done if another task did it.

    Raises Alarm, OutcomeUnknown."""
    try:
        if look(storage, destination, manifest) is not Seen.MATCHES:
            move_directory(storage, source, destination, manifest, still_mine, quarantine)
    except MovedOn:
        return
    # an ADD of the partition may still arrive late: what it shows is an empty directory then
    storage.make_dirs(source)


def _alarm(
    storage: Storage, todo: Do, source: str, destination: str, manifest: Mapping[str, int], quarantine: str
) -> Alarm:
    """The error with what a human needs to fix it: which file, and where everything is now."""
    message = f"{todo.value}: {source} -> {destination}"
    if todo is Do.QUARANTINE:
        try_rename(storage, source, quarantine)
        return Alarm(
            f"{message}; {destination} holds something else, the source is at {quarantine} now",
            advice=f"remove or move away {destination} if it is not needed, rename {quarantine} back to {source}, then "
            "`tidegate repair` and clear the task",
        )
    if todo is Do.ALARM_LOST:
        return Alarm(message)
    return incomplete(storage, source if todo is Do.ALARM_INCOMPLETE else destination, manifest, f"{message}; ")


def incomplete(storage: Storage, directory: str, manifest: Mapping[str, int], message: str = "") -> Alarm:
    """The error for files of a manifest that are not in their directory, or not with their length; names the first."""
    there = present(storage, directory, manifest)
    wrong = [path for path, size in manifest.items() if there.get(path) != size]
    if not wrong:
        return Alarm(f"{message}{directory} is not what the manifest says")
    return Alarm(
        f"{message}{join(directory, wrong[0])} and {many(len(wrong) - 1, 'more file')} are not what the manifest says",
        advice="restore them from a backup of the filesystem, then `tidegate repair` and clear the task",
    )


def try_rename(storage: Storage, source: str, destination: str) -> None:
    """Whatever the answer, the next look at both sides decides."""
    storage.make_dirs(parent(destination))
    try:
        storage.rename_no_replace(source, destination)
    except (OutcomeUnknown, PathExists, PathMissing):
        pass


def move_files(
    storage: Storage,
    wanted: Mapping[str, tuple[int, tuple[str, ...]]],
    destination: str,
    still_mine: Callable[[], bool],
) -> None:
    """Bring single files into `destination`, which only the control plane writes to.

    `wanted`: path below the destination -> (bytes, full paths where it may lie now, most likely first). `still_mine`
    is asked before each move (R3): a missing file under a moved epoch means stop quietly, not an alarm. Raises
    MovedOn, FilesLost, OutcomeUnknown.
    """
    there = {f.path: f.bytes for f in storage.list_files(destination) or []}
    made: set[str] = set()
    for path, (size, candidates) in wanted.items():
        if there.get(path) == size:
            continue
        target = join(destination, path)
        folder = parent(target)
        if folder not in made:
            storage.make_dirs(folder)
            made.add(folder)
        if not still_mine():
            raise MovedOn
        if not any(_move_file(storage, source, target) for source in candidates):
            _ask_before_alarm(still_mine)
            raise FilesLost(f"data file lost: {path} is not at {', nor at '.join(candidates)}")
    there = {f.path: f.bytes for f in storage.list_files(destination) or []}
    missing = [p for p, (size, _) in wanted.items() if there.get(p) != size]
    if missing:
        _ask_before_alarm(still_mine)
        raise FilesLost(
            f"{join(destination, missing[0])} and {many(len(missing) - 1, 'more file')} are not what the manifest says"
        )


def _move_file(storage: Storage, source: str, target: str) -> bool:
    """Whether the file is at `target` now; False: it was not at `source`. Raises OutcomeUnknown if looking fails."""
    for _ in range(ATTEMPTS):
        try:
            storage.rename_no_replace(source, target)
            return True
        except PathExists:
            return True
        except PathMissing:
            return storage.exists(target)
        except OutcomeUnknown:
            if storage.exists(target):
                return True  # otherwise again: a rename that never replaces can be repeated
    raise OutcomeUnknown(f"moving {source} to {target} has no certain outcome yet")


def parent(path: str) -> str:
    return path.rstrip("/").rsplit("/", 1)[0]
