"""A decoder with expressions on top of the format's own: messages become columns, then columns are computed."""

from __future__ import annotations

import pyarrow.compute as pc

from spark_jobs.engine.expressions import WHERE, Expressions, Refused
from spark_jobs.engine.failures import refuse
from spark_jobs.engine.formats import Bad, Decoded, Decoder
from tidegate.core.source.records import Chunk
from tidegate.core.spec.pipeline import Pipeline
from tidegate.core.spec.schema_changes import read_by_expressions


class ComputingDecoder:
    """`decoder` knows the columns that come from the message only. Raises JobError for a wrong expression."""

    def __init__(self, pipeline: Pipeline, decoder: Decoder) -> None:
        self.messages = decoder
        self._read = read_by_expressions(pipeline)
        try:
            self._expressions = Expressions(pipeline)
        except Refused as e:
            name, text = e.problems[0]
            place = WHERE if name == WHERE else f"expr of column {name}"
            raise refuse(f"{place}: {text}", advice="fix the expression: tidegate spec validate", field=name) from None

    def decode(self, chunk: Chunk) -> Decoded:
        decoded = self.messages.decode(chunk)
        computed = self._expressions.compute(decoded.table)
        decoded.wider = {name: found for name, found in decoded.wider.items() if name.lower() not in self._read}
        already, decoded.table, decoded.kept = decoded.kept, computed.table, computed.kept
        for row, (name, reason) in computed.failed.items():
            if already is None or already[row].as_py():
                decoded.bad.setdefault(row, Bad(reason, name))
        if already is not None:  # what the format filters has no values to be computed from
            decoded.kept = already if decoded.kept is None else pc.and_(already, decoded.kept)
        return decoded
