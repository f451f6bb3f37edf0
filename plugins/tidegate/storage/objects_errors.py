"""What an object store's answers mean: refused for certain, or unknown; in words that say what to do.

The client tells them in text only: the status, and the `<Code>` of S3's own answer.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from tidegate.core.base.errors import OutcomeUnknown, PathExists, PathMissing, StorageError

_STATUS = re.compile(r"status code: (\d{3})")
_CODE, _WORDS = re.compile(r"<Code>([^<]*)</Code>"), re.compile(r"<Message>([^<]*)</Message>")
_NOT_SENT = "kind: Connect"
_CREDENTIAL_HOSTS = ("http://169.254.169.254/", "http://169.254.170.2/", "http://169.254.170.23/", "sts.")
_UNNAMED = "the connection that object_store_conn_id names, or of this host's environment"
_CREDENTIALS = "check the login and password of {connection}"
_RENEW = "renew the login, password and session token of {connection}, then clear the task: it goes on where it was"
_NO_REASON = (  # as to every HEAD: its answer has no words
    "if the credentials of {connection} have expired, renew them and clear the task; if not, give them the rights that "
    "docs/object-stores.md lists"
)
_AGAIN = "the next try goes on by itself"
_SLOWER = f"{_AGAIN}; where it stays so, let fewer pipelines run at once, or ask the store's owner for a higher rate"
_REGION = "name the bucket's own region: region_name in the extra of the storage connection, or AWS_REGION"
_ADVICE = {
    "NoSuchBucket": "create the bucket, or name another one in sink.location",
    "AccessDenied": "give these credentials the rights that docs/object-stores.md lists",
    "InvalidAccessKeyId": _CREDENTIALS,
    "SignatureDoesNotMatch": _CREDENTIALS,
    "AllAccessDisabled": "ask the store's owner: the bucket is locked",
    "PermanentRedirect": _REGION,
    "AuthorizationHeaderMalformed": _REGION,
    "IllegalLocationConstraintException": _REGION,
    "ExpiredToken": _RENEW,
    "InvalidToken": _RENEW,
    "TokenRefreshRequired": _RENEW,
    "RequestTimeTooSkewed": "set this host's clock (NTP): the store refuses requests of another time than its own",
    "SlowDown": _SLOWER,
    "TooManyRequests": _SLOWER,
    "RequestLimitExceeded": _SLOWER,
    "Throttling": _SLOWER,
    "NotImplemented": "use a store that has conditional writes (If-None-Match): docs/object-stores.md names some",
}
_MAY_PASS = ("SlowDown", "TooManyRequests", "RequestLimitExceeded", "Throttling", "RequestTimeout", "OperationAborted")
_DOES_NOT_ANSWER = f"check the endpoint and region of the storage connection, and the network; {_AGAIN}"
_NO_CREDENTIALS = (
    "name a connection of type aws in object_store_conn_id, or give this host the role of an instance or a service"
)


@dataclass(frozen=True)
class Said:
    """What became of a request. `status` is 0 where the store did not answer."""

    status: int
    code: str
    words: str
    sent: bool
    connection: str = ""
    """Airflow's, whose login was used; empty for the environment's, or a role."""

    @property
    def taken(self) -> bool:
        """Whether put-if-absent was refused because of what stands there, or of somebody who writes it just now."""
        return self.status in (409, 412)

    @property
    def absent(self) -> bool:
        """Whether the object, and not its bucket, is missing."""
        return self.status == 404 and self.code != "NoSuchBucket"

    @property
    def unknown(self) -> bool:
        """Whether a changing request may have been executed all the same: no answer, or the store's own failure."""
        return self.sent and (self.status == 0 or (self.status >= 500 and self.code not in _MAY_PASS))

    def refusal(self, path: str) -> StorageError:
        """The error of a request that changes nothing, or was certainly not executed."""
        if self.absent:
            return PathMissing(f"{path}: is not there")
        if self.taken:
            return PathExists(f"{path}: is already there")
        if not self.status:
            advice = _DOES_NOT_ANSWER if self.sent or self.code != _NO_ROLE else _NO_CREDENTIALS
            error = StorageError(f"{path}: {self.words}", advice=advice)
            error.retry = self.code != _NO_ROLE
            return error
        error = StorageError(
            f"{path}: the object store refuses ({self.status} {self.code or 'without a reason'}): {self.words}".rstrip(
                ": "
            ),
            advice=(_ADVICE.get(self.code) or (_NO_REASON if self.status in (400, 401, 403) else "")).format(
                connection=f"connection {self.connection}" if self.connection else _UNNAMED
            ),
        )
        error.retry = self.status >= 500 or self.code in _MAY_PASS
        return error

    def of_a_change(self, path: str) -> StorageError:
        """The error of a changing request."""
        if not self.unknown:
            return self.refusal(path)
        why = f"{self.status} {self.code}".strip() if self.status else self.words
        return OutcomeUnknown(f"{path}: {why}; it may or may not have been executed")


_NO_ROLE = "no credentials"


def said(error: BaseException) -> Said:
    """What the client's error tells."""
    text = str(error)
    told = text.partition("\n\nDebug source:")[0]
    first = " ".join(told.partition("<?xml")[0].split()).rstrip(": ")
    if any(f"Error performing {verb} {host}" in first for verb in ("PUT", "GET", "POST") for host in _CREDENTIAL_HOSTS):
        return Said(0, _NO_ROLE, "no credentials for the object store are to be had on this host", False)
    status, code, words = (found.search(told) for found in (_STATUS, _CODE, _WORDS))
    if status is None:
        if isinstance(error, FileNotFoundError):
            return Said(404, "", first, True)
        return Said(0, "", _why(first), _NOT_SENT not in text)
    return Said(int(status[1]), code[1] if code else "", words[1] if words else "", True)


def _why(first: str) -> str:
    """What is left of the client's words without the address and what it repeats."""
    return f"the object store gives no answer ({first.rpartition(' - ')[2] or first})"
