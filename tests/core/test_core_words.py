"""States and kinds are enums in core: they are stored and shown as their texts, and no code compares with a literal."""

from __future__ import annotations

import ast
import json
import pickle
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tidegate.core.base.choice import Choice
from tidegate.core.base.errors import LedgerError, UnknownWord
from tidegate.core.base.plain import UnknownFields, dumps, from_plain, loads, to_plain
from tidegate.core.batch.refusal import RefusalKind
from tidegate.core.batch.states import BatchKind, BatchState
from tidegate.core.window.kinds import of_kind
from tidegate.core.window.states import GenerationKind, GenerationState, WindowState

ROOT = Path(__file__).parents[2]
WORDS = (BatchState, BatchKind, WindowState, GenerationState, GenerationKind, RefusalKind)
STATES = {str(word) for kind in (BatchState, WindowState, GenerationState) for word in kind}
KINDS = {str(word) for kind in (BatchKind, GenerationKind) for word in kind}
SAYS = re.compile(rf"\b({'|'.join(sorted(STATES))})\b|\.kind\b")
"""Other files need not be parsed."""
HERE = ("core/batch/states.py", "core/window/states.py", "core/mirror/applies.py", "core/copy/rounds.py")
"""Where the states are defined."""


@pytest.mark.parametrize("kind", WORDS, ids=lambda kind: kind.__name__)
def test_a_member_is_its_text(kind: type[Choice]) -> None:
    for word in kind:
        text = word.value
        assert word == text
        assert type(str(word)) is str
        assert (str(word), repr(word), f"{word}", f"{word:>9}") == (text, repr(text), text, f"{text:>9}")
        assert json.dumps({word: [word]}) == json.dumps({text: [text]})
        assert dumps({word: [word]}) == f'{{"{text}":["{text}"]}}'
        assert pickle.loads(pickle.dumps(word)) is word
        assert len(text) <= 16, "the ledger's columns are no longer"


def test_the_texts_are_contracts() -> None:
    assert [list(kind) for kind in WORDS] == [
        ["PLANNED", "WRITING", "SEALED", "LANDED", "ABANDONED"],
        ["ingest", "redrive"],
        ["OPEN", "CLOSING", "CLOSED"],
        ["BUILDING", "BUILT", "SWAPPING", "CURRENT", "RETIRED", "DISCARDED"],
        ["archive", "heal", "replay", "reopen", "rollback", "reread"],
        [
            *("dirty_limit", "unknown_field", "wider_type", "job", "receipt", "reread", "log_cut", "windows"),
            *("conflict", "goes_back", "null_key", "mirror_files", "other"),
        ],
    ]


def test_what_only_a_newer_release_knows_is_refused() -> None:
    with pytest.raises(UnknownWord) as told:
        WindowState.known("PARTED")
    assert str(told.value) == (
        "'PARTED' is no WindowState of this release, which knows OPEN, CLOSING, CLOSED\n"
        "  what to do: a newer release wrote it: run that release here too"
    )
    assert isinstance(told.value, LedgerError)
    assert not told.value.retry
    assert RefusalKind.known("odd", RefusalKind.OTHER) is RefusalKind.OTHER
    assert WindowState.known("OPEN") is WindowState.known(WindowState.OPEN) is WindowState.OPEN


@dataclass(frozen=True)
class Record:
    kind: GenerationKind
    was: BatchState | None = None


def test_records_hold_the_texts() -> None:
    one = Record(GenerationKind.HEAL, BatchState.SEALED)
    assert to_plain(one) == {"kind": "heal", "was": "SEALED"}
    assert dumps(one) == '{"kind":"heal","was":"SEALED"}'
    back = loads(Record, dumps(one))
    assert back == one
    assert (back.kind, from_plain(Record, {"kind": "heal"}).was) == (GenerationKind.HEAL, None)
    assert isinstance(back.kind, GenerationKind)
    with pytest.raises(UnknownFields, match="^'split' is no GenerationKind of this release, which knows archive, heal"):
        from_plain(Record, {"kind": "split"})


def test_each_kind_of_generation_has_its_rules() -> None:
    for kind in GenerationKind:
        of_kind(kind)


def literals(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Texts that are states; and kinds that something's `kind` is compared with."""
    documented = {id(e.value) for e in ast.walk(tree) if isinstance(e, ast.Expr)}
    for node in ast.walk(tree):
        text = node.value if isinstance(node, ast.Constant) and id(node) not in documented else None
        if isinstance(text, str) and (text in STATES or any(f"'{state}'" in text for state in STATES)):
            yield node.lineno, text
        if isinstance(node, ast.Compare) and getattr(node.left, "attr", "") == "kind":
            told = [c.value for right in node.comparators for c in ast.walk(right) if isinstance(c, ast.Constant)]
            yield from ((node.lineno, text) for text in told if text in KINDS)


def test_no_code_says_a_state_as_a_text() -> None:
    """A misspelt text is found by nothing, a misspelt member by mypy."""
    found = []
    for path in [
        *(ROOT / "plugins").rglob("*.py"),
        *(ROOT / "spark_jobs").rglob("*.py"),
        *(ROOT / "dags").rglob("*.py"),
    ]:
        code = path.read_text()
        if path.as_posix().endswith(HERE) or "migrations" in path.parts or not SAYS.search(code):
            continue
        found += [f"{path.relative_to(ROOT)}:{line}: {text[:60]}" for line, text in literals(ast.parse(code))]
    assert not found, found


def test_the_scan_sees_literals() -> None:
    seen = "if g.state == 'CURRENT': q = \"n.state = 'LANDED'\"\nif row.kind in ('heal', 'x'): '''Is LANDED.'''\n"
    assert {text for _, text in literals(ast.parse(seen))} == {"CURRENT", "n.state = 'LANDED'", "heal"}
    assert all(SAYS.search(line) for line in seen.splitlines())
