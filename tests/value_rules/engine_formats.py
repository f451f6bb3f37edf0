"""The engine's decoders of other formats than JSON, asked with the oracle's plain specs."""

from __future__ import annotations

import base64

from spark_jobs.engine.decoder import decoder_for
from spark_jobs.engine.formats import Decoder
from spark_jobs.engine.formats.avro_decoder import AvroDecoder
from spark_jobs.engine.formats.csv_decoder import CsvDecoder
from spark_jobs.engine.formats.protobuf_decoder import ProtobufDecoder
from tests.value_rules.engine_json import pipeline_of
from tests.value_rules.oracle_avro import AvroSettings
from tests.value_rules.oracle_csv import CsvSettings
from tests.value_rules.oracle_json import PlainSpec
from tests.value_rules.oracle_protobuf import ProtobufSettings
from tidegate.core.spec.pipeline import AvroFormat, CsvFormat, Format, Pipeline, ProtobufFormat


def decoders(spec: PlainSpec) -> dict[str, Decoder]:
    built = compiled(spec)
    found = {"decoder": decoder_for(built)}
    if isinstance(spec.settings, AvroSettings):
        found["rows"] = AvroDecoder(built, vectorised=False)
    if isinstance(spec.settings, CsvSettings):
        found["rows"] = CsvDecoder(built, vectorised=False)
    if isinstance(spec.settings, ProtobufSettings):
        found["rows"] = ProtobufDecoder(built, vectorised=False)
    return found


def compiled(spec: PlainSpec, location: str = "/nowhere") -> Pipeline:
    return pipeline_of(spec, location, _format(spec))


def _format(spec: PlainSpec) -> Format:
    settings = spec.settings
    if isinstance(settings, CsvSettings):
        csv = CsvFormat(settings.fields, settings.delimiter, settings.quote, settings.escape, settings.null_text)
        return Format("csv", spec.unknown, csv=csv)
    if isinstance(settings, AvroSettings):
        wire = "plain" if settings.schema is not None else "confluent"
        avro = AvroFormat(wire, settings.schema, dict(settings.schemas), None, "dirty")
        return Format("avro", spec.unknown, avro=avro)
    if isinstance(settings, ProtobufSettings):
        wire = "confluent" if settings.confluent else "plain"
        descriptors = base64.b64encode(settings.descriptor_set).decode()
        return Format("protobuf", spec.unknown, protobuf=ProtobufFormat(descriptors, settings.message, wire))
    raise AssertionError(settings)
