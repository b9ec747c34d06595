"""Ctrl-C and SIGTERM leave no process and no half answer."""

import json
import os
import pathlib
import re
import signal
import socket
import subprocess
import threading

import pytest

from h2_peer import Peer
from process import BINARY, Process, eventually, free_ports, http_ok
from upstream import answer
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
    """What is cut off is not the client's doing, and the log says so."""
    sim = lab.sim(inter_token_latency="1s")
    router = lab.router(endpoint=sim.urls, shutdown_grace="300ms")
    body = chat_body(stream=True, max_tokens=200, ignore_eos=True)
    peer = Peer(router.port)
    with Wire(router.port) as wire:
        wire.send(request(body))
        peer.send(peer.open([(":method", "POST"), (":scheme", "http"), (":authority", "gw"), (":path", "/v1/chat/completions")]), body, end=True)
        eventually("under way", lambda: router.value("llm_d_epp_request_running") == 2)
        router.stop(seconds=20)
        response = wire.read()
        assert response is None or not response.complete
    peer.sock.close()
    aborted = [json.loads(line) for line in router.log().splitlines() if '"request aborted"' in line]
    assert [(line["cause"], line["state"]) for line in aborted] == [("shutdown", "responding")] * 2


def test_draining_fails_readiness_first_and_serves_on(lab):
    sim = lab.sim(inter_token_latency="20ms")
    router = lab.router(endpoint=sim.urls, drain_timeout="2s")
    with Wire(router.port) as kept, Wire(router.port) as open_stream:
        kept.send(request(chat_body()))
        assert kept.read().status == 200
        os.kill(router.pid, signal.SIGTERM)
        eventually("not ready", lambda: not http_ok(f"{router.admin}/readyz"))
        assert http_ok(f"{router.admin}/healthz")
        for wire in (kept, Wire(router.port)):
            wire.send(request(chat_body()))
            response = wire.read()
            assert response.status == 200 and "connection" not in response.headers
        open_stream.send(request(chat_body(stream=True, max_tokens=150, ignore_eos=True)))
        assert kept.closed(), "idle connections are closed when the drain time is over"
        response = open_stream.read()
        assert response.complete and response.body.endswith(b"data: [DONE]\n\n")
        assert open_stream.closed()
    assert router.popen.wait(30) == 0
    router.stopped = True


def test_answers_say_that_the_connection_ends(lab):
    release = threading.Event()

    def script(connection, received):
        release.wait(30)
        connection.sock.sendall(answer())

    upstream = lab.upstream(script=script)
    router = lab.router(endpoint=[upstream.url])
    with Wire(router.port) as wire:
        wire.send(request(chat_body()))
        eventually("under way", lambda: upstream.requests)
        os.kill(router.pid, signal.SIGTERM)
        eventually("no new connections", lambda: not connects(router.port))
        release.set()
        response = wire.read()
        assert response.status == 200 and response.headers["connection"] == "close"
        assert wire.closed()
    assert router.popen.wait(30) == 0


def connects(port):
    try:
        socket.create_connection(("127.0.0.1", port), timeout=1).close()
        return True
    except OSError:
        return False


@pytest.mark.parametrize("first", [signal.SIGTERM, signal.SIGINT], ids=["SIGTERM", "SIGINT"])
def test_a_second_signal_ends_at_once(lab, first):
    sim = lab.sim(inter_token_latency="1s")
    router = lab.router(endpoint=sim.urls, drain_timeout="100s")
    with Wire(router.port) as wire:
        wire.send(request(chat_body(stream=True, max_tokens=200, ignore_eos=True)))
        eventually("under way", lambda: router.value("llm_d_epp_request_running") == 1)
        os.kill(router.pid, first)
        eventually("draining", lambda: '"draining"' in router.log())

        def ended():  # what comes within 50 ms of the first is the same stop, told twice
            os.kill(router.pid, signal.SIGTERM)
            return router.popen.poll() is not None

        eventually("ended", ended)
        assert router.popen.returncode == 1
    router.stopped = True


@pytest.mark.parametrize("command", ["router", "epp", "kv-indexer"])
@pytest.mark.parametrize("sig", [signal.SIGTERM, signal.SIGINT], ids=["SIGTERM", "SIGINT"])
def test_a_start_ends_at_a_signal(tmp_path, command, sig):
    config = tmp_path / "config.yaml"
    os.mkfifo(config)
    process = Process(command, ["--config-file", str(config), "--endpoint", "http://127.0.0.1:9"], tmp_path / "log")
    with open(config, "w"):  # opens once it is being read, and keeps its end away
        process.stop(sig, seconds=30)


def test_ctrl_c_does_not_wait_for_load_balancers(lab):
    router = lab.router(endpoint=[lab.upstream().url], drain_timeout="100s", shutdown_grace="100s")
    router.stop(signal.SIGINT, seconds=10)


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


@pytest.mark.parametrize("loops", [1, 2])
def test_a_second_router_on_the_same_port_does_not_start(lab, loops):
    first = lab.router(endpoint=[lab.upstream().url], loops=loops)
    second = subprocess.run([BINARY, "router", "--host", "127.0.0.1", "--port", str(first.port), "--metrics-port", "0", "--endpoint",
                             "http://127.0.0.1:1"], capture_output=True, text=True, timeout=60)
    assert second.returncode == 2
    assert second.stderr.splitlines()[-1] == f"llmd router: cannot bind to 127.0.0.1:{first.port}: Address already in use"
    assert pathlib.Path(f"/proc/{first.pid}/comm").read_text() == "llmd\n", "operators look for it by this name"
