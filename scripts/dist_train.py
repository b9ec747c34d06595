#!/usr/bin/env python3
"""The work whose profile scripts/dist.sh builds with.

    scripts/dist_train.py LLMD ROUTER

ROUTER is LLMD with instruments and writes its profile when it ends. It serves small and large prompts, plain answers and
streams, from simulated servers.
"""
import http.client
import json
import pathlib
import random
import re
import signal
import socket
import subprocess
import sys
import time

MODEL = "sim-model"
ENDPOINTS = pathlib.Path("build/dist/endpoints.yaml")


def wait_for(what, seconds=60):
    deadline = time.monotonic() + seconds
    while not what():
        if time.monotonic() > deadline:
            sys.exit("dist_train: a process does not come up")
        time.sleep(0.1)


def answers(port, path):
    try:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
        connection.request("GET", path)
        return connection.getresponse().status == 200
    except OSError:
        return False


def free_ports(count):
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [s.getsockname()[1] for s in sockets]
    for s in sockets:
        s.close()
    return ports


def completions(port, count, prompt_bytes):
    """Plain requests over one connection; every fourth prompt was sent before."""
    rng = random.Random(prompt_bytes)
    prompts = ["".join(rng.choices("abcdefghijklmnopqrstuvwxyz \n", k=prompt_bytes)) for _ in range(min(count, 200))]
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    for i in range(count):
        prompt = prompts[i % len(prompts)] if i % 4 else rng.choice(prompts)
        body = json.dumps({"model": MODEL, "max_tokens": 16, "prompt": f"{i if i % 4 else ''}{prompt}"})
        connection.request("POST", "/v1/completions", body, {"Content-Type": "application/json"})
        answer = connection.getresponse()
        answer.read()
        if answer.status != 200:
            sys.exit(f"dist_train: a request was answered {answer.status}")


def main():
    llmd, router = sys.argv[1:]
    children = []

    def start(*command):
        children.append(subprocess.Popen(command))

    try:
        ENDPOINTS.unlink(missing_ok=True)
        start(llmd, "sim", "--host", "127.0.0.1", "--port", "0", "--replicas", "8", "--model", MODEL, "--max-model-len", "400000",
              "--time-to-first-token", "1ms", "--inter-token-latency", "2ms", "--endpoints-out", str(ENDPOINTS))
        wait_for(ENDPOINTS.exists)
        servers = re.findall(r"address: (\S+)\n +port: \"(\d+)\"", ENDPOINTS.read_text())
        port, metrics_port = free_ports(2)
        start(router, "router", "--host", "127.0.0.1", "--port", str(port), "--metrics-port", str(metrics_port), "--loops", "1",
              "--refresh-metrics-interval", "200ms", "--drain-timeout", "0",
              *(f"--endpoint=http://{address}:{server}" for address, server in servers))
        wait_for(lambda: answers(metrics_port, "/readyz"))
        completions(port, 2000, 800)
        completions(port, 100, 400_000)
        subprocess.run([llmd, "bench", "--url", f"http://127.0.0.1:{port}", "--model", MODEL, "--rate", "40", "--duration", "10",
                        "--max-tokens", "64"], check=True)
        answers(metrics_port, "/metrics")
    finally:
        for child in reversed(children):
            child.send_signal(signal.SIGTERM)
            child.wait(60)


if __name__ == "__main__":
    main()
