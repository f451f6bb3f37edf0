"""Names of the files that Tidegate writes beside a table: whose they are, and for which commit they were written (C10).

Other engines read versions and UUIDs out of such names, so ours are UUIDs, too.
"""

from __future__ import annotations

import re
import uuid
from dataclasses import dataclass
from enum import Enum

_OURS = "71de9a7e"
"""`tidegate`, as far as hexadecimal digits can spell it."""
_UUID = r"(?P<stamp>[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})"
_VERSION = re.compile(r"(\d+)-")


class Kind(Enum):
    """What a file is."""

    METADATA = re.compile(rf"(?P<number>\d+)-{_UUID}(?:\.gz)?\.metadata\.json")
    LIST = re.compile(rf"snap-\d+-(?P<number>\d+)-{_UUID}\.avro")
    MANIFEST = re.compile(rf"{_UUID}-(?P<number>\d+)-m\d+\.avro")


@dataclass(frozen=True)
class Made:
    """A file that Tidegate wrote. `number`: of the commit for which it was written: the version of its metadata file,
    or, of lists and manifests, its sequence number. Of all commits that have one number the table takes one."""

    kind: Kind
    number: int


def stamp(table: uuid.UUID) -> str:
    """A new UUID that says that we have made it for this table: a table of the same name may be another one."""
    own, of = uuid.uuid4().hex, table.hex
    return str(uuid.UUID(_OURS + of[:4] + own[12:20] + of[4:8] + own[24:]))


def made(name: str, table: uuid.UUID) -> Made | None:
    """What a file of this name is; None if we have not made it for this table."""
    for kind in Kind:
        found = kind.value.fullmatch(name)
        if found is not None and _is_of(uuid.UUID(found["stamp"]).hex, table.hex):
            return Made(kind, int(found["number"]))
    return None


def _is_of(stamp: str, table: str) -> bool:
    return (stamp[:8], stamp[8:12], stamp[20:24]) == (_OURS, table[:4], table[4:8])


def metadata(table: uuid.UUID, version: int, ending: str = "") -> str:
    """Name of a metadata file."""
    return f"{version:05d}-{stamp(table)}{ending}.metadata.json"


def version_of(location: str) -> int | None:
    """The version that a metadata file's name says, whichever writer made it."""
    found = _VERSION.match(location.rpartition("/")[2])
    return int(found[1]) if found else None
