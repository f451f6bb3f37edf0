"""The invariants by name."""

from __future__ import annotations

ONCE = "every record is in exactly one place"
THERE = "what the ledger says is sealed, landed or in force is there"
WHOLE = "_SUCCESS stands for a whole hour"
IN_FORCE = "readers see the generation in force and nothing else"
FATE = "a record's fate is decided by its batch's plan"
HEALS = "the next try heals without a human"
OWN = "a directory has one writer"
BALANCE = "the ledger balances"
STOPS = "what cannot be right is refused"
BY_ID = "readers find each column by its id"
BY_PARTITION = "a file is in the partition that its rows say"
WELCOME = "what others make of a window's files stays"
NAMED = "what a table names of its own files is there"
CLAIMS = "a table claims no more than it shows"

NAMES = frozenset(
    {CLAIMS, NAMED, BY_ID, BY_PARTITION, WELCOME, ONCE, THERE, WHOLE, IN_FORCE, FATE, HEALS, OWN, BALANCE, STOPS}
)


class InvariantViolated(AssertionError):
    def __init__(self, name: str, detail: str) -> None:
        super().__init__(f"{name}: {detail}")
        self.name, self.detail = name, detail


def require(holds: bool, name: str, detail: str) -> None:
    if not holds:
        raise InvariantViolated(name, detail)
