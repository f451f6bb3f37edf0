"""What `tidegate doctor` looks at of an Iceberg catalogue: the library, an answer, and whose the table is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NoReturn

from tidegate.core.base.connection import Connection
from tidegate.core.base.errors import StorageError, TidegateError
from tidegate.core.doctor.findings import WARNING, Finding, ok
from tidegate.core.doctor.rules import refused
from tidegate.core.files.receipt import DATA
from tidegate.core.spec.pipeline import Pipeline
from tidegate.targets.iceberg.library import INSTALL, RELEASE, needed, other_release
from tidegate.targets.iceberg.opening import opened

if TYPE_CHECKING:
    from tidegate.targets.iceberg.catalogue import Catalogue
    from tidegate.targets.iceberg.definition import Definition

CHECK = "iceberg"
_MEANS = "no batch can be planned and no window published"


class _NoFiles:
    """Storage is another check's: a catalogue that keeps metadata there shows none."""

    def read(self, path: str) -> NoReturn:
        raise StorageError(f"{path} was not read")


def examined(pipeline: Pipeline, c: Connection, seconds: float, definition: Definition | None = None) -> list[Finding]:
    """Raises nothing: what does not answer is a finding. Changes nothing. `definition`: of another table than one of
    windows."""
    name, no_files = pipeline.name, _NoFiles()
    storage: Any = no_files
    try:
        catalogue = opened(c, storage, seconds)
        there = _table(pipeline, catalogue, definition)
    except TidegateError as e:
        return [refused(CHECK, name, str(e.args[0]), _MEANS, e.advice or "is it up?")]
    if other := other_release():
        means = f"this version of Tidegate is made for {RELEASE}"
        return [refused(CHECK, name, f"pyiceberg {other} is installed", means, INSTALL, WARNING)]
    return [ok(CHECK, f"the catalogue at {catalogue.address} answers{there}", name)]


def _table(pipeline: Pipeline, catalogue: Catalogue, definition: Definition | None) -> str:
    """Whose the table is, in words, where the catalogue itself can say it. Raises CatalogueError; CatalogueMismatch for
    a table that no batch could be planned for."""
    with needed():
        from tidegate.targets.iceberg.definition import Definition
    definition = definition or Definition(pipeline, DATA)
    try:
        loaded = catalogue.load(definition.name)
    except StorageError:
        return ""
    if loaded is None:
        return f"; {definition.name} will be made by the first batch"
    definition.refuse_other(loaded)
    return f"; {definition.name} is this pipeline's"
