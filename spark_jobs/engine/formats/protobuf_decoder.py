"""Protobuf messages, parsed by Google's library with the descriptors that the spec has."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from google.protobuf.descriptor import Descriptor
from google.protobuf.message import DecodeError, Message
from google.protobuf.message_factory import GetMessageClass

from spark_jobs.engine.failures import refuse
from spark_jobs.engine.formats import Decoded
from spark_jobs.engine.formats.assembly import Assembly
from spark_jobs.engine.formats.avro_rules import signed
from spark_jobs.engine.formats.known import Known, known_fields
from spark_jobs.engine.formats.protobuf_program import ProtobufProgram, program_for
from spark_jobs.engine.formats.protobuf_unknown import known_of, unknown_of
from spark_jobs.engine.formats.protobuf_values import Get, event_getter, getter
from spark_jobs.engine.formats.undecodable import Malformed, Misfits, Values
from spark_jobs.engine.formats.wire_program import why_not
from spark_jobs.engine.strict import Unfit
from tidegate import descriptors
from tidegate.core.base.hivetypes import HiveType
from tidegate.core.batch.rules_version import RULES_VERSION
from tidegate.core.source.records import Chunk
from tidegate.core.spec.pipeline import Pipeline

HEADER = 5


class ProtobufDecoder:
    """Raises JobError when the descriptors cannot give what the columns ask for. `vectorised=False` sends every message
    to the row rules: slow, the same result."""

    def __init__(
        self,
        pipeline: Pipeline,
        rules_version: int = RULES_VERSION,
        also_known: tuple[tuple[str, ...], ...] = (),
        *,
        vectorised: bool = True,
    ) -> None:
        settings = pipeline.format.protobuf
        if settings is None:
            raise refuse("format protobuf needs format.descriptor_set and format.message", field="format")
        self._assembly = Assembly(pipeline, also_known)
        try:
            self._type = descriptors.message_type(settings.descriptor_set, settings.message)
            self._gets = [self._get(path, kind) for path, kind in self._assembly.targets]
        except ValueError as e:
            raise refuse(
                f"the descriptor set {e}", advice="mend format.descriptor_set, or the columns", field="format"
            ) from None
        self._parse = GetMessageClass(self._type).FromString
        self._required = _has_required(self._type, set())
        self._confluent = settings.wire == "confluent"
        self._index = descriptors.index_path(self._type)
        self._known = known_fields(self._assembly.taken, rules_version, self._known_at)
        self._read = self._code()
        self._program: ProtobufProgram | None = None
        self._why_not = why_not(pipeline)
        if vectorised and not self._required:
            index = self._index if self._confluent else None
            known = self._known if self._assembly.unknown_matter else None
            self._program = program_for(pipeline, self._type, self._assembly.targets, known, index)

    def _get(self, path: tuple[str, ...], kind: HiveType | None) -> Get | None:
        fields = descriptors.at(self._type, path)
        if fields is None:
            return None
        if kind is None:
            return event_getter(fields, self._assembly.time_format)
        return getter(fields, kind)

    def _known_at(self, path: tuple[str, ...], kind: HiveType | None) -> Known:
        fields = None if kind is None else descriptors.at(self._type, path)
        return None if fields is None or kind is None else known_of(fields[-1], kind)

    def decode(self, chunk: Chunk) -> Decoded:
        read = self._framed if self._confluent else self._message
        by_rules = partial(self._assembly.decoded, read=read)
        return self._assembly.by_program(self._program, self._why_not, chunk.values, by_rules)

    def _framed(self, value: bytes) -> Values:
        if len(value) <= HEADER or value[0]:
            raise Malformed("no Confluent header (a zero byte, a schema id, message indexes)")
        try:
            start = self._after_indexes(value)
        except IndexError:
            raise Malformed("cut off in its message indexes") from None
        return self._message(value[start:])

    def _after_indexes(self, value: bytes) -> int:
        """Place where the message begins, if the indexes before it are those of our message."""
        count, at = _number(value, HEADER)
        if not 0 <= count <= len(value):
            raise Malformed("cut off in its message indexes")
        found = []
        for _ in range(count):
            number, at = _number(value, at)
            found.append(number)
        if tuple(found or (0,)) != self._index:
            raise Malformed(f"message indexes {found} are not those of {self._type.full_name}, {list(self._index)}")
        return at

    def _message(self, value: bytes) -> Values:
        try:
            message = self._parse(value)
        except DecodeError as e:
            raise Malformed(f"not a {self._type.full_name}: {_said(e)}") from None
        if self._required and not message.IsInitialized():
            raise Malformed(f"required fields are missing: {', '.join(itertools.islice(_missing(message), 3))}")
        values = self._read(message)
        return (*values, unknown_of(message, self._known)) if self._assembly.unknown_matter else values

    def _code(self) -> Callable[[Message], tuple]:
        """All getters in one function: `getattr` and `HasField` without a call in between."""
        names: dict[str, Any] = {"Unfit": Unfit, "Misfits": Misfits}
        lines = ["def read(m):", "    bad = False"]
        for i, get in enumerate(self._gets):
            if get is None:
                lines.append(f"    v{i} = None")
                continue
            names[f"g{i}"] = get.convert
            lines += ["    " + line for line in get.source(f"v{i}", f"g{i}")]
        values = "".join(f"v{i}, " for i in range(len(self._gets)))
        lines += ["    if bad:", f"        raise Misfits(({values}))", f"    return ({values})"]
        exec(compile("\n".join(lines), "<protobuf reader>", "exec"), names)
        return names["read"]


def _missing(message: Message, place: str = "") -> Iterator[str]:
    """Required fields that are not there. FindInitializationErrors says it too, but it ends the process for some
    messages that hold a map (protobuf 7.36)."""
    for field in message.DESCRIPTOR.fields:
        if descriptors.required(field) and not message.HasField(field.name):
            yield place + field.name
    for field, value in message.ListFields():
        if field.message_type is None:
            continue
        if field.message_type.GetOptions().map_entry:
            inner = value.items() if field.message_type.fields_by_name["value"].message_type else ()
        else:
            inner = enumerate(value) if descriptors.repeated(field) else (("", value),)
        for key, each in inner:
            yield from _missing(each, f"{place}{field.name}{f'[{key}]' if key != '' else ''}.")


def _number(value: bytes, at: int) -> tuple[int, int]:
    """A variable-length number with a sign, and where it ends."""
    first = value[at]
    return signed(value, at + 1, first) if first > 127 else ((first >> 1) ^ -(first & 1), at + 1)


def _said(error: DecodeError) -> str:
    return str(error).rpartition(": ")[2][:200]


def _has_required(message: Descriptor, seen: set[str]) -> bool:
    if message.full_name in seen:
        return False
    seen.add(message.full_name)
    return any(
        descriptors.required(f) or (f.message_type is not None and _has_required(f.message_type, seen))
        for f in message.fields
    )
