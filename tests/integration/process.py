"""Starts llmd processes on free ports, waits for them without fixed sleeps, and never leaves one behind."""

import os
import pathlib
import random
import re
import signal
import socket
import subprocess
import time

import httpx

BINARY = os.environ.get("LLMD_BINARY", "build/asan/apps/llmd/llmd")
MODEL = "test-model"
START_SECONDS = 60  # tokenizers and certificates take their time on a busy machine
SANITIZER_REPORT = re.compile(r"ERROR: \w*Sanitizer|WARNING: ThreadSanitizer|runtime error:|CHECK failed")


def eventually(what, condition, seconds=20.0, interval=0.02):
    """Polls until condition() is truthy and returns that; fails with the last value after `seconds`."""
    deadline = time.monotonic() + seconds
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > deadline:
            raise AssertionError(f"{what}: still {value!r} after {seconds:g} s")
        time.sleep(interval)


def free_ports(count=1):
    """The first of `count` consecutive ports that are free now, below the range the kernel hands out by itself."""
    for _ in range(200):
        base = random.randrange(10_000, 30_000)
        sockets = []
        try:
            for port in range(base, base + count):
                s = socket.socket()
                s.bind(("127.0.0.1", port))
                sockets.append(s)
            return base
        except OSError:
            continue
        finally:
            for s in sockets:
                s.close()
    raise AssertionError("no free ports")


def flags(options):
    """{"max_num_seqs": 4, "endpoint": ["a", "b"], "enable_kvcache": True} as command-line flags."""
    out = []
    for key, value in options.items():
        flag = "--" + key.replace("_", "-")
        for item in value if isinstance(value, list) else [value]:
            out += [flag] if item is True else [flag, str(item)]
    return out


class Process:
    """One llmd process with its log. stop() asserts a clean end: exit code 0 and no sanitizer report."""

    def __init__(self, command, arguments, log_path):
        self.log_path = pathlib.Path(log_path)
        self.stopped = False
        self._log = open(self.log_path, "ab")
        self.popen = subprocess.Popen(
            ["setpriv", "--pdeathsig", "KILL", BINARY, command, *arguments],
            stdin=subprocess.DEVNULL, stdout=self._log, stderr=self._log, start_new_session=True)

    @property
    def pid(self):
        return self.popen.pid

    def log(self):
        return self.log_path.read_text(errors="replace")

    def check_alive(self):
        code = self.popen.poll()
        assert code is None, f"{self.log_path.name} ended with {code}:\n{self.log()[-3000:]}"
        return True

    def wait_for(self, what, condition, seconds=20.0):
        return eventually(what, lambda: self.check_alive() and condition(), seconds)

    def kill(self):
        """Ends it at once, as a crash would."""
        self.popen.send_signal(signal.SIGCONT)
        self.popen.kill()
        self.popen.wait()
        self.stopped = True
        self._log.close()

    def stop(self, sig=signal.SIGTERM, seconds=60):
        if self.stopped:
            return
        self.stopped = True
        self.popen.send_signal(signal.SIGCONT)
        self.popen.send_signal(sig)
        try:
            code = self.popen.wait(seconds)
        except subprocess.TimeoutExpired:
            self.popen.kill()
            self.popen.wait()
            raise AssertionError(f"{self.log_path.name} ignored {sig!r}:\n{self.log()[-3000:]}") from None
        finally:
            self._log.close()
        report = SANITIZER_REPORT.search(self.log())
        assert code == 0 and not report, f"{self.log_path.name} ended with {code}:\n{self.log()[-6000:]}"


def http_ok(url):
    try:
        return httpx.get(url, timeout=5).status_code == 200
    except httpx.HTTPError:
        return False


class Sim(Process):
    """`llmd sim` with `replicas` servers on consecutive ports."""

    def __init__(self, log_path, replicas=1, port=None, **options):
        self.port = port or free_ports(replicas)
        self.ports = [self.port + i for i in range(replicas)]
        options.setdefault("model", MODEL)
        options.setdefault("max_model_len", 16384)
        super().__init__("sim", flags({"port": self.port, "replicas": replicas, **options}), log_path)
        for url in self.urls:
            self.wait_for("simulated server answers", lambda u=url: http_ok(u + "/health"), START_SECONDS)

    @property
    def urls(self):
        return [f"http://127.0.0.1:{p}" for p in self.ports]


class Router(Process):
    """`llmd router` on free ports. `options` are its flags; `endpoint` takes a list of URLs."""

    def __init__(self, log_path, wait_ready=True, **options):
        self.port = options.pop("port", None) or free_ports()
        self.metrics_port = options.pop("metrics_port", None) or free_ports()
        super().__init__("router", flags({"host": "127.0.0.1", "port": self.port, "metrics_port": self.metrics_port,
                                          "loops": 2, "drain_timeout": "0", **options}), log_path)
        if wait_ready:
            self.wait_for("router is ready", lambda: http_ok(f"{self.admin}/readyz"), START_SECONDS)

    @property
    def url(self):
        return f"http://127.0.0.1:{self.port}"

    @property
    def admin(self):
        return f"http://127.0.0.1:{self.metrics_port}"

    def metrics(self):
        from prometheus import Page
        return Page(httpx.get(f"{self.admin}/metrics", timeout=10).text)

    def value(self, name, **labels):
        return self.metrics().value(name, **labels)


class TokenizerService(Process):
    """`llmd tokenizer` of these models, by name."""

    def __init__(self, log_path, models, **options):
        self.port, self.grpc_port = free_ports(), free_ports()
        models = [f"{name}={folder}" for name, folder in models.items()]
        super().__init__("tokenizer", flags({"host": "127.0.0.1", "http_port": self.port, "grpc_port": self.grpc_port,
                                             "model": models, **options}), log_path)
        self.wait_for("tokenizers are open", lambda: http_ok(f"{self.url}/healthz"), seconds=300)

    @property
    def url(self):
        return f"http://127.0.0.1:{self.port}"


class KvIndexer(Process):
    """`llmd kv-indexer` on free ports."""

    def __init__(self, log_path, **options):
        self.port, self.grpc_port = free_ports(), free_ports()
        super().__init__("kv-indexer", flags({"host": "127.0.0.1", "http_port": self.port, "grpc_port": self.grpc_port,
                                              **options}), log_path)
        self.wait_for("indexer answers", lambda: http_ok(f"{self.url}/healthz"), START_SECONDS)

    @property
    def url(self):
        return f"http://127.0.0.1:{self.port}"

    def value(self, name, **labels):
        from prometheus import Page
        return Page(httpx.get(f"{self.url}/metrics", timeout=10).text).value(name, **labels)
