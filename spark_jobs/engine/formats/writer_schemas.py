"""The schemas that messages in Confluent's wire format name by their ids."""

from __future__ import annotations

from collections.abc import Callable

from spark_jobs.engine.failures import JobError, refuse
from spark_jobs.engine.formats.registry import SchemaRegistry, UnknownSchema, WrongSchema
from spark_jobs.engine.formats.undecodable import Malformed
from tidegate.core.spec.pipeline import AvroFormat

HEADER = 5
"""Bytes before a datum in Confluent's wire format: zero, and the schema's id in four bytes, big-endian."""


def number_of(value: bytes) -> int:
    """The id of the message's schema. Raises Malformed."""
    if len(value) < HEADER or value[0]:
        raise Malformed("no Confluent header (a zero byte and a schema id)")
    return int.from_bytes(value[1:HEADER], "big")


class WriterSchemas:
    """`registry` opens the registry when the first id is met that the spec does not have."""

    def __init__(self, settings: AvroFormat, registry: Callable[[], SchemaRegistry]) -> None:
        self._settings = settings
        self._open, self._registry = registry, None

    def text(self, number: int) -> tuple[str, tuple[str, ...]] | Malformed:
        """A schema's text, and those that it refers to; why its messages are dirty.

        Raises UnknownSchema where that stops the batch; JobError when the registry does not answer or refuses us."""
        try:
            return self._text(number)
        except WrongSchema as e:
            return Malformed(str(e))
        except UnknownSchema as e:
            if self._settings.unknown_schema == "dirty":
                return Malformed(str(e))
            raise

    def _text(self, number: int) -> tuple[str, tuple[str, ...]]:
        text = self._settings.schemas.get(number)
        if text is not None:
            return text, ()
        if self._settings.registry_conn_id is None:
            raise UnknownSchema(number, "format.schemas")
        if self._registry is None:
            self._registry = self._open()
        return self._registry.schema(number, "AVRO")


def missing(error: UnknownSchema, offset: int) -> JobError:
    """What stops a batch: a retry can help, since a registry may be behind."""
    return refuse(
        str(error),
        advice="if the registry is behind, the next try goes on by itself; a schema that is nowhere means a "
        "message that is not Avro: format.unknown_schema: dirty takes such messages into the dirty table",
        offset=offset,
        retry=True,
    )


def unusable(error: Exception) -> JobError:
    """What stops a batch: the person who wrote this schema down has to look at it."""
    return refuse(f"an Avro schema cannot be used: {error}", advice="mend the schema", field="format")
