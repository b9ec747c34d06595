"""Requests and answers framed in every way HTTP/1.1 allows, over raw sockets."""

import json
import subprocess
import threading
import time

import pytest

from process import MODEL, eventually
from upstream import answer
from wire import Wire, chat_body, once, request


def chunked(body, size):
    parts = [body[i:i + size] for i in range(0, len(body), size)]
    return b"".join(b"%x\r\n%s\r\n" % (len(p), p) for p in parts) + b"0\r\n\r\n"


def test_the_body_is_forwarded_byte_for_byte(lab):
    upstream = lab.upstream()
    router = lab.router(endpoint=[upstream.url])
    body = b'{ "prompt" : "a<b \\u00e9 \\ud83d\\ude00", "seed":9007199254740993,\n "model":"m", "temperature":1.0 }'
    assert once(router.port, request(body, path="/v1/completions")).status == 200
    assert upstream.requests[0].body == body
    assert upstream.requests[0].get("content-length") == str(len(body))


@pytest.mark.parametrize("size", [1, 7, 100_000])
def test_chunked_request_bodies(lab, size):
    upstream = lab.upstream()
    router = lab.router(endpoint=[upstream.url])
    body = chat_body("x" * 2000)
    head = request(b"", "Transfer-Encoding: chunked", length=False)
    assert once(router.port, head + chunked(body, size)).status == 200
    assert upstream.requests[0].body == body


def test_expect_100_continue(lab):
    upstream = lab.upstream()
    router = lab.router(endpoint=[upstream.url])
    body = chat_body()
    with Wire(router.port) as wire:
        wire.send(request(b"", "Expect: 100-continue", f"Content-Length: {len(body)}", length=False))
        assert wire.read().status == 100
        wire.send(body)
        assert wire.read().status == 200
    assert upstream.requests[0].body == body


def test_http_1_0_is_answered_and_closed(lab):
    router = lab.router(endpoint=[lab.upstream().url])
    with Wire(router.port) as wire:
        wire.send(request(chat_body(), version="HTTP/1.0"))
        response = wire.read()
        assert response.status == 200
        assert "transfer-encoding" not in response.headers
        assert wire.closed()


def test_http_1_0_streams_end_with_the_connection(lab):
    sim = lab.sim()
    router = lab.router(endpoint=sim.urls)
    with Wire(router.port) as wire:
        wire.send(request(chat_body(stream=True), version="HTTP/1.0"))
        response = wire.read()
        assert response.status == 200
        assert "transfer-encoding" not in response.headers
        assert response.body.endswith(b"data: [DONE]\n\n")


def test_keep_alive_serves_many_requests_on_one_connection(lab):
    sim = lab.sim()
    router = lab.router(endpoint=sim.urls)
    with Wire(router.port) as wire:
        for i in range(50):
            wire.send(request(chat_body(f"question {i}", stream=i % 3 == 0)))
            response = wire.read()
            assert response.status == 200 and response.complete
        wire.send(request(chat_body(), "Connection: close"))
        assert wire.read().status == 200
        assert wire.closed()


def test_pipelined_requests_are_answered_in_order(lab):
    def script(connection, received):
        text = json.loads(received.body)["messages"][0]["content"]
        connection.sock.sendall(answer(json.dumps({"echo": text}).encode()))

    router = lab.router(endpoint=[lab.upstream(script=script).url])
    with Wire(router.port) as wire:
        wire.send(b"".join(request(chat_body(f"n{i}")) for i in range(5)))
        assert [wire.read().json()["echo"] for _ in range(5)] == [f"n{i}" for i in range(5)]


def test_heads_and_bodies_may_arrive_byte_by_byte(lab):
    upstream = lab.upstream()
    router = lab.router(endpoint=[upstream.url])
    message = request(chat_body("split"))
    with Wire(router.port) as wire:
        wire.sock.setsockopt(6, 1, 1)  # TCP_NODELAY
        for i in range(len(message)):
            wire.send(message[i:i + 1])
        assert wire.read().status == 200
    assert upstream.requests[0].body == chat_body("split")


def test_large_bodies_pass(lab):
    upstream = lab.upstream()
    router = lab.router(endpoint=[upstream.url])
    body = chat_body("word " * 800_000)
    assert once(router.port, request(body)).status == 200
    assert upstream.requests[0].body == body


def test_large_answers_pass(lab):
    big = b'{"text":"' + b"y" * 8_000_000 + b'"}'
    router = lab.router(endpoint=[lab.upstream(script=lambda c, r: c.sock.sendall(answer(big))).url])
    assert once(router.port, request(chat_body())).body == big


def test_a_body_over_the_limit_is_refused_with_413(lab):
    router = lab.router(endpoint=[lab.upstream().url], max_request_body="100k")
    response = once(router.port, request(chat_body("z" * 200_000)))
    assert response.status == 413
    assert response.json()["error"]["code"] == 413
    assert once(router.port, request(chat_body("z" * 1000))).status == 200


@pytest.mark.parametrize("junk", [
    b"NOT HTTP\r\n\r\n",
    b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello",
    b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: -1\r\n\r\n",
    b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
    b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip, chunked, x\r\n\r\n0\r\n\r\n",
    b"GET / HTTP/1.1\r\nHost : a\r\n\r\n",
    b"GET /" + b"a" * 200_000 + b" HTTP/1.1\r\n\r\n",
], ids=["line", "both-lengths", "two-lengths", "negative", "bad-chunk", "bad-coding", "space-before-colon", "long-target"])
def test_ambiguous_framing_is_refused_and_the_connection_closed(lab, junk):
    upstream = lab.upstream()
    router = lab.router(endpoint=[upstream.url])
    with Wire(router.port) as wire:
        wire.send(junk)
        response = wire.read()
        assert response is None or 400 <= response.status < 600
        assert wire.closed()
    assert upstream.requests == []
    assert once(router.port, request(chat_body())).status == 200


def test_hop_by_hop_headers_stop_at_the_router(lab):
    def script(connection, received):
        connection.sock.sendall(answer(headers=["Connection: secret-note", "Secret-Note: 1", "Keep-Alive: timeout=5", "X-Kept: 2"]))

    upstream = lab.upstream(script=script)
    router = lab.router(endpoint=[upstream.url])
    response = once(router.port, request(chat_body(), "Connection: keep-alive, Drop-Me", "Drop-Me: 1", "Keep-Alive: 9", "TE: trailers",
                                         "Proxy-Authorization: no", "X-Stay: yes"))
    seen = upstream.requests[0]
    for name in ("drop-me", "keep-alive", "te", "proxy-authorization"):
        assert seen.get(name) is None, name
    assert seen.get("x-stay") == "yes"
    assert "secret-note" not in response.headers and "keep-alive" not in response.headers
    assert response.headers["x-kept"] == "2"


def test_an_early_answer_is_relayed_and_its_connection_not_reused(lab):
    enough = threading.Event()

    def before_body(connection, head):
        connection.sock.sendall(answer(b'{"error":{"message":"too long"}}', status="413 Payload Too Large"))
        enough.wait(30)  # the body stays unread, so it cannot be sent whole
        return True

    upstream = lab.upstream(before_body=before_body)
    router = lab.router(endpoint=[upstream.url])
    response = once(router.port, request(chat_body("q" * 60_000_000)))
    assert response.status == 413
    assert response.json() == {"error": {"message": "too long"}}
    upstream.before_body = None
    assert once(router.port, request(chat_body())).status == 200
    assert upstream.connections == 2
    enough.set()


def test_a_break_after_the_first_byte_is_shown_as_a_break(lab):
    def script(connection, received):
        head = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
        connection.sock.sendall(head + b"d\r\ndata: {\"a\":1}\r\n")
        return False

    router = lab.router(endpoint=[lab.upstream(script=script).url])
    response = once(router.port, request(chat_body(stream=True)))
    assert response.status == 200
    assert not response.complete


def test_a_client_that_leaves_takes_its_upstream_request_along(lab):
    gone = []

    def script(connection, received):
        connection.sock.sendall(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
                                b"9\r\ndata: {}\n\r\n")
        gone.append(connection.sock.recv(1) == b"")
        return False

    router = lab.router(endpoint=[lab.upstream(script=script).url])
    wire = Wire(router.port)
    wire.send(request(chat_body(stream=True)))
    wire.sock.recv(1)
    wire.sock.close()
    assert eventually("upstream sees the abort", lambda: gone) == [True]


def test_a_slow_reader_does_not_grow_the_router(lab):
    total = 64 << 20

    def script(connection, received):
        connection.sock.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % total)
        block = b"s" * 65536
        for _ in range(total // len(block)):
            connection.sock.sendall(block)

    router = lab.router(endpoint=[lab.upstream(script=script).url])

    def resident():
        with open(f"/proc/{router.pid}/statm") as f:
            return int(f.read().split()[1]) * 4096

    once(router.port, request(b"{}"))
    before = resident()
    with Wire(router.port) as wire:
        wire.send(request(chat_body()))
        wire.sock.recv(1)
        peak = max(resident() for _ in range(50) if time.sleep(0.01) is None)
        # The rest still arrives whole.
        left = total + 1000
        got = 1
        while got < total:
            data = wire.sock.recv(1 << 20)
            assert data
            got += len(data)
    assert got <= left
    assert peak - before < 16 << 20


def test_curl_chunked_upload_and_expect(lab):
    sim = lab.sim()
    router = lab.router(endpoint=sim.urls)
    out = subprocess.run(
        ["curl", "-sS", "--max-time", "30", "-w", "\n%{http_code}", f"{router.url}/v1/chat/completions", "-H", "Content-Type: application/json",
         "-H", "Transfer-Encoding: chunked", "-H", "Expect: 100-continue", "--data-binary", "@-"],
        input=chat_body("from curl"), capture_output=True, check=True).stdout.decode()
    body, status = out.rsplit("\n", 1)
    assert status == "200"
    assert json.loads(body)["model"] == MODEL
