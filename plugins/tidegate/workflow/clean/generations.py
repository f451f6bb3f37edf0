"""What publications leave behind: retired and discarded generations, and directories that windows were assembled in."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

from tidegate.core.base.errors import CatalogueError
from tidegate.core.clean import rules as rules
from tidegate.core.clean.rules import GenerationFacts, Verdict
from tidegate.core.files.receipt import FileEntry
from tidegate.core.target.paths import CERTIFICATE, DAY, GATHERED, SUCCESS, Assembly, is_uri, join, parse_assembly
from tidegate.core.window.cut import window_from
from tidegate.core.window.states import BUILDING, DISCARDED, BuildingGeneration, Generation, WindowKey
from tidegate.kinds import target_kind
from tidegate.workflow.base import preflight
from tidegate.workflow.base.listing import present
from tidegate.workflow.base.renames import manifest_of
from tidegate.workflow.clean import in_place
from tidegate.workflow.clean.round import Run
from tidegate.workflow.generation import merge

_PAGE = 500
Key = tuple[int, int]  # window start (UTC ms), number


def clean_generations(run: Run) -> None:
    """Retired ones first: they hold the most."""
    _Generations(run).clean()


_NAMES_OTHERS = (DAY, GATHERED, CERTIFICATE)


class _Generations:
    def __init__(self, run: Run) -> None:
        self._run, self._ctx = run, run.ctx
        self._pointing: dict[int, list[str] | None] = {}
        self._catalogue_away = False
        self._names_files = target_kind(self._ctx.pipeline.sink.kind).names_files

    def clean(self) -> None:
        discarded: list[GenerationFacts] = []
        for facts in self._uncleaned():
            if facts.state == DISCARDED:
                discarded.append(facts)
            else:
                self._retired(facts)
        self._beside()
        self._assemblies()
        self._note_discarded(discarded)

    def _uncleaned(self) -> Iterator[GenerationFacts]:
        """RETIRED and DISCARDED ones, by window and number."""
        ledger, after = self._ctx.ledger.cleaning, (-(2**62), 0)
        while keys := ledger.uncleaned_generations(self._ctx.name, after, _PAGE):
            found = self._run.generations(keys)
            yield from (found[key] for key in keys if key in found)
            after = keys[-1]

    # ------------------------------------------------------------ retired ones

    def _retired(self, facts: GenerationFacts) -> None:
        """Its files, by the names of its manifest; the directory itself stays (R4), and so does what is not ours."""
        run, key = self._run, (facts.window_ms, facts.number)
        path = facts.location or f"generation {facts.number} of {facts.window_ms}"

        def decide() -> Verdict:
            now = run.generation(key)
            if now is None or now.location != facts.location:
                return Verdict(False, "it has moved on")
            return rules.retired(now, self._ctx.pipeline.archive.keep_generations, run.ttl, run.now_ms)

        def decide_last() -> Verdict:
            now = run.generation(key)
            if self._names_files and not run.dry_run and (now is None or now.cleaning_ms is None):
                return Verdict(False, "the ledger has forgotten that its files go")
            return decide()

        verdict = decide()
        verdict = self._place(facts, self._shared(key, facts.location)) if verdict.go else verdict
        verdict = self._mark(key) if verdict.go and not run.dry_run else verdict
        if not verdict.go or facts.location is None:
            run.tell("generations", path, verdict)
            return
        shared = self._shared(key, facts.location)  # after the mark: from now on no rollback takes them up
        manifest = {f.path for f in self._files(key)} | self._ctx.target.beside(facts.location).keys() - {DAY}
        going = {p for p in manifest if join(facts.location, p) not in shared}
        listing = set(present(self._ctx.storage, facts.location, going))
        # without _SUCCESS first: who looks while it goes must not take a part for the whole
        ours = [SUCCESS, *sorted(going), DAY, GATHERED, CERTIFICATE]
        gone = self._delete_files(facts.location, [p for p in ours if p in listing], decide_last)
        foreign = sorted(listing - set(ours) - manifest)
        if foreign:
            run.tell("generations", join(facts.location, foreign[0]), Verdict(False, _foreign(foreign), odd=True))
        if run.dry_run or not all(gone):
            return
        if not foreign:
            holders = {h[0] for h in map(self._ctx.layout.holder_of, going) if h is not None}
            for folder in sorted({facts.location, *holders}):
                self._empty_folders(folder, decide_last)
        self._ctx.ledger.cleaning.generation_cleaned(self._ctx.name, *key)

    def _mark(self, key: Key) -> Verdict:
        """Where files are shared, a rollback that begins meanwhile would name files that go; one that the ledger has
        forgotten since the round began may do so (R11). Raises StorageAhead."""
        if not self._names_files:
            return Verdict(True, "no other generation can name its files")
        if not self._ctx.ledger.cleaning.generation_goes(self._ctx.name, *key):
            return Verdict(False, "a rollback may have begun with its files")
        preflight.check_publications(self._ctx)
        return Verdict(True, "no rollback begins with its files any more")

    def _shared(self, key: Key, location: str | None) -> set[str]:
        """URIs of the generation's files that another one of the window has too, and still needs (L3, L6)."""
        if not self._names_files or location is None:
            return set()
        mine = {join(location, f.path) for f in self._files(key)}
        return mine & in_place.files_of_others(self._run, key)

    def _delete_files(self, location: str, paths: list[str], decide: Callable[[], Verdict]) -> list[bool]:
        """R4: each by its name, and never the directory, which was a rename's destination. What names the others stays
        until they are gone: the next round would take what is left for a stranger's."""
        gone: list[bool] = []
        for path in paths:
            if path in _NAMES_OTHERS and not all(gone):
                break
            gone.append(self._run.delete("generations", join(location, path), decide))
        return gone

    def _place(self, facts: GenerationFacts, shared: set[str]) -> Verdict:
        """R4: compared with the generation in force and with the catalogue before anything goes but `shared` files."""
        location = facts.location
        if location is not None and location == self._ctx.target.home(self._key(facts.window_ms)):
            if self._ctx.target.reuses_home:
                return Verdict(False, "a later generation may come to the table's own directory")
        elif location is None or not self._is_beside(facts, location):
            return Verdict(False, "it is not where the layout has generations", odd=True)
        assert facts.current is not None
        current = self._generation((facts.window_ms, facts.current))
        if isinstance(current, BuildingGeneration):
            return Verdict(False, "it has moved on")
        pointing = self._standing(facts.window_ms)
        if pointing is None:
            return Verdict(False, "the catalogue gives no answer")
        mine = [f.path for f in self._files((facts.window_ms, facts.number)) if join(location, f.path) not in shared]
        listing = present(self._ctx.storage, location, mine)
        pointing = sorted(set(pointing) - {uri.rsplit("/", 1)[0] for uri in shared})
        folders = {path.rsplit("/", 1)[0] for path in mine if is_uri(path)}
        if not folders.isdisjoint(pointing):
            return Verdict(False, "the table shows files of it, where nothing moves", odd=True)
        return rules.retired_place(location, listing, current.location or "", manifest_of(current.files), pointing)

    def _is_beside(self, facts: GenerationFacts, location: str) -> bool:
        found = parse_assembly(location.rsplit("/", 1)[-1])
        if found is None or (found.window_ms, found.number) != (facts.window_ms, facts.number):
            return False
        return location == self._ctx.layout.generation(found.window_ms, found.number, found.epoch)

    def _key(self, window_ms: int) -> WindowKey:
        return window_from(window_ms, self._ctx.pipeline.windows)

    def _empty_folders(self, location: str, decide: Callable[[], Verdict]) -> None:
        """Delete empty folders, but not in the table's own directory: with another spec a later generation may come
        there."""
        if not rules.within(location, self._ctx.layout.generations()):
            return
        for name in self._run.names(location):
            folder = join(location, name)
            if self._ctx.storage.list_files(folder) == []:
                self._run.delete("generations", folder, decide)

    # ------------------------------------------------------------ discarded ones

    def _beside(self) -> None:
        """Clean `generations/`, where a task that was overtaken may have brought a generation that was discarded, or
        where nothing moves, may have written a certificate and bounds for an epoch that nobody goes on with."""
        run, folder = self._run, self._ctx.layout.generations()
        found = dict(self._parsed("generations", folder))
        facts = run.generations((a.window_ms, a.number) for a in found.values())
        for path, one in sorted(found.items(), key=lambda item: item[1]):
            about = facts.get((one.window_ms, one.number))
            if about is None:
                run.tell("generations", path, Verdict(False, "the ledger has no such generation", odd=True))
            elif about.state == DISCARDED:
                since = run.since_ms(one, about)
                run.delete("generations", path, partial(self._discarded, path, one, since))
            elif self._ctx.layout.in_place and one.epoch < about.epoch and path != about.location:
                run.delete("generations", path, partial(self._assembly, path, one, None))

    def _discarded(self, path: str, found: Assembly, since_ms: int | None) -> Verdict:
        pointing = self._standing(found.window_ms)
        if pointing is None:
            return Verdict(False, "the catalogue gives no answer")
        if any(rules.within(place, path) for place in pointing):
            return Verdict(False, "the catalogue has a partition here, but the generation was discarded", odd=True)
        now = self._run.generation((found.window_ms, found.number))
        if now is None or found.epoch > now.epoch:
            return Verdict(False, "the ledger has no such generation", odd=True)
        return rules.discarded(now, since_ms, self._run.ttl, self._run.now_ms)

    def _assemblies(self) -> None:
        """Clean `publish/` of what overtaken epochs have left, and of discarded generations."""
        run = self._run
        found = dict(self._parsed("publish", self._ctx.layout.assemblies()))
        facts = run.generations((a.window_ms, a.number) for a in found.values())
        for path, one in sorted(found.items(), key=lambda item: item[1]):
            about = facts.get((one.window_ms, one.number))
            since = run.since_ms(one, about) if about is not None and about.state != BUILDING else None
            first = rules.assembly(one, about, (), (), since, run.ttl, run.now_ms)
            if not first.go:
                run.tell("publish", path, first)
                continue
            run.delete("publish", path, partial(self._assembly, path, one, since))

    def _assembly(self, path: str, found: Assembly, since_ms: int | None) -> Verdict:
        """The files first, the ledger last: what it says right before the deletion decides."""
        key = (found.window_ms, found.number)
        generation = self._generation(key)
        if isinstance(generation, BuildingGeneration):
            return Verdict(False, "it has moved on")
        # a ledger that lost commits may have gone back to it meanwhile
        if path == generation.location and generation.state != DISCARDED:
            return Verdict(False, "the generation lies here")
        listing = [f.path for f in self._ctx.storage.list_files(path) or []]
        manifest = [f.path for f in generation.files]
        merged = merge.merged_of_window(self._ctx, generation.window) if found.number == 1 else ()
        return rules.assembly(
            found, self._run.generation(key), manifest, listing, since_ms, self._run.ttl, self._run.now_ms, merged
        )

    def _note_discarded(self, discarded: list[GenerationFacts]) -> None:
        """Note each as cleaned once neither `publish/` nor `generations/` has anything of it."""
        if self._run.dry_run or not discarded:
            return
        layout, parsed = self._ctx.layout, set()
        for folder in (layout.assemblies(), layout.generations()):
            parsed |= {(a.window_ms, a.number) for a in map(parse_assembly, self._run.names(folder)) if a}
        for facts in discarded:
            if (facts.window_ms, facts.number) not in parsed:
                self._ctx.ledger.cleaning.generation_cleaned(self._ctx.name, facts.window_ms, facts.number)

    # ------------------------------------------------------------ looking

    def _parsed(self, kind: str, folder: str) -> Iterator[tuple[str, Assembly]]:
        for name in self._run.names(folder):
            found = parse_assembly(name)
            if found is not None:
                yield join(folder, name), found
            elif not rules.is_success_draft(name):
                self._run.foreign(kind, join(folder, name))

    def _generation(self, key: Key) -> Generation:
        return self._ctx.ledger.windows.generation(self._ctx.name, self._key(key[0]), key[1])

    def _files(self, key: Key) -> tuple[FileEntry, ...]:
        generation = self._generation(key)
        return () if isinstance(generation, BuildingGeneration) else generation.files

    def _standing(self, window_ms: int) -> list[str] | None:
        """Places that readers of the window are sent to; None if the catalogue gives no answer. Asked once in a
        round."""
        if window_ms not in self._pointing and not self._catalogue_away:
            try:
                self._pointing[window_ms] = self._ctx.target.standing(self._key(window_ms))
            except CatalogueError as e:
                self._ctx.say(f"generations are not cleaned: the catalogue gives no answer: {str(e).splitlines()[0]}")
                self._catalogue_away = True  # an endpoint that is down costs every call its time-out
        return self._pointing.get(window_ms)


def _foreign(paths: list[str]) -> str:
    more = f" and {len(paths) - 1} more" if len(paths) > 1 else ""
    return f"not a file of Tidegate{more}: it stays; find out whose it is"
