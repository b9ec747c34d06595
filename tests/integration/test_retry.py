"""What happens to requests whose server cannot be reached or breaks off: tried again where that is safe, never answered twice."""

import collections
import itertools
import json
import socket
import threading
import time

import httpx
import pytest

from process import MODEL, eventually, free_ports
from test_chaos import CONFIG, idle
from upstream import answer
from wire import Wire, chat_body, once, request

SERVED = "x-llm-d-served-endpoint"


def retries(router, cause):
    return router.value("llmd_retries_total", cause=cause)


def failures(router, cause):
    return router.value("llmd_upstream_failures_total", cause=cause)


def health(router):
    listed = httpx.get(f"{router.admin}/debug/endpoints", timeout=10).json()["endpoints"]
    return {e["address"]: e["health"] for e in listed}


def test_a_dead_server_costs_no_request(lab):
    alive, dead = lab.upstream(), free_ports()
    router = lab.router(endpoint=[f"http://127.0.0.1:{dead}", alive.url], config_text=CONFIG)
    for i in range(20):
        response = once(router.port, request(chat_body(f"question {i}")))
        assert response.status == 200
        assert response.headers[SERVED] == f"127.0.0.1:{alive.port}"
    assert len(alive.requests) == 20
    assert retries(router, "connect") == failures(router, "connect") >= 1
    assert router.value("llm_d_epp_request_total") == 20
    assert router.value("llmd_fleet_ejections_total", cause="connect") == 1
    assert router.value("llmd_fleet_endpoint_ejected") == 1
    assert health(router)[f"127.0.0.1:{alive.port}"] == "healthy"
    assert health(router)[f"127.0.0.1:{dead}"] != "healthy"
    assert "endpoint failed, choosing again" in router.log()
    eventually("all gauges are zero", lambda: idle(router))


def test_ejection_can_be_turned_off(lab):
    alive, dead = lab.upstream(), free_ports()
    router = lab.router(endpoint=[f"http://127.0.0.1:{dead}", alive.url], no_ejection=True)
    for _ in range(10):
        assert once(router.port, request(chat_body())).status == 200
    assert "ejected" not in httpx.get(f"{router.admin}/metrics").text
    assert set(health(router).values()) == {"healthy"}


def test_three_endpoints_at_most(lab):
    ports = [free_ports() for _ in range(5)]
    router = lab.router(endpoint=[f"http://127.0.0.1:{p}" for p in ports], no_ejection=True)
    response = once(router.port, request(chat_body()))
    assert response.status == 503
    assert response.json()["error"]["message"] == "inference error: ServiceUnavailable - cannot connect to the model server"
    assert failures(router, "connect") == 3
    assert retries(router, "connect") == 2
    assert router.value("llmd_retries_exhausted_total") == 1
    eventually("all gauges are zero", lambda: idle(router))


def test_a_bodyless_request_is_tried_again(lab):
    alive = lab.upstream()
    router = lab.router(endpoint=[f"http://127.0.0.1:{free_ports()}", alive.url], no_ejection=True)
    for _ in range(10):
        assert once(router.port, b"GET /v1/models HTTP/1.1\r\nHost: a\r\n\r\n").status == 200


def test_servers_that_close_kept_connections_lose_nothing(lab):
    """No `Connection: close` announces it, so some requests meet a closing connection. Where the server waits so long with
    closing that its system acknowledges such a request (40 ms), the server may have read it: it is answered with 503, not sent again."""
    def script(connection, received):
        connection.sock.sendall(answer())
        return False

    servers = [lab.upstream(script=script) for _ in range(2)]
    router = lab.router(endpoint=[s.url for s in servers], config_text=CONFIG)
    statuses = []

    def ask():
        with Wire(router.port) as wire:
            for _ in range(100):
                wire.send(request(chat_body()))
                statuses.append(wire.read().status)

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    acknowledged = int(failures(router, "reset"))
    assert acknowledged < 20
    assert collections.Counter(statuses) == collections.Counter([200] * (400 - acknowledged) + [503] * acknowledged)
    assert sum(len(s.requests) for s in servers) == 400 - acknowledged, "a request was sent twice"
    assert router.value("llmd_fleet_ejections_total", cause="connect") == 0, "a stale connection is no fault"
    eventually("all gauges are zero", lambda: idle(router))


def mortals(lab, count):
    """Servers that end at a request which says "poison"."""
    servers = []

    def script(i, connection, received):
        if b"poison" in received.body:
            servers[i].stop()
            return False
        connection.sock.sendall(answer())

    for i in range(count):
        servers.append(lab.upstream(script=lambda c, r, i=i: script(i, c, r)))
    return servers


def poisoned(servers):
    return sum(any(b"poison" in r.body for r in s.requests) for s in servers)


@pytest.mark.parametrize("warm", [False, True], ids=["new-connections", "kept-connections"])
def test_a_poison_prompt_kills_one_server(lab, warm):
    servers = mortals(lab, 3)
    router = lab.router(endpoint=[s.url for s in servers], config_text=CONFIG, loops=1)
    if warm:
        for i in range(30):
            assert once(router.port, request(chat_body(f"{i}"))).status == 200
        assert all(s.requests for s in servers)
    response = once(router.port, request(chat_body("poison")))
    assert response.status == 503
    assert response.json()["error"]["message"].endswith("the model server closed the connection before answering")
    assert poisoned(servers) == 1
    assert failures(router, "reset") == 1
    for i in range(10):
        assert once(router.port, request(chat_body(f"after {i}"))).status == 200
    assert poisoned(servers) == 1
    eventually("all gauges are zero", lambda: idle(router))


def test_retry_after_send_is_a_choice(lab):
    servers = mortals(lab, 4)
    router = lab.router(endpoint=[s.url for s in servers], retry_after_send=True)
    assert once(router.port, request(chat_body("poison"))).status == 503
    assert poisoned(servers) == 3
    assert retries(router, "reset") == 2


def test_a_server_that_breaks_off_while_the_body_is_sent(lab):
    def before_body(connection, head):
        raise ConnectionError

    alive = lab.upstream()
    router = lab.router(endpoint=[lab.upstream(before_body=before_body).url, alive.url], no_ejection=True)
    numbers = itertools.count()

    def ask():
        body = chat_body(f"{next(numbers)} " + "word " * 4_000_000)
        response = once(router.port, request(body), timeout=60)
        assert response.status == 200
        assert response.headers[SERVED] == f"127.0.0.1:{alive.port}"
        assert alive.requests[-1].body == body
        return retries(router, "unsent")

    eventually("one was cut off and tried again", ask, seconds=60)
    assert len(alive.requests) == next(numbers)


def scripted(status):
    """A server whose status a test changes: status[0] is the status line."""
    return lambda connection, received: connection.sock.sendall(answer(status=status[0]))


def test_5xx_answers_eject_and_a_probe_brings_back(lab):
    status = ["500 Internal Server Error"]
    bad, good = lab.upstream(script=scripted(status)), lab.upstream()
    router = lab.router(endpoint=[bad.url, good.url])
    address = f"127.0.0.1:{bad.port}"

    numbers = itertools.count()

    def ask():
        return once(router.port, request(chat_body(f"question {next(numbers)}")))

    eventually("ejected", lambda: ask() and health(router)[address] == "ejected")
    assert router.value("llmd_fleet_ejections_total", cause="status_5xx") == 1
    assert len(bad.requests) == 3
    status[0] = "200 OK"
    eventually("chosen again", lambda: ask().headers[SERVED] == address)
    assert health(router)[address] == "healthy"


def test_4xx_answers_never_eject(lab):
    servers = [lab.upstream(script=scripted(["429 Too Many Requests"])) for _ in range(2)]
    router = lab.router(endpoint=[s.url for s in servers])
    for _ in range(30):
        assert once(router.port, request(chat_body())).status == 429
    assert set(health(router).values()) == {"healthy"}


def test_connecting_has_a_time_out_and_clients_may_leave_before(lab):
    """The only server never accepts, so a try lasts until the connect time-out."""
    with socket.create_server(("127.0.0.1", 0), backlog=0) as full:
        fill = [socket.socket() for _ in range(3)]
        for s in fill:
            s.setblocking(False)
            s.connect_ex(full.getsockname())
        router = lab.router(endpoint=[f"http://127.0.0.1:{full.getsockname()[1]}"], connect_timeout="300ms", config_text=CONFIG,
                            wait_ready=False)
        eventually("listens", lambda: listening(router.port))
        begin = time.monotonic()
        assert once(router.port, request(chat_body())).status == 503
        assert 0.25 < time.monotonic() - begin < 10
        with Wire(router.port) as wire:
            wire.send(request(chat_body()))
            eventually("under way", lambda: router.value("llm_d_epp_request_running") == 1)
        eventually("all gauges are zero", lambda: idle(router))
        for s in fill:
            s.close()


def listening(port):
    try:
        socket.create_connection(("127.0.0.1", port), timeout=1).close()
        return True
    except OSError:
        return False


def test_time_outs_of_clients(lab):
    router = lab.router(endpoint=[lab.upstream().url], header_timeout="300ms", body_idle_timeout="300ms")
    with Wire(router.port) as wire:
        wire.send(b"POST /v1/chat/completions HTTP/1.1\r\nHost:")
        assert wire.read().status == 408
    with Wire(router.port) as wire:
        wire.send(request(chat_body())[:-5])
        assert wire.read().status == 408
    eventually("all gauges are zero", lambda: idle(router))


def test_the_first_byte_time_out_answers_504_and_tries_no_other(lab):
    release = threading.Event()
    servers = [lab.upstream(script=lambda c, r: release.wait(30) and None) for _ in range(2)]
    router = lab.router(endpoint=[s.url for s in servers], first_byte_timeout="300ms", config_text=CONFIG)
    assert once(router.port, request(chat_body())).status == 504
    assert sum(len(s.requests) for s in servers) == 1
    assert failures(router, "timeout") == 1
    assert "--first-byte-timeout is off" not in router.log()
    assert "--stream-idle-timeout is off" in router.log()
    eventually("all gauges are zero", lambda: idle(router))
    release.set()


def test_a_stalled_stream_is_broken_off(lab):
    release = threading.Event()

    def script(connection, received):
        connection.sock.sendall(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
                                b"8\r\ndata: {}\r\n")
        release.wait(30)

    router = lab.router(endpoint=[lab.upstream(script=script).url], stream_idle_timeout="300ms", config_text=CONFIG)
    response = once(router.port, request(chat_body(stream=True)))
    assert response.status == 200 and not response.complete
    assert failures(router, "timeout") == 1
    assert "--first-byte-timeout is off" in router.log()
    eventually("all gauges are zero", lambda: idle(router))
    release.set()


@pytest.mark.parametrize("flag, value, words", [
    ("--header-timeout", "10", "unit missing"),
    ("--drain-timeout", "-1s", "must not be negative"),
    ("--max-endpoints-tried", "0", "--max-endpoints-tried"),
    ("--ejection-strikes", "x", "--ejection-strikes"),
])
def test_flags_are_strict(flag, value, words):
    import subprocess
    from process import BINARY
    done = subprocess.run([BINARY, "router", f"{flag}={value}"], capture_output=True, text=True, timeout=60)
    assert done.returncode == 2
    assert flag in done.stderr and words in done.stderr and done.stderr.count("\n") == 1


def test_many_dead_servers_under_load(lab):
    """Two of six servers are gone: every request is answered once, by one of the others."""
    alive = [lab.upstream() for _ in range(4)]
    dead = [free_ports() for _ in range(2)]
    router = lab.router(endpoint=[u.url for u in alive] + [f"http://127.0.0.1:{p}" for p in dead], config_text=CONFIG)
    statuses = []

    def ask(worker):
        with httpx.Client(timeout=30) as client:
            for i in range(50):
                body = {"model": MODEL, "messages": [{"role": "user", "content": f"{worker} {i}"}]}
                statuses.append(client.post(router.url + "/v1/chat/completions", content=json.dumps(body)).status_code)

    threads = [threading.Thread(target=ask, args=(i,)) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    assert collections.Counter(statuses) == {200: 400}
    assert sum(len(u.requests) for u in alive) == 400
    eventually("all gauges are zero", lambda: idle(router))
