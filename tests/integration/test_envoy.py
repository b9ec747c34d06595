"""Real Envoy with the configurations of deploy/envoy, `llmd epp` behind it, simulated servers behind both."""

import json

import httpx
import openai
import pytest
from envoy import Envoy
from process import MODEL, eventually

pytest.importorskip("grpc")


def completion(url, prompt="hello", headers=None, **more):
    return httpx.post(url + "/v1/completions", json={"model": MODEL, "prompt": prompt, "max_tokens": 5, **more},
                      headers=headers, timeout=30)


@pytest.fixture(scope="module")
def stack(module_lab):
    sim = module_lab.sim(3)
    epp = module_lab.epp(sim.ports, enable_grpc_stream_metrics=True)
    envoy = module_lab._add(Envoy(module_lab._log("envoy"), "fail-closed.yaml", epp.grpc_port))
    return sim, epp, envoy


def test_completions_and_their_metrics(stack):
    _, epp, envoy = stack
    answer = completion(envoy.url)
    assert answer.status_code == 200 and answer.json()["usage"]["completion_tokens"] > 0
    assert answer.headers["x-went-into-resp-headers"] == "true"
    eventually("usage is counted", lambda: epp.value(
        "llm_d_epp_request_output_tokens_count", model_name=MODEL, target_model_name=MODEL,
        fairness_id="default-flow", priority="0") >= 1)


def test_chat_and_streams_with_the_openai_client(stack):
    _, _, envoy = stack
    client = openai.OpenAI(base_url=envoy.url + "/v1", api_key="any", max_retries=0, timeout=60)
    chat = {"model": MODEL, "messages": [{"role": "user", "content": "hi"}], "max_tokens": 20}
    assert client.chat.completions.create(**chat).choices[0].message.content
    pieces = list(client.chat.completions.create(**chat, stream=True, stream_options={"include_usage": True}))
    assert len(pieces) > 2 and pieces[-1].usage.completion_tokens > 0
    assert client.models.list().data[0].id == MODEL


def test_large_bodies_pass_unchanged(lab):
    upstream = lab.upstream()
    epp = lab.epp([upstream.port])
    envoy = lab._add(Envoy(lab._log("envoy"), "fail-closed.yaml", epp.grpc_port))
    body = json.dumps({"model": MODEL, "prompt": "lorem ipsum é " * 40_000, "unknown": [1, 2.50, 9007199254740993]})
    for _ in range(3):
        assert httpx.post(envoy.url + "/v1/completions", content=body, timeout=30).status_code == 200
        assert upstream.requests[-1].body == body.encode()


def test_refusals_are_the_pickers(stack):
    _, _, envoy = stack
    answer = httpx.post(envoy.url + "/v1/completions", content=b"no json", timeout=30)
    assert answer.status_code == 400
    assert answer.text.startswith("inference error: BadRequest - error unmarshaling request bodyMap: ")
    answer = httpx.post(envoy.url + "/v1/completions", json={"prompt": "x"}, timeout=30)
    assert (answer.status_code, answer.text) == (400, "inference error: BadRequest - model not found in request body")


def test_answers_carry_the_id_that_explains_them(stack):
    _, epp, envoy = stack
    for answer, outcome in [(completion(envoy.url), "sent"), (httpx.post(envoy.url + "/v1/completions", content=b"no json", timeout=30), "refused")]:
        found = httpx.get(f"{epp.admin}/debug/decisions", params={"request_id": answer.headers["x-request-id"]}, timeout=10)
        assert [d["outcome"] for d in found.json()["decisions"]] == [outcome]


def test_clients_cannot_choose_the_endpoint(stack, module_lab):
    _, _, envoy = stack
    canary = module_lab.upstream()
    for name in ("x-gateway-destination-endpoint", "x-gateway-destination-endpoint-subset", "x-prefiller-host-port"):
        assert completion(envoy.url, headers={name: f"127.0.0.1:{canary.port}"}).status_code == 200
    assert not canary.requests


def test_all_streams_end_well_and_nothing_stays(stack):
    _, epp, envoy = stack
    for i in range(30):
        assert completion(envoy.url, f"prompt {i}", stream=bool(i % 2)).status_code == 200
    eventually("no stream is open", lambda: epp.value("llm_d_epp_extproc_streams_inflight") == 0)
    assert epp.value("llm_d_epp_extproc_streams_total", code="OK") >= 30
    for code in ("Internal", "InvalidArgument", "Unknown", "ResourceExhausted"):
        assert epp.value("llm_d_epp_extproc_streams_total", code=code) == 0
    assert epp.value("llm_d_epp_request_running", model_name=MODEL, target_model_name=MODEL,
                     fairness_id="default-flow", priority="0") == 0


@pytest.mark.parametrize("options", [{"lean_headers": True}, {"response_body": "skip"}], ids=["lean", "skip"])
def test_options_for_less_traffic(lab, options):
    sim = lab.sim(1)
    epp = lab.epp(sim.ports, enable_grpc_stream_metrics=True, **options)
    envoy = lab._add(Envoy(lab._log("envoy"), "fail-closed.yaml", epp.grpc_port))
    assert completion(envoy.url).json()["usage"]["completion_tokens"] > 0
    assert completion(envoy.url, stream=True).text.rstrip().endswith("data: [DONE]")
    assert httpx.get(envoy.url + "/v1/models", timeout=30).status_code == 200
    eventually("streams end", lambda: epp.value("llm_d_epp_extproc_streams_total", code="OK") == 3)


@pytest.mark.parametrize("mode", ["fail-closed", "fail-open"])
def test_the_picker_dies_and_comes_back(lab, mode):
    sim = lab.sim(2, max_model_len=100_000)
    canary = lab.upstream()
    epp = lab.epp(sim.ports)
    ports = {"grpc_port": epp.grpc_port, "grpc_health_port": epp.health_port, "metrics_port": epp.metrics_port}
    envoy = lab._add(Envoy(lab._log("envoy"), f"{mode}.yaml", epp.grpc_port, fallback_port=sim.port))
    assert completion(envoy.url).status_code == 200
    epp.kill()
    steered = {"x-gateway-destination-endpoint": f"127.0.0.1:{canary.port}"}
    gone = "membership_healthy: 0" if mode == "fail-open" else "upstream_cx_active: 0"
    eventually("envoy has seen it", lambda: gone in httpx.get(envoy.admin + "/stats?filter=cluster.ext_proc", timeout=10).text)
    prompts = ["hello", "lorem ipsum " * 1_000, "lorem ipsum " * 30_000]
    for status in (httpx.get(envoy.url + "/v1/models", headers=steered, timeout=30).status_code,
                   *(completion(envoy.url, prompt, headers=steered).status_code for prompt in prompts for _ in range(3))):
        assert status == (200 if mode == "fail-open" else 500)
    assert not canary.requests
    again = lab.epp(sim.ports, **ports)
    eventually("traffic resumes through the picker", lambda: completion(envoy.url).headers.get(
        "x-went-into-resp-headers") == "true", seconds=60)
    assert again.check_alive()
