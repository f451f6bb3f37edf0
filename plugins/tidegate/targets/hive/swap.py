"""`swap: directory` (R4): gather for `targets.hive.swap_steps`, act, look again."""

from __future__ import annotations

import json

from tidegate.core.base.errors import Alarm, OutcomeUnknown, PathMissing
from tidegate.core.base.renames import Seen, held_against
from tidegate.core.base.storage import Storage
from tidegate.core.target.paths import CERTIFICATE, join
from tidegate.core.target.port import Fence
from tidegate.core.window.states import BuiltGeneration, Moved
from tidegate.targets.hive.places import Places
from tidegate.targets.hive.swap_steps import Do, Hour, decide
from tidegate.workflow.base.context import ATTEMPTS
from tidegate.workflow.base.renames import MovedOn, manifest_of, parent, try_rename


def swap_in(table: Places, fence: Fence, hour: str) -> Moved | None:
    """Bring the generation into `hour`, what stood there to its retired place; whatever earlier tries have done.

    SWAPPING is recorded before anything moves. The renames are made under an intent, like the catalogue's changes:
    while one of another generation may still be executed, nothing moves (R8). Raises Alarm, MovedOn, LostComparison,
    CatalogueUnsure, OutcomeUnknown."""
    fence.show(hour)
    old = fence.occupant(hour)
    retired = None if old is None else table.layout.generation(old.window.start_ms, old.number, old.epoch)
    call_id = fence.declare(hour)
    try:
        _rename_both(table, fence, hour, retired)
    except Alarm as e:
        fence.block(str(e))
        raise
    fence.answer(call_id)
    return None if old is None or retired is None else Moved(old.number, retired)


def _rename_both(table: Places, fence: Fence, hour: str, retired: str | None) -> None:
    generation = fence.generation
    assert isinstance(generation, BuiltGeneration)
    storage, built = table.site.storage, generation.directory
    storage.make_dirs(parent(hour))
    for _ in range(ATTEMPTS):
        # the order of the looks is that of swap_steps
        seen = _seen(storage, generation)
        taken = None if retired is None else storage.exists(retired)
        todo = decide(seen, taken, _standing(storage, generation, hour))
        if todo is Do.DONE:
            return
        if todo.is_alarm:
            if not fence.still_mine():
                raise MovedOn
            raise Alarm(f"{todo.value}: {built} -> {hour}" + (f", the old one to {retired}" if retired else ""))
        if todo is Do.PLACE:
            try_rename(storage, built, hour)
        elif todo is Do.RETIRE:
            assert retired is not None
            try_rename(storage, hour, retired)
        else:
            assert retired is not None
            storage.make_dirs(retired)
    raise OutcomeUnknown(f"swapping {built} into {hour} has no certain outcome yet")


def _seen(storage: Storage, generation: BuiltGeneration) -> Seen:
    """The built directory compared with the manifest; the certificate is part of what must have arrived."""
    listing = storage.list_files(generation.directory)
    if listing is not None and CERTIFICATE not in {f.path for f in listing}:
        return Seen.DIFFERS
    return held_against(
        manifest_of(generation.files), None if listing is None else [(f.path, f.bytes) for f in listing]
    )


def _standing(storage: Storage, generation: BuiltGeneration, hour: str) -> Hour:
    """Told by the certificate inside: lengths alone do not tell two generations apart, least of all empty ones.

    Existence, certificate, files, in this order: once the retired place is taken only the new generation comes here,
    and what is found to be it stays it."""
    if not storage.exists(hour):
        return Hour.ABSENT
    if not _certifies(storage, generation, hour):
        return Hour.OTHER
    listing = storage.list_files(hour) or []
    found = held_against(manifest_of(generation.files), [(f.path, f.bytes) for f in listing])
    return Hour.NEW if found is Seen.MATCHES else Hour.DAMAGED


def _certifies(storage: Storage, generation: BuiltGeneration, directory: str) -> bool:
    try:
        told = json.loads(storage.read(join(directory, CERTIFICATE)))
    except (PathMissing, ValueError):
        return False
    if not isinstance(told, dict):
        return False
    wanted = (generation.number, generation.epoch, generation.digest)
    return tuple(told.get(key) for key in ("generation", "epoch", "digest")) == wanted
