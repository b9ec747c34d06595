#!/usr/bin/env python3
"""Replays a trace against simulated servers behind a router, once with each kind of prefix cache: `make replay`, or

    LLMD_BINARY=build/release/apps/llmd/llmd build/venv/bin/python scripts/replay.py TRACE [--speed 10] [--seconds 1800]

Eight servers, each with a cache of 4 096 blocks of 64 tokens, compute 10 000 tokens of a prompt a second and a token of an
answer every 20 ms, in the time of the trace; the approximate cache believes that an endpoint holds what it was sent, the
precise one hears of every block that is stored or evicted. Times in the table are those of the trace.
"""
import argparse
import pathlib
import re
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "tests/integration"))

import process  # noqa: E402

PREFILL_US, DECODE_MS = 100, 20
CONFIG = """
apiVersion: llm-d.ai/v1
kind: EndpointPickerConfig
plugins:
- {producer}
- {{type: prefix-cache-scorer, parameters: {{prefixMatchInfoProducerName: {name}}}}}
- type: active-request-scorer
- type: max-score-picker
schedulingProfiles:
- name: default
  plugins: [{{pluginRef: prefix-cache-scorer, weight: 3}}, {{pluginRef: active-request-scorer, weight: 2}}, {{pluginRef: max-score-picker}}]
"""
APPROXIMATE = "{type: approx-prefix-cache-producer}"
PRECISE = """type: precise-prefix-cache-producer
  parameters:
    tokenProcessorConfig: {blockSizeTokens: 64}
    speculativeIndexing: true
    kvEventsConfig: {zmqEndpoint: 'tcp://127.0.0.1:%d', discoverPods: false}"""


def replay(folder, kind, producer, port, args):
    """What `llmd bench` prints."""
    servers = process.Sim(folder / f"{kind}.sim.log", replicas=8, max_model_len=1_000_000, max_num_seqs=64, enable_kvcache=True,
                          kv_cache_size=4096, block_size=64, prefill_time_per_token=f"{1000 * PREFILL_US / args.speed:.0f}ns",
                          inter_token_latency=f"{1000 * DECODE_MS / args.speed:.0f}us", zmq_endpoint=f"tcp://127.0.0.1:{port}")
    name = re.match(r"\{?type: ([a-z-]+)", producer).group(1)
    router = process.Router(folder / f"{kind}.router.log", loops=1, refresh_metrics_interval="50ms", endpoint=servers.urls,
                            config_text=CONFIG.format(producer=producer, name=name))
    text = subprocess.run([process.BINARY, "bench", "--url", router.url, "--model", process.MODEL, "--trace", args.trace,
                           "--speed", str(args.speed), "--duration", str(args.seconds / args.speed), "--max-tokens", "64"],
                          stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True).stdout
    router.stop()
    servers.stop()
    return text


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("trace")
    parser.add_argument("--speed", type=float, default=10)
    parser.add_argument("--seconds", type=float, default=1800, help="of the trace")
    args = parser.parse_args()
    if not pathlib.Path(args.trace).exists():
        sys.exit(f"replay: there is no trace {args.trace}; give its path (TRACE=…): the Mooncake conversation trace, or one of Azure")
    port = process.free_ports()
    print("| prefix cache | requests | token hit rate | TTFT mean, ms | P50 | P95 | P99 |\n|---|---|---|---|---|---|---|", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        for kind, producer in {"approximate": APPROXIMATE, "precise": PRECISE % port}.items():
            text = replay(pathlib.Path(folder), kind, producer, port, args)
            sent, ok = re.search(r"(\d+) sent .*?: (\d+) ok", text).groups()
            if sent != ok:
                sys.exit(f"replay: not every request was answered:\n{text}")
            hit = re.search(r"([\d.]+) % of them from caches", text).group(1)
            p50, p95, p99, mean = (float(x) * args.speed for x in
                                   re.search(r"TTFT +P50 +([\d.]+) +P95 +([\d.]+) +P99 +([\d.]+) +mean +([\d.]+)", text).groups())
            print(f"| {kind} | {ok} | {hit} % | {mean:.0f} | {p50:.0f} | {p95:.0f} | {p99:.0f} |", flush=True)


if __name__ == "__main__":
    main()
