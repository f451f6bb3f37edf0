"""`swap: directory`: gather for core.swap, act, look again."""

from __future__ import annotations

import json

from tidegate.core.base.errors import Alarm, OutcomeUnknown, PathMissing
from tidegate.core.base.renames import Seen, held_against
from tidegate.core.restore.record import Moved
from tidegate.core.target.paths import CERTIFICATE, join
from tidegate.core.target.swap import Do, Hour, decide
from tidegate.core.window.states import BUILT, CURRENT, RETIRED, SWAPPING, BuiltGeneration, PublishedGeneration
from tidegate.workflow.base.context import ATTEMPTS, Context
from tidegate.workflow.base.renames import MovedOn, manifest_of, parent, try_rename


def swap_in(ctx: Context, generation: BuiltGeneration, hour: str) -> tuple[BuiltGeneration, Moved | None]:
    """Bring the generation into `hour`, what stood there to its retired place; whatever earlier tries have done.

    SWAPPING is recorded before anything moves. The renames are made under an intent, like the catalogue's changes:
    while one of another generation may still be executed, nothing moves (R8). Raises Alarm, MovedOn, LostComparison,
    CatalogueUnsure, OutcomeUnknown."""
    if generation.state == BUILT:
        generation = ctx.ledger.windows.begin_swap(generation, hour)
    old = _occupant(ctx, generation, hour)
    retired = None if old is None else ctx.layout.generation(old.window.start_ms, old.number, old.epoch)
    call_id = ctx.ledger.windows.declare_intent(generation, hour, ctx.request_ttl_ms)
    try:
        _rename_both(ctx, generation, hour, retired)
    except Alarm as e:
        ctx.ledger.windows.block(ctx.name, generation.window, str(e))
        raise
    ctx.ledger.windows.answer_intent(call_id)
    return generation, None if old is None or retired is None else Moved(old.number, retired)


def _occupant(ctx: Context, generation: BuiltGeneration, hour: str) -> PublishedGeneration | None:
    """The generation that the ledger knows in the hour: mostly the one in force."""
    key = generation.window
    # in a ledger that was restored numbers have holes: of what was given up storage keeps no record
    for known in reversed(ctx.ledger.rollbacks.generations(ctx.name, key)):
        if known.number >= generation.number or known.state not in (CURRENT, RETIRED):
            continue
        other = ctx.ledger.windows.generation(ctx.name, key, known.number)
        if isinstance(other, PublishedGeneration) and other.location == hour:
            return other
    return None


def _rename_both(ctx: Context, generation: BuiltGeneration, hour: str, retired: str | None) -> None:
    storage, built = ctx.storage, generation.directory
    storage.make_dirs(parent(hour))
    for _ in range(ATTEMPTS):
        # the order of the looks is core.swap's
        seen = _seen(ctx, generation)
        taken = None if retired is None else storage.exists(retired)
        todo = decide(seen, taken, _standing(ctx, generation, hour))
        if todo is Do.DONE:
            return
        if todo.is_alarm:
            if not _still_swapping(ctx, generation):
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


def _seen(ctx: Context, generation: BuiltGeneration) -> Seen:
    """The built directory held against the manifest; the certificate is part of what must have arrived."""
    listing = ctx.storage.list_files(generation.directory)
    if listing is not None and CERTIFICATE not in {f.path for f in listing}:
        return Seen.DIFFERS
    return held_against(
        manifest_of(generation.files), None if listing is None else [(f.path, f.bytes) for f in listing]
    )


def _standing(ctx: Context, generation: BuiltGeneration, hour: str) -> Hour:
    """Told by the certificate inside: lengths alone do not tell two generations apart, least of all empty ones.

    Existence, certificate, files, in this order: once the retired place is taken only the new generation comes here,
    and what is found to be it stays it."""
    if not ctx.storage.exists(hour):
        return Hour.ABSENT
    if not _certifies(ctx, generation, hour):
        return Hour.OTHER
    listing = ctx.storage.list_files(hour) or []
    found = held_against(manifest_of(generation.files), [(f.path, f.bytes) for f in listing])
    return Hour.NEW if found is Seen.MATCHES else Hour.DAMAGED


def _certifies(ctx: Context, generation: BuiltGeneration, directory: str) -> bool:
    try:
        told = json.loads(ctx.storage.read(join(directory, CERTIFICATE)))
    except (PathMissing, ValueError):
        return False
    if not isinstance(told, dict):
        return False
    told.setdefault("epoch", generation.epoch)  # an earlier version's certificates are without
    wanted = (generation.number, generation.epoch, generation.digest)
    return tuple(told.get(key) for key in ("generation", "epoch", "digest")) == wanted


def _still_swapping(ctx: Context, generation: BuiltGeneration) -> bool:
    now = ctx.ledger.windows.generation(ctx.name, generation.window, generation.number)
    return isinstance(now, BuiltGeneration) and now.state == SWAPPING and now.directory == generation.directory
