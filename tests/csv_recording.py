"""CSV pipelines and chunks of their messages, as tests/native/replay.c reads them."""

from __future__ import annotations

from array import array
from random import Random

from spark_jobs.engine.formats.csv_decoder import CsvDecoder
from spark_jobs.engine.formats.wire_program import laid_out
from tests.csv_cases import random_csv
from tests.value_rules.engine_formats import compiled
from tests.wire_differential import Case, messages


def recorded_csv(rng: Random, count: int) -> bytes:
    program = None
    while program is None:
        spec, make = random_csv(rng)
        program = CsvDecoder(compiled(spec))._program
    case, description = Case("recorded", spec, make), program.description
    about, positions, takers, names = program.layout
    head = array("i", [description.count, len(description.names), -2])
    parts = [head.tobytes(), description.numbers.tobytes(), bytes(description.names)]
    parts += [array("i", [len(positions) // 4, len(takers), len(names)]).tobytes()]
    parts += [about.tobytes(), positions.tobytes(), takers.tobytes(), names]
    for size in (count, 1, 7):
        data, lengths = laid_out([message or b"" for message in messages("csv", case, rng, size)])
        parts += [array("i", [len(lengths), len(data)]).tobytes(), lengths.tobytes(), data]
    return b"".join(parts)
