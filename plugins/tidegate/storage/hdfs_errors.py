"""What HDFS's answers mean: refused for certain, or unknown; in words that say what to do.

Definite is what the NameNode itself said, and what kept the request from being sent. Any other failure of a changing
call is unknown: the same error comes before and after it has been executed.
"""

from __future__ import annotations

import re

from tidegate.core.base.errors import OutcomeUnknown, PathExists, PathMissing, StorageError

_SAID = re.compile(r'^(?:Fatal)?RPCError\("([^"]*)", "(.*)"\)$', re.DOTALL)
_NOT_SENT = ("connection refused", "failed to lookup address", "no route to host", "network is unreachable")
_NO_ADDRESS = "No NameNode hosts found"
_THROUGH_A_FILE = "(is not a directory)"
_SAFE_MODE = "SafeModeException"
_ADVICE = {
    "AccessControlException": "give this user the right in HDFS, or name another one in sink.user",
    "NSQuotaExceededException": "raise the directory's quota (hdfs dfsadmin -setQuota), or let less be kept there",
    "DSQuotaExceededException": "raise the space quota (hdfs dfsadmin -setSpaceQuota), or let less be kept there",
    "QuotaByStorageTypeExceededException": "raise the space quota of this storage type, or let less be kept there",
    _SAFE_MODE: "the next try goes on by itself once the NameNode has left safe mode (hdfs dfsadmin -safemode get)",
    "StandbyException": "no NameNode of the pair is active; the next try goes on by itself once one is",
    "UnresolvedPathException": "let sink.location name the directory itself: HDFS's symbolic links are not followed",
}
_FINAL = (
    "InvalidPathException",
    "PathComponentTooLongException",
    "UnresolvedPathException",
    "RpcNoSuchMethodException",
    "RpcNoSuchProtocolException",
)
_DOES_NOT_ANSWER = (
    "check that HDFS is up and that HADOOP_CONF_DIR names the right cluster; the next try goes on by itself"
)


def said(error: BaseException) -> tuple[str, str]:
    """(Java class without its package, first line) of the NameNode's own answer; ("", first line) of anything else."""
    found = _SAID.match(str(error)) if isinstance(error, RuntimeError) else None
    if found is None:
        return "", first_line(str(error))
    return re.split(r"[.$]", found.group(1))[-1], first_line(found.group(2).replace('\\"', '"'))


def first_line(text: str) -> str:
    """The line without the Java stack, whether its line breaks are escaped or not."""
    return re.split(r"\\n|\n", text, maxsplit=1)[0].strip()


def leads_through_a_file(error: BaseException) -> bool:
    """A parent of the path is a file: what is below it does not exist, and cannot be made."""
    kind, words = said(error)
    return kind == "ParentNotDirectoryException" or (kind == "AccessControlException" and _THROUGH_A_FILE in words)


def is_definite(error: BaseException) -> bool:
    """Whether a changing call that ended so has certainly changed nothing."""
    kind, words = said(error)
    if isinstance(error, FileNotFoundError | FileExistsError | IsADirectoryError) or kind:
        return True
    return any(sign in words.lower() for sign in _NOT_SENT) or _NO_ADDRESS in words


def translated(error: BaseException, path: str) -> StorageError:
    """The error of a call that changes nothing, or that is definite."""
    kind, words = said(error)
    if leads_through_a_file(error):
        return PathMissing(f"{path}: is not there ({words})")
    if isinstance(error, FileNotFoundError):
        return PathMissing(f"{path}: is not there ({words})")
    if isinstance(error, FileExistsError):
        return PathExists(f"{path}: is already there")
    if kind:
        what, advice = f"{path}: HDFS refuses ({kind}): {words}", _ADVICE.get(kind, "")
        return StorageError(what, advice=advice, retry=kind not in _FINAL)
    if _NO_ADDRESS in words:
        return StorageError(
            f"{path}: no address of a NameNode is known for this name",
            advice="name host and port, or set HADOOP_CONF_DIR to a folder whose hdfs-site.xml knows the nameservice",
            retry=False,
        )
    return StorageError(f"{path}: {words}", advice=_DOES_NOT_ANSWER)


def of_a_change(error: BaseException, what: str) -> StorageError:
    """The error of a call that changes something."""
    if is_definite(error):
        return translated(error, what)
    return OutcomeUnknown(f"{what}: {said(error)[1]}; it may or may not have been executed")
