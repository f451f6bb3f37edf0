"""Free loopback ports, the same ones again where possible."""

from __future__ import annotations

import json
import random
import socket
import urllib.request
from collections.abc import Iterable, Mapping
from typing import Any

from dev.stack.errors import StackError

LOOPBACK = "127.0.0.1"
# Below Linux's range for outgoing connections, so that no client socket can take a port between choice and use.
_LOW, _HIGH = 20_000, 32_000
_HELD: dict[int, socket.socket] = {}
"""Ports that this process chose: their servers start later, so others must not find them free until then."""


def is_free(port: int) -> bool:
    """Whether a server could listen on this loopback port now."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((LOOPBACK, port))
        except OSError:
            return False
    return True


def accepts(port: int) -> bool:
    """Whether something listens on this loopback port."""
    try:
        socket.create_connection((LOOPBACK, port), timeout=0.5).close()
    except OSError:
        return False
    return True


def told(port: int, path: str) -> dict[str, Any]:
    """What a server on this loopback port says at `path`, in JSON; empty while it does not."""
    try:
        with urllib.request.urlopen(f"http://{LOOPBACK}:{port}/{path}", timeout=5) as answer:
            found: dict[str, Any] = json.load(answer)
            return found
    except (OSError, ValueError):
        return {}


def choose_ports(
    names: Iterable[str], previous: Mapping[str, int], fixed: Mapping[str, int] | None = None
) -> dict[str, int]:
    """A free port for every name: the fixed one, else the previous one if it is free, else a random one.

    As long as this process lives, no other process that asks here gets the same ports, listened on or not.
    Raises StackError when a fixed port is taken: the user asked for exactly that one.
    """
    fixed = fixed or {}
    chosen: dict[str, int] = {}
    for name in names:
        if name in fixed:
            if not is_free(fixed[name]):
                raise StackError(f"port {fixed[name]}, asked for {name}, is taken; choose another")
            _reserved(fixed[name])  # if another process holds it: the user knows better
            chosen[name] = fixed[name]
            continue
        candidate = previous.get(name, 0)
        while not candidate or candidate in {*chosen.values(), *fixed.values()} or not _available(candidate):
            candidate = random.SystemRandom().randrange(_LOW, _HIGH)
        chosen[name] = candidate
    return chosen


def _available(port: int) -> bool:
    return is_free(port) and _reserved(port)


def _reserved(port: int) -> bool:
    """Whether the port is this process's: by an abstract name, which one process has at a time and no file keeps."""
    if port in _HELD:
        return True
    name = socket.socket(socket.AF_UNIX)
    try:
        name.bind(f"\0tidegate-port-{port}")
    except OSError:
        name.close()
        return False
    _HELD[port] = name
    return True
