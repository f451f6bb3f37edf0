"""Columns grow by what a real MariaDB's ALTER TABLE ... MODIFY has made of Debezium's messages.

Recorded by `tests.change_events.record` with its tables in place of these: an INT key, an INT, a SMALLINT and a
DECIMAL(6,2), which become a BIGINT, an INT and a DECIMAL(14,2) after the second row; after the third the key is a
BIGINT.
"""

from __future__ import annotations

import base64
import json
from dataclasses import replace
from decimal import Decimal
from pathlib import Path

import pytest

from tests.change_events.recordings import MESSAGES
from tests.mirror.audits import deep
from tests.mirror.test_evolve import EVOLVING, seen
from tests.mirror.worlds import MirrorWorld
from tidegate.core.spec.pipeline import AvroFormat, DebeziumFormat, Format

COLUMNS = """\
  - {{name: id, type: int, nullable: false}}
  - {{name: customer, type: string}}
  - {{name: note, type: string}}
  - {{name: pieces, type: int}}
  - {{name: small, type: smallint}}
  - {{name: total, type: "decimal(6,2)"}}
"""
YAML = EVOLVING[: EVOLVING.index("  - {{name: id")] + COLUMNS + EVOLVING[EVOLVING.index("sink:") :]
IN_JSON = YAML.replace('"decimal(6,2)"', '"decimal(14,2)", convert: text')
"""There decimals are texts, whose schema says no digits."""
ALTERED = [
    {"id": 1, "customer": "Ada", "note": "first", "pieces": 3, "small": 7, "total": Decimal("12.50")},
    {"id": 2, "customer": "Bo", "note": None, "pieces": 6, "small": 8, "total": Decimal("-7.00")},
    {"id": 3, "customer": "Cy", "note": None, "pieces": 2**40, "small": 70_000, "total": Decimal("123456789012.25")},
    {"id": 4, "customer": "last", "note": "end", "pieces": None, "small": None, "total": None},
    {"id": 2**42, "customer": "Di", "note": None, "pieces": 5, "small": 9, "total": Decimal("1.00")},
]
INTEGERS = {"id": "bigint", "pieces": "bigint", "small": "int"}


def messages(form: str) -> list[tuple[bytes | None, bytes | None]]:
    """(key, value) in the order of the topic."""
    read = base64.b64decode if form == "avro" else str.encode
    lines = map(json.loads, (MESSAGES / f"mariadb-wider-{form}.jsonl").read_text().splitlines())
    return [tuple(None if line[part] is None else read(line[part]) for part in ("key", "value")) for line in lines]  # type: ignore[misc]


@pytest.mark.parametrize("form", ["schema", "avro"])
def test_a_recorded_table_whose_columns_grow(form: str, tmp_path: Path) -> None:
    """And all of it once more, as by a connector that was restarted: nothing changes."""
    world = MirrorWorld(tmp_path, YAML if form == "avro" else IN_JSON)
    if form == "avro":
        known = json.loads((MESSAGES / "wider.schemas.json").read_text())
        avro = AvroFormat("confluent", schemas={int(number): text for number, text in known.items()})
        made = Format("debezium", "evolve", avro=avro, debezium=DebeziumFormat(encoding="avro"))
        world.pipeline = replace(world.pipeline, format=made)
    sent = messages(form)
    for some in (sent[:3], sent[3:], sent):
        world.land(*some)
        world.apply()
    assert seen(world) == ALTERED
    grown = {c.column: c.type for c in world.context().ledger.schema_changes.changes("readings")}
    assert grown == (INTEGERS | {"total": "decimal(14,2)"} if form == "avro" else INTEGERS)
    assert deep(world).problems == ()
    world.close()
