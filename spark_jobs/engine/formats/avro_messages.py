"""Whole Avro messages in Confluent's wire format, as objects that the row rules of JSON take."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

from spark_jobs.engine.formats.avro_code import Read, Target, reader
from spark_jobs.engine.formats.avro_rules import JSON
from spark_jobs.engine.formats.json_rows import Object
from spark_jobs.engine.formats.registry import SchemaRegistry
from spark_jobs.engine.formats.undecodable import Malformed, Misfits
from spark_jobs.engine.formats.writer_schemas import HEADER, WriterSchemas, number_of, unusable
from spark_jobs.engine.strict import Unfit
from tidegate.core.spec.avro import Schema, parse
from tidegate.core.spec.pipeline import AvroFormat

Fields = tuple[str, ...]


class AvroMessages:
    """Makes an object of a message. `registry` opens the registry when the first id is met that the spec does not
    have. `skipped`: fields at the top of values that nobody looks at."""

    def __init__(
        self, settings: AvroFormat, registry: Callable[[], SchemaRegistry], skipped: Collection[str] = ()
    ) -> None:
        self._schemas, self._skipped = WriterSchemas(settings, registry), skipped
        self._values: dict[int, Schema] = {}
        self._readers: dict[tuple[str, int], tuple[Fields, Read] | Malformed] = {}

    def __call__(self, message: bytes, what: str) -> dict[str, Any]:
        """The fields of the record, a `value` or a `key` as `what` says, by their names. Raises Malformed, Unfit;
        UnknownSchema where that stops the batch, and JobError for a registry that does not answer, or for a schema that
        cannot be used."""
        number = number_of(message)
        found = self._readers.get((what, number))
        if found is None:
            found = self._readers[what, number] = self._reader(number, what == "value")
        if isinstance(found, Malformed):
            raise Malformed(str(found))
        fields, read = found
        try:
            return Object(zip(fields, read(message, HEADER), strict=True))
        except Misfits as e:
            name, unfit = next((n, v) for n, v in zip(fields, e.values, strict=True) if isinstance(v, Unfit))
            raise unfit.below(name) from None

    @property
    def newest(self) -> Schema | None:
        """The schema with the greatest id that a value has had: registries number them in their order."""
        return self._values[max(self._values)] if self._values else None

    def schema_of(self, message: bytes) -> Schema | None:
        """The schema of a value that was read."""
        return self._values.get(number_of(message))

    def _reader(self, number: int, is_value: bool) -> tuple[Fields, Read] | Malformed:
        found = self._schemas.text(number)
        if isinstance(found, Malformed):
            return found
        try:
            schema = parse(*found)
            if schema.type != "record":
                return Malformed(f"expected a record, got {schema}")
            if is_value:
                self._values[number] = schema
            skipped = self._skipped if is_value else ()
            fields = tuple(name for name, _ in schema.fields if name not in skipped)
            targets: list[Target] = [((name,), JSON) for name in fields]
            return fields, reader(schema, targets, "", None)
        except (ValueError, RecursionError) as e:  # Python's compiler has its limits too
            raise unusable(e) from None
