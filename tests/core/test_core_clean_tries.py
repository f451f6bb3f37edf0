"""What may be deleted of tries: of chunks of a copy, of merges, and of attempts on a store without renames."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tidegate.core.clean.copies import attempt_of_chunk, forgettable, needless
from tidegate.core.clean.in_place import LeftInPlace, holds_files, left_in_place
from tidegate.core.clean.merges import file_of_merge, try_of_merge
from tidegate.core.clean.rules import GenerationFacts, Verdict
from tidegate.core.copy.port import KeyRange
from tidegate.core.copy.rounds import Chunk, ChunkState, Round, RoundState
from tidegate.core.mirror.applies import APPLIED, OPEN, OVERTAKEN, REFUSED, Apply, Tried
from tidegate.core.mirror.copied import NOTHING, Copied, RoundIn
from tidegate.core.mirror.jobs import START
from tidegate.core.mirror.parts import KeyPart
from tidegate.core.spec.pipeline import Cleaning
from tidegate.core.target.paths import Assembly
from tidegate.core.window.states import ARCHIVE, CURRENT, DISCARDED

DAY = 86_400_000
TTL, NEVER = Cleaning(attempts_ms=DAY), Cleaning(attempts_ms=None)

# ---------------------------------------------------------------- chunks of a copy

CHUNK = Chunk(pipeline="p", number=7, round=2, table="t", keys=KeyRange(), epoch=3, nonce="c", tried_ms=DAY)
ENDED = Round(pipeline="p", number=2, table="t", key=("id",), state=RoundState.ENDED, done_ms=DAY)


def chunk_goes(
    epoch: int,
    nonce: str,
    chunk: Chunk | None = CHUNK,
    of: Round | None = None,
    ttl: Cleaning = TTL,
    now: int = 9 * DAY,
) -> tuple[bool, bool]:
    found = verdict(epoch, nonce, chunk, of, ttl, now)
    assert found.why
    return found.go, found.odd


def verdict(epoch: int, nonce: str, chunk: Chunk | None, of: Round | None, ttl: Cleaning, now: int) -> Verdict:
    why = None if of is None else needless(of, [of], NOTHING, ttl, now)
    return attempt_of_chunk(epoch, nonce, chunk, of, ttl, now, why)


def test_an_overtaken_attempt_goes_a_while_after_the_next_one_began() -> None:
    assert chunk_goes(2, "b") == (True, False)
    assert chunk_goes(2, "b", now=2 * DAY) == (True, False)
    assert chunk_goes(2, "b", now=2 * DAY - 1) == (False, False)
    assert chunk_goes(2, "b", chunk=replace(CHUNK, tried_ms=None)) == (False, False)
    assert chunk_goes(2, "b", ttl=NEVER) == (False, False)


def test_the_newest_attempt_stays() -> None:
    assert chunk_goes(3, "c") == (False, False)
    assert chunk_goes(3, "c", chunk=replace(CHUNK, state=ChunkState.READ)) == (False, False)
    read = attempt_of_chunk(3, "c", replace(CHUNK, state=ChunkState.READ), None, TTL, 9 * DAY)
    assert (read.why, attempt_of_chunk(3, "c", CHUNK, None, TTL, 9 * DAY).why) == (
        "its rows are read", "it is the newest attempt",
    )  # fmt: skip


def test_what_the_ledger_does_not_know_is_odd() -> None:
    assert chunk_goes(3, "other") == chunk_goes(4, "d") == chunk_goes(1, "a", chunk=None) == (False, True)


@pytest.mark.parametrize(
    ("of", "ttl", "now", "goes"),
    [
        (ENDED, TTL, 2 * DAY, True),
        (ENDED, TTL, 2 * DAY - 1, False),
        (replace(ENDED, done_ms=None), TTL, 9 * DAY, False),
        (ENDED, NEVER, 9 * DAY, False),
        (replace(ENDED, state=RoundState.OPEN), TTL, 9 * DAY, False),
    ],
)
def test_nobody_needs_what_was_read_for_a_comparison_that_has_ended(of, ttl, now, goes) -> None:
    assert chunk_goes(3, "c", replace(CHUNK, state=ChunkState.READ), of, ttl, now) == (goes, False)


def test_a_comparison_that_has_just_ended_is_said_to_have() -> None:
    late, old = (verdict(3, "c", CHUNK, ENDED, TTL, now).why for now in (DAY, 9 * DAY))
    assert (late, old) == ("comparison 2 has ended lately", "comparison 2 has ended")


def test_an_attempt_that_nobody_knows_goes_with_its_comparison() -> None:
    assert chunk_goes(9, "x", of=ENDED) == (True, False)


# ---------------------------------------------------------------- rounds of a copy


def of(number: int, state: RoundState, done: int | None = DAY, first: int = 0, last: int = 0, why: str = "") -> Round:
    part = KeyPart(("id",), (first,), (last,)) if last else None
    return replace(ENDED, number=number, state=state, done_ms=done, part=part, why=why)


WHOLE, GIVEN_UP = RoundState.WHOLE, RoundState.GIVEN_UP


@pytest.mark.parametrize(
    ("rounds", "why"),
    [
        ([of(1, WHOLE)], None),
        ([of(1, WHOLE), of(2, WHOLE), of(3, WHOLE)], "copy 2 has read its keys again"),
        ([of(1, WHOLE), of(2, WHOLE, done=DAY + 1)], None),
        ([of(1, WHOLE), of(2, WHOLE, done=None)], None),
        ([of(2, WHOLE), of(1, WHOLE)], None),
        ([of(1, WHOLE), of(2, RoundState.OPEN)], None),
        ([of(1, WHOLE), of(2, GIVEN_UP)], None),
        ([of(1, WHOLE), of(2, RoundState.ENDED)], None),
        ([of(1, RoundState.OPEN), of(2, WHOLE)], None),
        ([of(1, RoundState.COMPARED), of(2, WHOLE)], None),
        ([of(1, GIVEN_UP), of(2, WHOLE)], "copy 2 has read its keys again"),
        ([of(1, WHOLE), of(2, WHOLE, first=1, last=9)], None),
        ([of(1, WHOLE, first=1, last=9), of(2, WHOLE)], "copy 2 has read its keys again"),
        ([of(1, WHOLE, first=2, last=8), of(2, WHOLE, first=2, last=8)], "copy 2 has read its keys again"),
        ([of(1, WHOLE, first=2, last=8), of(2, WHOLE, first=3, last=9)], None),
        ([of(1, WHOLE, first=2, last=8), of(2, WHOLE, first=1, last=7)], None),
        ([of(1, RoundState.ENDED)], "comparison 1 has ended"),
        ([of(1, RoundState.ENDED, done=DAY + 1)], None),
    ],
)
def test_why_a_round_is_needless(rounds, why) -> None:
    assert needless(rounds[0], rounds, NOTHING, TTL, 2 * DAY) == why
    assert needless(rounds[0], rounds, NOTHING, NEVER, 99 * DAY) is None


def test_what_the_table_names_is_needed() -> None:
    rounds = [of(1, WHOLE), of(2, WHOLE)]
    assert needless(rounds[0], rounds, Copied((RoundIn(1, START, START),)), TTL, 9 * DAY) is None
    assert needless(rounds[0], rounds, Copied((RoundIn(2, START, START),)), TTL, 9 * DAY) is not None


def test_which_rounds_the_ledger_needs() -> None:
    least, said = -(2**63) + 1, "compared: 0 of 9 keys differ"
    lap = [of(n, RoundState.ENDED, first=a, last=z, why=said) for n, a, z in ((2, least, 5), (3, 6, 9), (5, 10, 12))]
    other = of(4, RoundState.ENDED, first=2, last=3, why=said)
    rounds = [of(1, WHOLE), *lap[:2], other, lap[2], of(6, WHOLE)]
    assert [one.number for one in rounds if forgettable(one, rounds)] == [1, 4]
    begun = of(7, RoundState.ENDED, first=least, last=4, why=said)
    assert [one.number for one in rounds if forgettable(one, [*rounds, begun])] == [1, 2, 3, 4, 5, 6]


# ---------------------------------------------------------------- merges

APPLY = Apply(pipeline="p", first=1, last=2, epoch=3, nonce="ab")
TRIED = Tried(apply=APPLY, state=APPLIED, began_ms=0, done_ms=DAY)


def merge_goes(tried: Tried | None, ttl: Cleaning = TTL, now: int = 2 * DAY) -> tuple[bool, bool]:
    found = try_of_merge(APPLY, tried, ttl, now)
    assert found.why
    return found.go, found.odd


def test_a_merge_that_is_over_goes_after_a_while() -> None:
    assert [merge_goes(replace(TRIED, state=s)) for s in (APPLIED, OVERTAKEN, REFUSED)] == [(True, False)] * 3
    assert merge_goes(TRIED, now=2 * DAY - 1) == (False, False)
    assert merge_goes(replace(TRIED, done_ms=None)) == (False, False)
    assert merge_goes(TRIED, NEVER) == (False, False)


def test_an_open_merge_may_have_committed_without_a_word() -> None:
    assert merge_goes(replace(TRIED, state=OPEN), now=99 * DAY) == (False, False)


def test_a_merge_that_the_ledger_does_not_know_is_odd() -> None:
    assert merge_goes(None) == merge_goes(replace(TRIED, apply=replace(APPLY, nonce="cd"))) == (False, True)


def test_a_file_goes_that_no_snapshot_names() -> None:
    here, gone = file_of_merge("a", {"a"}), file_of_merge("b", {"a"})
    assert (here.go, here.odd, gone.go, gone.odd) == (False, False, True, False)
    assert here.why
    assert gone.why


# ---------------------------------------------------------------- a store without renames

FACTS = GenerationFacts(
    window_ms=0, number=4, state=CURRENT, epoch=3, kind=ARCHIVE, location="l", built_ms=0, retired_ms=None,
    cleaned_ms=None, current=4, newer_retired=0,
)  # fmt: skip


def keeps(epoch: int, facts: GenerationFacts | None) -> bool | None:
    """Whether the files have to stay, oddly so (None) or not."""
    found = holds_files(Assembly(0, 4, epoch), facts)
    assert found is None or (found.why and found.go is False)
    return False if found is None else None if found.odd else True


def test_files_of_a_generation_stay_in_its_own_attempt() -> None:
    assert keeps(3, FACTS) is keeps(4, FACTS) is True
    assert keeps(2, FACTS) is False, "an earlier epoch's"
    assert keeps(3, replace(FACTS, state=DISCARDED)) is keeps(3, replace(FACTS, cleaned_ms=0)) is False
    assert keeps(3, None) is None


def test_nothing_goes_while_a_generation_of_the_window_is_not_done() -> None:
    assert keeps(2, replace(FACTS, working=True)) is keeps(2, replace(FACTS, blocked=True)) is True


def test_what_a_landed_attempt_has_beside_its_manifest() -> None:
    listing = ["data/a", "data/b", "late/c", "dirty/d", "_receipt.json", "failure.json", "_bounds/x", "odd/y", "z"]
    assert left_in_place(["data/a"], listing) == LeftInPlace(("data/b", "dirty/d", "late/c"), ("odd/y", "z"))
    assert left_in_place(["data/a"], listing[:1], merged=["data/a"]) == LeftInPlace(("data/a",), ())
