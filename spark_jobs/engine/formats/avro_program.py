"""What the C library is told of a writer's Avro schema: steps that fill a pipeline's columns, as `avro_code` does."""

from __future__ import annotations

import ctypes
from array import array
from collections.abc import Callable, Sequence

from spark_jobs.engine.formats import wire_program
from spark_jobs.engine.formats.avro_rules import EVENT, least_bytes, refusal
from spark_jobs.engine.formats.avro_unknown import tells
from spark_jobs.engine.formats.known import Known
from spark_jobs.engine.formats.wire_program import How, Node, Unsure, WireProgram, laid_out
from tidegate.core.base.hivetypes import Array, HiveType, Map, Struct
from tidegate.core.spec.avro import Schema, struct_field
from tidegate.core.spec.pipeline import Pipeline

_END, _NULL, _BOOLEAN, _INT, _LONG, _FLOAT, _DOUBLE, _BYTES, _FIXED, _ENUM = range(10)
_UNION, _EACH, _RECORD, _STRUCT, _LIST, _MAP, _ITEMS, _UNSURE = range(10, 18)
_OPS = {
    "boolean": _BOOLEAN,
    "int": _INT,
    "long": _LONG,
    "float": _FLOAT,
    "double": _DOUBLE,
    "bytes": _BYTES,
    "string": _BYTES,
    "fixed": _FIXED,
    "enum": _ENUM,
}
_MOST_STEPS = 100_000
_NOBODY = -1
Target = tuple[tuple[str, ...], HiveType | None]
Step = tuple[int, int, int, int, int, int]
Part = Callable[[list[Step]], None]


class AvroProgram(WireProgram):
    """A pipeline's columns, and the schemas that messages were written with."""

    reads, frees = "tg_avro_read", "tg_avro_free"

    def __init__(
        self,
        library: ctypes.CDLL,
        pipeline: Pipeline,
        targets: Sequence[Target],
        learn: Callable[[bytes], None] | None,
    ) -> None:
        """`learn` is called with the first message of each id, and has to `add` it; None: all messages are of the one
        schema 0."""
        super().__init__(library, pipeline)
        self._wanted = [(node, path, kind) for node, (path, kind) in zip(self.nodes, targets, strict=True)]
        self._form, self._learn = pipeline.event_time.format, learn
        self._handle = library.tg_avro_new(self._address, learn is not None)
        if not self._handle:
            raise MemoryError("the Avro decoder's library could not be set up")

    def add(self, number: int, schema: Schema | None, known: dict[str, Known] | None = None) -> None:
        """What messages of this id are; None: nothing that the library should read. `known`: as for
        `avro_code.reader`."""
        if self._added(number, self.code(schema, known)) == -2:
            self._added(number, _NOTHING)

    def _added(self, number: int, code: tuple[array, array, bytes]) -> int:
        steps, pool, names = code
        done = self._library.tg_avro_add(
            self._handle, number, steps.buffer_info()[0], len(steps) // 6, pool.buffer_info()[0], len(pool), names,
            len(names),
        )  # fmt: skip
        if done == -1:
            raise MemoryError("no memory for an Avro schema")
        return int(done)

    def code(self, schema: Schema | None, known: dict[str, Known] | None = None) -> tuple[array, array, bytes]:
        """Steps, their pool and their names; no step where the row rules read the messages."""
        try:
            return _Code(self._form, known).program(schema, self._wanted) if schema is not None else _NOTHING
        except (Unsure, RecursionError):
            return _NOTHING

    def _read(self, values: Sequence[bytes | None], expected: int, first: int, look: list[int]) -> None:
        data, lengths = laid_out(values)
        place, count = lengths.buffer_info()[0], len(values)
        strange = -1
        while self._learn is not None:
            strange = self._library.tg_avro_stranger(self._handle, data, len(data), place, count, strange + 1)
            if strange < 0:
                break
            self._learn(values[strange])  # type: ignore[arg-type]
        self.read_by(self._library.tg_avro_read, self._handle, data, lengths, expected, first, look)


_NOTHING = array("i"), array("i"), b""


class _Code:
    """Blocks of steps, each with an end; they name each other by their numbers until all are there."""

    def __init__(self, time_format: str, known: dict[str, Known] | None) -> None:
        self._form, self._known = time_format, known
        self._blocks: list[list[Step]] = []
        self._pool: list[int] = []
        self._of_blocks: set[int] = set()  # places in the pool that are numbers of blocks
        self._names = bytearray()
        self._seen: dict[tuple[int, int], int] = {}
        self._count = 0

    def program(self, schema: Schema, wanted: list) -> tuple[array, array, bytes]:
        """Raises Unsure."""
        self._block(lambda out: self._record(out, schema, wanted, 1))
        starts, at = [], 0
        for block in self._blocks:
            starts.append(at)
            at += len(block)
        steps = array("i")
        for op, column, how, a, b, size in (step for block in self._blocks for step in block):
            steps.extend((op, column, how, starts[a] if op in range(_RECORD, _ITEMS + 1) else a, b, size))
        pool = array("i", (starts[n] if i in self._of_blocks else n for i, n in enumerate(self._pool)))
        return steps, pool, bytes(self._names)

    def _block(self, part: Part) -> int:
        number = len(self._blocks)
        self._blocks.append([])
        part(self._blocks[number])
        self._step(self._blocks[number], _END)
        return number

    def _step(
        self, out: list[Step], op: int, column: int = _NOBODY, how: How = (0, 0, 0), a: int = 0, b: int = 0,
        size: int = 0,
    ) -> None:  # fmt: skip
        self._count += 1
        if self._count > _MOST_STEPS:
            raise Unsure
        out.append((op, column, how[0], a or how[1], b or how[2], size))

    def _choice(self, out: list[Step], op: int, parts: Sequence[Part]) -> None:
        """One of the parts, or each of them from the same byte on."""
        blocks = [self._block(part) for part in parts]
        at = len(self._pool)
        self._pool += blocks
        self._of_blocks.update(range(at, len(self._pool)))
        self._step(out, op, a=at, b=len(blocks))

    def _branches(self, out: list[Step], schema: Schema, each: Callable[[list[Step], Schema], None]) -> None:
        self._choice(out, _UNION, [lambda o, branch=b: each(o, branch) for b in schema.branches])  # type: ignore[misc]

    # ------------------------------------------------------------ records on the way to columns

    def _record(self, out: list[Step], schema: Schema, wanted: list, level: int) -> None:
        by_name: dict[str, list] = {}
        for node, path, target in wanted:
            by_name.setdefault(path[0], []).append((node, path[1:], target))
        for name, kind in schema.fields:
            mine = by_name.get(name, ())
            if level == 1 and self._known is not None and tells(name, kind, self._known):
                raise Unsure
            parts: list[Part] = [
                lambda o, kind=kind, node=node, target=target: self._value(o, kind, target or EVENT, node)  # type: ignore[misc]
                for node, rest, target in mine
                if not rest
            ]
            below = [w for w in mine if w[1]]
            if below:
                parts.append(lambda o, kind=kind, below=below: self._below(o, kind, below, level))  # type: ignore[misc]
            if not parts:
                self._skip(out, kind)
            elif len(parts) == 1:
                parts[0](out)
            else:
                self._choice(out, _EACH, parts)

    def _below(self, out: list[Step], schema: Schema, wanted: list, level: int) -> None:
        if schema.type == "union":
            self._branches(out, schema, lambda o, branch: self._below(o, branch, wanted, level))
        elif schema.type == "record":
            self._step(out, _RECORD, a=self._block(lambda o: self._record(o, schema, wanted, level + 1)))
        elif schema.type != "null":
            self._step(out, _UNSURE)

    # ------------------------------------------------------------ values

    def _value(self, out: list[Step], schema: Schema, kind: HiveType, node: Node) -> None:
        if schema.type == "union":
            self._branches(out, schema, lambda o, branch: self._value(o, branch, kind, node))
        elif schema.type == "null":
            self._step(out, _NULL, node.number)
        elif refusal(schema, kind):
            self._step(out, _UNSURE)
        elif schema.type == "record":
            assert isinstance(kind, Struct)
            self._step(out, _STRUCT, node.number, a=self._fields(schema, kind, node))
        elif schema.type in ("array", "map"):
            self._items(out, schema, kind, node)
        else:
            self._scalar(out, schema, kind, node)

    def _scalar(self, out: list[Step], schema: Schema, kind: HiveType, node: Node) -> None:
        try:
            how = conversion(schema, kind, self._form)
        except Unsure:
            self._step(out, _UNSURE)
            return
        if schema.type == "enum":
            at = len(self._pool)
            self._pool.append(len(self._names))
            for symbol in schema.symbols:
                self._names += _encoded(symbol)
                self._pool.append(len(self._names))
            self._step(out, _ENUM, node.number, how, a=at, size=len(schema.symbols))
        else:
            self._step(out, _OPS[schema.type], node.number, how, size=schema.size)

    def _items(self, out: list[Step], schema: Schema, kind: HiveType, node: Node) -> None:
        inner, item = schema.items, node.children[-1]
        assert inner is not None
        assert isinstance(kind, Array | Map)
        wanted = kind.element if isinstance(kind, Array) else kind.value
        block = self._block(lambda o: self._value(o, inner, wanted, item))
        op = _LIST if isinstance(kind, Array) else _MAP
        self._step(out, op, node.number, a=block, b=least_bytes(inner, {}) + (op == _MAP))

    def _fields(self, schema: Schema, kind: Struct, node: Node) -> int:
        """The block of a record's fields, for a struct."""
        takers: dict[str, list[tuple[HiveType, Node]]] = {}
        for (field, wanted), child in zip(kind.fields, node.children, strict=True):
            takers.setdefault(struct_field(schema, field) or "", []).append((wanted, child))

        def fields(out: list[Step]) -> None:
            for name, inner in schema.fields:
                mine: list[Part] = [
                    lambda o, inner=inner, wanted=wanted, child=child: self._value(o, inner, wanted, child)  # type: ignore[misc]
                    for wanted, child in takers.get(name, ())
                ]
                if not mine:
                    self._skip(out, inner)
                elif len(mine) == 1:
                    mine[0](out)
                else:
                    self._choice(out, _EACH, mine)

        return self._once(schema, node.number, fields)

    def _once(self, schema: Schema, column: int, part: Part) -> int:
        """A record may hold itself: its block is known before it is made."""
        key = (id(schema), column)
        if key not in self._seen:
            self._seen[key] = len(self._blocks)
            self._block(part)
        return self._seen[key]

    # ------------------------------------------------------------ what nobody wants

    def _skip(self, out: list[Step], schema: Schema) -> None:
        if schema.type == "union":
            self._branches(out, schema, self._skip)
        elif schema.type == "record":

            def fields(o: list[Step]) -> None:
                for _, inner in schema.fields:
                    self._skip(o, inner)

            self._step(out, _RECORD, a=self._once(schema, _NOBODY, fields))
        elif schema.type in ("array", "map"):
            inner, is_map = schema.items, schema.type == "map"
            assert inner is not None
            block = self._block(lambda o: self._skip(o, inner))
            self._step(out, _ITEMS, a=block, b=least_bytes(inner, {}) + is_map, size=is_map)
        elif schema.type != "null":
            self._step(out, _OPS[schema.type], size=len(schema.symbols) if schema.type == "enum" else schema.size)


def _encoded(symbol: str) -> bytes:
    try:
        return symbol.encode()
    except UnicodeEncodeError:
        raise Unsure from None


def conversion(schema: Schema, kind: HiveType, form: str) -> How:
    """As `avro_rules.conversion`. Raises Unsure."""
    word = schema.kind
    unit = word.rpartition("-")[2]
    if kind is EVENT:
        if "timestamp" in word:
            return wire_program.event_instant(unit)
        return wire_program.event_text(form) if word == "string" else wire_program.event_integer(form)
    if "timestamp" in word:
        return wire_program.instant(kind, unit)
    if word == "decimal":
        if schema.scale > 1000:
            raise Unsure
        return wire_program.DECIMAL, schema.scale, 0
    if schema.type == "string":
        return wire_program.text(kind)
    if word == "uuid" and str(kind) == "string":
        return wire_program.UUID, 0, 0
    if schema.type in ("int", "long"):
        return (wire_program.NUMBER, 0, 0) if word == "date" else wire_program.integer(kind)
    simple = {"boolean": wire_program.BOOLEAN, "float": wire_program.REAL, "double": wire_program.REAL}
    return simple.get(word, wire_program.TEXT if word == "enum" else wire_program.BYTES), 0, 0


def program_for(
    pipeline: Pipeline, targets: Sequence[Target], learn: Callable[[bytes], None] | None
) -> AvroProgram | None:
    """None where there is no library, or it has no columns for what the pipeline wants."""
    library = wire_program.library_for(pipeline)
    return None if library is None else AvroProgram(library, pipeline, targets, learn)
