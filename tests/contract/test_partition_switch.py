"""A whole window at once: the metastore's service and the fake, held to one contract; answers that get lost."""

from __future__ import annotations

import socket
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from catalogue_places import COLUMNS, DATABASE, HOSTILE, Place, hasty, of
from fakes.catalogue import FakeCatalogue
from fakes.proxy import Fate, LossyProxy

from tidegate.core.base.errors import CatalogueError, CatalogueUnsure
from tidegate.targets.hive.catalogue import PyHiveCatalogue
from tidegate.targets.hive.metastore import HiveMetastore
from tidegate.targets.hive.ports import PartitionSwitch


@dataclass(frozen=True)
class Switched(Place):
    switch: PartitionSwitch | None = None


@pytest.fixture(params=["fake", "hive4"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Switched:
    if request.param == "fake":
        fake = FakeCatalogue()
        return Switched(fake, tmp_path, fake)
    return _real(request.getfixturevalue("hive4"), tmp_path)


@pytest.fixture
def real(hive4, tmp_path: Path) -> Switched:
    return _real(hive4, tmp_path)


def _real(info, folder: Path) -> Switched:
    service = HiveMetastore.from_connection_fields(f"127.0.0.9, {info.hive_host}", info.hive_metastore_port)
    return Switched(PyHiveCatalogue(info.hive_host, info.hive_port), folder, service)


def test_all_that_are_named_and_no_others(place: Switched) -> None:
    table, catalogue = place.created().name, place.catalogue
    there = {of(app, hour): place.uri(f"old/{hour}{app}") for hour in ("04", "05") for app in ("UA", "AA", None)}
    catalogue.add_partitions(table, there)
    moved = {of("UA"): place.uri("new/ua/"), of(None): place.uri("new/none")}
    place.switch.switch_partitions(table, moved)
    place.switch.switch_partitions(table, moved)
    place.switch.switch_partitions(table, {})
    now = {of("UA"): place.uri("new/ua"), of(None): place.uri("new/none")}
    assert catalogue.partitions(table) == there | now
    other_hours = {of("AA"): place.uri("a"), of("AA", "05"): place.uri("b")}
    place.switch.switch_partitions(table, other_hours)
    assert catalogue.partitions(table) == there | now | other_hours


def test_all_or_none(place: Switched) -> None:
    table = place.created().name
    place.catalogue.add_partitions(table, {of("UA"): place.uri("ua")})
    for unknown in ({of("never there"): place.uri("x")}, {(("date", "2013-01-05"),): place.uri("x")}):
        with pytest.raises(CatalogueError) as refused:
            place.switch.switch_partitions(table, {of("UA"): place.uri("new"), **unknown})
        assert not isinstance(refused.value, CatalogueUnsure)
    with pytest.raises(CatalogueError):
        place.switch.switch_partitions(f"{DATABASE}.nothing", {of("UA"): place.uri("x")})
    assert place.catalogue.partitions(table) == {of("UA"): place.uri("ua")}


def test_every_value_and_location(place: Switched) -> None:
    table = place.created().name
    place.catalogue.add_partitions(table, {of(app): place.uri("empty") for app in HOSTILE})
    wanted = {of(app): place.uri(f"moved/a'b;$%2F*?=,ü日/{n}") for n, app in enumerate(HOSTILE)}
    place.switch.switch_partitions(table, wanted)
    assert place.catalogue.partitions(table) == wanted


def test_values_that_are_not_text(place: Switched) -> None:
    columns = (("date", "string"), ("n", "int"), ("day", "date"), ("yes", "boolean"))
    table = replace(place.table(), partitions=columns)
    place.catalogue.ensure_table(table)
    each = [
        (("date", "d"), ("n", n), ("day", day), ("yes", yes))
        for n, day, yes in (("-7", "2013-01-05", "true"), (None, "2013-01-05", "true"), ("4", None, None))
    ]
    place.catalogue.add_partitions(table.name, {values: place.uri("old") for values in each})
    wanted = {values: place.uri(f"new{n}") for n, values in enumerate(each)}
    place.switch.switch_partitions(table.name, wanted)
    assert place.catalogue.partitions(table.name) == wanted


def test_it_leaves_the_partition_as_a_statement_would(real: Switched) -> None:
    """Its serde and properties stay, columns are the table's, statistics of the old files go."""
    table = real.created()
    partition = "PARTITION (`date`='2013-01-05',hour='04',app='UA')"
    real.catalogue.add_partitions(table.name, {of("UA"): real.uri("old")})
    statistics = "UPDATE STATISTICS SET ('numRows'='7','rawDataSize'='9')"
    real.catalogue.execute(f"ALTER TABLE {table.name} {partition} {statistics}")
    real.catalogue.evolve_table(replace(table, columns=(*COLUMNS, ("more", "int"))))
    real.switch.switch_partitions(table.name, {of("UA"): real.uri("new")})
    told = real.catalogue.execute(f"DESCRIBE FORMATTED {table.name} {partition}")
    text = "\n".join(" ".join(str(word or "").strip() for word in row) for row in told)
    assert real.uri("new") in text
    assert "ParquetHiveSerDe" in text
    assert "more int" in text
    assert "numRows" not in text
    assert "rawDataSize" not in text


def through(proxy: LossyProxy) -> HiveMetastore:
    return HiveMetastore(("127.0.0.1",), proxy.port, connect_timeout_s=60.0, request_timeout_s=240.0)


@pytest.mark.parametrize(("fate", "executed"), [(Fate.LOSE_REPLY, True), (Fate.LOSE_REQUEST, False)])
def test_a_lost_answer_is_unsure(real: Switched, hive4, fate: Fate, executed: bool) -> None:
    table = real.created().name
    real.catalogue.add_partitions(table, {of("UA"): real.uri("old"), of("AA"): real.uri("old")})
    new = {of("UA"): real.uri("new"), of("AA"): real.uri("new")}
    with LossyProxy("127.0.0.1", hive4.hive_metastore_port, b"alter_partitions", fate) as proxy:
        with pytest.raises(CatalogueUnsure):
            through(proxy).switch_partitions(table, new)
        assert proxy.matched == 1
    assert (real.catalogue.partitions(table) == new) is executed


def test_silence_is_unsure_once_it_was_sent_and_definite_before(
    real: Switched, hive4, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = real.created().name
    real.catalogue.add_partitions(table, {of("UA"): real.uri("old")})
    for word, unsure in ((b"alter_partitions", True), (b"get_fields", False), (b"get_partitions", False)):
        with (
            LossyProxy("127.0.0.1", hive4.hive_metastore_port, word, Fate.HANG) as proxy,
            monkeypatch.context() as patch,
        ):
            hasty(patch, word, 1.0)
            with pytest.raises(CatalogueError) as lost:
                through(proxy).switch_partitions(table, {of("UA"): real.uri("new")})
            assert isinstance(lost.value, CatalogueUnsure) is unsure
            assert lost.value.retry


def test_nobody_listens() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        service = HiveMetastore(("127.0.0.1", "127.0.0.2"), taken.getsockname()[1])
        with pytest.raises(CatalogueError, match=r"cannot be reached: 127\.0\.0\.1:\d+: .*127\.0\.0\.2") as refused:
            service.switch_partitions("db.t", {of("UA"): "file:///x"})
    assert not isinstance(refused.value, CatalogueUnsure)


def test_the_fields_of_airflows_connection() -> None:
    service = HiveMetastore.from_connection_fields("one,two ,", None, {"auth_mechanism": "NOSASL"})
    assert (service._hosts, service._port, service._service) == (("one", "two"), 9083, None)
    secured = {"kerberos_service_name": "metastore"}
    assert HiveMetastore.from_connection_fields("one", 1, secured, kerberos=True)._service == "metastore"
    assert HiveMetastore.from_connection_fields("one", 1, {"auth_mechanism": "NOSASL"}, kerberos=True)._service is None
    with pytest.raises(CatalogueError) as refused:
        HiveMetastore.from_connection_fields(None)
    assert not refused.value.retry
