"""Reads from its ELF headers what a shared library needs of the machine that loads it.

A wheel's tag promises a processor and an oldest C library; only the file itself tells whether that holds. Standard
library only: `make dist` runs where no binutils are.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

_MACHINES = {62: "x86_64", 183: "aarch64"}
_DYNAMIC, _NEEDS_VERSIONS = 6, 0x6FFFFFFE
"""Types of sections (SHT_DYNAMIC, SHT_GNU_verneed)."""
_NEEDED = 1
"""Tag of an entry of the dynamic section (DT_NEEDED)."""
_HEADER = struct.Struct("<16xHHIQQQIHHHHHH")
_SECTION = struct.Struct("<IIQQQQIIQQ")


class ElfError(ValueError):
    """The file is not a 64-bit little-endian ELF file, or its headers point outside of it."""


@dataclass(frozen=True)
class Library:
    machine: str
    """`x86_64`, `aarch64`, or `e_machine N`."""
    needs: tuple[str, ...]
    """Names of the libraries that the loader brings in."""
    versions: tuple[str, ...]
    """Versions of their symbols, such as `GLIBC_2.14`."""

    def glibc(self) -> tuple[int, ...]:
        """The oldest glibc that has all symbols; empty if none is asked for."""
        found = [v.removeprefix("GLIBC_") for v in self.versions if v.startswith("GLIBC_")]
        return max((tuple(int(n) for n in v.split(".")) for v in found), default=())


def read(path: Path) -> Library:
    """The library's machine, needs and versions. Raises ElfError."""
    data = path.read_bytes()
    if data[:6] != b"\x7fELF\x02\x01":
        raise ElfError(f"{path} is not a 64-bit little-endian ELF file")
    try:
        _, machine, _, _, _, sections_at, _, _, _, _, size, count, _ = _HEADER.unpack_from(data)
        sections = [_Section(*_SECTION.unpack_from(data, sections_at + i * size)) for i in range(count)]
        needs = [n for s in sections if s.type == _DYNAMIC for n in _needed(data, s, sections[s.link])]
        versions = [v for s in sections if s.type == _NEEDS_VERSIONS for v in _versions(data, s, sections[s.link])]
    except (struct.error, IndexError, ValueError) as error:
        raise ElfError(f"{path}: its ELF headers cannot be read: {error}") from error
    return Library(_MACHINES.get(machine, f"e_machine {machine}"), tuple(needs), tuple(versions))


class _Section(NamedTuple):
    """A section's header, in its order."""

    name: int
    type: int
    flags: int
    address: int
    offset: int
    size: int
    link: int
    info: int
    align: int
    entry: int


def _needed(data: bytes, section: _Section, names: _Section) -> Iterator[str]:
    for at in range(section.offset, section.offset + section.size, 16):
        tag, value = struct.unpack_from("<qQ", data, at)
        if tag == _NEEDED:
            yield _text(data, names.offset + value)


def _versions(data: bytes, section: _Section, names: _Section) -> Iterator[str]:
    at = section.offset
    for _ in range(section.info):
        _, count, _, first, following = struct.unpack_from("<HHIII", data, at)
        entry = at + first
        for _ in range(count):
            _, _, _, name, another = struct.unpack_from("<IHHII", data, entry)
            yield _text(data, names.offset + name)
            entry += another
        at += following


def _text(data: bytes, at: int) -> str:
    return data[at : data.index(b"\0", at)].decode()
