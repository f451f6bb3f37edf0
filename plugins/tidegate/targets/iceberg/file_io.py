"""pyiceberg's files by the storage port: metadata and manifests, read whole and written whole.

Rule C6: a file is there whole or not at all, none is ever replaced, and none is deleted here, whatever became of the
commit that it was written for; what nothing names any more is a cleaner's, who asks the ledger.
"""

from __future__ import annotations

import io
import sys
from types import TracebackType

from pyiceberg.io import FileIO, InputFile, OutputFile
from pyiceberg.typedef import EMPTY_DICT, Properties

from tidegate.core.base.errors import StorageError
from tidegate.core.base.storage import Storage


class StorageIO(FileIO):
    """Its calls raise what the storage's do (StorageError). Holds no state: any number of threads may use it."""

    def __init__(self, storage: Storage, properties: Properties = EMPTY_DICT) -> None:
        super().__init__(dict(properties))
        self._storage = storage

    def new_input(self, location: str) -> InputFile:
        return StoredInput(self._storage, location)

    def new_output(self, location: str) -> OutputFile:
        return NewFile(self._storage, location)

    def delete(self, location: str | InputFile | OutputFile) -> None:
        """Refuse: the commit that wrote the file may still be executed (C6)."""
        path = location if isinstance(location, str) else location.location
        raise StorageError(f"{path}: files of an Iceberg table are not deleted by the library (C6)", retry=False)


class StoredInput(InputFile):
    """Read by the first question about its content, and then kept."""

    def __init__(self, storage: Storage, location: str) -> None:
        super().__init__(location)
        self._storage = storage
        self._content: bytes | None = None

    def __len__(self) -> int:
        return len(self._read())

    def exists(self) -> bool:
        return self._storage.exists(self.location)

    def open(self, seekable: bool = True) -> io.BytesIO:
        """Raises PathMissing."""
        return io.BytesIO(self._read())

    def _read(self) -> bytes:
        if self._content is None:
            self._content = self._storage.read(self.location)
        return self._content


class NewFile(OutputFile):
    """A file that is written once. Its length is known once it is written."""

    def __init__(self, storage: Storage, location: str) -> None:
        super().__init__(location)
        self._storage = storage
        self._written: int | None = None

    def __len__(self) -> int:
        return self._written if self._written is not None else len(self.to_input_file())

    def exists(self) -> bool:
        return self._storage.exists(self.location)

    def to_input_file(self) -> InputFile:
        return StoredInput(self._storage, self.location)

    def create(self, overwrite: bool = False) -> Stream:
        """`overwrite` changes nothing: the library always says so for manifests, and means names of its own making."""
        return Stream(self)

    def write_new(self, content: bytes) -> None:
        """Raises PathExists, OutcomeUnknown and the storage's other errors."""
        self._storage.write_new(self.location, content)
        self._written = len(content)


class Stream:
    """Gathers bytes; `close` writes the file, once. After an error there is no file.

    The library's writers close their streams whatever happened, so an error that is under way when it is closed, and
    was not when it was opened, counts too."""

    def __init__(self, file: NewFile) -> None:
        self._file = file
        self._bytes: bytearray | None = bytearray()
        self._before = sys.exc_info()[1]

    def write(self, b: bytes) -> int:
        if self._bytes is None:
            raise ValueError(f"{self._file.location}: the stream is closed")
        self._bytes += b
        return len(b)

    def tell(self) -> int:
        return len(self._bytes) if self._bytes is not None else len(self._file)

    def close(self) -> None:
        """Write what there is. A second time does nothing, also after a write that failed."""
        content, self._bytes = self._bytes, None
        if content is not None and sys.exc_info()[1] is self._before:
            self._file.write_new(bytes(content))

    def __enter__(self) -> Stream:
        return self

    def __exit__(
        self, exctype: type[BaseException] | None, excinst: BaseException | None, exctb: TracebackType | None
    ) -> None:
        if excinst is not None:
            self._bytes = None
        self.close()
