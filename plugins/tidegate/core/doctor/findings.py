"""What `tidegate doctor` finds: how bad, what it means, how to fix it. The rules are in `core.doctor.rules`."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

OK, WARNING, WRONG, UNKNOWN = "ok", "warning", "wrong", "unknown"
LEVELS = (WRONG, WARNING, UNKNOWN, OK)
"""Worst first. `unknown`: it could not be looked at."""


@dataclass(frozen=True)
class Finding:
    """`check` names the rule, `about` what it was applied to (a pipeline, a connection, a pool; empty for the set-up).

    `means` and `mend` (what to do, with the command) are empty where all is well."""

    check: str
    level: str
    what: str
    means: str = ""
    mend: str = ""
    about: str = ""


def ok(check: str, what: str, about: str = "") -> Finding:
    """All is well."""
    return Finding(check, OK, what, about=about)


def unknown(check: str, what: str, mend: str = "", about: str = "") -> Finding:
    """A finding about what could not be looked at."""
    return Finding(check, UNKNOWN, what, "this could not be looked at", mend, about)


def worst_first(findings: Iterable[Finding]) -> list[Finding]:
    """Findings in the order in which to fix them; the same things together."""
    return sorted(findings, key=lambda f: (LEVELS.index(f.level), f.about, f.check))


def exit_code(findings: Iterable[Finding]) -> int:
    """1 something is wrong; 2 nothing but a YAML is; 3 nothing is, but something could not be looked at; else 0."""
    found = list(findings)
    wrong = [f for f in found if f.level == WRONG]
    if wrong:
        return 2 if all(f.check == "yaml" for f in wrong) else 1
    return 3 if any(f.level == UNKNOWN for f in found) else 0
