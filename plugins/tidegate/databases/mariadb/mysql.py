"""What MySQL does in another way than MariaDB: the statement for its log's end, and what a snapshot has seen.

MySQL tells no place in its log that belongs to a snapshot, and its log's end runs ahead of what others see. But with
GTIDs on, each transaction owns its GTID from before it is written to the log until after others see it. So a read that
waits until no owned GTID is left sees every commit in the log.
"""

from __future__ import annotations

import re
from typing import Any

from tidegate.core.files.failure import refuse

PATIENCE_S = 60
"""How long commits that are in the log may take until they are seen: a replica, or semi-synchronous replication, needs
more than a moment."""
_VERSION = re.compile(r"([0-9]+)\.([0-9]+)")
_SETTINGS = """
SHOW GLOBAL VARIABLES
WHERE Variable_name IN ('gtid_mode', 'binlog_row_value_options', 'binlog_transaction_compression')"""
_UUID = "[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"
_OWNER = re.compile(rf"#[0-9]+?(?=[:,\s]|$|{_UUID})")
_SERVER = re.compile(rf"[,\s]*({_UUID})")


def is_one(version: str) -> bool:
    """Or something else that is no MariaDB."""
    return "mariadb" not in version.lower()


def end_statement(version: str) -> str:
    """What shows the log's end: (file, position, databases in it, databases left out)."""
    numbers = _VERSION.match(version)
    renamed = is_one(version) and numbers is not None and (int(numbers[1]), int(numbers[2])) >= (8, 2)
    return "SHOW BINARY LOG STATUS" if renamed else "SHOW MASTER STATUS"


def limited(version: str, timeout_s: float) -> str:
    """The statement after which a query of the session takes no longer."""
    if is_one(version):
        return f"SET SESSION max_execution_time = {round(timeout_s * 1000)}"
    return f"SET SESSION max_statement_time = {timeout_s:.3f}"


def unfit(cursor: Any, tells_place: bool) -> tuple[str, str] | None:
    """Why its log does not do, and what would help. `tells_place`: of a snapshot, as Percona's servers do."""
    cursor.execute(_SETTINGS)
    found = {name.lower(): value for name, value in cursor.fetchall()}
    if "PARTIAL_JSON" in found.get("binlog_row_value_options", ""):
        return "binlog_row_value_options is PARTIAL_JSON: Debezium sends no event of such an update", "set it to ''"
    if found.get("binlog_transaction_compression") == "ON":
        return (
            "binlog_transaction_compression is ON: all statements of a transaction have one place in the log, so that "
            "nobody can tell which of two changes of a row is the later one",
            "set it to OFF; then tidegate copy <pipeline> --again, for what was logged before",
        )
    if not tells_place and found.get("gtid_mode") != "ON":
        why = (
            "does not say which commits in its log a snapshot has not seen: its log's end may be ahead of what a query"
        )
        return f"the server {why} sees, and gtid_mode is not ON", "set gtid_mode=ON there"
    return None


def as_set(owned: str) -> str:
    """`gtid_owned` as a set of GTIDs. It has the number of its owner's thread behind each (`#12`), and nothing between
    the last one of a server and the next server's UUID."""
    return _SERVER.sub(r",\1", _OWNER.sub("", owned)).lstrip(",")


def wait_until_seen(cursor: Any, patience_s: int = PATIENCE_S) -> None:
    """Return when a new snapshot sees every commit that is in the log now. Raises JobError."""
    cursor.execute("SELECT @@GLOBAL.gtid_owned")
    owned = as_set(cursor.fetchone()[0])
    if not owned:
        return
    cursor.execute("SELECT WAIT_FOR_EXECUTED_GTID_SET(%s, %s)", (owned, patience_s))
    if cursor.fetchone()[0]:
        raise refuse(
            f"{owned} is in the log, and was not seen to be committed within {patience_s} s",
            advice="look there for a commit that waits (for a replica, say), or for a session with a gtid_next of its "
            "own; the chunk is read again by itself",
            retry=True,
        )
