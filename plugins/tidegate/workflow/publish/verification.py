"""Hold a published window against its manifest: files, `_SUCCESS`, catalogue."""

from __future__ import annotations

from dataclasses import dataclass

from tidegate.core.target.paths import SUCCESS, join
from tidegate.core.target.tables import data_table
from tidegate.core.window.states import PublishedGeneration
from tidegate.workflow.base import zone_data
from tidegate.workflow.base.context import Context
from tidegate.workflow.base.places import strays
from tidegate.workflow.base.renames import manifest_of
from tidegate.workflow.base.tables import bring_up
from tidegate.workflow.publish.publication import align_catalogue, write_success


@dataclass(frozen=True)
class Verified:
    """`mended`: what was put right in place; `lost_files`: what only a rebuild can bring back."""

    mended: tuple[str, ...]
    lost_files: tuple[str, ...]


def verify(ctx: Context, generation: PublishedGeneration) -> Verified:
    """Nothing is changed where nothing is wrong: names, times and digests of an intact window stay."""
    listing = {f.path: f.bytes for f in ctx.storage.list_files(generation.location) or []}
    manifest = manifest_of(generation.files)
    lost = tuple(sorted(path for path, size in manifest.items() if listing.get(path) != size))
    mended: list[str] = []
    if not lost and ctx.storage.exists(generation.location) and SUCCESS not in listing:
        write_success(ctx, generation, generation.location)
        mended.append("_SUCCESS")
    if not ctx.storage.exists(generation.location):
        lost = lost or (generation.location,)
    for path in strays(listing, manifest):
        ctx.say(
            f"WARNING: readers see {join(generation.location, path)}, which is in no manifest; find out who wrote it"
        )
    zone_data.refuse_other_spelling(ctx, generation)
    bring_up(ctx, data_table(ctx.pipeline))
    mended += align_catalogue(ctx, generation, generation.location)
    return Verified(tuple(mended), lost)
