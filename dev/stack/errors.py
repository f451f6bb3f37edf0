"""Errors of the embedded stack: one clear line each, and what to do next."""

from __future__ import annotations

from pathlib import Path

from tidegate.core.base.errors import TidegateError


class StackError(TidegateError):
    """Something about the stack on this machine is not as it should be; the text is one line for the user."""


class PartDied(StackError):
    """A part ended, or did not become ready; quotes the last lines of its log."""

    def __init__(self, part: str, what: str, log: Path) -> None:
        super().__init__(f"{part} {what}; {last_lines(log)} (log: {log})")
        self.part = part
        self.log = log


def last_lines(log: Path) -> str:
    """The last non-empty lines of a log file, on one line, or a note that there are none."""
    try:
        with open(log, "rb") as file:
            file.seek(0, 2)
            file.seek(max(0, file.tell() - 16_384))
            text = file.read().decode(errors="replace")
    except OSError:
        return "it left no log"
    last = [line.strip()[:300] for line in text.splitlines() if line.strip()][-5:]
    return "its last words: " + " | ".join(last) if last else "its log is empty"
