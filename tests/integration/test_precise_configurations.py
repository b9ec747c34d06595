"""The precise prefix cache as people configure it (specification 02 §13, 05 §8), embedded and behind Envoy."""

import pathlib

import httpx
import pytest
from envoy import Envoy
from process import MODEL, eventually, free_ports

pytest.importorskip("grpc")

ROOT = pathlib.Path(__file__).parents[2]
BLOCKS = "llmd_kv_index_blocks"
SERVERS = 2


def published(port, url):
    text = (ROOT / "tests/data/config/02-precise-prefix.yaml").read_text()
    return (text.replace("org/model", MODEL).replace("http://localhost:8000", url)
            .replace("{tokenProcessorConfig:", f"{{kvEventsConfig: {{podDiscoveryConfig: {{socketPort: {port}}}}}, tokenProcessorConfig:"))


def example(port, _):
    text = (ROOT / "deploy/examples/precise-prefix.yaml").read_text()
    return text.replace("5557", str(port)).replace("5657", str(port + SERVERS))


def every_parameter(port, _):
    return f"""
apiVersion: llm-d.ai/v1
kind: EndpointPickerConfig
plugins:
- type: precise-prefix-cache-producer
  name: precise
  parameters:
    tokenProcessorConfig: {{blockSizeTokens: 16, blockSize: 64, hashSeed: "42", hashAlgorithm: xxh64}}
    indexerConfig:
      kvBlockIndexConfig:
        inMemoryConfig: {{size: 1000000, podCacheSize: 10}}
        enableMetrics: true
        metricsLoggingInterval: 50000000
      kvCacheBackendConfigs: [{{name: gpu, weight: 1.0}}, {{name: cpu, weight: 0.8}}]
      kvBlockScorerConfig: {{scoringStrategy: LongestPrefix}}
    kvEventsConfig:
      zmqEndpoint: ""
      topicFilter: kv@
      concurrency: 2
      engineType: vllm
      discoverPods: true
      podDiscoveryConfig: {{podLabelSelector: "a=b", podNamespace: default, socketPort: {port}, replaySocketPort: {port + SERVERS}}}
    speculativeIndexing: true
    speculativeTTL: 1s
- {{type: prefix-cache-scorer, parameters: {{prefixMatchInfoProducerName: precise}}}}
schedulingProfiles: [{{name: default, plugins: [{{pluginRef: prefix-cache-scorer}}]}}]
"""


def deprecated_scorer(port, _):
    return f"""
apiVersion: llm-d.ai/v1
kind: EndpointPickerConfig
plugins:
- type: precise-prefix-cache-scorer
  parameters: {{kvEventsConfig: {{podDiscoveryConfig: {{socketPort: {port}}}}}}}
schedulingProfiles: [{{name: default, plugins: [{{pluginRef: precise-prefix-cache-scorer}}]}}]
"""


def prompts(kind):
    """One for each server: chats where tokens come from a render endpoint, token ids elsewhere."""
    if kind is published:
        return [("/v1/chat/completions", {"messages": [{"role": "user", "content": f"Server {i}: " + "blocks and tokens " * 100}]})
                for i in range(SERVERS)]
    return [("/v1/completions", {"prompt": list(range(5000 * i, 5000 * i + 300))}) for i in range(1, SERVERS + 1)]


def ask(url, path, body):
    answer = httpx.post(url + path, json={"model": MODEL, "max_tokens": 1, **body}, timeout=30)
    assert answer.status_code == 200, answer.text
    usage = answer.json()["usage"]
    return usage["prompt_tokens_details"]["cached_tokens"] if usage.get("prompt_tokens_details") else 0


@pytest.mark.parametrize("front", ["router", "envoy"])
@pytest.mark.parametrize("kind", [published, example, every_parameter, deprecated_scorer], ids=lambda kind: kind.__name__)
def test_requests_go_where_their_blocks_are(lab, tmp_path, kind, front):
    port = free_ports(2 * SERVERS)
    file = tmp_path / "endpoints.yaml"
    sim = lab.sim(replicas=SERVERS, enable_kvcache=True, zmq_endpoint=f"tcp://*:{port}",
                  kv_events_replay_endpoint=f"tcp://*:{port + SERVERS}", endpoints_out=file)
    eventually("the servers are in the file", file.exists)
    start = lab.router if front == "router" else lab.epp
    picker = start(config_text=kind(port, sim.urls[0]), endpoints_file=file)
    url = picker.url if front == "router" else lab._add(Envoy(lab._log("envoy"), "fail-closed.yaml", picker.grpc_port)).url

    for i, server in enumerate(sim.urls):  # until it is heard
        before = picker.value(BLOCKS)
        fresh = iter(range(1_000_000 * (i + 1), 1_000_000 * (i + 2), 1000))
        eventually("its events are heard", lambda: [
            ask(server, "/v1/completions", {"prompt": list(range(first, first + 64))}) for first in [next(fresh)]
        ] and picker.value(BLOCKS) > before)
    for server, (path, body) in zip(sim.urls, prompts(kind)):
        before = picker.value(BLOCKS)
        ask(server, path, body)
        eventually("its blocks are known", lambda: picker.value(BLOCKS) > before)
        assert all(ask(url, path, body) >= 64 for _ in range(4))
    if kind is every_parameter:
        eventually("what happens is logged", lambda: '"msg":"metrics beat"' in picker.log())
        assert picker.value("llm_d_epp_kv_cache_index_lookup_requests_total") == 4 * SERVERS
    if kind is published:
        assert picker.value("llmd_render_calls_total", result="failed") == 0
