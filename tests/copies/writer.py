"""Random transactions on a table of a real database, several of them open at once, and what is known of the table at
quiet moments.

No two open transactions touch the same key, so that none waits for another; those that commit do so in an order of
their own. Each row that is written has a greater `ver` than all before.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from tests.databases.servers import Server
from tests.real_kafka import eventually
from tidegate.core.copy.port import Database, LogPosition

Key = tuple[Any, ...]
SESSIONS = 5
FIRST_ROWS = 5_000
KEYS = 5_400
HOT = 60
GHOSTS = 200
CITIES = ("Oslo", "Bergen", "Århus", "zürich")
TICK: dict[str, Key] = {"postgresql": (-1,), "mariadb": ("tick", -1)}
"""Of the row whose changes let the connector note how far it is."""
PACE_S, _QUIET_S = 0.003, 2.0
_COLUMNS = "ver, name, amount, changed, at, due, note"
_BODY = (
    "ver bigint NOT NULL, name varchar(40), amount decimal(12,2), changed {moment}, at {instant}, due date, note text"
)


@dataclass(frozen=True)
class Table:
    """The statements of a table of this kind of database. Where its key has a text, two spellings are one key."""

    kind: str
    name: str

    @property
    def text_key(self) -> bool:
        return self.kind == "mariadb"

    @property
    def key(self) -> tuple[str, ...]:
        return ("city", "id") if self.text_key else ("id",)

    def create(self) -> list[str]:
        if self.text_key:
            body = _BODY.format(moment="datetime(6)", instant="timestamp(6) NULL")
            key = "city varchar(20) CHARACTER SET utf8mb4 COLLATE utf8mb4_general_ci NOT NULL, id int NOT NULL"
            rest = "PRIMARY KEY (city, id)"
        else:
            body = _BODY.format(moment="timestamp(6)", instant="timestamp(6) with time zone")
            key, rest = "id int NOT NULL", "PRIMARY KEY (id)"
        return [
            f"CREATE TABLE {self.name} ({key}, {body}, {rest})",
            f"CREATE TABLE {self.name}_beside (id int PRIMARY KEY, n int)",
        ]

    def insert(self) -> str:
        marks = ", ".join(["%s"] * (len(self.key) + 7))
        return f"INSERT INTO {self.name} ({', '.join(self.key)}, {_COLUMNS}) VALUES ({marks})"

    def update(self) -> str:
        setting = ", ".join(f"{name} = %s" for name in (*self.key, *_COLUMNS.split(", ")))
        return f"UPDATE {self.name} SET {setting} WHERE {self.where()}"

    def delete(self) -> str:
        return f"DELETE FROM {self.name} WHERE {self.where()}"

    def where(self) -> str:
        return " AND ".join(f"{name} = %s" for name in self.key)

    def folded(self, key: Key) -> Key:
        """As the database compares keys."""
        return (key[0].lower(), key[1]) if self.text_key else key

    def some(self, rng: random.Random) -> Key:
        """A key; half of them are among a few."""
        n = rng.randrange(HOT) * (KEYS // HOT) if rng.random() < 0.5 else rng.randrange(KEYS)
        if not self.text_key:
            return (n,)
        city = CITIES[n % len(CITIES)]
        return (rng.choice((city, city.upper(), city.lower())), n)

    def values(self, rng: random.Random, ver: int) -> tuple[Any, ...]:
        day = 1 + ver % 28
        name = None if rng.random() < 0.1 else rng.choice(("", "Ada", 'quote " and \\', "ünï, 😀", "two\nlines"))
        amount = None if rng.random() < 0.1 else f"{rng.randrange(-(10**9), 10**9) / 100:.2f}"
        moment = f"20{rng.randrange(10, 38)}-0{rng.randrange(1, 10)}-{day:02} 03:04:05"
        changed = None if rng.random() < 0.1 else f"{moment}.{rng.randrange(10**6):06}"
        at = f"{moment}{rng.choice(('', '.5', '.000001'))}{'' if self.text_key else '+00'}"
        due = None if rng.random() < 0.1 else f"{rng.randrange(1900, 2100)}-02-{day:02}"
        return ver, name, amount, changed, at, due, f"note {ver}"


@dataclass(frozen=True)
class Quiet:
    """The table while no transaction was open. `position`: the log's end; `ms`: by this host's clock; `counter`: the
    greatest `ver` so far; `rows`: their `ver`, by key."""

    position: LogPosition
    ms: int
    counter: int
    rows: dict[Key, int]


@dataclass
class Committed:
    """A transaction. `rows`: the `ver` of each key that it has changed, None: gone. `end`: the log's behind it; None:
    it is under way."""

    rows: dict[Key, int | None]
    end: LogPosition | None = None


@dataclass
class _Open:
    """A transaction. `rows`: what it makes of keys (folded): their spelling, None: gone; `vers`: as `Committed.rows`.
    `left`: of its statements."""

    session: Any
    left: int
    commits: bool
    pause: float
    rows: dict[Key, Key | None] = field(default_factory=dict)
    vers: dict[Key, int | None] = field(default_factory=dict)
    gone: list[Key] = field(default_factory=list)


class Writer(threading.Thread):
    """`seed` decides what it does. `quiet`: the moments, in order; `gone`: by key, the `counter` when its newest delete
    was written; `history`: its transactions that have changed a row, in the order of their commits."""

    def __init__(self, server: Server, table: Table, database: Database, seed: int, rows: int) -> None:
        super().__init__(name=f"writer-{seed}", daemon=True)
        self.server, self.table, self.database, self.rows = server, table, database, rows
        self.rng = random.Random(seed)
        self.there: dict[Key, Key] = {}
        self.counter = self.commits = self.statements = self.rollbacks = 0
        self.quiet: list[Quiet] = []
        self.gone: dict[Key, int] = {}
        self.history: list[Committed] = []
        self.failed: BaseException | None = None
        self.open: list[_Open | None] = [None] * SESSIONS
        self._ends, self._rests, self._resting = threading.Event(), threading.Event(), threading.Event()
        self._look = server.session()

    def first(self) -> None:
        """The rows that are there before the connector."""
        session = self.server.session(autocommit=False)
        with session.cursor() as cursor:
            self._read_committed(cursor)
            few = min(GHOSTS, self.rows // 4)
            numbers = sorted(self.rng.sample(range(KEYS), self.rows - few - 1))
            keys = [(CITIES[n % 4], n) if self.table.text_key else (n,) for n in numbers]
            ghosts = [("ghost", n) if self.table.text_key else (10 * KEYS + n,) for n in range(few)]
            for key in [TICK[self.table.kind], *keys, *ghosts]:
                self.counter += 1
                cursor.execute(self.table.insert(), (*key, *self.table.values(self.rng, self.counter)))
        session.commit()
        session.close()
        self.there = {self.table.folded(key): key for key in keys}
        self.history.append(Committed({key: n for n, key in enumerate([*keys, *ghosts], 2)}, (0, 0)))

    def run(self) -> None:
        sessions = self._sessions()
        try:
            self._until_ended(sessions)
        except BaseException as e:
            self.failed = e
        finally:
            for session in sessions:
                session.close()

    def _sessions(self) -> list[Any]:
        sessions = [self.server.session(autocommit=False) for _ in range(SESSIONS)]
        for session in sessions:
            with session.cursor() as cursor:
                self._read_committed(cursor)
            session.commit()
        return sessions

    @contextmanager
    def at_rest(self) -> Iterator[None]:
        """No transaction is open meanwhile; it goes on in new sessions."""
        self._rests.set()
        assert self._resting.wait(60)
        try:
            yield
        finally:
            self._look = self.server.session()
            self.database.close()
            self._rests.clear()
            eventually(lambda: not self._resting.is_set())  # or it would take the next rest for this one

    def _until_ended(self, sessions: list[Any]) -> None:
        calm = time.monotonic() + _QUIET_S
        while not self._ends.wait(PACE_S):
            if self._rests.is_set():
                self._all_end()
                self._note()
                self._resting.set()
                while self._rests.is_set() and not self._ends.wait(PACE_S):
                    pass
                self._resting.clear()
                sessions[:] = self._sessions()
            elif time.monotonic() > calm:
                self._all_end()
                self._note()
                calm = time.monotonic() + _QUIET_S * self.rng.uniform(0.5, 1.5)
            else:
                self._step(sessions, self.rng.randrange(SESSIONS))
        self._all_end()
        self._note()

    def stop(self) -> None:
        """All transactions have ended when it returns. Raises what has gone wrong."""
        self._ends.set()
        self.join(60)
        assert not self.is_alive()
        if self.failed is not None:
            raise self.failed

    def tick(self) -> None:
        """Change the row that is there for it."""
        with self._look.cursor() as cursor:
            sql = f"UPDATE {self.table.name} SET ver = ver + 1 WHERE {self.table.where()}"
            cursor.execute(sql, TICK[self.table.kind])

    def content(self) -> dict[Key, tuple[Any, ...]]:
        """The table now: rows without their key, by key."""
        many = len(self.table.key)
        with self._look.cursor() as cursor:
            cursor.execute(f"SELECT {', '.join(self.table.key)}, {_COLUMNS} FROM {self.table.name}")
            return {tuple(row[:many]): tuple(row[many:]) for row in cursor.fetchall()}

    def at(self, position: LogPosition) -> dict[Key, int]:
        """The table at a place in the log, by what was written: the `ver` of each key but that of ticks."""
        found: dict[Key, int] = {}
        for one in list(self.history):
            eventually(lambda one=one: one.end is not None)  # type: ignore[misc]
            if one.end is not None and one.end <= position:
                for key, ver in one.rows.items():
                    found.pop(key, None) if ver is None else found.update({key: ver})
        return found

    # ------------------------------------------------------------ transactions

    def _read_committed(self, cursor: Any) -> None:
        if self.table.text_key:  # gaps between keys stay unlocked
            cursor.execute("SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED")

    def _step(self, sessions: Sequence[Any], n: int) -> None:
        now = self.open[n]
        if now is None:
            long = self.rng.random() < 0.1
            left = self.rng.randrange(10, 40) if long else self.rng.randrange(1, 6)
            self.open[n] = _Open(sessions[n], left, self.rng.random() < 0.85, 0.9 if long else 0.3)
        elif now.left == 0:
            self._end(n)
        elif self.rng.random() > now.pause:
            now.left -= 1
            self._statement(now)

    def _end(self, n: int) -> None:
        now = self.open[n]
        assert now is not None
        self.open[n] = None
        if not now.commits:
            now.session.rollback()
            self.rollbacks += 1
            return
        for key in now.gone:
            self.gone[key] = self.counter  # at least when it was written, and before the next quiet moment
        mine = Committed(now.vers)
        if now.vers:
            self.history.append(mine)
        now.session.commit()
        if now.vers:
            mine.end = self.database.position()
        self.commits += 1
        for key, spelled in now.rows.items():
            if spelled is None:
                self.there.pop(key, None)
            else:
                self.there[key] = spelled

    def _all_end(self) -> None:
        for n in self.rng.sample(range(SESSIONS), SESSIONS):
            if self.open[n] is not None:
                self._end(n)

    def _free(self, now: _Open) -> Key | None:
        """A key that no other open transaction has touched."""
        key = self.table.some(self.rng)
        taken = any(o is not None and o is not now and self.table.folded(key) in o.rows for o in self.open)
        return None if taken else key

    def _statement(self, now: _Open) -> None:
        key = self._free(now)
        if key is None:
            return
        old = self._spelled(now, key)
        self.statements += 1
        with now.session.cursor() as cursor:
            if self.rng.random() < 0.05:
                self._beside(cursor)
            elif old is None:
                self._put(cursor, now, key)
            else:
                self._change(cursor, now, old, key)

    def _beside(self, cursor: Any) -> None:
        """Another table's rows: the log moves on, and no event comes."""
        self.counter += 1
        cursor.execute(f"INSERT INTO {self.table.name}_beside VALUES (%s, 0)", (self.counter,))

    def _spelled(self, now: _Open, key: Key) -> Key | None:
        folded = self.table.folded(key)
        return now.rows[folded] if folded in now.rows else self.there.get(folded)

    def _put(self, cursor: Any, now: _Open, key: Key) -> None:
        self.counter += 1
        cursor.execute(self.table.insert(), (*key, *self.table.values(self.rng, self.counter)))
        now.rows[self.table.folded(key)], now.vers[key] = key, self.counter

    def _change(self, cursor: Any, now: _Open, old: Key, spelled: Key) -> None:
        """An update, a delete, both, or another key: one that is free, or another spelling of the same."""
        what = self.rng.random()
        if what < 0.25:
            self._remove(cursor, now, old)
            if self.rng.random() < 0.4:
                self._put(cursor, now, spelled)
            return
        new = old
        if what < 0.4:
            free = self._free(now)
            new = spelled if free is None or self._spelled(now, free) is not None else free
        self.counter += 1
        cursor.execute(self.table.update(), (*new, *self.table.values(self.rng, self.counter), *old))
        if new != old:
            now.rows[self.table.folded(old)] = now.vers[old] = None
            now.gone.append(old)
        now.rows[self.table.folded(new)], now.vers[new] = new, self.counter

    def _remove(self, cursor: Any, now: _Open, old: Key) -> None:
        self.counter += 1
        cursor.execute(self.table.delete(), old)
        now.rows[self.table.folded(old)] = now.vers[old] = None
        now.gone.append(old)

    def _note(self) -> None:
        rows = {key: row[0] for key, row in self.content().items()}
        self.quiet.append(Quiet(self.database.position(), time.time_ns() // 1_000_000, self.counter, rows))

    # ------------------------------------------------------------ behind the log's back

    def haunt(self, rng: random.Random) -> None:
        """Rows go, or change, and no event tells (MariaDB)."""
        session = self.server.session()
        with session.cursor() as cursor:
            cursor.execute("SET SESSION sql_log_bin = 0")
            n = rng.randrange(GHOSTS)
            sql = rng.choice(("DELETE FROM {} WHERE city = 'ghost' AND id = %s",
                              "UPDATE {} SET note = 'haunted' WHERE city = 'ghost' AND id = %s"))  # fmt: skip
            cursor.execute(sql.format(self.table.name), (n,))
        session.close()
