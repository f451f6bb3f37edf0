"""ClickHouse from Debian's packages (18.16): two servers, each a shard, with one password, all on loopback."""

from __future__ import annotations

import functools
import urllib.request
from pathlib import Path
from xml.sax.saxutils import escape

from dev.stack.debian import unpacked
from dev.stack.parts import Part, Site
from dev.stack.ports import LOOPBACK
from dev.stack.processes import LOCALE, Program
from dev.stack.secrets import write_private

PACKAGES = (
    "clickhouse-server", "clickhouse-common", "libboost-filesystem1.74.0", "libboost-program-options1.74.0",
    "libcapnp-0.9.2", "libcctz2", "libcpuinfo0", "libdouble-conversion3", "libfarmhash0", "libicu72", "libjemalloc2",
    "libltdl7", "liblz4-1", "libmariadb3", "libmetrohash1", "libodbc2", "libpcre3", "libpococrypto80", "libpocodata80",
    "libpocodataodbc80", "libpocofoundation80", "libpocojson80", "libpocomongodb80", "libpoconet80",
    "libpoconetssl80", "libpocoutil80", "libpocoxml80", "librdkafka1", "libre2-9",
)  # fmt: skip
USER = "tidegate"
NODES = ("clickhouse", "clickhouse-2")
_START_S = 120.0
_CONFIG = """<?xml version="1.0"?>
<yandex>
  <logger><level>information</level><console>1</console></logger>
  <listen_host>{host}</listen_host>
  <http_port>{http}</http_port>
  <interserver_http_port>{interserver}</interserver_http_port>
  <interserver_http_host>{host}</interserver_http_host>
  <path>{folder}/data/</path>
  <tmp_path>{folder}/tmp/</tmp_path>
  <user_files_path>{folder}/files/</user_files_path>
  <format_schema_path>{folder}/schemas/</format_schema_path>
  <users_config>users.xml</users_config>
  <default_profile>default</default_profile>
  <default_database>default</default_database>
  <timezone>UTC</timezone>
  <keep_alive_timeout>3</keep_alive_timeout>
  <mark_cache_size>67108864</mark_cache_size>
</yandex>
"""
_USERS = """<?xml version="1.0"?>
<yandex>
  <profiles><default><max_threads>2</max_threads></default></profiles>
  <quotas><default/></quotas>
  <users>
    <{user}>
      <password>{password}</password>
      <networks><ip>{host}</ip></networks>
      <profile>default</profile>
      <quota>default</quota>
    </{user}>
  </users>
</yandex>
"""


class ClickHouse(Part):
    """Each node is a shard of its own; they do not know each other. They speak HTTP only."""

    name = "clickhouse"
    port_names = ("clickhouse", "clickhouse_2", "clickhouse_interserver", "clickhouse_2_interserver")

    def prepare(self) -> None:
        """Fetch the packages."""
        self._packages()

    def start(self) -> None:
        """Start both and wait until they answer."""
        root = self._packages()
        libraries = ":".join(str(folder) for folder in root.glob("**/*-linux-gnu"))  # some are below /lib
        started = []
        for name in NODES:
            config = self._configured(name)
            command = [str(root / "usr/sbin/clickhouse-server"), f"--config-file={config}"]
            program = Program(command, {**LOCALE, "LD_LIBRARY_PATH": libraries}, config.parent)
            started.append((self.site.launcher.start(name, program), self.site.ports[_key(name)]))
        for running, port in started:
            running.wait_ready(functools.partial(_answers, port), _START_S)

    def _packages(self) -> Path:
        return unpacked(self.site.places.own / "debian" / "clickhouse", PACKAGES)

    def _configured(self, name: str) -> Path:
        folder, ports = self.site.folder(name), self.site.ports
        given = {"http": ports[_key(name)], "interserver": ports[f"{_key(name)}_interserver"]}
        config = folder / "config.xml"
        config.write_text(_CONFIG.format(host=LOOPBACK, folder=escape(str(folder)), **given))
        password = self.site.secrets.clickhouse_password
        write_private(folder / "users.xml", _USERS.format(user=USER, password=password, host=LOOPBACK))
        return config


def clickhouse_hosts(site: Site) -> str:
    """Addresses of the nodes, as a connection's host has them."""
    return ",".join(f"{LOOPBACK}:{site.ports[_key(name)]}" for name in NODES)


def _key(name: str) -> str:
    return name.replace("-", "_")


def _answers(port: int) -> bool:
    try:
        with urllib.request.urlopen(f"http://{LOOPBACK}:{port}/ping", timeout=5) as answer:
            return bool(answer.read() == b"Ok.\n")
    except OSError:
        return False
