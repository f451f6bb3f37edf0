"""Sessions by a driver for JDBC: how one is opened, its SQL, and what its errors mean.

Statements are those of SQL:2008 alone (`OFFSET n ROWS FETCH NEXT 1 ROWS ONLY`), so that no database has a rule of its
own here."""

from __future__ import annotations

import functools
import re
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from tidegate.core.copy.port import KeyRange, SourceColumn, SourceTable, Times, Value
from tidegate.databases.driver import Unusable
from tidegate.databases.sql import key_columns, spelled_out, within
from tidegate.databases.types import family

KIND = "jdbc"
CONNECT_S = 10
ANSWER_S = 600.0
FETCH_ROWS = 1_000
"""Rows that a driver brings at once, if it does as it is told: so many fit into its memory, though they are wide."""
_JAVA = ("-Xmx512m", "-XX:+UseSerialGC", "-Djava.awt.headless=true", "-Duser.timezone=UTC", "-Xrs")
"""-Xrs: signals stay Python's. Else Java ends the process of a task that is told to end, before it has cleaned up."""
_PASSING = ("08", "40", "53", "57", "58", "HYT", "HY008")
"""Beginnings of SQLSTATE that another try may not meet: connections, conflicts, resources, operators, system errors;
and SQL Server's of what took too long."""
_PASSING_KINDS = ("Transient", "Recoverable", "NonTransientConnection")
_LOGINS = re.compile(r"(?:(?<=//)[^/?;]+|(?:(?<=:thin:)|(?<=:oci:)|(?<=:oci8:))[^?;]+)(?=@)")
_PARAMETERS = re.compile(r"[?;].*|[:/,&]\w+=.*", re.DOTALL)
_PASSWORDS = re.compile(r"(?i)(\w*(?:password|passwd|pwd|passphrase|secret|token))(\s*=\s*)[^\s;,&]+")
_ELSEWHERE = ("MySQL", "MariaDB")
_starting = threading.Lock()


def java() -> Any:
    """The package of JPype, whose Java runs once it is asked for here. Raises Unusable."""
    try:
        import jpype
        import jpype.config
    except ImportError:
        raise Unusable(
            "JPype is not installed here: it runs drivers for JDBC", "pip install 'tidegate[jdbc]'"
        ) from None
    with _starting:  # tidegate doctor asks many databases at once
        if not jpype.isJVMStarted():
            # a Java that a thread has started, or whose driver has threads of its own, would never let the process end
            jpype.config.onexit = False
            try:
                jpype.startJVM(*_JAVA, convertStrings=True)
            except (OSError, RuntimeError) as e:
                raise Unusable(f"no Java can be started: {e}", "set JAVA_HOME to a Java of 11 or later") from None
    return jpype


def connect(settings: Mapping[str, str], answer_s: float = ANSWER_S) -> Any:
    """A `java.sql.Connection`, without a transaction of its own accord. Raises Unusable, or the driver's own error."""
    jpype = java()
    driver, properties = _driver(jpype, settings), jpype.JClass("java.util.Properties")()
    for name in ("user", "password"):
        if settings.get(name):
            properties.setProperty(name, settings[name])
    jpype.JClass("java.sql.DriverManager").setLoginTimeout(CONNECT_S)
    found = driver.connect(settings["url"], properties)
    if found is None:
        raise Unusable(f"the driver does not take {address(settings)}", "correct the connection's host, a URL of JDBC")
    product = _product(found)
    if product in _ELSEWHERE:
        close(found)
        raise Unusable(
            f"{address(settings)} is {product}: by JDBC its times are those of its session's zone",
            "name a connection of type mysql",
        )
    with suppress(jpype.JException):
        found.setReadOnly(True)
    with suppress(jpype.JException):  # a server that says nothing more; not all drivers know it
        pool = jpype.JClass("java.util.concurrent.ForkJoinPool").commonPool()
        found.setNetworkTimeout(pool, int(answer_s * 1000))
    return found


def _product(connection: Any) -> str:
    return str(connection.getMetaData().getDatabaseProductName())


def close(connection: Any) -> None:
    """End its transaction first: Db2 closes no connection that is in one. What fails here has been said before, or
    harms nobody: the server ends what its client has left."""
    for step in (connection.rollback, connection.close):
        with suppress(java().JException):
            step()


def _driver(jpype: Any, settings: Mapping[str, str]) -> Any:
    """Of the archives that the connection names, and no others: two connections may have two releases of one."""
    paths, kind = [path.strip() for path in re.split(r"[,;]", settings["driver_path"])], jpype.JClass("java.sql.Driver")
    paths = [path for path in paths if path]
    missing = [path for path in paths if not Path(path).is_file()]
    if missing or not paths:
        what = f"the driver {missing[0]} is not on this host" if missing else "the connection names no driver"
        raise Unusable(what, "driver_path in the connection's extra: its .jar, on each host that reads")
    stats = ((path, Path(path).stat()) for path in paths)
    loader = _loader(tuple((path, stat.st_mtime_ns, stat.st_size) for path, stat in stats))
    if settings.get("driver_class"):
        with suppress(jpype.JClass("java.lang.ClassNotFoundException")):
            found = jpype.JClass("java.lang.Class").forName(settings["driver_class"], True, loader)
            if kind.class_.isAssignableFrom(found):
                return found.getDeclaredConstructor().newInstance()
        what = f"{settings['driver_path']} has no driver {settings['driver_class']}"
        raise Unusable(what, "correct driver_class in the connection's extra, or leave it out")
    for driver in jpype.JClass("java.util.ServiceLoader").load(kind, loader):
        if driver.acceptsURL(settings["url"]):
            return driver
    raise Unusable(
        f"no driver in {settings['driver_path']} takes {address(settings)}", "correct driver_path, or give driver_class"
    )


@functools.cache
def _loader(files: tuple[tuple[str, int, int], ...]) -> Any:
    """Of (path, time, bytes): one that was replaced is loaded anew. Else once, for drivers register themselves in Java
    for ever: each chunk would leave its classes there."""
    jpype = java()
    urls = [jpype.JClass("java.io.File")(path).toURI().toURL() for path, *_ in files]
    return jpype.JClass("java.net.URLClassLoader")(jpype.JArray(jpype.JClass("java.net.URL"))(urls))


def address(settings: Mapping[str, str]) -> str:
    """The URL for people: without its login and its parameters, which may hold a password."""
    return _PARAMETERS.sub("", _LOGINS.sub("***", settings["url"]))


def is_of_the_driver(error: Exception) -> bool:
    """Whether it comes from Java: drivers raise more than `java.sql.SQLException`."""
    import jpype

    return jpype.isJVMStarted() and isinstance(error, jpype.JException)


def passes(error: Any) -> bool:
    """Whether another try may succeed without a human. Drivers have states of their own beside SQL's."""
    import jpype

    kinds = tuple(jpype.JClass(f"java.sql.SQL{kind}Exception") for kind in _PASSING_KINDS)
    state = str(error.getSQLState() or "") if isinstance(error, jpype.JClass("java.sql.SQLException")) else ""
    if state.startswith(_PASSING) or isinstance(error, kinds):
        return True
    cause, network = error.getCause(), jpype.JClass("java.io.IOException")
    while cause is not None and not isinstance(cause, network):
        cause = cause.getCause()
    return cause is not None


def said(error: Any, settings: Mapping[str, str]) -> str:
    """The driver's words in one line. Some repeat the URL, or what they were given: without its secrets."""
    url, text = settings["url"], str(error.getMessage() or error)
    text = text.replace(url, address(settings))
    for part in (*_LOGINS.findall(url), *_PARAMETERS.findall(_LOGINS.sub("***", url))):
        text = text.replace(part, "***")
    if settings.get("password"):
        text = re.sub(rf"(?<!\w){re.escape(settings['password'])}(?!\w)", "***", text)
    return " ".join(_PASSWORDS.sub(r"\1\2***", text).split())[:400]


class Names:
    """Names as this database's statements have them."""

    def __init__(self, connection: Any) -> None:
        self._mark = str(connection.getMetaData().getIdentifierQuoteString()).strip()

    def column(self, name: str) -> str:
        mark = self._mark
        return mark + (name.replace(mark, mark * 2) if mark else name).replace("%", "%%") + mark

    def table(self, table: SourceTable) -> str:
        return f"{self.column(table.schema)}.{self.column(table.name)}"

    def where(self, table: SourceTable, keys: KeyRange, times: Times | None = None) -> tuple[str, list[Any]]:
        """The predicate of a range; `%s` are its parameters, as `bind` takes them."""
        if keys == KeyRange() and times is None:
            return "1 = 1", []
        by_name = {c.name: c for c in table.columns}
        compare: Callable[[Sequence[Value], str], tuple[str, list[Any]]] = lambda bound, operator: spelled_out(  # noqa: E731
            [self.column(c.name) for c in key_columns(table)],
            ["%s"] * len(bound),
            list(zip(key_columns(table), bound, strict=True)),
            operator,
        )
        text, given = within(keys, compare, times, self.column)
        if times is not None:
            given[-2:] = [(by_name[times.column], times.lower), (by_name[times.column], times.upper)]
        return text, given


def prepared(connection: Any, statement: str, given: Sequence[tuple[SourceColumn, Value]] = ()) -> Any:
    """A statement whose `%s` are parameters: values of these columns."""
    made = connection.prepareStatement(statement % tuple("?" for _ in given))
    for number, (column, value) in enumerate(given, 1):
        _bind(made, number, column, value)
    return made


def _bind(statement: Any, number: int, column: SourceColumn, value: Value) -> None:
    jpype, found = java(), family(KIND, column.type)
    name = "" if found is None else found.name
    if name == "integer":
        statement.setLong(number, jpype.JLong(int(value)))
    elif name == "decimal":
        statement.setBigDecimal(number, jpype.JClass("java.math.BigDecimal")(str(value)))
    elif name == "date":
        statement.setObject(number, jpype.JClass("java.time.LocalDate").parse(str(value)))
    elif name == "datetime":
        statement.setObject(number, _local(jpype, value))
    elif name == "instant":
        zone = jpype.JClass("java.time.ZoneOffset").UTC
        statement.setObject(number, _local(jpype, value).atOffset(zone))
    else:
        statement.setString(number, str(value))


def _local(jpype: Any, value: Value) -> Any:
    return jpype.JClass("java.time.LocalDateTime").parse(str(value).replace(" ", "T"))
