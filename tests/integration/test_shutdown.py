"""Ctrl-C and SIGTERM leave no process and no half answer."""

import os
import pathlib
import re
import signal
import subprocess
import threading

import pytest

from process import BINARY, eventually, free_ports, http_ok
from wire import Wire, chat_body, request


@pytest.mark.parametrize("sig", [signal.SIGTERM, signal.SIGINT], ids=["SIGTERM", "SIGINT"])
def test_open_streams_end_whole(lab, sig):
    sim = lab.sim(inter_token_latency="20ms", max_num_seqs=64)
    router = lab.router(endpoint=sim.urls)
    responses = []

    def ask():
        with Wire(router.port) as wire:
            wire.send(request(chat_body(stream=True, max_tokens=40, ignore_eos=True)))
            responses.append(wire.read())

    threads = [threading.Thread(target=ask) for _ in range(8)]
    for thread in threads:
        thread.start()
    eventually("all are under way", lambda: router.value("llm_d_epp_request_running") == 8)
    router.stop(sig)
    for thread in threads:
        thread.join(30)
    assert len(responses) == 8
    for response in responses:
        assert response.status == 200 and response.complete
        assert response.body.endswith(b"data: [DONE]\n\n")


def test_new_connections_are_refused_while_draining(lab):
    sim = lab.sim(inter_token_latency="50ms")
    router = lab.router(endpoint=sim.urls)
    with Wire(router.port) as wire:
        wire.send(request(chat_body(stream=True, max_tokens=40, ignore_eos=True)))
        eventually("under way", lambda: router.value("llm_d_epp_request_running") == 1)
        os.kill(router.pid, signal.SIGTERM)

        def refused():
            try:
                with Wire(router.port, timeout=5) as other:
                    other.send(request(chat_body()))
                    response = other.read()
                    return response is None or response.status == 503
            except OSError:
                return True

        eventually("refused", refused)
        assert not http_ok(f"{router.admin}/readyz")
        response = wire.read()
        assert response.complete and response.body.endswith(b"data: [DONE]\n\n")
    assert router.popen.wait(30) == 0


def test_the_grace_period_has_an_end(lab):
    sim = lab.sim(inter_token_latency="1s")
    router = lab.router(endpoint=sim.urls, shutdown_grace="300ms")
    with Wire(router.port) as wire:
        wire.send(request(chat_body(stream=True, max_tokens=200, ignore_eos=True)))
        eventually("under way", lambda: router.value("llm_d_epp_request_running") == 1)
        router.stop(seconds=20)
        response = wire.read()
        assert response is None or not response.complete


def test_the_simulator_ends_on_ctrl_c(lab):
    sim = lab.sim(replicas=20)
    sim.stop(signal.SIGINT)
    assert not http_ok(sim.urls[0] + "/health")


@pytest.mark.parametrize("sig", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL], ids=["SIGINT", "SIGTERM", "SIGKILL"])
def test_make_run_leaves_no_process(tmp_path, sig):
    root = pathlib.Path(__file__).parents[2]
    ports = {"PORT": free_ports(), "METRICS_PORT": free_ports(), "SIM_PORT": free_ports(4)}
    script = subprocess.Popen([root / "scripts" / "run.sh", os.path.abspath(BINARY)], text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              env={**os.environ, **{k: str(v) for k, v in ports.items()}})
    text = ""
    while "Ctrl-C" not in text:
        line = script.stdout.readline()
        assert line, text
        text += line
    assert f"http://127.0.0.1:{ports['PORT']}/v1" in text
    command = re.search(r"curl -N .*\n.*'\n", text)[0].replace("\\\n", " ")
    out = subprocess.run(command, shell=True, capture_output=True, text=True, timeout=60).stdout
    assert "data: [DONE]" in out
    script.send_signal(sig)
    script.wait(60)
    eventually("nothing listens any more", lambda: not http_ok(f"http://127.0.0.1:{ports['METRICS_PORT']}/healthz")
               and not http_ok(f"http://127.0.0.1:{ports['SIM_PORT']}/health"))
