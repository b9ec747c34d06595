"""The admin port: the metrics contract against the reference's recorded page, health, readiness, plugin state."""

import json
import pathlib

import httpx
import pytest

from conftest import client_of
from process import MODEL, eventually
from prometheus import Page

REFERENCE = Page((pathlib.Path(__file__).parents[1] / "data" / "conformance" / "metrics" / "default.txt").read_text())

# Families of the recorded page that belong to other parts: the ext-proc stream and the prefix index.
ELSEWHERE = ("llm_d_epp_extproc_", "llm_d_epp_prefix_indexer_", "inference_extension_prefix_indexer_")
EXPECTED = sorted(f for f in REFERENCE.types if not f.startswith(ELSEWHERE))

# Defined beside the recorded ones; a quiet page of the reference does not show them.
L4 = ("fairness_id", "model_name", "priority", "target_model_name")
TYPED = {
    "llm_d_epp_request_cached_tokens": ("histogram", L4),
    "inference_objective_prompt_cached_tokens": ("histogram", ("model_name", "target_model_name")),
}


@pytest.fixture(scope="module")
def page(module_lab):
    sim = module_lab.sim(replicas=3, inter_token_latency="2ms", enable_kvcache=True)
    router = module_lab.router(endpoint=sim.urls, refresh_prometheus_metrics_interval="200ms")
    client = client_of(router)
    ask = {"model": MODEL, "messages": [{"role": "user", "content": "word " * 300}], "max_tokens": 12, "extra_body": {"ignore_eos": True}}
    for _ in range(3):
        client.chat.completions.create(**ask)
        list(client.chat.completions.create(**ask, stream=True, stream_options={"include_usage": True}))
    httpx.post(router.url + "/v1/chat/completions", json={"model": "none", "messages": [{"role": "user", "content": "x"}]})
    httpx.post(router.url + "/v1/chat/completions", content=b"{")
    eventually("three ready endpoints", lambda: router.value("llm_d_epp_ready_endpoints") == 3)
    return router.metrics()


@pytest.mark.parametrize("family", EXPECTED)
def test_a_family_of_the_reference_is_there_with_its_type_and_labels(page, family):
    assert page.types.get(family) == REFERENCE.types[family]
    ours = page.label_names()[family]
    assert ours <= REFERENCE.label_names()[family], ours
    if REFERENCE.types[family] == "histogram":
        assert page.bounds(family) == REFERENCE.bounds(family)


@pytest.mark.parametrize("family", sorted(TYPED))
def test_a_family_of_the_specification_is_there(page, family):
    kind, labels = TYPED[family]
    assert page.types.get(family) == kind
    assert page.label_names()[family] == {labels}


def test_buckets_print_as_the_contract_says(page):
    assert '_bucket{fairness_id="default-flow",model_name="test-model",priority="0",target_model_name="test-model",le="32778"}' in page.text
    assert 'le="1.048576e+06"' in page.text
    assert 'le="0.00205"' in page.text


def test_values_add_up(page):
    labels = {"model_name": MODEL}
    assert page.value("llm_d_epp_request_total", **labels) == 6
    assert page.value("inference_objective_request_total", **labels) == 6
    assert page.value("llm_d_epp_request_duration_seconds_count", **labels) == 6
    assert page.value("llm_d_epp_request_ttft_seconds_count", **labels, streaming="true") == 3
    assert page.value("llm_d_epp_request_ttft_seconds_count", **labels, streaming="false") == 3
    assert page.value("llm_d_epp_request_output_tokens_sum", **labels) == 72
    assert page.value("llm_d_epp_request_running") == 0
    assert page.value("llm_d_epp_request_error_total", error_code="ModelServerError") == 1
    assert page.value("llm_d_epp_request_error_total", error_code="BadRequest") == 1
    assert page.value("llm_d_epp_scheduler_attempts_total", status="success") == 7


def test_histograms_are_whole(page):
    for family, kind in page.types.items():
        if kind != "histogram":
            continue
        series = {}
        for name, labels, value in page.samples:
            if name == family + "_bucket":
                key = tuple(sorted((k, v) for k, v in labels.items() if k != "le"))
                series.setdefault(key, []).append((float(labels["le"].replace("+Inf", "inf")), value))
        for key, buckets in series.items():
            assert buckets == sorted(buckets), (family, key)
            assert [v for _, v in buckets] == sorted(v for _, v in buckets), (family, key)
            assert buckets[-1][0] == float("inf")
            assert page.value(family + "_count", **dict(key)) >= buckets[-1][1]


def test_process_metrics_are_there(page):
    assert page.value("process_resident_memory_bytes") > 1e6
    assert page.value("process_open_fds") > 0


def test_health_and_readiness(lab):
    sim = lab.sim()
    router = lab.router(endpoint=sim.urls)
    assert httpx.get(router.admin + "/healthz").status_code == 200
    assert httpx.get(router.admin + "/readyz").status_code == 200
    assert httpx.get(router.admin + "/nothing").status_code == 404


def test_plugin_state_is_json_and_only_for_get(lab):
    router = lab.router(endpoint=lab.sim().urls)
    httpx.post(router.url + "/v1/chat/completions", json={"model": MODEL, "messages": [{"role": "user", "content": "word " * 500}]}).raise_for_status()
    response = httpx.get(router.admin + "/debug/plugins/state")
    state = json.loads(response.text)
    assert set(state) == {"timestamp", "plugins"}
    for name, plugin in state["plugins"].items():
        assert plugin["name"] == name and plugin["type"]
        assert ("state" in plugin) != ("message" in plugin)
    post = httpx.post(router.admin + "/debug/plugins/state")
    assert post.status_code == 405 and post.headers["allow"] == "GET"


def test_a_request_leaves_one_line_in_the_log(lab):
    router = lab.router(endpoint=lab.sim().urls)
    httpx.post(router.url + "/v1/chat/completions", headers={"x-request-id": "log-me"},
               json={"model": MODEL, "max_tokens": 3, "messages": [{"role": "user", "content": "secret words"}]}).raise_for_status()
    lines = eventually("the line", lambda: [json.loads(l) for l in router.log().splitlines() if "log-me" in l])
    assert len(lines) == 1
    assert lines[0]["level"] == "info" and lines[0]["model"] == MODEL
    assert "secret" not in router.log()
