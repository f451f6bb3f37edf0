"""Avro messages: plain data of one schema, or Confluent's wire format, where each message names its writer's schema."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from spark_jobs.engine.formats import Decoded
from spark_jobs.engine.formats.assembly import Assembly
from spark_jobs.engine.formats.avro_code import Read, reader
from spark_jobs.engine.formats.avro_program import AvroProgram, program_for
from spark_jobs.engine.formats.avro_unknown import known_at
from spark_jobs.engine.formats.known import known_fields
from spark_jobs.engine.formats.registry import SchemaRegistry, UnknownSchema, registry_of_job
from spark_jobs.engine.formats.undecodable import Malformed, Values
from spark_jobs.engine.formats.wire_program import why_not
from spark_jobs.engine.formats.writer_schemas import HEADER, WriterSchemas, missing, number_of, unusable
from tidegate.core.batch.rules_version import RULES_VERSION
from tidegate.core.source.records import Chunk
from tidegate.core.spec.avro import Schema, parse
from tidegate.core.spec.pipeline import AvroFormat, Pipeline


class AvroDecoder:
    """`registry` opens the registry when the first id is met that the spec does not have. `vectorised=False` sends
    every message to the row rules: slow, the same result."""

    def __init__(
        self,
        pipeline: Pipeline,
        registry: Callable[[], SchemaRegistry] = registry_of_job,
        rules_version: int = RULES_VERSION,
        also_known: tuple[tuple[str, ...], ...] = (),
        *,
        vectorised: bool = True,
    ) -> None:
        self._assembly, self._version = Assembly(pipeline, also_known), rules_version
        settings = pipeline.format.avro or AvroFormat()
        self._schemas = WriterSchemas(settings, registry)
        framed = settings.wire != "plain"
        self._program: AvroProgram | None = None
        self._why_not = why_not(pipeline)
        if vectorised:
            learn = self._learn if framed else None
            self._program = program_for(pipeline, self._assembly.targets, learn)
        self._plain = None if framed else self._reader(0, settings.schema or "", ())
        self._readers: dict[int, Read | Malformed] = {}
        self._chunk: Chunk | None = None

    def decode(self, chunk: Chunk) -> Decoded:
        plain, self._chunk = self._plain, chunk
        read = self._framed if plain is None else lambda value: plain(value, 0)
        by_rules = partial(self._assembly.decoded, read=read)
        return self._assembly.by_program(self._program, self._why_not, chunk.values, by_rules)

    def _framed(self, value: bytes) -> Values:
        read = self._reader_for(value)
        if isinstance(read, Malformed):
            raise Malformed(str(read))
        return read(value, HEADER)

    def _learn(self, value: bytes) -> None:
        """A schema's id is met for the first time: the library has to know it, too."""
        if isinstance(self._reader_for(value), Malformed):
            assert self._program is not None
            self._program.add(number_of(value), None)

    def _reader_for(self, value: bytes) -> Read | Malformed:
        number = number_of(value)
        read = self._readers.get(number)
        if read is None:
            read = self._readers[number] = self._reader_of(number, value)
        return read

    def _reader_of(self, number: int, value: bytes) -> Read | Malformed:
        try:
            found = self._schemas.text(number)
        except UnknownSchema as e:
            assert self._chunk is not None
            offset = self._chunk.offsets[next(i for i, v in enumerate(self._chunk.values) if v is value)]
            raise missing(e, offset) from None
        return found if isinstance(found, Malformed) else self._reader(number, *found)

    def _reader(self, number: int, text: str, references: tuple[str, ...]) -> Read:
        """Raises JobError."""
        try:
            schema: Schema = parse(text, references)
            known = None
            if self._assembly.unknown_matter:
                known = known_fields(self._assembly.taken, self._version, partial(known_at, schema))
            read = reader(schema, self._assembly.targets, self._assembly.time_format, known)
        except (ValueError, RecursionError) as e:  # Python's compiler has its limits too
            raise unusable(e) from None
        if self._program is not None:
            self._program.add(number, schema, known)
        return read
