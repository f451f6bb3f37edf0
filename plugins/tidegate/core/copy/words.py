"""How far a copy is, in words."""

from __future__ import annotations

from tidegate.core.base.wording import many
from tidegate.core.copy.rounds import BRINGS_NOTHING, Reading, RoundState
from tidegate.core.mirror.copied import Copied, numbers


def how_far(reading: Reading | None, table: Copied) -> str:
    """What stands in the table of copies, and what the newest one waits for. `reading`: by the ledger; None before the
    first copy."""
    whole, said = table.whole, []
    if whole is not None:
        said.append(f"whole since copy {whole.number}, read from {_position(whole.low)} on")
    if reading is None:
        said.append("nothing of the source's table is read yet")
        return "; ".join(said)
    if reading.round.state == RoundState.OPEN:
        said.append(_under_way(reading, table))
    elif reading.round.state == RoundState.COMPARED:
        said.append(f"copy {reading.round.number} is read to be compared")
    elif reading.round.state in BRINGS_NOTHING:
        said.append(f"copy {reading.round.number} has ended: {reading.round.why}")
    return "; ".join(said)


def _under_way(reading: Reading, table: Copied) -> str:
    """`copy 1: 12 of 40 chunks read (1,200,000 rows), 8 merged; readers see an empty table until it is whole`."""
    inside = table.round(reading.round.number)
    merged = 0 if inside is None else len(numbers(inside.chunks))
    cut = f"{reading.chunks:,} chunks" + ("" if reading.round.ended else " so far")
    read = f"{reading.read:,} of {cut} read ({many(reading.rows, 'row')})"
    words = f"copy {reading.round.number}: {read}, {merged:,} merged"
    if table.hidden:
        return f"{words}; readers see an empty table until it is whole"
    if table.whole is None:
        return f"{words}; until it is whole the table lacks rows"
    return words


def _position(low: tuple[int, int, int]) -> str:
    return f"({low[0]}, {low[1]})"
