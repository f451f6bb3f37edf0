"""A spec that is good, and how one that was spoilt is refused: with file, line and field; `#!` marks the line."""

from __future__ import annotations

import pytest

from tidegate.core.base.errors import SpecError
from tidegate.spec import load_file

GOOD = """\
version: 1
name: orders
owner: shop
source:
  topic: orders
format:
  type: json
columns:
  - name: shop
    type: string
  - name: total
    type: decimal(10,2)
  - name: placed
    type: timestamp
event_time:
  from: $.placed_at
windows:
  size: 1h
  timezone: Europe/Berlin
  start: 2024-01-01T00:00:00
  watermark_delay: 6h
partition_by: [date, hour, shop]
sink:
  table: lake.orders
  location: file:///lake/orders
"""


def refusal(tmp_path, text: str) -> tuple[SpecError, str]:
    """The error for `text`, and `file:line` of the line that `#!` marks."""
    path = tmp_path / "orders.yaml"
    path.write_text(text)
    marked = [i for i, line in enumerate(text.splitlines(), 1) if line.endswith("#!")]
    with pytest.raises(SpecError) as caught:
        load_file(path, {})
    return caught.value, f"{path}:{marked[0] if marked else '-'}"


def assert_refused(tmp_path, text: str, field: str, says: str) -> None:
    error, where = refusal(tmp_path, text)
    assert (error.where, error.field) == (where, field), str(error)
    assert says in str(error)
    assert str(error).count("\n") == 0, "one problem is one line"
    assert str(error).startswith(f"{where}: {field}")
