"""Iceberg's REST catalogue: the servlet with which its makers test clients, in a Jetty, on a database file.

Their own main class listens on every address; so Jetty puts the parts together, as an XML file says. No passwords.
"""

from __future__ import annotations

from pathlib import Path
from xml.sax.saxutils import escape

from dev.stack.java import find_java
from dev.stack.parts import Part
from dev.stack.ports import LOOPBACK, told
from dev.stack.processes import LOCALE, Program

_START_S = 120.0
_XML = """<?xml version="1.0"?>
<!DOCTYPE Configure PUBLIC "-//Jetty//Configure//EN" "https://jetty.org/configure_10_0.dtd">
<Configure id="server" class="org.eclipse.jetty.server.Server">
  <New id="catalogue" class="org.apache.iceberg.jdbc.JdbcCatalog"/>
  <Ref refid="catalogue">
    <Call name="setConf"><Arg><New class="org.apache.hadoop.conf.Configuration"/></Arg></Call>
    <Call name="initialize"><Arg>rest</Arg><Arg><Map>{entries}</Map></Arg></Call>
  </Ref>
  <Call name="addConnector"><Arg>
    <New class="org.eclipse.jetty.server.ServerConnector">
      <Arg name="server"><Ref refid="server"/></Arg>
      <Set name="host">{host}</Set>
      <Set name="port">{port}</Set>
    </New>
  </Arg></Call>
  <Set name="handler">
    <New class="org.eclipse.jetty.ee10.servlet.ServletContextHandler">
      <Call name="addServlet">
        <Arg><New class="org.eclipse.jetty.ee10.servlet.ServletHolder"><Arg>
          <New class="org.apache.iceberg.rest.RESTCatalogServlet"><Arg>
            <New class="org.apache.iceberg.rest.RESTCatalogAdapter"><Arg><Ref refid="catalogue"/></Arg></New>
          </Arg></New>
        </Arg></New></Arg>
        <Arg>/*</Arg>
      </Call>
    </New>
  </Set>
</Configure>
"""


class IcebergRest(Part):
    """Metadata files lie where each table's location says."""

    name = "iceberg"
    port_names = ("iceberg",)
    jar_set = "iceberg"

    def start(self) -> None:
        """Start and wait until it says how it is set up."""
        folder = self.site.folder("iceberg")
        config = folder / "jetty.xml"
        config.write_text(self._xml(folder))
        command = [
            str(find_java().binary), "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xmx256m",
            f"-Djava.io.tmpdir={folder}", "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
            "-cp", f"{self.jars()}/*", "org.eclipse.jetty.xml.XmlConfiguration", str(config),
        ]  # fmt: skip
        running = self.site.launcher.start("iceberg", Program(command, LOCALE, folder))
        running.wait_ready(lambda: "defaults" in told(self.port, "v1/config"), _START_S)

    def _xml(self, folder: Path) -> str:
        settings = {
            "uri": f"jdbc:sqlite:{folder / 'catalogue.db'}",
            "warehouse": f"file://{folder / 'warehouse'}",
            "io-impl": "org.apache.iceberg.hadoop.HadoopFileIO",
            "jdbc.schema-version": "V1",
        }
        entries = "".join(
            f"<Entry><Item>{escape(key)}</Item><Item>{escape(value)}</Item></Entry>" for key, value in settings.items()
        )
        return _XML.format(entries=entries, host=LOOPBACK, port=self.port)
