#!/usr/bin/env python3
"""The work whose profile scripts/dist.sh builds with.

    build/venv/bin/python scripts/dist_train.py LLMD INSTRUMENTED

INSTRUMENTED is LLMD with instruments; each of its processes writes a profile when it ends. A router, and then a picker behind
Envoy, serve small and large prompts, plain answers and streams, from simulated servers.
"""
import json
import pathlib
import random
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "tests/integration"))

import httpx  # noqa: E402
import process  # noqa: E402
from envoy import Envoy  # noqa: E402
from ext_proc import Epp  # noqa: E402

OUT = pathlib.Path("build/dist")


def completions(url, count, prompt_bytes):
    """Plain requests over one connection; every fourth prompt was sent before."""
    rng = random.Random(prompt_bytes)
    prompts = ["".join(rng.choices("abcdefghijklmnopqrstuvwxyz \n", k=prompt_bytes)) for _ in range(min(count, 200))]
    with httpx.Client(base_url=url, timeout=30) as client:
        for i in range(count):
            prompt = prompts[i % len(prompts)] if i % 4 else rng.choice(prompts)
            body = json.dumps({"model": process.MODEL, "max_tokens": 16, "prompt": f"{i if i % 4 else ''}{prompt}"})
            client.post("/v1/completions", content=body, headers={"Content-Type": "application/json"}).raise_for_status()


def work(llmd, url):
    completions(url, 2000, 800)
    completions(url, 100, 400_000)
    subprocess.run([llmd, "bench", "--url", url, "--model", process.MODEL, "--rate", "40", "--duration", "10", "--max-tokens", "64"],
                   check=True)


def main():
    llmd, instrumented = sys.argv[1:]
    process.BINARY = llmd
    servers = process.Sim(OUT / "sim.log", replicas=8, max_model_len=400_000, time_to_first_token="1ms", inter_token_latency="2ms")
    process.BINARY = instrumented
    router = process.Router(OUT / "router.log", loops=1, refresh_metrics_interval="200ms", endpoint=servers.urls)
    work(llmd, router.url)
    router.metrics()
    router.stop()
    picker = Epp(OUT / "epp.log", servers.ports, loops=1, refresh_metrics_interval="200ms")
    envoy = Envoy(OUT / "envoy.log", "fail-closed.yaml", picker.grpc_port)
    work(llmd, envoy.url)
    picker.stop()
    envoy.stop()
    servers.stop()


if __name__ == "__main__":
    main()
