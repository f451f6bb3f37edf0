"""Servers of a mirror whose source's tables lie on several (S11): of each, what is of one log alone."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from tidegate.core.copy.steps import unread_servers
from tidegate.core.mirror.applies import Told
from tidegate.core.mirror.parts import KeyPart, OfServer
from tidegate.core.mirror.servers import Servers, logs_after
from tidegate.core.spec.change_events import SERVER_PATH
from tidegate.workflow.base.context import Context


def names(ctx: Context) -> tuple[str, ...]:
    """Of all servers, in the order of the YAML; none where there is but one."""
    copy = ctx.pipeline.copy
    return () if copy is None else tuple(one.name for one in copy.servers)


def _column(ctx: Context) -> str:
    """The logical column of the key that names a row's server."""
    assert ctx.keyed is not None
    return next(name for name in ctx.keyed.key if ctx.pipeline.column(name).path == SERVER_PATH)


def part(ctx: Context, server: str, keys: KeyPart | None = None) -> KeyPart | None:
    """Some `keys` of a server, or all; of the only one these keys, None: all."""
    if not server:
        return keys
    return replace(keys or KeyPart((), (), ()), server=OfServer(_column(ctx), server))


def of_key(ctx: Context, key: Mapping[str, Any]) -> str:
    """The server of a key, by its logical columns; empty where there is but one."""
    return str(key[_column(ctx)]) if names(ctx) else ""


def known(ctx: Context, told: Told) -> Servers | None:
    """What the table knows of each; None where there is but one."""
    each = names(ctx)
    return Servers(_column(ctx), logs_after(told.copied.servers, each, ())) if each else None


def to_read(ctx: Context) -> list[str]:
    """Servers of which something is to be copied; of the only one, always, the empty name."""
    each = names(ctx)
    return unread_servers(each, ctx.ledger.copies.rounds(ctx.name)) if each else [""]
