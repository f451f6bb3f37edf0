"""How rounds and chunks move: every arrow between their states."""

from __future__ import annotations

from tidegate.core.base.transition import NO_ROW, Named, Transition
from tidegate.core.copy.rounds import Chunk, ChunkState, Round, RoundState

BEGIN = Transition(
    name="begin", start=(NO_ROW,), end=RoundState.OPEN, stamps=("begun_ms",), event="copy begun", doing="{name}"
)
COMPARE = Transition(
    name="compare",
    start=(NO_ROW,),
    end=RoundState.COMPARED,
    stamps=("begun_ms",),
    event="comparison begun",
    doing="{name}",
)
MERGE = Transition(
    name="merge",
    start=(RoundState.COMPARED,),
    end=RoundState.OPEN,
    event="comparison to be merged",
    doing="merging {name}",
)
WHOLE = Transition(
    name="whole", start=(RoundState.OPEN,), end=RoundState.WHOLE, stamps=("done_ms",), event="copy whole"
)
GIVE_UP = Transition(
    name="give up",
    start=(RoundState.OPEN,),
    end=RoundState.GIVEN_UP,
    stamps=("done_ms",),
    event="copy given up",
    doing="giving up {name}",
)
END = Transition(
    name="end",
    start=(RoundState.COMPARED,),
    end=RoundState.ENDED,
    stamps=("done_ms",),
    event="comparison ended",
    doing="giving up {name}",
)
FORGET = Transition(
    name="forget",
    start=(RoundState.WHOLE, RoundState.GIVEN_UP, RoundState.ENDED),
    end=NO_ROW,
    event="copy forgotten",
    doing="forgetting {name}",
)
CUT = Transition(name="cut", start=(NO_ROW,), end=ChunkState.CUT)
ATTEMPT = Transition(
    name="attempt",
    start=(ChunkState.CUT,),
    end=None,
    guards=("epoch",),
    stamps=("tried_ms",),
    doing="another attempt of {name}",
)
ACCEPT = Transition(
    name="accept",
    start=(ChunkState.CUT,),
    end=ChunkState.READ,
    guards=("epoch", "nonce"),
    stamps=("read_ms",),
    doing="accepting {name}",
)
AGAIN = Transition(
    name="again",
    start=(ChunkState.READ,),
    end=ChunkState.CUT,
    guards=("epoch", "nonce"),
    event="chunk to be read again",
    doing="reading {name} again",
)
ROUND_TRANSITIONS = (BEGIN, COMPARE, MERGE, WHOLE, GIVE_UP, END, FORGET)
CHUNK_TRANSITIONS = (CUT, ATTEMPT, ACCEPT, AGAIN)


def of_round(one: Round) -> Named:
    """Its row."""
    name = f"copy {one.number}"
    return Named(row={"pipeline": one.pipeline, "round": one.number}, subject=name, words={"name": name})


def of_chunk(one: Chunk) -> Named:
    """Its row."""
    name = f"chunk {one.number}"
    return Named(row={"pipeline": one.pipeline, "chunk": one.number}, subject=name, words={"name": name})
