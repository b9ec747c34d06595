"""The prefix-cache experiment in small: both of its configurations, end to end."""

import pathlib

import httpx
import pytest

from process import MODEL

EXAMPLES = pathlib.Path(__file__).parents[2] / "deploy" / "examples"
SERVED = "x-llm-d-served-endpoint"


def ask(router, content):
    response = httpx.post(router.url + "/v1/chat/completions", timeout=60, json={
        "model": MODEL, "max_tokens": 2, "messages": [{"role": "user", "content": content}]})
    response.raise_for_status()
    return response.headers[SERVED]


def context(i):
    return f"{i:08x} " + " ".join(f"fact {i * 1000 + j} holds." for j in range(400))


def run_pairs(lab, config, pairs):
    sim = lab.sim(replicas=2, enable_kvcache=True, kv_cache_size=4096)
    router = lab.router(endpoint=sim.urls, config_file=EXAMPLES / config, refresh_metrics_interval="1s")
    return [(ask(router, context(i) + "\nQuestion: one?"), ask(router, context(i) + "\nQuestion: two?")) for i in range(pairs)], sim


def test_a_prefix_comes_back_to_its_server_and_new_ones_are_spread(lab):
    pairs, sim = run_pairs(lab, "prefix-aware.yaml", 12)
    assert all(first == second for first, second in pairs)
    assert len({first for first, _ in pairs}) == 2
    hits = queries = 0
    for url in sim.urls:
        for line in httpx.get(url + "/metrics").text.splitlines():
            if line.startswith("vllm:prefix_cache_hits_total"):
                hits += float(line.rsplit(" ", 1)[1])
            if line.startswith("vllm:prefix_cache_queries_total"):
                queries += float(line.rsplit(" ", 1)[1])
    assert 0.45 < hits / queries < 0.5


def test_the_random_policy_does_not_come_back(lab):
    pairs, _ = run_pairs(lab, "random.yaml", 24)
    # All 24 alike has a chance of 2^-24.
    assert any(first != second for first, second in pairs)


@pytest.mark.parametrize("config", sorted(p.name for p in EXAMPLES.glob("*.yaml") if p.name != "endpoints.yaml"))
def test_every_example_configuration_passes_check(config):
    import subprocess
    from process import BINARY
    flags = [flag for flag in ["--allow-experimental-plugins"] if flag in (EXAMPLES / config).read_text()]
    done = subprocess.run([BINARY, "check", "--config-file", EXAMPLES / config, *flags], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
