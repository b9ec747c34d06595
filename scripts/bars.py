#!/usr/bin/env python3
"""Measures llmd router beside nginx on this machine and prints the table of docs/performance.md.

    scripts/bars.py [--llmd build/dist/llmd] [--bench ../shared/bench] [--seconds 15] [--rounds 3] [CASE ...]

Both proxies get the same backends and the same load, alternating A B A B; figures are medians over the rounds. CPU is the
process's own accounting, so latency of the load generator does not matter. Needs nginx, Go, and the folder that holds the
load generator (peerbench/), nginx.conf and, for the scrape case, a captured metrics page.
"""
import argparse
import pathlib
import re
import shutil
import signal
import statistics
import subprocess
import sys
import time
import urllib.request

CASES = {
    # name: (load flags, requests per second, bar as a multiple of nginx)
    "small": (["-prompt-bytes", "800"], 200, 1.0),
    "large": (["-prompt-bytes", "400000"], 50, 2.0),
    "stream": (["-prompt-bytes", "800", "-stream"], 20, 1.05),
}
ROUTER_PORT, METRICS_PORT, NGINX_PORT, BACKEND_PORT, BACKENDS = 8086, 9096, 8084, 9100, 8


def wait_for(url, seconds=20):
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        try:
            with urllib.request.urlopen(url, timeout=1) as answer:
                return answer.read().decode()
        except OSError:
            time.sleep(0.05)
    sys.exit(f"bars: {url} does not answer")


def cpu_seconds(pid):
    total = 0
    for task in pathlib.Path(f"/proc/{pid}/task").iterdir():
        total += int((task / "schedstat").read_text().split()[0])
    return total / 1e9


class Bench:
    def __init__(self, args):
        self.args = args
        self.out = pathlib.Path("build/bars")
        self.out.mkdir(parents=True, exist_ok=True)
        self.peerbench = self.out / "peerbench"
        bench = pathlib.Path(args.bench)
        for needed in (bench / "peerbench", bench / "nginx.conf", pathlib.Path(args.llmd)):
            if not needed.exists():
                sys.exit(f"bars: {needed} is missing")
        for tool in ("nginx", "go"):
            if not shutil.which(tool):
                sys.exit(f"bars: {tool} is not installed")
        subprocess.run(["go", "build", "-o", self.peerbench.resolve(), "."], cwd=bench / "peerbench", check=True)
        self.running = []

    def start(self, name, command):
        log = open(self.out / f"{name}.log", "w")
        process = subprocess.Popen(command, stdout=log, stderr=log)
        self.running.append(process)
        return process.pid

    def stop_all(self):
        for process in reversed(self.running):
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
        self.running.clear()

    def backends(self):
        command = [self.peerbench, "backend", "-base-port", str(BACKEND_PORT), "-n", str(BACKENDS), "-chunks", "100",
                   "-gap", "10ms"]
        if self.args.page:
            command += ["-metrics-file", self.args.page]
        self.start("backend", command)
        wait_for(f"http://127.0.0.1:{BACKEND_PORT}/health")

    def router(self, interval):
        command = [self.args.llmd, "router", "--host", "127.0.0.1", "--port", str(ROUTER_PORT), "--loops", "1",
                   "--metrics-port", str(METRICS_PORT), "--refresh-metrics-interval", interval, "--drain-timeout", "0"]
        if self.args.config:
            command += ["--config-file", self.args.config]
        for i in range(BACKENDS):
            command += ["--endpoint", f"http://127.0.0.1:{BACKEND_PORT + i}"]
        pid = self.start("router", command)
        wait_for(f"http://127.0.0.1:{METRICS_PORT}/readyz")
        return pid

    def nginx(self):
        prefix = self.out / "nginx"
        (prefix / "logs").mkdir(parents=True, exist_ok=True)
        conf = (pathlib.Path(self.args.bench) / "nginx.conf").resolve()
        master = self.start("nginx", ["nginx", "-p", str(prefix.resolve()), "-c", str(conf), "-g",
                                      f"daemon off; pid {prefix.resolve()}/nginx.pid;"])
        wait_for(f"http://127.0.0.1:{NGINX_PORT}/health")
        return int(subprocess.check_output(["pgrep", "-P", str(master)]).split()[0])

    def load(self, port, pid, flags, rps):
        output = subprocess.check_output(
            [self.peerbench, "load", "-url", f"http://127.0.0.1:{port}/v1/completions", "-rps", str(rps), "-dur",
             f"{self.args.seconds}s", "-pid", f"proxy={pid}", *flags], text=True)
        if not re.search(r"codes map\[200:\d+\]", output):
            sys.exit(f"bars: not every request was answered with 200:\n{output}")
        cpu = float(re.search(r"cpu proxy\s+[\d.]+ cores, ([\d.]+) ms/request", output).group(1))
        ttft = float(re.search(r"ttft\s+p50 ([\d.]+)", output).group(1))
        memory = re.search(r"peak RSS (\S+)", output).group(1)
        return cpu, ttft, memory


def first_byte_p99(page):
    """P99 in microseconds of the router's own histogram, as the upper bound of its bucket."""
    buckets = []
    for line in page.splitlines():
        match = re.match(r'llmd_router_overhead_seconds_bucket\{.*le="([^"]+)"\} (\S+)', line)
        if match:
            buckets.append((float(match.group(1)), float(match.group(2))))
    total = buckets[-1][1] if buckets else 0
    return next((bound * 1e6 for bound, count in buckets if total and count >= 0.99 * total), float("nan"))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--llmd", default="build/dist/llmd")
    parser.add_argument("--bench", default="../shared/bench")
    parser.add_argument("--page", default="../shared/data/vllm/metrics-after-load.txt")
    parser.add_argument("--config", help="EndpointPickerConfig; without it the built-in one, which hashes prefixes")
    parser.add_argument("--seconds", type=int, default=15)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("cases", nargs="*", default=[*CASES, "scrape"])
    args = parser.parse_args()
    bench = Bench(args)
    try:
        bench.backends()
        print("| work | nginx, CPU ms/request | llmd | ratio | bar | llmd TTFT p50 ms | llmd peak RSS |\n|---|---|---|---|---|---|---|")
        router, nginx = bench.router("1s"), bench.nginx()
        for case in args.cases:
            if case not in CASES:
                continue
            flags, rps, bar = CASES[case]
            ours, theirs = [], []
            for _ in range(args.rounds):
                theirs.append(bench.load(NGINX_PORT, nginx, flags, rps))
                ours.append(bench.load(ROUTER_PORT, router, flags, rps))
            a = statistics.median(x[0] for x in theirs)
            b = statistics.median(x[0] for x in ours)
            print(f"| {case}, {rps} rps | {a:.3f} | {b:.3f} | {b / a:.2f} | {bar} | "
                  f"{statistics.median(x[1] for x in ours):.2f} | {ours[-1][2]} |", flush=True)
            if case == "small":
                page = wait_for(f"http://127.0.0.1:{METRICS_PORT}/metrics")
                print(f"last request byte to first upstream byte, P99: <= {first_byte_p99(page):.0f} us (bar 300)", flush=True)
        if "scrape" in args.cases:
            bench.stop_all()
            bench.backends()
            pid = bench.router("50ms")
            time.sleep(2)
            before, begin = cpu_seconds(pid), time.monotonic()
            time.sleep(args.seconds)
            share = (cpu_seconds(pid) - before) / (time.monotonic() - begin)
            print(f"scraping {BACKENDS} endpoints every 50 ms: {share * 100:.2f} % of a core (bar 1.5)")
    finally:
        bench.stop_all()


if __name__ == "__main__":
    main()
