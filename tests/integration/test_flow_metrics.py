"""The metrics of flow control against the reference's recorded page: names old and new, types, labels, buckets."""

import json
import pathlib

import httpx
import pytest

from process import MODEL
from prometheus import Page

REFERENCE = Page((pathlib.Path(__file__).parents[1] / "data" / "conformance" / "metrics" / "flow.txt").read_text())
EXPECTED = sorted(f for f in REFERENCE.types if "_flow_control_" in f)

CONFIG = """apiVersion: llm-d.ai/v1
kind: EndpointPickerConfig
featureGates: [flowControl]
plugins: [{type: queue-scorer}]
flowControl: {priorityBands: [{priority: 10}]}
"""


@pytest.fixture(scope="module")
def router(module_lab):
    return module_lab.router(endpoint=module_lab.sim(replicas=3).urls, config_text=CONFIG)


@pytest.fixture(scope="module")
def page(router):
    for _ in range(3):
        httpx.post(router.url + "/v1/chat/completions", json={"model": MODEL, "messages": [{"role": "user", "content": "x"}]}).raise_for_status()
    return router.metrics()


@pytest.mark.parametrize("family", EXPECTED)
def test_a_family_of_the_reference_is_there_with_its_type_and_labels(page, family):
    assert page.types.get(family) == REFERENCE.types[family]
    assert page.label_names()[family] == REFERENCE.label_names()[family]
    if REFERENCE.types[family] == "histogram":
        assert page.bounds(family) == REFERENCE.bounds(family)


def test_the_recorded_families_are_the_contract():
    assert len(EXPECTED) == 15


def test_values_add_up(page):
    prefix = "llm_d_epp_flow_control_"
    assert page.value(prefix + "requests_total", outcome="Dispatched", priority="0") == 3
    assert page.value(prefix + "request_queue_duration_seconds_count", outcome="Dispatched") == 3
    assert page.value(prefix + "request_enqueue_duration_seconds_count", outcome="NotYetFinalized") == 3
    assert page.value(prefix + "queue_size") == 0
    assert page.value(prefix + "capacity_utilization_requests", priority="10") == 0


def test_the_state_of_the_queues_is_json(router):
    state = json.loads(httpx.get(router.admin + "/debug/flow").text)
    assert [band["priority"] for band in state["bands"]] == [10, 0]
    assert state["waiting"] == 0 and not state["poolEmpty"]


def test_the_published_example_routes(lab):
    example = pathlib.Path(__file__).parents[1] / "data" / "config" / "06-flow-control.yaml"
    router = lab.router(endpoint=lab.sim(replicas=2).urls, config_file=example)
    ask = {"model": MODEL, "messages": [{"role": "user", "content": "x"}]}
    for tenant in ("a", "b"):
        httpx.post(router.url + "/v1/chat/completions", json=ask, headers={"x-llm-d-inference-fairness-id": tenant}).raise_for_status()
    page = router.metrics()
    assert page.value("llm_d_epp_flow_control_requests_total", outcome="Dispatched") == 2
    assert page.value("llm_d_epp_flow_control_global_capacity_utilization_bytes") == 0
