"""What merges into a keyed table leave behind: files of tries that came to nothing, and of rows that were rewritten."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from functools import partial

from tidegate.core.base.errors import CatalogueError
from tidegate.core.clean.merges import file_of_merge, try_of_merge
from tidegate.core.clean.rules import Verdict
from tidegate.core.mirror.applies import Apply, Tried, parse_apply
from tidegate.core.target.paths import join
from tidegate.core.target.port import PrefixTarget
from tidegate.workflow.clean.round import Run

KIND = "merges"
_PLAN = ".json"


def clean_merges(run: Run) -> None:
    """The table is asked which files any of its snapshots names, after the ledger was asked which tries are over: a try
    that is over commits nothing any more. A catalogue that is down holds nothing else up."""
    table = run.ctx.keyed
    if table is None:
        return
    found = _found(run)
    tries = run.ctx.ledger.applies.tries(run.ctx.name, [apply.epoch for apply in found])
    over = [apply for apply in sorted(found, key=lambda a: a.epoch) if _verdict(run, apply, tries.get(apply.epoch)).go]
    for apply in found.keys() - set(over):
        run.tell(KIND, found[apply][0], _verdict(run, apply, tries.get(apply.epoch)))
    if not over:
        return
    try:
        named = table.named()
    except CatalogueError as e:
        run.ctx.say(f"{table.name} is cleaned by the next run: {str(e).splitlines()[0]}")
        return
    for apply in over:
        _clean(run, table, apply, found[apply], named)


def _found(run: Run) -> dict[Apply, list[str]]:
    """Paths by try: its directory, its plan, or both."""
    found: dict[Apply, list[str]] = defaultdict(list)
    folder = run.ctx.layout.applies()
    for name in run.names(folder):
        apply = parse_apply(run.ctx.name, name.removesuffix(_PLAN))
        if apply is None:
            run.foreign(KIND, join(folder, name))
        else:
            found[apply].append(join(folder, name))
    return found


def _verdict(run: Run, apply: Apply, tried: Tried | None) -> Verdict:
    return try_of_merge(apply, tried, run.ttl, run.now_ms)


def _clean(run: Run, table: PrefixTarget, apply: Apply, paths: Iterable[str], named: frozenset[str]) -> None:
    """The whole try if no file of it is named; else those of its files that are not."""
    directory = run.ctx.layout.apply(apply.name)
    files = [join(directory, f.path) for f in run.ctx.storage.list_files(directory) or []]
    mine = [path for path in files if path in named]

    def decide(path: str) -> Verdict:
        newest = run.ctx.ledger.applies.tries(run.ctx.name, [apply.epoch]).get(apply.epoch)
        verdict = _verdict(run, apply, newest)
        return verdict if not verdict.go else file_of_merge(path, named)

    if not mine:
        for path in paths:
            run.delete(KIND, path, partial(decide, path))
        return
    for path in files:
        if path not in named and path.endswith(table.suffix):
            run.delete(KIND, path, partial(decide, path))
