"""What one client may take of the router: every limit answers, is counted, and leaves others alone."""

import socket

import httpx

from process import eventually
from wire import Wire, chat_body, once, request


def met(router, limit):
    return router.value("llmd_client_limits_total", limit=limit)


def test_request_heads_and_bodies(lab):
    router = lab.router(endpoint=[lab.upstream().url], max_request_header_bytes="2Ki", max_request_headers=20, max_request_body="10Ki")
    assert once(router.port, request(chat_body(), "X-Long: " + "x" * 3000)).status == 431
    assert once(router.port, request(chat_body(), *[f"X-{i}: 1" for i in range(30)])).status == 431
    assert once(router.port, request(chat_body("word " * 5000))).status == 413
    assert once(router.port, request(chat_body())).status == 200
    assert met(router, "header_list") == 2
    assert met(router, "body") == 1


def test_connections_of_one_peer(lab):
    """Loopback has many addresses: another peer is served while one is at its limit on both loops."""
    router = lab.router(endpoint=[lab.upstream().url], max_connections_per_peer=8)
    wires = [Wire(router.port) for _ in range(8)]
    for wire in wires:
        wire.send(request(chat_body()))
        assert wire.read().status == 200
    with Wire(router.port) as more:
        try:
            more.send(request(chat_body()))
            assert more.read() is None
        except ConnectionError:
            pass
    assert met(router, "connections_per_peer") == 1
    with socket.socket() as other:
        other.bind(("127.0.0.2", 0))
        other.settimeout(30)
        other.connect(("127.0.0.1", router.port))
        other.sendall(request(chat_body()))
        assert other.recv(100).startswith(b"HTTP/1.1 200 ")
    wires.pop().sock.close()

    def served():
        try:
            return once(router.port, request(chat_body())).status == 200
        except (ConnectionError, AttributeError):
            return False

    eventually("a place is free again", served)
    for wire in wires:
        wire.sock.close()


def test_connections_of_all(lab):
    router = lab.router(endpoint=[lab.upstream().url], max_connections=2, loops=1)
    first, second = Wire(router.port), Wire(router.port)
    for wire in (first, second):
        wire.send(request(chat_body()))
        assert wire.read().status == 200
    with Wire(router.port) as third:
        third.send(request(chat_body()))
        eventually("the limit is met", lambda: met(router, "connections") >= 1)
        first.sock.close()
        assert third.read().status == 200, "it waits for a place"
    second.sock.close()


def test_slow_heads_and_bodies_are_counted(lab):
    router = lab.router(endpoint=[lab.upstream().url], header_timeout="300ms", body_idle_timeout="300ms")
    slow = [Wire(router.port) for _ in range(50)]
    for i, wire in enumerate(slow):
        wire.send(b"POST /v1/chat/completions HTTP/1.1\r\nHo" if i % 2 else request(chat_body())[:-1])
    assert once(router.port, request(chat_body())).status == 200
    for wire in slow:
        assert wire.read().status == 408
        wire.sock.close()
    assert met(router, "header_timeout") == 25
    assert met(router, "body_idle_timeout") == 25


def test_bodies_of_all_together(lab):
    router = lab.router(endpoint=[lab.upstream().url], max_buffered_bytes="1Mi")
    body = chat_body("word " * 140_000)

    def refused_beside_another():
        # The other may come second and be refused itself: then it is tried again.
        with Wire(router.port) as holding:
            holding.send(request(b"", "Content-Length: 10000000", length=False) + body)
            return once(router.port, request(body)).status == 503

    eventually("the bytes of one are held", refused_beside_another)
    eventually("its bytes are given back", lambda: once(router.port, request(body)).status == 200)
    assert met(router, "buffered_bytes") >= 1


def test_a_body_that_drips_in_has_an_end(lab):
    router = lab.router(endpoint=[lab.upstream().url], request_timeout="500ms")
    with Wire(router.port, timeout=0.05) as dripping:
        dripping.send(request(b"", "Content-Length: 10000000", length=False))
        response = None
        while response is None:
            try:
                response = dripping.read()
            except TimeoutError:
                dripping.send(b" ")
        assert response.status == 408
    assert met(router, "request_timeout") == 1


def test_there_is_no_profiler_to_abuse(lab):
    router = lab.router(endpoint=[lab.upstream().url])
    for path in ("/debug/pprof", "/debug/pprof/", "/debug/pprof/profile?seconds=1"):
        assert httpx.get(router.admin + path, timeout=10).status_code == 404
