"""A real redis-server for tests, and the little of its protocol that they need to look inside."""

import socket
import subprocess

from process import eventually, free_ports


class RedisServer:
    """Listens on a free port of loopback, with TLS where `certificate` is given, and on a unix socket. Keeps nothing on disk."""

    def __init__(self, directory, password=None, certificate=None):
        self.port = free_ports()
        self.path = directory / "redis.sock"
        self.command = ["setpriv", "--pdeathsig", "KILL", "redis-server", "--bind", "127.0.0.1", "--save", "", "--appendonly", "no",
                        "--dir", str(directory), "--unixsocket", str(self.path)]
        if certificate:
            self.command += ["--port", "0", "--tls-port", str(self.port), "--tls-cert-file", str(certificate[0]),
                             "--tls-key-file", str(certificate[1]), "--tls-auth-clients", "no", "--tls-ca-cert-file", str(certificate[0])]
        else:
            self.command += ["--port", str(self.port)]
        if password:
            self.command += ["--requirepass", password]
        self.password = password
        self.log = directory / "redis.log"
        self.popen = None
        self.start()

    def start(self):
        with open(self.log, "ab") as log:
            self.popen = subprocess.Popen(self.command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True)
        eventually("redis-server answers", self._answers)

    def kill(self):
        self.popen.kill()
        self.popen.wait()

    def stop(self):
        self.kill()

    def _answers(self):
        assert self.popen.poll() is None, self.log.read_text()
        try:
            return self.ask("PING") == "PONG"
        except OSError:
            return False

    def ask(self, *words):
        """The reply to one command; texts as str."""
        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(20)
            connection.connect(str(self.path))
            with connection.makefile("rb") as file:
                for command in ([["AUTH", self.password]] if self.password else []) + [words]:
                    connection.sendall(b"*%d\r\n" % len(command) + b"".join(
                        b"$%d\r\n%s\r\n" % (len(word.encode()), word.encode()) for word in command))
                    reply = self._reply(file)
                return reply

    def _reply(self, file):
        line = file.readline()
        kind, text = line[:1], line[1:-2].decode()
        if kind == b"$":
            return None if text == "-1" else file.read(int(text) + 2)[:-2].decode()
        if kind == b"*":
            return [self._reply(file) for _ in range(int(text))]
        assert kind in b"+:", line
        return int(text) if kind == b":" else text

    def keys(self):
        return sorted(self.ask("KEYS", "*"))
