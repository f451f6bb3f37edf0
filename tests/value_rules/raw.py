"""Raw records: how the engine is asked, and what it is asked about."""

from __future__ import annotations

from dataclasses import replace
from random import Random

from spark_jobs.engine.decoder import decoder_for
from spark_jobs.engine.formats import Decoder
from tests.engine_fixtures import chunk_of
from tests.value_rules.engine_json import in_plain_form, pipeline_of
from tests.value_rules.oracle_json import PlainColumn, PlainSpec, Refused, Row
from tests.value_rules.oracle_raw import parts
from tests.value_rules.seeds_json import Seed
from tidegate.core.spec.pipeline import Format, Pipeline

HEADERS = "array<struct<name:string,value:binary>>"


def compiled(spec: PlainSpec, location: str = "/nowhere") -> Pipeline:
    return pipeline_of(spec, location, Format("raw", spec.unknown))


def decoders(spec: PlainSpec) -> dict[str, Decoder]:
    return {"decoder": decoder_for(compiled(spec))}


def answers(spec: PlainSpec, decoder: Decoder, messages: list[bytes | None]) -> list[Row | Refused]:
    found = [parts(message) for message in messages]
    chunk = replace(
        chunk_of([value for _, value, _ in found]), keys=[key for key, _, _ in found], headers=[h for *_, h in found]
    )
    return in_plain_form(spec, decoder.decode(chunk), len(messages))


def _seed(*columns: PlainColumn) -> Seed:
    def make(rng: Random) -> bytes | None:
        return None if rng.random() < 0.05 else rng.choice(("x", "", "aü😀", "key=value", "\x00")).encode() * 2

    return PlainSpec(columns), make


def seeds() -> dict[str, list[Seed]]:
    key, value = PlainColumn("k", "binary", ("key",)), PlainColumn("v", "binary", ("value",))
    headers = PlainColumn("h", HEADERS, ("headers",))
    texts = (PlainColumn("k", "string", ("key",)), PlainColumn("v", "string", ("value",)))
    return {
        "R-key": [_seed(key)],
        "R-value": [_seed(value)],
        "R-headers": [_seed(headers)],
        "R-string": [_seed(*texts)],
        "R-nullable": [
            _seed(replace(value, nullable=False)),
            _seed(*(replace(c, nullable=False) for c in (headers, *texts))),
        ],
        "R-columns": [_seed(key, value, headers)],
    }
