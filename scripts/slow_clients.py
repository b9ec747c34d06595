#!/usr/bin/env python3
"""Good traffic beside clients that connect and dawdle: is it served as if they were not there?

    scripts/slow_clients.py [--llmd build/release/apps/llmd/llmd] [--seconds 60] [--connections 2000] [--rate 200]

First `llmd bench` alone against `llmd router` (two simulated servers behind it), then once more beside the slow clients; then the same
against `llmd sim` itself. The slow clients, in a process of their own, are a third idle connections, a third that send a head and a third
that send a body a byte at a time; who is closed comes back at once. Exit code 1 when the P99 of the good traffic grows beyond
twice what it was alone, when a good request fails, or when the server's memory grows by more than 64 kB a slow client.
"""
import argparse
import asyncio
import contextlib
import pathlib
import random
import re
import resource
import socket
import subprocess
import sys
import time
import urllib.request

MODEL = "m"
HEAD = b"POST /v1/chat/completions HTTP/1.1\r\nHost: slow\r\nX-Slow: "
BODY_HEAD = b"POST /v1/chat/completions HTTP/1.1\r\nHost: slow\r\nContent-Length: 1000000\r\n\r\n"
KB_PER_CLIENT = 64
P99_BAR = 2.0


class SlowClients:
    """Opens connections that stay slow until it is ended. Prints its counts at the end."""

    def __init__(self, port, count):
        self.port, self.count = port, count
        self.opened = self.open = self.closed = self.failed = 0

    async def client(self, kind):
        start = (b"", HEAD, BODY_HEAD)[kind]
        while True:
            try:
                reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
            except OSError:
                self.failed += 1
                await asyncio.sleep(1)
                continue
            self.opened += 1
            self.open += 1
            try:
                writer.write(start)
                ended = asyncio.ensure_future(reader.read())
                while not ended.done():
                    await asyncio.wait([ended], timeout=1)
                    if kind and not ended.done():
                        writer.write(b"x")
                ended.exception()
            except OSError:
                pass
            finally:
                self.open -= 1
                self.closed += 1
                writer.close()

    async def run(self):
        tasks = []
        for number in range(self.count):
            tasks.append(asyncio.create_task(self.client(number % 3)))
            if number % 50 == 49:
                await asyncio.sleep(0.02)
        await asyncio.to_thread(sys.stdin.read)  # until whoever started it says so
        print(f"{self.opened} {self.open} {self.closed} {self.failed}")
        for task in tasks:
            task.cancel()


def free_ports(count):
    """The first of `count` consecutive free ports below the range that the kernel hands out by itself."""
    while True:
        base = random.randrange(10_000, 30_000)
        with contextlib.ExitStack() as held, contextlib.suppress(OSError):
            for port in range(base, base + count):
                held.enter_context(socket.socket()).bind(("127.0.0.1", port))
            return base


def get(url):
    with urllib.request.urlopen(url, timeout=5) as answer:
        return answer.read().decode()


def wait_for(url):
    for _ in range(400):
        try:
            return get(url)
        except OSError:
            time.sleep(0.05)
    sys.exit(f"slow_clients: {url} does not answer")


def resident_kb(pid):
    return int(re.search(r"VmRSS:\s+(\d+)", pathlib.Path(f"/proc/{pid}/status").read_text())[1])


@contextlib.contextmanager
def process(*command, **options):
    popen = subprocess.Popen(["setpriv", "--pdeathsig", "KILL", *map(str, command)], **options)
    try:
        yield popen
    finally:
        popen.terminate()
        popen.wait()


def sim(llmd, port, replicas):
    return process(llmd, "sim", "--model", MODEL, "--port", port, "--replicas", replicas, "--max-num-seqs", 256, "--time-to-first-token", "5ms",
                   "--inter-token-latency", "2ms", stderr=subprocess.DEVNULL)


class Good:
    """What `llmd bench` saw."""

    def __init__(self, llmd, url, args):
        run = subprocess.run([llmd, "bench", "--url", url, "--model", MODEL, "--rate", str(args.rate), "--duration", str(args.seconds), "--max-tokens", "4",
                              "--context-tokens", "200"], capture_output=True, text=True)
        self.whole = run.returncode == 0
        self.text = run.stdout
        self.p50, self.p99 = map(float, re.search(r"TTFT +P50 +([\d.]+).*P99 +([\d.]+)", run.stdout).groups())


def measure(name, url, pid, args):
    alone = Good(args.llmd, url, args)
    before = resident_kb(pid)
    port = url.rsplit(":", 1)[1]
    with process(sys.executable, __file__, "--attack", port, "--connections", args.connections, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as slow:
        time.sleep(3)
        beside = Good(args.llmd, url, args)
        after = resident_kb(pid)
        counts, _ = slow.communicate("")
    opened, open_now, closed, failed = map(int, counts.split())
    ratio = beside.p99 / alone.p99
    per_client = (after - before) / args.connections
    good = alone.whole and beside.whole and ratio <= P99_BAR and per_client <= KB_PER_CLIENT and open_now > args.connections // 2
    print(f"| {name} | {alone.p50:.1f} / {alone.p99:.1f} | {beside.p50:.1f} / {beside.p99:.1f} | {ratio:.2f} | {before / 1024:.0f} → {after / 1024:.0f} | "
          f"{opened}, {open_now} at once, {closed} closed | {'yes' if good else 'NO'} |", flush=True)
    if not good and not (alone.whole and beside.whole):
        print(alone.text, beside.text, f"{failed} connections failed")
    return good


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--llmd", default="build/release/apps/llmd/llmd")
    parser.add_argument("--seconds", type=int, default=60)
    parser.add_argument("--connections", type=int, default=2000)
    parser.add_argument("--rate", type=int, default=200)
    parser.add_argument("--attack", type=int, help=argparse.SUPPRESS)
    args = parser.parse_args()
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    if args.attack:
        return asyncio.run(SlowClients(args.attack, args.connections).run())
    print(f"{args.rate} requests a second for {args.seconds} s, {args.connections} slow clients; TTFT in ms, memory in MB\n")
    print("| Server | alone, P50 / P99 | beside, P50 / P99 | P99 ratio | memory | slow connections | within bars |\n|---|---|---|---|---|---|---|", flush=True)
    ports = free_ports(4)
    with sim(args.llmd, ports, 2):
        wait_for(f"http://127.0.0.1:{ports}/health")
        port, admin = ports + 2, ports + 3
        with process(args.llmd, "router", "--host", "127.0.0.1", "--port", port, "--metrics-port", admin, "-v", 1, "--endpoint", f"http://127.0.0.1:{ports}",
                     "--endpoint", f"http://127.0.0.1:{ports + 1}", stderr=subprocess.DEVNULL) as router:
            wait_for(f"http://127.0.0.1:{admin}/readyz")
            good = measure("llmd router", f"http://127.0.0.1:{port}", router.pid, args)
    with sim(args.llmd, ports, 1) as one:
        wait_for(f"http://127.0.0.1:{ports}/health")
        good &= measure("llmd sim", f"http://127.0.0.1:{ports}", one.pid, args)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
