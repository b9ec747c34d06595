"""Certificates for tests, made with the openssl program, and Python's side of TLS."""

import os
import pathlib
import ssl
import subprocess


class Authority:
    """Signs certificates; everything is in files of `directory`."""

    def __init__(self, directory, name="authority"):
        self.directory = pathlib.Path(directory)
        self.name = name
        self.file, self._key = self._make(name, ["-addext", "basicConstraints=critical,CA:TRUE"])

    def _make(self, name, more):
        crt, key = self.directory / f"{name}.crt", self.directory / f"{name}.key"
        subprocess.run(
            ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2",
             "-subj", f"/CN={name}", "-keyout", str(key), "-out", str(crt), *more], check=True, capture_output=True)
        return crt, key

    def issue(self, name, names=("localhost", "127.0.0.1")):
        """(certificate file, key file) for `names`."""
        alternatives = ",".join(("IP:" if n[0].isdigit() else "DNS:") + n for n in names)
        return self._make(f"{self.name}-{name}", [
            "-CA", str(self.file), "-CAkey", str(self._key), "-addext", f"subjectAltName={alternatives}",
            "-addext", "basicConstraints=critical,CA:FALSE"])

    def secret(self, folder, pair):
        """`pair` as Kubernetes mounts a secret: tls.crt and tls.key are links into ..data, which is swapped as a whole."""
        folder = self.directory / folder
        folder.mkdir(exist_ok=True)
        version = folder / f"..{len(list(folder.glob('..[0-9]*')))}"
        version.mkdir()
        for name, file in zip(("tls.crt", "tls.key"), pair):
            (version / name).write_bytes(pathlib.Path(file).read_bytes())
            if not (folder / name).is_symlink():
                (folder / name).symlink_to(f"..data/{name}")
        (folder / "..tmp").symlink_to(version.name)
        os.replace(folder / "..tmp", folder / "..data")
        return folder

    def client(self, certificate=None, highest=None):
        context = ssl.create_default_context(cafile=str(self.file))
        context.set_alpn_protocols(["http/1.1"])
        if certificate:
            context.load_cert_chain(*map(str, certificate))
        if highest:
            context.maximum_version = highest
        return context

    def server(self, pair, client_authority=None):
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(*map(str, pair))
        if client_authority:
            context.load_verify_locations(str(client_authority.file))
            context.verify_mode = ssl.CERT_REQUIRED
        return context


def serial_of(port, context, host="127.0.0.1"):
    """The serial number of the certificate that a new connection is shown."""
    import socket
    with socket.create_connection((host, port), timeout=10) as plain:
        with context.wrap_socket(plain, server_hostname="localhost") as secure:
            return secure.getpeercert()["serialNumber"]


def serial_in(file):
    out = subprocess.run(["openssl", "x509", "-in", str(file), "-noout", "-serial"], check=True, capture_output=True, text=True)
    return out.stdout.strip().split("=")[1]
