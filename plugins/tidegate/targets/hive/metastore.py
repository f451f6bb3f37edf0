"""All of a window's partitions at once, by Hive's metastore service (thrift), with the client that the hive provider
brings.

HiveQL changes the location of one partition a statement; the metastore's `alter_partitions` changes many in one
transaction of its database. A call ends as those of `targets.hive.catalogue` do: done, CatalogueError (refused,
nothing changed) or CatalogueUnsure. Its last request is sent within `request_timeout_s` of the first, and waited for as
long.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from thrift.Thrift import TApplicationException, TException
from thrift.transport.TSocket import TSocket
from thrift.transport.TTransport import TBufferedTransport, TTransportBase, TTransportException

from tidegate.core.base.errors import CatalogueError, CatalogueUnsure
from tidegate.core.base.partition_values import HIVE_NULL, PartitionValues
from tidegate.targets.hive import sql as sql
from tidegate.targets.hive.link import SERVER_UNSURE

if TYPE_CHECKING:
    from hmsclient import HMSClient

PORT = 9083
_ROUNDS = 5
# Of the rows that lie elsewhere: with them a server that answers counts from statistics would answer with old ones.
_STATISTICS = ("COLUMN_STATS_ACCURATE", "numFiles", "numFilesErasureCoded", "numRows", "rawDataSize", "totalSize")
# A MetaException is often another's: whether its transaction has ended is then not known.
_UNSURE_WORDS = ("jdo", "sqlexception", "sql exception", "commit", "transaction", "communications link")


class HiveMetastore:
    """Implements `targets.hive.ports.PartitionSwitch`. One connection for each call; threads may share it."""

    def __init__(
        self,
        hosts: tuple[str, ...],
        port: int = PORT,
        *,
        kerberos_service_name: str | None = None,
        connect_timeout_s: float = 10.0,
        request_timeout_s: float = 240.0,
    ) -> None:
        """The first of `hosts` that accepts a connection is asked. `kerberos_service_name` only with Kerberos."""
        self._hosts, self._port, self._service = hosts, port, kerberos_service_name
        self._connect_s, self._request_s = connect_timeout_s, request_timeout_s

    @classmethod
    def from_connection_fields(
        cls,
        host: str | None,
        port: int | None = None,
        extra: Mapping[str, object] | None = None,
        *,
        kerberos: bool = False,
        connect_timeout_s: float = 10.0,
        request_timeout_s: float = 240.0,
    ) -> HiveMetastore:
        """The fields of Airflow's `hive_metastore` connection, as its hook reads them: several hosts by commas, and
        with `kerberos` (Airflow's [core] security) auth_mechanism (GSSAPI) and kerberos_service_name of `extra`.

        Raises CatalogueError for a connection without a host."""
        extra = extra or {}
        hosts = tuple(each.strip() for each in (host or "").split(",") if each.strip())
        if not hosts:
            raise sql.refused("the hive_metastore connection has no host", "set it in Airflow's connection")
        with_tickets = kerberos and str(extra.get("auth_mechanism") or "GSSAPI").upper() == "GSSAPI"
        return cls(
            hosts,
            port or PORT,
            kerberos_service_name=str(extra.get("kerberos_service_name") or "hive") if with_tickets else None,
            connect_timeout_s=connect_timeout_s,
            request_timeout_s=request_timeout_s,
        )

    def switch_partitions(self, table: str, locations: dict[PartitionValues, str]) -> None:
        """Each partition takes the table's present columns with its new location: the files there were made for them.

        A column that comes while this runs is looked for afterwards, since what is written here is what was read."""
        wanted = {_stored(values): location for values, location in locations.items()}
        if not wanted:
            return
        began = time.monotonic()
        database, name = sql.split_table(table)
        with self._client(table) as client, self._judged(table):
            columns = None
            for _ in range(_ROUNDS):
                with self._looking(table):
                    now = client.get_fields(database, name)
                    if now == columns:
                        return
                    found = _found(client, database, name, tuple(wanted))
                _check_all_there(table, found, wanted)
                if time.monotonic() - began > self._request_s:
                    raise CatalogueError(f"{self._said(table)}: slow: the change was not sent in {self._request_s:g} s")
                columns = now
                for values, partition in found.items():
                    partition.sd.location, partition.sd.cols = wanted[values], columns
                    partition.parameters = {
                        key: value for key, value in (partition.parameters or {}).items() if key not in _STATISTICS
                    }
                client.alter_partitions_with_environment_context(
                    database, name, list(found.values()), _without_statistics()
                )
        raise CatalogueUnsure(
            f"{self._said(table)}: the table's columns changed {_ROUNDS} times meanwhile",
            advice="somebody else alters this table; the next try aligns it again",
        )

    def ping(self) -> str:
        """The service's version or name, for a check of the set-up. Raises CatalogueError."""
        with self._client("ping") as client, self._looking("ping"):
            return str(client.getVersion())

    # ------------------------------------------------------------ the connection

    @contextlib.contextmanager
    def _client(self, about: str) -> Iterator[HMSClient]:
        """Opened, with a time-out for each answer. Raises CatalogueError: nothing has been sent yet."""
        from hmsclient import HMSClient
        from thrift.protocol.TBinaryProtocol import TBinaryProtocol

        socket, transport = self._open(about)
        socket.setTimeout(self._request_s * 1000)
        try:
            yield HMSClient(iprot=TBinaryProtocol(transport))
        finally:
            with contextlib.suppress(Exception):
                transport.close()

    def _open(self, about: str) -> tuple[TSocket, TTransportBase]:
        reasons = []
        for host in self._hosts:
            socket = TSocket(host, self._port, socket_keepalive=True)
            socket.setTimeout(self._connect_s * 1000)
            try:
                transport = self._transport(host, socket)
                transport.open()
            except ImportError as error:
                missing = f"Kerberos needs a Python package that is not installed: {error}"
                raise sql.refused(missing, "install `kerberos` where the scheduler and the workers run") from error
            except Exception as error:
                socket.close()
                reasons.append(f"{host}:{self._port}: {getattr(error, 'inner', None) or error}")
            else:
                return socket, transport
        raise CatalogueError(
            f"{about}: the Hive metastore cannot be reached: {'; '.join(reasons)}",
            advice="check the hive_metastore connection that sink.metastore_conn_id names, and that the service runs",
        )

    def _transport(self, host: str, socket: TSocket) -> TTransportBase:
        if self._service is None:
            return TBufferedTransport(socket)
        import thrift_sasl
        from pyhive.hive import get_installed_sasl

        def client() -> object:
            return get_installed_sasl(host=host, sasl_auth="GSSAPI", service=self._service)

        return thrift_sasl.TSaslClientTransport(client, "GSSAPI", socket)

    # ------------------------------------------------------------ what answers mean

    def _said(self, about: str) -> str:
        return f"Hive metastore at {','.join(self._hosts)}:{self._port}, {about}"

    @contextlib.contextmanager
    def _looking(self, about: str) -> Iterator[None]:
        """Nothing is changed by what runs in here: whatever goes wrong is definite."""
        try:
            yield
        except (TException, OSError, EOFError) as error:
            raise CatalogueError(f"{self._said(about)}: {_words(error)}") from error

    @contextlib.contextmanager
    def _judged(self, about: str) -> Iterator[None]:
        try:
            yield
        except TApplicationException as error:
            said = f"{self._said(about)}: {_words(error)}"
            if error.type == TApplicationException.UNKNOWN_METHOD:
                raise sql.refused(
                    said, "this service cannot change partitions; leave sink.metastore_conn_id out"
                ) from error
            raise sql.unsure(said) from error
        except TTransportException as error:
            timed_out = error.type == TTransportException.TIMED_OUT
            what = f"no answer within {self._request_s:g} s" if timed_out else "the connection broke"
            raise sql.unsure(f"{self._said(about)}: {what}") from error
        except TException as error:
            said = f"{self._said(about)}: {_words(error)}"
            if _decided(error):
                raise CatalogueError(said) from error
            raise sql.unsure(said) from error
        except (OSError, EOFError) as error:
            raise sql.unsure(f"{self._said(about)}: the connection broke: {error}") from error


def _decided(error: TException) -> bool:
    """Whether the service itself has refused, rather than lost the answer of its database."""
    text = _words(error)
    return not SERVER_UNSURE.search(text) and not any(word in text.lower() for word in _UNSURE_WORDS)


def _words(error: BaseException) -> str:
    text = str(getattr(error, "message", None) or error).strip() or type(error).__name__
    return text.splitlines()[0][:400]


def _stored(values: PartitionValues) -> tuple[str, ...]:
    """Partition values as the metastore keeps them."""
    return tuple(HIVE_NULL if value is None else value for _, value in sql.canonical(values))


def _found(client: HMSClient, database: str, name: str, wanted: tuple[tuple[str, ...], ...]) -> dict[Any, Any]:
    """The partitions whose values are wanted, by what all of them begin with, which is the window."""
    shared = list(_common(wanted))
    listed = (
        client.get_partitions_ps(database, name, shared, -1) if shared else client.get_partitions(database, name, -1)
    )
    return {tuple(each.values): each for each in listed if tuple(each.values) in set(wanted)}


def _common(wanted: tuple[tuple[str, ...], ...]) -> Iterator[str]:
    for column in zip(*wanted, strict=False):
        if len(set(column)) > 1:
            return
        yield column[0]


def _check_all_there(table: str, found: Mapping[Any, Any], wanted: Mapping[tuple[str, ...], str]) -> None:
    missing = [values for values in wanted if values not in found]
    if missing:
        raise CatalogueError(
            f"{table} has no partition {'/'.join(missing[0])}, nor {len(missing) - 1} others; nothing was switched",
            advice="the next try reads the partitions again",
        )


def _without_statistics() -> object:
    from hmsclient.genthrift.hive_metastore.ttypes import EnvironmentContext

    return EnvironmentContext(properties={"DO_NOT_UPDATE_STATS": "true"})
