"""One of a pipeline's tables as Iceberg wants it: its columns, by ids, and its partitions (C7)."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from pyiceberg.exceptions import ValidationError
from pyiceberg.partitioning import PARTITION_FIELD_ID_START, PartitionField, PartitionSpec
from pyiceberg.schema import Schema, index_by_name
from pyiceberg.table import Table, Transaction
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.update import AddSchemaUpdate, TableUpdate
from pyiceberg.table.update.schema import UpdateSchema
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IcebergType,
    IntegerType,
    ListType,
    LongType,
    MapType,
    NestedField,
    StringType,
    StructType,
    TimestamptzType,
)

from tidegate.core.base.errors import CatalogueMismatch
from tidegate.core.base.hivetypes import Array, Decimal, HiveType, Map, Struct, parse
from tidegate.core.files.receipt import DATA
from tidegate.core.spec.pipeline import Fields, Pipeline
from tidegate.core.target.paths import Layout
from tidegate.core.target.stored import StoredColumn
from tidegate.core.target.tables import comment_of, properties_of, table_name
from tidegate.targets.iceberg.catalogue import Catalogue, Conflict, Loaded
from tidegate.targets.iceberg.columns import FORM
from tidegate.targets.iceberg.metadata import refuse_other_version
from tidegate.targets.iceberg.numbering import Ids, called_otherwise, numbered, replacing
from tidegate.targets.iceberg.properties import LOGGED, MOST_LOGGED

Say = Callable[[str], None]
OWNER = "tidegate.pipeline"
_PRIMITIVES: dict[str, IcebergType] = {
    "boolean": BooleanType(),
    "int": IntegerType(),
    "bigint": LongType(),
    "float": FloatType(),
    "double": DoubleType(),
    "string": StringType(),
    "binary": BinaryType(),
    "date": DateType(),
    "timestamp": TimestamptzType(),
}
_PROPERTIES = {
    "gc.enabled": "false",  # expiry by others would delete files that the ledger still knows (C5)
    "write.format.default": "parquet",
    LOGGED: str(MOST_LOGGED),
}


@dataclass(frozen=True)
class Definition:
    """`kind`: data | late | dirty."""

    pipeline: Pipeline
    kind: str

    @property
    def name(self) -> str:
        """`namespace.table`."""
        return table_name(self.pipeline, self.kind)

    @property
    def location(self) -> str:
        """Directory of the table's metadata; its files stay where they landed."""
        layout = Layout.of(self.pipeline)
        return layout.location if self.kind == DATA else layout.side_table(self.kind)

    @property
    def _key(self) -> str:
        return "sink.location" if self.kind == DATA else "sink.workdir"

    @property
    def parts(self) -> tuple[StoredColumn, ...]:
        """The columns that the table is partitioned by: all that are constant in a file (C7), the unit first."""
        return FORM.constants(self.pipeline, self.kind)

    @property
    def columns(self) -> tuple[StoredColumn, ...]:
        """All columns, in order."""
        return FORM.columns(self.pipeline, self.kind)

    def schema(self) -> Schema:
        """Schema of a new table, with ids that count from 1; an existing table has its own."""
        ids = iter(range(1, 100_000))
        columns = self.columns
        numbers = [next(ids) for _ in columns]
        return Schema(
            *(
                NestedField(n, c.name, _type(parse(c.type), ids.__next__), required=c.required)
                for n, c in zip(numbers, columns, strict=True)
            )
        )

    def spec(self, schema: Schema) -> PartitionSpec:
        """Partition spec: the identity of each of `parts`."""
        return PartitionSpec(
            *(
                PartitionField(
                    schema.find_field(c.name).field_id, PARTITION_FIELD_ID_START + n, IdentityTransform(), c.name
                )
                for n, c in enumerate(self.parts)
            )
        )

    def fields(self, loaded: Loaded) -> Fields:
        """(kind, path, id) of every field in the table, also of columns that the spec has dropped: older files are
        copied too."""
        return tuple((self.kind, path, number) for path, number in index_by_name(loaded.metadata.schema()).items())

    def bring_up(self, catalogue: Catalogue, say: Say, landed: Fields = ()) -> Loaded:
        """Returns the table with all columns, made if it is missing. `landed`: how files that have landed call their
        columns. Raises CatalogueError, CatalogueMismatch."""
        loaded, ids = catalogue.load(self.name), self._ids(landed)
        if loaded is None:
            schema = numbered(self.schema(), ids) if ids else self.schema()
            try:
                loaded = catalogue.create(self.name, schema, self.spec(schema), self.location, self.properties())
                say(f"{self.name}: created at {self.location}")
            except Conflict:
                loaded = catalogue.load(self.name)
                if loaded is None:
                    raise
        self.refuse_other(loaded)
        loaded = self._renumbered(catalogue, loaded, ids)
        self.refuse_changed(loaded, landed)
        return self._evolved(catalogue, loaded, say, ids)

    def _ids(self, landed: Fields) -> Ids:
        return {path: number for kind, path, number in landed if kind == self.kind}

    def properties(self) -> dict[str, str]:
        """Properties of a new table."""
        said = dict(properties_of(self.pipeline, self.kind)) | {"comment": comment_of(self.pipeline, self.kind)}
        return said | _PROPERTIES

    def refuse_other(self, loaded: Loaded) -> None:
        """Raise CatalogueMismatch for a table that is not the pipeline's, or no longer as Tidegate made it."""
        metadata = loaded.metadata
        owner = metadata.properties.get(OWNER)
        if owner != self.pipeline.name:
            whose = "somebody else's table" if owner is None else f"the table of pipeline {owner}"
            raise CatalogueMismatch(
                f"{self.name} is {whose}",
                advice="give the pipeline another sink.table; if it is to go on in this one, in Spark: ALTER TABLE "
                f"{self.name} SET TBLPROPERTIES ('{OWNER}' = '{self.pipeline.name}')",
            )
        if _normal(metadata.location) != _normal(self.location):
            raise CatalogueMismatch(
                f"{self.name} is at {metadata.location}, by {self._key} it should be at {self.location}",
                advice=f"set {self._key} so that both agree",
            )
        refuse_other_version(self.name, metadata)
        have = [(f.name, str(f.transform)) for f in metadata.spec().fields]
        want = [(c.name, "identity") for c in self.parts]
        if have != want:
            raise CatalogueMismatch(
                f"{self.name} is partitioned by {have or 'nothing'}, should be by {want} (C7)",
                advice="somebody has changed its partition spec: take the change back (in Spark: ALTER TABLE "
                f"{self.name} ADD PARTITION FIELD ..., DROP PARTITION FIELD ...), then clear the task",
            )

    def refuse_changed(self, loaded: Loaded, landed: Fields) -> None:
        """Raises CatalogueMismatch for a table that is not the pipeline's, or whose columns or partitions somebody has
        changed so that files cannot be read, or written, as they were. Columns may be missing that it never had."""
        ids = self._ids(landed)
        self.refuse_other(loaded)
        self._refuse_dropped(loaded.metadata, bool(ids))
        self._refuse_renumbered(loaded, ids)

    def _refuse_renumbered(self, loaded: Loaded, landed: Ids) -> None:
        """A table that somebody has made anew may call its columns by other ids than files that have landed."""
        told = called_otherwise(loaded.metadata.schema(), landed)
        if told is not None:
            raise CatalogueMismatch(
                f"{self.name}: files that have landed call {told}: somebody has made the table, or that column, anew",
                advice=f"register the old table's newest metadata file again (in Spark: DROP TABLE {self.name}, "
                f"without PURGE, then CALL <catalog>.system.register_table('{self.name}', '<file>')), or give the "
                "pipeline another sink.table and sink.location",
            )

    def _renumbered(self, catalogue: Catalogue, loaded: Loaded, landed: Ids) -> Loaded:
        """A REST server may number the columns of a new table itself: as long as nothing was ever in it, they get the
        ids that files have. Those that it is partitioned by come first, and have the same ones."""
        metadata, wanted = loaded.metadata, numbered(self.schema(), landed)
        if metadata.next_sequence_number() > 1 or called_otherwise(metadata.schema(), landed) is None:
            return loaded
        if any(wanted.find_field(f.name).field_id != f.source_id for f in metadata.spec().fields):
            return loaded
        new = wanted.model_copy(update={"schema_id": metadata.schema().schema_id + 1})
        return catalogue.commit(loaded, (), replacing(new))

    def _refuse_dropped(self, metadata: TableMetadata, landed: bool) -> None:
        """Tidegate drops no column and renames none: one that comes again would be null in all rows of before, and in
        all further ones where files have landed that call it by its old id."""
        missing = index_by_name(self.schema()).keys() - index_by_name(metadata.schema()).keys()
        before = {name for schema in metadata.schemas for name in index_by_name(schema)} if missing else set()
        gone = sorted(missing & before)
        if gone:
            again = f" If it may be null there: ALTER TABLE {self.name} ADD COLUMN {gone[0]} ..."
            raise CatalogueMismatch(
                f"{self.name}: somebody has dropped or renamed the column {gone[0]}: added again, it would be null in "
                "all rows that are there",
                advice=f"take it back; in Spark: ALTER TABLE {self.name} RENAME COLUMN ... TO {gone[0]}, or for one "
                f"that was dropped: DROP TABLE {self.name}, without PURGE, then CALL <catalog>.system.register_table"
                f"('{self.name}', '<its metadata file of before>').{'' if landed else again}",
            )

    def _evolved(self, catalogue: Catalogue, loaded: Loaded, say: Say, landed: Ids) -> Loaded:
        """Columns are added, by the ids that files have for them, and widened; none is dropped. Raises
        CatalogueMismatch."""
        metadata = loaded.metadata
        try:
            wanted = self.schema()
            if metadata.schema().as_struct() == wanted.as_struct():
                return loaded  # the library would copy all metadata, each snapshot of it, to find that out
            table = Table((), metadata, loaded.metadata_location, loaded.io, None)  # type: ignore[arg-type]
            _refuse_other_scale(metadata.schema(), wanted)
            update = UpdateSchema(Transaction(table))
            update.union_by_name(wanted)
            ids = {**landed, **index_by_name(metadata.schema())}
            updates = tuple(_numbered(u, ids, metadata.last_column_id) for u in update._commit()[0])
        except (ValueError, ValidationError) as e:
            raise CatalogueMismatch(
                f"{self.name}: {e}", advice="take the change of the column back, or give the pipeline another table"
            ) from e
        if not updates:
            return loaded
        before = set(index_by_name(metadata.schema()))
        evolved = catalogue.commit(loaded, (), updates)
        new = sorted(set(index_by_name(evolved.metadata.schema())) - before)
        say(f"{self.name}: {'new columns ' + ', '.join(new) if new else 'a column was widened'}")
        return evolved


def _numbered(update: TableUpdate, ids: Ids, last: int) -> TableUpdate:
    """A new schema by these ids; the library would count on."""
    if not isinstance(update, AddSchemaUpdate):
        return update
    return AddSchemaUpdate(schema=numbered(update.schema_, ids, last))


def _refuse_other_scale(there: Schema, wanted: Schema) -> None:
    """The library's `promote` compares a decimal's scale with itself: values of before would become others. Raises
    ValueError."""
    for name in index_by_name(wanted).keys() & index_by_name(there).keys():
        old, new = there.find_type(name), wanted.find_type(name)
        if isinstance(old, DecimalType) and isinstance(new, DecimalType) and old.scale != new.scale:
            raise ValueError(f"column {name} is {old}, and {new} has other digits behind its point")


def _normal(uri: str) -> str:
    """Java writes `file:/lake` for `file:///lake`."""
    return re.sub(r"^file:/+", "file:///", uri.rstrip("/"))


def _type(kind: HiveType, number: Callable[[], int]) -> IcebergType:
    """Ids are given level by level, as the libraries give them: a struct's fields before what is within them."""
    if isinstance(kind, Decimal):
        return DecimalType(kind.precision, kind.scale)
    if isinstance(kind, Array):
        return ListType(number(), _type(kind.element, number), element_required=False)
    if isinstance(kind, Map):
        key, value = number(), number()
        return MapType(key, _type(kind.key, number), value, _type(kind.value, number), value_required=False)
    if isinstance(kind, Struct):
        numbers = [number() for _ in kind.fields]
        return StructType(
            *(
                NestedField(n, name, _type(field, number), required=False)
                for n, (name, field) in zip(numbers, kind.fields, strict=True)
            )
        )
    return _PRIMITIVES[kind.name]
