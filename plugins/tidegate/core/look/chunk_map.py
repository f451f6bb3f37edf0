"""The chunks of a copy as a map: how far each of them is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tidegate.core.base.instants import span
from tidegate.core.base.wording import many
from tidegate.core.copy.port import Bound, KeyRange
from tidegate.core.copy.rounds import Chunk, ChunkState, Round
from tidegate.core.mirror.copied import RoundIn

MOST_CELLS = 480
"""Of a copy with more chunks a cell is several neighbours, and as far as the one that is least far."""
WAITING, BEGUN, READ, MERGED = "waiting", "begun", "read", "merged"
_ORDER = (WAITING, BEGUN, READ, MERGED)


@dataclass(frozen=True)
class Cell:
    """`state`: waiting (to be read), begun (an attempt was), read (it waits for the merge), merged (it is in the
    table). `text`: which chunks and keys these are, in words."""

    state: str
    text: str


@dataclass(frozen=True)
class ChunkMap:
    """Of one round. `chunks` are cut so far; `each`: how many of them a cell is, the last one may have fewer."""

    round: Round
    chunks: int
    each: int
    cells: tuple[Cell, ...]


def chunk_map(round_: Round, chunks: Sequence[Chunk], inside: RoundIn | None, now_ms: int) -> ChunkMap:
    """`chunks`: of the round, in the order of their numbers. `inside`: what the table says of the round."""
    each = max(1, -(-len(chunks) // MOST_CELLS))
    groups = [chunks[at : at + each] for at in range(0, len(chunks), each)]
    return ChunkMap(round_, len(chunks), each, tuple(_cell(some, inside, now_ms) for some in groups))


def _cell(some: Sequence[Chunk], inside: RoundIn | None, now_ms: int) -> Cell:
    states = [_state(chunk, inside) for chunk in some]
    state = min(states, key=_ORDER.index)
    first, last = some[0], some[-1]
    if len(some) == 1:
        of = f"chunk {first.number} of {first.table}, {_keys(first.keys)}"
        return Cell(state, f"{of}: {_words(first, state, now_ms)}")
    counts = [f"{states.count(one):,} {one}" for one in _ORDER if one in states]
    return Cell(state, f"chunks {first.number} to {last.number}: {', '.join(counts)}")


def _state(chunk: Chunk, inside: RoundIn | None) -> str:
    if inside is not None and chunk.number in inside:
        return MERGED
    if chunk.state == ChunkState.READ:
        return READ
    return WAITING if chunk.tried_ms is None else BEGUN


def _words(chunk: Chunk, state: str, now_ms: int) -> str:
    if state == WAITING:
        return "waits to be read"
    if state == BEGUN:
        return f"attempt {chunk.epoch} began {span(max(0, now_ms - (chunk.tried_ms or now_ms)))} ago"
    ago = span(max(0, now_ms - (chunk.read_ms or now_ms)))
    return f"{many(chunk.rows, 'row')} read {ago} ago" + ("" if state == MERGED else ", not merged yet")


def _keys(keys: KeyRange) -> str:
    """`keys above 7, up to 12`."""
    said = [f"{word} {_bound(bound)}" for word, bound in (("above", keys.lower), ("up to", keys.upper)) if bound]
    if keys.groups is not None:
        said.append(f"of {len(keys.groups.numbers)} of {1 << keys.groups.bits} groups")
    return f"keys {', '.join(said)}" if said else "all keys"


def _bound(bound: Bound) -> str:
    return "/".join(str(value) if len(str(value)) <= 40 else f"{str(value)[:40]}..." for value in bound)
