"""The engine's decoders of other formats than JSON, asked with the oracle's plain specs."""

from __future__ import annotations

from spark_jobs.engine.formats import Decoder, decoder_for
from tests.value_rules.engine_json import pipeline_of
from tests.value_rules.oracle_csv import CsvSettings
from tests.value_rules.oracle_json import PlainSpec
from tidegate.core.pipeline import CsvFormat, Format, Pipeline


def decoders(spec: PlainSpec) -> dict[str, Decoder]:
    return {"decoder": decoder_for(compiled(spec))}


def compiled(spec: PlainSpec, location: str = "/nowhere") -> Pipeline:
    return pipeline_of(spec, location, _format(spec))


def _format(spec: PlainSpec) -> Format:
    settings = spec.settings
    if isinstance(settings, CsvSettings):
        csv = CsvFormat(settings.fields, settings.delimiter, settings.quote, settings.escape, settings.null_text)
        return Format("csv", spec.unknown, csv=csv)
    raise AssertionError(settings)
