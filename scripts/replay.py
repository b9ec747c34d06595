#!/usr/bin/env python3
"""Replays a trace against simulated servers behind one router, and behind two that share the requests, each time with each kind of
prefix cache: `make replay`, or

    LLMD_BINARY=build/release/apps/llmd/llmd build/venv/bin/python scripts/replay.py TRACE [--speed 5] [--seconds 900] [--blocks 8192]

Eight servers, each with a cache of so many blocks of 64 tokens, compute 10 000 tokens of a prompt a second and a token of an
answer every 20 ms, in the time of the trace. The approximate cache believes that an endpoint holds what its router sent it, up to
the size that the metrics page tells; the precise one hears of every block that is stored or evicted. Times in the
table are those of the trace.
"""
import argparse
import itertools
import pathlib
import re
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "tests/integration"))

import process  # noqa: E402

SERVERS, PREFILL_US, DECODE_MS = 8, 100, 20
CONFIG = """
apiVersion: llm-d.ai/v1
kind: EndpointPickerConfig
plugins:
- type: {name}
  parameters: {parameters}
- {{type: prefix-cache-scorer, parameters: {{prefixMatchInfoProducerName: {name}}}}}
- type: active-request-scorer
- type: max-score-picker
schedulingProfiles:
- name: default
  plugins: [{{pluginRef: prefix-cache-scorer, weight: 3}}, {{pluginRef: active-request-scorer, weight: 2}}, {{pluginRef: max-score-picker}}]
"""
SHARE = """
apiVersion: llm-d.ai/v1
kind: EndpointPickerConfig
plugins: [{type: random-picker}]
schedulingProfiles: [{name: default, plugins: [{pluginRef: random-picker}]}]
"""
PRODUCERS = {"approximate": "{{}}", "precise": "{{tokenProcessorConfig: {{blockSizeTokens: 64}}, speculativeIndexing: true, "
                                               "kvEventsConfig: {{podDiscoveryConfig: {{socketPort: {port}}}}}}}"}


def replay(folder, kind, routers, args):
    """What `llmd bench` prints."""
    port, file = process.free_ports(SERVERS), folder / "endpoints.yaml"
    file.unlink(missing_ok=True)
    running = [process.Sim(
        folder / "sim.log", replicas=SERVERS, max_model_len=1_000_000, max_num_seqs=64, enable_kvcache=True, kv_cache_size=args.blocks,
        block_size=64, prefill_time_per_token=f"{1000 * PREFILL_US / args.speed:.0f}ns",
        inter_token_latency=f"{1000 * DECODE_MS / args.speed:.0f}us", zmq_endpoint=f"tcp://*:{port}", endpoints_out=file)]
    process.eventually("the servers are in the file", file.exists)
    config = CONFIG.format(name=f"{'approx' if kind == 'approximate' else kind}-prefix-cache-producer", parameters=PRODUCERS[kind].format(port=port))
    for i in range(routers):
        running.append(process.Router(folder / f"router{i}.log", loops=1, refresh_metrics_interval="50ms", endpoints_file=file, config_text=config))
    if routers > 1:
        running.append(process.Router(folder / "share.log", loops=1, endpoint=[router.url for router in running[1:]], config_text=SHARE))
    text = subprocess.run([process.BINARY, "bench", "--url", running[-1].url, "--model", process.MODEL, "--trace", args.trace,
                           "--speed", str(args.speed), "--duration", str(args.seconds / args.speed), "--max-tokens", "64"],
                          stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True).stdout
    for one in reversed(running):
        one.stop()
    return text


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("trace")
    parser.add_argument("--speed", type=float, default=5)
    parser.add_argument("--seconds", type=float, default=900, help="of the trace")
    parser.add_argument("--blocks", type=int, default=8192, help="that a server's cache holds")
    args = parser.parse_args()
    if not pathlib.Path(args.trace).exists():
        sys.exit(f"replay: there is no trace {args.trace}; give its path (TRACE=…): the Mooncake conversation trace, or one of Azure")
    print("| routers | prefix cache | requests | token hit rate | TTFT mean, ms | P50 | P95 | P99 |\n|---|---|---|---|---|---|---|---|", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        for routers, kind in itertools.product((1, 2), PRODUCERS):
            text = replay(pathlib.Path(folder), kind, routers, args)
            sent, ok = re.search(r"(\d+) sent .*?: (\d+) ok", text).groups()
            if sent != ok:
                sys.exit(f"replay: not every request was answered:\n{text}")
            hit = re.search(r"([\d.]+) % of them from caches", text).group(1)
            p50, p95, p99, mean = (float(x) * args.speed for x in
                                   re.search(r"TTFT +P50 +([\d.]+) +P95 +([\d.]+) +P99 +([\d.]+) +mean +([\d.]+)", text).groups())
            print(f"| {routers} | {kind} | {ok} | {hit} % | {mean:.0f} | {p50:.0f} | {p95:.0f} | {p99:.0f} |", flush=True)


if __name__ == "__main__":
    main()
