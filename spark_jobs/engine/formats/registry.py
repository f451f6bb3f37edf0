"""A schema registry as Confluent's: schemas by their ids. An id never changes its meaning: each is asked for once."""

from __future__ import annotations

import base64
import http.client
import json
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from typing import Any
from urllib.parse import quote

from spark_jobs.engine.failures import JobError, refuse
from spark_jobs.engine.secrets import registry_settings

TRIES, PAUSE_S, TIMEOUT_S = 4, 0.5, 10.0
MOST_BYTES, MOST_REFERENCES = 16 * 1024 * 1024, 200
_UNKNOWN = (40401, 40402, 40403)


class UnknownSchema(Exception):
    """A definite answer: the registry has no such schema, now."""

    def __init__(self, number: int, place: str) -> None:
        super().__init__(f"schema id {number} is not in {place}")


class WrongSchema(Exception):
    """The schema is one of another format: the message does not belong to this pipeline."""


class SchemaRegistry:
    """`pause` is called with seconds between tries."""

    def __init__(
        self,
        url: str,
        user: str | None = None,
        password: str | None = None,
        pause: Callable[[float], None] = time.sleep,
    ) -> None:
        self._url, self._pause = url.rstrip("/"), pause
        self._headers = {"Accept": "application/vnd.schemaregistry.v1+json, application/json"}
        if user is not None:
            token = base64.b64encode(f"{user}:{password or ''}".encode()).decode()
            self._headers["Authorization"] = f"Basic {token}"

    def schema(self, number: int, kind: str) -> tuple[str, tuple[str, ...]]:
        """The schema's text, and those that it refers to, each after what it needs itself.

        Raises UnknownSchema, WrongSchema if it is not of `kind` (AVRO, PROTOBUF), and JobError when the registry does
        not answer (retry) or refuses us."""
        found = self._get(f"/schemas/ids/{number}")
        if found is None:
            raise UnknownSchema(number, f"the registry {self._url}")
        if found.get("schemaType", "AVRO") != kind:
            raise WrongSchema(f"schema id {number} is of type {found['schemaType']}, not {kind}")
        texts: dict[tuple[str, int], str] = {}
        self._references(number, found, texts, [])
        return self._text(found, f"schema id {number}"), tuple(texts.values())

    def _references(self, number: int, found: dict, texts: dict, inside: list) -> None:
        for reference in found.get("references") or ():
            key = (str(reference["subject"]), int(reference["version"]))
            if key in texts or key in inside:
                continue
            if len(texts) >= MOST_REFERENCES:
                raise self._odd(f"schema id {number} refers to more than {MOST_REFERENCES} others")
            other = self._get(f"/subjects/{quote(key[0], safe='')}/versions/{key[1]}")
            if other is None:
                raise UnknownSchema(
                    number, f"the registry {self._url} as a whole: {key[0]} version {key[1]} is missing"
                )
            self._references(number, other, texts, [*inside, key])
            texts[key] = self._text(other, f"{key[0]} version {key[1]}")

    def _text(self, found: dict, what: str) -> str:
        text = found.get("schema")
        if not isinstance(text, str):
            raise self._odd(f"{what} comes without its schema")
        return text

    def _get(self, path: str) -> dict[str, Any] | None:
        """The answer; None if the registry says that there is no such thing."""
        why = ""
        for number in range(TRIES):
            if number:
                self._pause(PAUSE_S * 2 ** (number - 1))
            try:
                request = urllib.request.Request(self._url + path, headers=self._headers)
                with urllib.request.urlopen(request, timeout=TIMEOUT_S) as answer:
                    return self._parsed(answer.read(MOST_BYTES))
            except urllib.error.HTTPError as e:
                if e.code == 404 and _code(e) in _UNKNOWN:
                    return None
                if e.code in (401, 403):
                    raise refuse(
                        f"the schema registry {self._url} refuses us: HTTP {e.code}",
                        advice="check login and password of the connection that format.registry_conn_id names",
                    ) from None
                why = f"HTTP {e.code} for {path}"
                if e.code < 500 and e.code not in (404, 408, 429):
                    raise self._odd(why) from None
            except (OSError, http.client.HTTPException) as e:
                why = str(getattr(e, "reason", None) or e) or type(e).__name__
        raise refuse(
            f"the schema registry {self._url} has no answer: {why}",
            advice="check the connection that format.registry_conn_id names; the next try goes on by itself",
            retry=True,
        )

    def _parsed(self, body: bytes) -> dict[str, Any]:
        try:
            found = json.loads(body)
        except ValueError:
            found = None
        if not isinstance(found, dict):
            raise self._odd("its answer is no JSON object")
        return found

    def _odd(self, why: str) -> JobError:
        return refuse(
            f"the schema registry {self._url} does not answer as one does: {why}",
            advice="check the address in the connection that format.registry_conn_id names",
        )


def _code(error: urllib.error.HTTPError) -> int | None:
    try:
        return json.loads(error.read(MOST_BYTES)).get("error_code")
    except (ValueError, AttributeError, OSError):
        return None


def registry_of_job() -> SchemaRegistry:
    """The registry that came with the job's secrets. Raises JobError without one."""
    settings = registry_settings()
    if not settings.get("url"):
        raise refuse(
            "this job was not told where the schema registry is",
            advice="start it with a launcher of this release, which passes format.registry_conn_id on",
        )
    return SchemaRegistry(settings["url"], settings.get("user"), settings.get("password"))
