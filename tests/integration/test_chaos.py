"""Servers that die, stall and come back under load: nobody hangs, nothing is answered twice, and every gauge returns to 0."""

import os
import signal
import time

import httpx
import pytest

from load import Load
from process import MODEL, Sim, eventually
from wire import Wire, chat_body, request


def idle(router):
    """Nothing is in flight, by every account the router keeps."""
    page = router.metrics()
    if page.value("llm_d_epp_request_running") != 0 or page.value("inference_objective_running_requests") != 0:
        return False
    state = httpx.get(f"{router.admin}/debug/plugins/state", timeout=10).json()
    for plugin in state["plugins"].values():
        if plugin["type"] == "inflight-load-producer":
            return all(e["requests"] == 0 and e["tokens"] == 0 for e in plugin["state"]["endpoints"])
    return True


CONFIG = """
apiVersion: llm-d.ai/v1
kind: EndpointPickerConfig
plugins: [{type: utilization-detector, parameters: {metricsStalenessThreshold: 1s}}, {type: queue-scorer}, {type: active-request-scorer}, {type: prefix-cache-scorer}]
schedulingProfiles:
- name: default
  plugins: [{pluginRef: queue-scorer}, {pluginRef: active-request-scorer}, {pluginRef: prefix-cache-scorer}]
"""


@pytest.mark.parametrize("stream", [False, True], ids=["json", "sse"])
def test_killed_and_restarted_servers(lab, tmp_path, stream):
    sims = [lab.sim(time_to_first_token="10ms", inter_token_latency="5ms", max_num_seqs=64) for _ in range(3)]
    router = lab.router(endpoint=[s.urls[0] for s in sims], config_text=CONFIG)
    with Load(router, workers=12, stream=stream, max_tokens=8) as load:
        for i in range(4):
            victim = sims[i % 3]
            done = load.count("ok")
            eventually("work goes on", lambda: load.count("ok") > done + 20)
            victim.kill()
            seen = len(load.results)
            eventually("requests still end", lambda: len(load.results) > seen + 20)
            sims[i % 3] = lab._add(Sim(tmp_path / f"again-{i}.log", port=victim.port, time_to_first_token="10ms",
                                       inter_token_latency="5ms", max_num_seqs=64))
        done = load.count("ok")
        eventually("work goes on", lambda: load.count("ok") > done + 50)
    assert load.count("ok") > 100
    for kind, detail in load.results:
        if kind == "refused":
            # A server that died with a request may have worked on it; one that is gone is no reason to refuse.
            assert " 503 " in detail and "closed the connection before answering" in detail, detail
    eventually("all gauges are zero", lambda: idle(router))


def test_a_stalled_server_holds_only_its_own_requests(lab):
    sims = [lab.sim(time_to_first_token="5ms", max_num_seqs=64) for _ in range(2)]
    router = lab.router(endpoint=[s.urls[0] for s in sims], config_text=CONFIG)
    with Load(router, workers=8) as load:
        eventually("work goes on", lambda: load.count("ok") > 20)
        os.kill(sims[0].pid, signal.SIGSTOP)
        # Requests that the stalled one holds count against it, so the other gets the rest.
        with Load(router, workers=4, timeout=60) as more:
            eventually("others are served meanwhile", lambda: load.count("ok") + more.count("ok") > 60)
            os.kill(sims[0].pid, signal.SIGCONT)
    assert load.count("broken") == 0 and more.count("broken") == 0
    eventually("all gauges are zero", lambda: idle(router))


def test_clients_that_leave_in_every_state_leave_nothing_behind(lab):
    sim = lab.sim(time_to_first_token="20ms", inter_token_latency="10ms", max_num_seqs=64)
    router = lab.router(endpoint=sim.urls, config_text=CONFIG)
    message = request(chat_body("leaving " * 200, stream=True, max_tokens=100))
    for i in range(120):
        wire = Wire(router.port)
        wire.send(message[: len(message) * (i % 12 + 1) // 12])
        if i % 12 == 11:
            wire.sock.settimeout(5)
            if i % 2:
                wire.sock.recv(100)
        wire.sock.close()
    eventually("all gauges are zero", lambda: idle(router))
    eventually("the server dropped them too", lambda: " 0" in next(
        l for l in httpx.get(sim.urls[0] + "/metrics").text.splitlines() if l.startswith("vllm:num_requests_running")))


def test_failure_injection_is_relayed_and_counted(lab):
    sim = lab.sim(failure_injection_rate=100, failure_types=["server_error"])
    router = lab.router(endpoint=sim.urls, config_text=CONFIG)
    response = httpx.post(router.url + "/v1/chat/completions", json={"model": MODEL, "messages": [{"role": "user", "content": "x"}]})
    assert response.status_code == 503
    assert response.json()["error"]["message"] == "The server is overloaded or not ready yet."
    assert router.value("llm_d_epp_request_error_total", error_code="ModelServerError") == 1
    eventually("all gauges are zero", lambda: idle(router))


def test_churn_for_a_minute(lab, tmp_path, long):
    """The long form: ten servers, one killed or stalled every half second."""
    rounds = 120 if long else 6
    sims = [lab.sim(time_to_first_token="5ms", inter_token_latency="2ms", max_num_seqs=64) for _ in range(4)]
    router = lab.router(endpoint=[s.urls[0] for s in sims], config_text=CONFIG)
    with Load(router, workers=16, stream=True, max_tokens=16) as load:
        for i in range(rounds):
            at = i % len(sims)
            if i % 2:
                os.kill(sims[at].pid, signal.SIGSTOP)
                time.sleep(0.25)
                os.kill(sims[at].pid, signal.SIGCONT)
            else:
                sims[at].kill()
                time.sleep(0.25)
                sims[at] = lab._add(Sim(tmp_path / f"churn-{i}.log", port=sims[at].port, time_to_first_token="5ms",
                                        inter_token_latency="2ms", max_num_seqs=64))
    assert load.count("ok") > rounds
    eventually("all gauges are zero", lambda: idle(router))
