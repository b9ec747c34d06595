"""Envoy with a configuration of deploy/envoy, on free ports."""

import os
import pathlib
import subprocess
import sys

import httpx
from process import eventually, free_ports

DEPLOY = pathlib.Path(__file__).parents[2] / "deploy/envoy"
BINARY = pathlib.Path(os.environ.get("ENVOY_BINARY") or pathlib.Path(sys.executable).parent / "envoy")


class Envoy:
    """`authority`, a PEM file, makes it speak TLS to the picker, whose certificate it verifies; "" accepts any."""

    def __init__(self, log_path, name, ext_proc_port, fallback_port=1, keep_client_headers=False, authority=None):
        self.port, admin = free_ports(), free_ports()
        text = (DEPLOY / name).read_text()
        if authority is not None:
            validation = f"validation_context: {{trusted_ca: {{filename: {authority}}}}}" if authority else ""
            before, cluster = text.split("  - name: ext_proc\n    type: STATIC\n")
            text = f"""{before}  - name: ext_proc
    type: STATIC
    transport_socket:
      name: envoy.transport_sockets.tls
      typed_config:
        "@type": type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.UpstreamTlsContext
        sni: localhost
        common_tls_context: {{alpn_protocols: [h2]{", " + validation if validation else ""}}}
{cluster}"""
        for old, new in {"port_value: 8081": self.port, "port_value: 19000": admin, "port_value: 9002": ext_proc_port,
                         "port_value: 8000": fallback_port}.items():
            text = text.replace(old, f"port_value: {new}")
        if keep_client_headers:
            text = "".join(line for line in text.splitlines(True) if "- remove: x-" not in line or "destination-endpoint\n" in line)
        path = pathlib.Path(str(log_path) + ".yaml")
        path.write_text(text.replace("0.0.0.0", "127.0.0.1"))
        self.log_path = pathlib.Path(log_path)
        self._log = open(log_path, "ab")
        self.popen = subprocess.Popen(
            ["setpriv", "--pdeathsig", "KILL", str(BINARY), "-c", str(path), "--concurrency", "2", "-l", "warn",
             "--disable-hot-restart"], stdin=subprocess.DEVNULL, stdout=self._log, stderr=self._log)
        self.admin = f"http://127.0.0.1:{admin}"
        eventually("envoy is ready", self._ready, seconds=60)

    @property
    def url(self):
        return f"http://127.0.0.1:{self.port}"

    def _ready(self):
        assert self.popen.poll() is None, self.log_path.read_text()
        try:
            return httpx.get(self.admin + "/ready", timeout=5).text.strip() == "LIVE"
        except httpx.HTTPError:
            return False

    def stop(self):
        self.popen.kill()
        self.popen.wait()
        self._log.close()
