"""Base of every section of the YAML."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict, Field
from pydantic.config import JsonDict


def key(description: str, default: Any = ..., *, unit: str = "", shown: str = "", alias: str | None = None) -> Any:
    """A documented key. `shown`: what the reference prints for a default that depends on other keys."""
    extra: JsonDict = {key: text for key, text in (("x-unit", unit), ("x-default", shown)) if text}
    return Field(default, description=description, json_schema_extra=extra, alias=alias)


class Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, validate_default=True, arbitrary_types_allowed=True)
