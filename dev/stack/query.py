"""One query to the stack's Hive endpoint, by PyHive, as a user's own program would ask it."""

from __future__ import annotations

import base64
import math
from collections.abc import Iterable
from decimal import Decimal
from typing import Any

from dev.stack.errors import StackError

_ESCAPES = str.maketrans({"\\": r"\\", "\t": r"\t", "\n": r"\n", "\r": r"\r"})


def ask(host: str, port: int, query: str) -> list[tuple[Any, ...]]:
    """The names of the columns, then the rows; nothing for a statement without an answer. Raises StackError."""
    from pyhive import exc, hive
    from thrift.transport.TTransport import TTransportException

    if not port:
        raise StackError("this stack has no Hive; start it: tidegate stack up")
    try:
        connection = hive.connect(host=host, port=port, username="tidegate", auth="NONE")
        try:
            cursor = connection.cursor()
            cursor.execute(query.rstrip().rstrip(";"))
            if not cursor.description:
                return []
            return [tuple(about[0] for about in cursor.description), *cursor.fetchall()]
        finally:
            connection.close()
    except (exc.Error, TTransportException, OSError) as e:
        raise StackError(f"Hive at {host}:{port}: {_said(e)}") from e


def tsv(row: Iterable[Any]) -> str:
    r"""Returns one line. Null is `\N`, binary base64; tab, line feed, carriage return and backslash are `\t`, `\n`,
    `\r` and `\\`."""
    return "\t".join(map(_cell, row))


def _cell(value: Any) -> str:
    if value is None:
        return r"\N"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, bytes | bytearray):
        return base64.b64encode(value).decode()
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    if isinstance(value, Decimal):
        return format(value, "f")
    return str(value).translate(_ESCAPES)


def _said(error: Exception) -> str:
    """The server's own words, without the answer they came in."""
    answer = error.args[0] if error.args else error
    words = getattr(getattr(answer, "status", None), "errorMessage", None) or str(error)
    return str(words).splitlines()[0][:500]
