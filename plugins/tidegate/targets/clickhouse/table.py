"""A table in ClickHouse as a further system: its windows are partitions, spread over shards by the rows' hashes.

Statements have no transactions there, may lose their answers and come late. So: D1 a staging of each try's own; D2 what
is unsure is given up with its staging; D3 count, sum and one part before anything else; D4 the stagings of all other
tries are dropped, and looked for until they are gone, so that their REPLACE fails; D5 then the ledger is asked; D6 an
empty window is a REPLACE too; D7 the target is read back. D8, looking again later, is the caller's by `standing`.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress

import numpy as np
import pyarrow as pa

from tidegate.core.base.errors import DeliveryRefused, DeliveryUnsure, LostComparison
from tidegate.core.base.partition_values import PartitionValues
from tidegate.core.deliver.parts import added, paired
from tidegate.core.deliver.port import Attempt, Content, Holds, Missing, Needed, Part, Rows, Standing, Table
from tidegate.targets.clickhouse import native, prepare, replicas, statements
from tidegate.targets.clickhouse.client import NOT_EXECUTED, UNKNOWN_TABLE, Client, Failed, Unanswered, Unsent
from tidegate.targets.clickhouse.statements import EMPTY_SOURCE, Names, window_name
from tidegate.targets.clickhouse.types import Column, columns, row_hashes
from tidegate.targets.grouping import by_partition

_BODY_BYTES = 64 << 20
"""Rows of a shard are sent when they are so many bytes: each INSERT makes a part or a few."""
_PARTS = 100
"""A staging of more parts is merged before more is sent: servers refuse from 300 on (system.merge_tree_settings)."""
_POLL_S = 0.2
_MODULUS = 1 << 64


class ClickHouseTable:
    """Implements `core.deliver.port.FurtherSystem`. `shards`: in their order, which decides where a row goes."""

    def __init__(self, shards: Sequence[Client], table: Table, wait_s: float) -> None:
        self._shards, self._table, self._wait_s = shards, table, wait_s
        database, _, name = table.name.rpartition(".")
        owner = hashlib.sha256(f"{table.pipeline}\n{table.delivery}".encode()).hexdigest()[:12]
        self._by_shard: dict[str, list[Column]] = {}
        self._names = Names(database or shards[0].database, name, f"{name}__tidegate_{owner}_")

    def missing(self) -> Missing | None:
        with _before_readers():
            found = [replicas.with_table(shard, self._names) for shard in self._shards]
            rest = [one for one in found if one is not None]
            if len(rest) == len(found):
                return None
            return Missing(left=self._rows_left(rest) if rest else None)

    def _rows_left(self, rest: Sequence[Client]) -> tuple[tuple[int, int], ...]:
        """Window and rows, on these servers together."""
        left = dict[int, int]()
        for one in rest:
            for seconds, rows in one.ask(statements.rows_by_window(self._names)):
                window_ms = int(seconds) * 1000
                left[window_ms] = left.get(window_ms, 0) + int(rows)
        return tuple(left.items())

    def tries(self) -> None:
        """No statement there changes a window's rows and names their try at once."""

    def prepare(self) -> list[str]:
        with _before_readers():
            return [line for number, shard in enumerate(self._shards, 1) for line in self._prepared(number, shard)]

    def _prepared(self, number: int, shard: Client) -> list[str]:
        return prepare.prepared(shard, number, self._names, self._columns(shard), self._table)

    def send(self, attempt: Attempt, rows: Rows, holds: Holds) -> Standing:
        staging = self._names.prefix + attempt.staging
        try:
            wanted = self._staged(staging, attempt, rows)
            self._fence(attempt, staging)
            if not holds():
                raise LostComparison(f"{self._where(attempt)}: the ledger has moved on; nothing was shown")
            self._replace(staging, attempt, wanted)
            self._settle(attempt)
            return self._read_back(attempt, wanted)
        finally:
            self._drop_own(staging)

    def standing(self, window_ms: int) -> Standing:
        with _before_readers():
            return self._standing(window_ms, self._contents(self._names.table, window_ms), 0)

    def parts(self, window_ms: int, rows: Rows) -> tuple[Part, ...]:
        names = self._table.partitions
        with _before_readers():
            of = self._columns(self._shards[0])
        here, there = dict[PartitionValues, Content](), dict[PartitionValues, Content]()
        for batch in rows.batches():
            stored = [one.stored(values) for one, values in zip(of, batch.columns, strict=True)]
            hashes = row_hashes(of, stored)
            for values, places in by_partition(names, batch.columns[1 : len(names) + 1], len(batch)):
                checksum = int(hashes[places.to_numpy()].sum(dtype=np.uint64))
                added(here, values, Content(rows=len(places), checksum=checksum))
        with _before_readers():
            for shard in self._shards:
                sql = statements.content_by(self._names, self._columns(shard), names, window_ms)
                for *texts, count, total in shard.ask(sql):
                    values = tuple((n, None if v is None else str(v)) for n, v in zip(names, texts, strict=True))
                    added(there, values, Content(rows=int(count), checksum=int(total)))
        return paired(here, there)

    def sweep(self, needed: Needed) -> list[str]:
        done = []
        with _before_readers():
            for shard in self._shards:
                done += self._swept(shard, needed)
                for replica in shard.replicas:  # another one may have been named first
                    with suppress(Failed, Unanswered):
                        done += self._swept(replicas.reached(replica), needed)
        return done

    def _swept(self, at: Client, needed: Needed) -> list[str]:
        found = {name.removeprefix(self._names.prefix) for name in self._stagings(at, "")}
        done = []
        for each in sorted(found - needed(found)):
            self._drop(at, self._names.prefix + each)
            done.append(f"{at.address}: removed {self._names.prefix}{each}, which no try needs")
        return done

    def close(self) -> None:
        """No connection is kept."""

    # ------------------------------------------------------------ a try's own staging (D1 to D3)

    def _staged(self, staging: str, attempt: Attempt, rows: Rows) -> list[Content]:
        """What each shard's staging has, and was found to have."""
        with _before_readers():
            for shard in self._shards:
                order = replicas.sorting_key(shard, self._names) if shard.replicas else None
                window = self._columns(shard)[0]
                shard.do(statements.create_staging(self._names, staging, window, order, shard))
            wanted = self._filled(staging, attempt, rows)
            for shard, content in zip(self._shards, wanted, strict=True):
                if shard.replicas and not content.rows:
                    self._hold_nothing(shard, staging, attempt.token.unit)
            self._check(staging, wanted)
        return wanted

    def _hold_nothing(self, shard: Client, staging: str, window_ms: int) -> None:
        """A part of no rows (D6). A REPLACE that brings no part at all is forgotten by replicas that lag, in versions
        from 18.16 on: whatever they execute before makes them drop it, and they show older rows for ever."""
        end = time.monotonic() + self._wait_s
        shard.do(statements.a_row(self._names, staging, self._columns(shard)[0], window_ms))
        shard.do(statements.without_rows(self._names, staging))
        while self._content(shard, staging, None).rows:
            self._in_time(end, shard, f"{staging} has a row")
            time.sleep(_POLL_S)

    def _filled(self, staging: str, attempt: Attempt, rows: Rows) -> list[Content]:
        """Send the rows; what each shard must have then."""
        loads = [_Load(shard, self._columns(shard)) for shard in self._shards]
        for batch in rows.batches():
            for load, part in zip(loads, self._spread(batch), strict=True):
                load.add(part)
                if load.bytes >= _BODY_BYTES:
                    self._insert(load, staging)
        for load in loads:
            self._insert(load, staging)
        sent = [load.content for load in loads]
        if (total := sum(each.rows for each in sent)) != attempt.rows:
            raise DeliveryRefused(f"{self._where(attempt)}: its files have {total} rows, its manifest {attempt.rows}")
        return sent

    def _spread(self, batch: pa.RecordBatch) -> list[list[pa.Array]]:
        """The stored columns of each shard: a row goes to the shard (its hash modulo their number)."""
        shard_columns = self._columns(self._shards[0])
        stored = [one.stored(values) for one, values in zip(shard_columns, batch.columns, strict=True)]
        if len(self._shards) == 1:
            return [stored]
        place = row_hashes(shard_columns, stored) % np.uint64(len(self._shards))
        picks = [pa.array(np.flatnonzero(place == i)) for i in range(len(self._shards))]
        return [[values.take(pick) for values in stored] for pick in picks]

    def _insert(self, load: _Load, staging: str) -> None:
        if body := load.taken():
            self._merge(load.shard, staging, _PARTS)
            load.shard.do(statements.insert(self._names, staging, load.columns), body)

    def _merge(self, shard: Client, staging: str, most: int) -> None:
        """Until it has so few parts. OPTIMIZE leaves out, silently, what the server is merging already."""
        end = time.monotonic() + self._wait_s
        while (parts := int(shard.ask(statements.parts(self._names, staging))[0][0])) > most:
            self._in_time(end, shard, f"{staging} has {parts} parts")
            shard.do(f"OPTIMIZE TABLE {self._names.full(staging)} FINAL")

    def _check(self, staging: str, wanted: list[Content]) -> None:
        """D3. A REPLACE of several parts is not atomic when the server dies."""
        for shard, content in zip(self._shards, wanted, strict=True):
            self._merge(shard, staging, 1)
            found = self._content(shard, staging, None)
            if found != content:
                raise DeliveryRefused(f"{shard.address}: {staging} has {_words(found)}; sent were {_words(content)}")

    # ------------------------------------------------------------ the fence (D4)

    def _fence(self, attempt: Attempt, own: str) -> None:
        """Drop the stagings of all other tries on every shard, and look until they are gone and nobody reads one."""
        end = time.monotonic() + self._wait_s
        with _before_readers():
            for shard in self._shards:
                self._fence_shard(shard, f"{attempt.token.unit}_", own, end)
                for replica in shard.replicas:  # a try of before another one was named first
                    with suppress(Unsent, Unanswered):
                        self._fence_shard(replicas.reached(replica), f"{attempt.token.unit}_", own, end)

    def _fence_shard(self, shard: Client, window: str, own: str, end: float) -> None:
        while others := [name for name in self._stagings(shard, window) if name != own]:
            for name in others:
                with suppress(Unanswered):  # looked at again
                    self._drop(shard, name)
            self._in_time(end, shard, f"{others[0]} is there")
        # One that was dropped may be read by a REPLACE that had found it before: the list shows that until its end.
        while int(shard.ask(statements.replaces_under_way(self._names, window))[0][0]):
            self._in_time(end, shard, "an earlier try's REPLACE is being executed")
            time.sleep(_POLL_S)

    def _in_time(self, end: float, shard: Client, what: str) -> None:
        if time.monotonic() > end:
            raise DeliveryRefused(f"{shard.address}: {what} still, after {self._wait_s:.0f} s; nothing was shown")

    def _stagings(self, shard: Client, more: str) -> list[str]:
        return [str(row[0]) for row in shard.ask(statements.stagings(self._names, more))]

    def _drop(self, shard: Client, name: str) -> None:
        try:
            shard.do(f"DROP TABLE {self._names.full(name)}")
        except Failed as error:
            if error.code != UNKNOWN_TABLE:
                raise

    def _drop_own(self, staging: str) -> None:
        """What is left is dropped by the next try's fence, or swept."""
        for shard in self._shards:
            with suppress(Failed, Unanswered):
                self._drop(shard, staging)

    # ------------------------------------------------------------ what readers meet (D6, D7)

    def _replace(self, staging: str, attempt: Attempt, wanted: list[Content]) -> None:
        sql, where = statements.replace(self._names, staging, attempt.token.unit), self._where(attempt)
        for i, (shard, content) in enumerate(zip(self._shards, wanted, strict=True)):
            allowed: dict[str, str] = {} if content.rows or not shard.knows(EMPTY_SOURCE) else {EMPTY_SOURCE: "1"}
            try:
                shard.do(sql, settings=allowed)
            except Failed as error:
                if i or not (isinstance(error, Unsent) or error.code in NOT_EXECUTED):
                    raise DeliveryUnsure(f"{where}: {error}") from error
                hint = "" if content.rows else f"it takes no empty windows: allow {EMPTY_SOURCE} to this user (D6)"
                raise DeliveryRefused(f"{where} was not replaced: {error}", advice=hint) from error
            except Unanswered as error:
                raise DeliveryUnsure(f"{where}: {error}; REPLACE may have been executed") from error

    def _settle(self, attempt: Attempt) -> None:
        """Wait until no server could show again, after a restart, what has made way (D7). Newer ones leave an empty
        part that covers it; older ones load whatever is still on the disk."""
        end, sql = time.monotonic() + self._wait_s, statements.parts_of(self._names, attempt.token.unit)
        try:
            for shard in self._shards:
                while _uncovered([tuple(map(int, row)) for row in shard.ask(sql)]):
                    if time.monotonic() > end:
                        raise DeliveryUnsure(
                            f"{self._where(attempt)} was replaced; {shard.address} still has parts on its disk that a "
                            "restart would show again: old_parts_lifetime of the table decides how long"
                        )
                    time.sleep(_POLL_S)
        except (Failed, Unanswered) as error:
            raise DeliveryUnsure(f"{self._where(attempt)} was replaced, and then: {error}") from error

    def _read_back(self, attempt: Attempt, wanted: list[Content]) -> Standing:
        try:
            found = self._contents(self._names.table, attempt.token.unit)
        except (Failed, Unanswered) as error:
            raise DeliveryUnsure(f"{self._where(attempt)} was replaced and could not be read back: {error}") from error
        for shard, there, content in zip(self._shards, found, wanted, strict=True):
            if there != content:
                raise DeliveryUnsure(
                    f"{self._where(attempt)}: {shard.address} shows {_words(there)} of it; sent were {_words(content)}"
                )
        return self._standing(attempt.token.unit, wanted, replicas.WAIT_S)

    def _standing(self, window_ms: int, wanted: list[Content], wait_s: float) -> Standing:
        """Of what is written to each shard, with the replicas that show something else, or nothing."""
        behind, lacking = list[str](), ""
        for shard, content in zip(self._shards, wanted, strict=True):
            found = replicas.behind(shard, content, lambda at: self._of_replica(at, window_ms), wait_s)
            if 1 + len(shard.replicas) - len(found) < replicas.quorum_of(self._table):
                where = f"window {window_name(window_ms)} in {self._names.table}"
                lacking = f"{where}: fewer replicas of {shard.address} than the quorum show it: {'; '.join(found)}"
            behind += found
        return Standing(content=_total(wanted), behind=tuple(behind), lacking=lacking)

    def _of_replica(self, at: Client, window_ms: int) -> Content:
        return self._content(replicas.reached(at), self._names.table, window_ms)

    def _contents(self, table: str, window_ms: int | None) -> list[Content]:
        return [self._content(shard, table, window_ms) for shard in self._shards]

    def _content(self, shard: Client, table: str, window_ms: int | None) -> Content:
        rows, checksum = shard.ask(statements.content(self._names, table, self._columns(shard), window_ms))[0]
        return Content(rows=int(rows), checksum=int(checksum))

    def _columns(self, shard: Client) -> list[Column]:
        if shard.address not in self._by_shard:
            there = prepare.types(shard, self._names)
            found = columns(self._table.columns, shard)
            self._by_shard[shard.address] = [one.as_made(there.get(one.name, "")) for one in found]
        return self._by_shard[shard.address]

    def _where(self, attempt: Attempt) -> str:
        return f"window {window_name(attempt.token.unit)} in {self._names.table}"


class _Load:
    """Rows of one shard on their way."""

    def __init__(self, shard: Client, of: list[Column]) -> None:
        self.shard, self.columns, self.content = shard, of, Content(rows=0, checksum=0)
        self._blocks: list[bytes] = []
        self.bytes = 0

    def add(self, stored: list[pa.Array]) -> None:
        """Rows as they are stored."""
        if not (rows := len(stored[0])):
            return
        named = [(one.name, one.full_type, values) for one, values in zip(self.columns, stored, strict=True)]
        self._blocks.append(native.block(named))
        self.bytes += len(self._blocks[-1])
        checksum = int(row_hashes(self.columns, stored).sum(dtype=np.uint64))
        self.content = _total([self.content, Content(rows=rows, checksum=checksum)])

    def taken(self) -> bytes:
        """The body of an INSERT with all that was added since the last one."""
        body, self._blocks, self.bytes = b"".join(self._blocks), [], 0
        return body


def _uncovered(parts: Sequence[tuple[int, ...]]) -> bool:
    """Whether one of these (first block, last block, level, rows, active) has rows, is not active, and not within the
    blocks of a later part."""

    def covered(first: int, last: int, level: int) -> bool:
        return any(low <= first and last <= high and above > level for low, high, above, *_ in parts)

    return any(rows and not active and not covered(*place) for *place, rows, active in parts)


def _total(contents: Sequence[Content]) -> Content:
    return Content(
        rows=sum(each.rows for each in contents), checksum=sum(each.checksum for each in contents) % _MODULUS
    )


def _words(content: Content) -> str:
    return f"{content.rows} rows with checksum {content.checksum}"


@contextmanager
def _before_readers() -> Iterator[None]:
    """Whatever fails inside, readers have met nothing of it: the staging's name is given up (D2)."""
    try:
        yield
    except (Failed, Unanswered) as error:
        raise DeliveryRefused(f"ClickHouse: {error}") from error
