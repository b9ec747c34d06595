"""Headers by which a client would steer the picker or the servers, through both front ends."""

import json

import httpx
import pytest

from envoy import Envoy
from process import MODEL

ROUTING = ["x-gateway-destination-endpoint-served", "x-gateway-destination-endpoint-subset", "x-prefiller-host-port", "x-encoder-hosts-ports",
           "x-data-parallel-host-port", "x-kv-cache-source-host-port"]
CONTROLS = ["x-llm-d-inference-objective", "x-gateway-inference-objective", "x-llm-d-inference-fairness-id", "x-gateway-inference-fairness-id",
            "x-llm-d-model-name-rewrite", "x-gateway-model-name-rewrite"]
DESTINATION = "x-gateway-destination-endpoint"


def router(lab, upstream, **options):
    it = lab.router(endpoint=[upstream.url], **options)
    return it.url, it


def epp_behind_envoy(lab, upstream, **options):
    pytest.importorskip("grpc")
    epp = lab.epp([upstream.port], **options)
    # Envoy leaves to the picker what its shipped configuration takes off itself.
    return lab._add(Envoy(lab._log("envoy"), "fail-closed.yaml", epp.grpc_port, keep_client_headers=True)).url, epp


@pytest.mark.parametrize("front, options", [
    (router, {}), (router, {"untrusted_clients": True}),
    (epp_behind_envoy, {}), (epp_behind_envoy, {"lean_headers": True}), (epp_behind_envoy, {"untrusted_clients": True})])
def test_clients_cannot_steer(lab, front, options):
    trusted = "untrusted_clients" not in options
    upstream, canary = lab.upstream(), lab.upstream()
    url, picker = front(lab, upstream, **options)
    spoofed = f"127.0.0.1:{canary.port}"
    sent = {name: spoofed for name in [DESTINATION, *ROUTING]} | {name: "theirs" for name in CONTROLS}
    answer = httpx.post(url + "/v1/completions", json={"model": MODEL, "prompt": "p"}, headers=sent, timeout=30)
    assert answer.status_code == 200
    assert httpx.get(url + "/v1/models", headers=sent, timeout=30).status_code == 200
    assert canary.requests == [] and canary.scrape is None
    assert len(upstream.requests) == 2
    for received in upstream.requests:
        for name in ROUTING:
            assert received.get(name) is None, name
        assert received.get(DESTINATION) in (None, f"127.0.0.1:{upstream.port}")
        for name in CONTROLS:
            assert received.get(name) == ("theirs" if trusted else None), name
    assert json.loads(upstream.requests[0].body)["model"] == ("theirs" if trusted else MODEL)
    fairness = {labels["fairness_id"] for name, labels, _ in picker.metrics().samples if name == "llm_d_epp_request_total"}
    assert fairness == ({"theirs"} if trusted else {"default-flow"})
