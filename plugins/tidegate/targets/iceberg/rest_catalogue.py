"""A REST catalogue: Iceberg's own protocol, spoken with the library's models, without its client.

That client sends a request again after some answers, has no time-outs and brings a second of imports. Here each
request is sent once. What an answer means is decided in one place (`_judged`): for a change, whatever does not say
that it was refused leaves it unknown.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote, unquote

import requests
from pydantic import ValidationError
from pyiceberg.exceptions import ValidationError as InvalidMetadata
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import CommitTableRequest, TableIdentifier
from pyiceberg.table.metadata import TableMetadataUtil
from pyiceberg.table.update import TableRequirement, TableUpdate
from pyiceberg.typedef import Properties

from tidegate.core.base.errors import CatalogueError, CatalogueMismatch, CatalogueUnsure
from tidegate.core.base.storage import Storage
from tidegate.core.base.wording import first_line
from tidegate.targets.iceberg.catalogue import Conflict, Loaded, as_loaded, split_name
from tidegate.targets.iceberg.file_io import StorageIO

_EXPIRED = 419
"""Status of an answer: the token is too old. Not of HTTP."""
_SPARE_S = 60.0
"""A token is asked for anew so long before its end."""
_CHECK = "check the connection that sink.catalog_conn_id names (host is the catalogue's URI), and that the server runs"
_LOGIN = (
    "fix the connection that sink.catalog_conn_id names: login and password are the client's id and secret, or extra "
    "has a `token`; or grant the client what is missing; then clear the task"
)


@dataclass(frozen=True, kw_only=True)
class Access:
    """Who Tidegate is there. Without a secret and a token requests carry no name.

    `token_uri`: of the server that gives tokens; empty: the catalogue's own. `more`: fields of the request for one."""

    client: str | None = None
    secret: str | None = field(default=None, repr=False)
    token: str | None = field(default=None, repr=False)
    token_uri: str = ""
    more: Mapping[str, str] = field(default_factory=dict)


class RestCatalogue:
    """Implements `targets.iceberg.catalogue.Catalogue`. One for each task: it keeps a token and a connection."""

    def __init__(
        self,
        uri: str,
        storage: Storage,
        seconds: float,
        *,
        access: Access | None = None,
        warehouse: str | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        self._uri = f"{uri.rstrip('/').removesuffix('/v1')}/v1"
        self._io, self._seconds, self._warehouse = StorageIO(storage), seconds, warehouse
        self._access, self._token, self._token_ends = access or Access(), "", 0.0
        self._config: dict[str, str] | None = None
        self._session = requests.Session()  # sends nothing twice: requests has no retries unless told
        self._session.headers.update({"Content-Type": "application/json", **(headers or {})})
        self._session.auth = self._signed  # else requests looks for a name of its own, in ~/.netrc

    @property
    def address(self) -> str:
        return self._uri.removesuffix("/v1")

    def load(self, name: str) -> Loaded | None:
        found = self._asked("GET", self._table(name), absent=True)
        return None if found is None else self._loaded(name, found)

    def create(self, name: str, schema: Schema, spec: PartitionSpec, location: str, properties: Properties) -> Loaded:
        namespace, table = split_name(name)
        body = {
            "name": table,
            "location": location.rstrip("/"),
            "schema": schema.model_dump(mode="json", by_alias=True, exclude_none=True),
            "partition-spec": spec.model_dump(mode="json", by_alias=True, exclude_none=True),
            "properties": {"format-version": "2", **properties},
        }
        place = f"{self._levels(namespace)}/tables"
        made = self._asked("POST", place, body, absent=True)
        if made is None:  # no such namespace: a definite answer
            self._make(namespace)
            made = self._asked("POST", place, body)
        return self._loaded(name, made, changed=True)

    def commit(
        self, loaded: Loaded, requirements: Iterable[TableRequirement], updates: Iterable[TableUpdate]
    ) -> Loaded:
        namespace, table = split_name(loaded.name)
        request = CommitTableRequest(
            identifier=TableIdentifier(namespace=tuple(namespace.split(".")), name=table),  # type: ignore[arg-type]
            requirements=(*as_loaded(loaded), *requirements),
            updates=tuple(updates),
        )
        done = self._asked("POST", self._table(loaded.name), request.model_dump_json().encode())
        return self._loaded(loaded.name, done, changed=True)

    def answers(self) -> bool:
        try:
            self._configured(anew=True)
        except CatalogueError:
            return False
        return True

    def _make(self, namespace: str) -> None:
        try:
            self._asked("POST", "", {"namespace": namespace.split("."), "properties": {}})
        except Conflict:
            pass  # by another process, at the same time

    def _table(self, name: str) -> str:
        namespace, table = split_name(name)
        return f"{self._levels(namespace)}/tables/{quote(table, safe='')}"

    def _levels(self, namespace: str) -> str:
        between = unquote(self._configured().get("namespace-separator", "%1F"))
        return quote(between.join(namespace.split(".")), safe="")

    def _loaded(self, name: str, answer: Any, *, changed: bool = False) -> Loaded:
        try:
            metadata = TableMetadataUtil.parse_obj(answer["metadata"])
            return Loaded(name, metadata, str(answer.get("metadata-location") or ""), self._io)
        except (ValidationError, InvalidMetadata, ValueError, KeyError, TypeError) as error:
            why = first_line(error) or type(error).__name__
            words = f"{name}: the answer of the catalogue at {self.address} cannot be read: {why}"
            raise (CatalogueUnsure if changed else CatalogueMismatch)(words) from error

    # ------------------------------------------------------------ requests

    def _asked(self, method: str, place: str, body: Any = None, *, absent: bool = False) -> Any:
        """The answer to a request below `namespaces`. `absent`: None for what is not there."""
        prefix = self._configured().get("prefix", "")
        url = "/".join(part for part in (self._uri, prefix.strip("/"), "namespaces", place.strip("/")) if part)
        given: dict[str, Any] = {"data": body} if isinstance(body, bytes) else {"json": body}
        return self._judged(method, url, absent=absent, changes=method != "GET", **given)

    def _configured(self, *, anew: bool = False) -> dict[str, str]:
        """Return the settings that the server has for its clients."""
        if self._config is None or anew:
            params = {"warehouse": self._warehouse} if self._warehouse else {}
            found = self._judged("GET", f"{self._uri}/config", params=params)
            if not isinstance(found, dict):
                raise CatalogueError(f"{self.address} is not an Iceberg REST catalogue", advice=_CHECK)
            self._config = {**(found.get("defaults") or {}), **(found.get("overrides") or {})}
        return self._config

    def _judged(self, method: str, url: str, *, absent: bool = False, changes: bool = False, **given: Any) -> Any:
        """Send it once; the answer. Raises Conflict, CatalogueError, and CatalogueUnsure if it `changes` something."""
        self._renew()
        try:
            answer = self._session.request(
                method, url, timeout=(self._seconds, self._seconds), allow_redirects=False, **given
            )
        except (requests.exceptions.ConnectTimeout, requests.exceptions.ProxyError) as error:
            raise self._refused(_reason(error), _CHECK) from error
        except requests.exceptions.RequestException as error:
            if changes and not _never_sent(error):
                raise self._unsure(_reason(error)) from error
            raise self._refused(_reason(error), _CHECK) from error
        status, words = answer.status_code, _words(answer)
        if status in (200, 201, 204):
            return self._content(answer, changes)
        if status == 404 and absent and _has_error(answer):
            return None
        if status == 409:
            raise Conflict(f"the catalogue at {self.address}: {words}")
        if status in (401, 403, _EXPIRED):
            self._token_ends = 0.0
            raise self._refused(words, _LOGIN)
        if changes and (status >= 500 or status == 408):
            raise self._unsure(words)
        raise self._refused(words, _CHECK)

    def _content(self, answer: requests.Response, changes: bool) -> Any:
        try:
            return answer.json() if answer.content else {}
        except ValueError as error:
            words = "its answer is not JSON"
            raise self._unsure(words) if changes else self._refused(words, _CHECK) from error

    def _refused(self, words: str, advice: str) -> CatalogueError:
        return CatalogueError(f"the catalogue at {self.address}: {words}", advice=advice)

    def _unsure(self, words: str) -> CatalogueUnsure:
        return CatalogueUnsure(
            f"the catalogue at {self.address}: {words}; the change may have been executed, or still be"
        )

    # ------------------------------------------------------------ who we are

    def _signed(self, request: requests.PreparedRequest) -> requests.PreparedRequest:
        if self._token:
            request.headers["Authorization"] = f"Bearer {self._token}"
        return request

    def _renew(self) -> None:
        """A token for the next request. Raises CatalogueError."""
        access = self._access
        if access.secret is None:
            self._token = access.token or ""
            return
        if time.monotonic() < self._token_ends:
            return
        self._token = ""
        form = {
            "grant_type": "client_credentials",
            **({"client_id": access.client} if access.client else {}),
            "client_secret": access.secret,
            **access.more,
        }
        try:
            answer = self._session.post(
                access.token_uri or f"{self._uri}/oauth/tokens",
                data=form,
                timeout=(self._seconds, self._seconds),
                allow_redirects=False,
                headers={"Content-Type": "application/x-www-form-urlencoded"},
            )
        except requests.exceptions.RequestException as error:
            raise self._refused(f"no token: {_reason(error)}", _CHECK) from error
        if answer.status_code != 200:
            raise self._refused(f"no token: {_words(answer)}", _LOGIN if answer.status_code < 500 else _CHECK)
        try:
            given = answer.json()
            self._token = str(given["access_token"])
            self._token_ends = time.monotonic() + float(given.get("expires_in") or 3600) - _SPARE_S
        except (ValueError, KeyError, TypeError) as error:
            raise self._refused("no token: its answer has no access_token", _CHECK) from error


def _never_sent(error: requests.exceptions.RequestException) -> bool:
    """Whether there was no connection to send it over."""
    reason = getattr(error.args[0], "reason", None) if error.args else None
    return type(reason).__name__ in ("NewConnectionError", "NameResolutionError", "ConnectTimeoutError")


def _reason(error: requests.exceptions.RequestException) -> str:
    """The reason in short, without the request."""
    if isinstance(error, requests.exceptions.ConnectTimeout) or _never_sent(error):
        return "no connection"
    if isinstance(error, requests.exceptions.Timeout):
        return "no answer in time"
    return f"the connection broke ({type(error).__name__})"


def _has_error(answer: requests.Response) -> bool:
    """Whether a catalogue said so, rather than a server that knows no such page."""
    try:
        return isinstance(answer.json()["error"], dict)
    except (ValueError, KeyError, TypeError):
        return False


def _words(answer: requests.Response) -> str:
    """The server's message in one line; a server's trace and a page of HTML are left out."""
    try:
        said = answer.json().get("error")
        text = said.get("message") if isinstance(said, dict) else said
    except (ValueError, AttributeError):
        text = None
    line = (str(text or "").strip().splitlines() or [answer.reason or ""])[0][:300]
    return f"{answer.status_code} {line}".strip()
