"""HTTP/2 on the router's port, with prior knowledge and over TLS, beside HTTP/1.1: what clients use, limits, and what is refused."""

import json
import os
import signal
import socket
import subprocess
import threading

import h2.errors
import h2.events
import httpx
import openai
import pytest
from h2_peer import PREFACE, Peer, frame
from process import MODEL, eventually
from tls import Authority
from upstream import answer
from wire import Wire, chat_body

CHAT = {"model": MODEL, "messages": [{"role": "user", "content": "hi"}], "max_tokens": 20}
POST = [(":method", "POST"), (":scheme", "http"), (":authority", "gw"), (":path", "/v1/chat/completions")]


@pytest.fixture(scope="module")
def router(module_lab):
    return module_lab.router(module_lab.sim(2).urls)


def h2c(**options):
    return httpx.Client(http1=False, http2=True, timeout=60, **options)


def post(peer, body=None, extra=()):
    body = chat_body() if body is None else body
    stream = peer.open([*POST, ("content-type", "application/json"), *extra])
    peer.send(stream, body, end=True)
    return stream


def echo(connection, received):
    connection.sock.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(received.body) + received.body)


def met(router, limit):
    return router.value("llmd_client_limits_total", limit=limit)


# Clients.

def test_answers_and_streams(router):
    with h2c() as client:
        whole = client.post(router.url + "/v1/chat/completions", json=CHAT)
        assert (whole.http_version, whole.status_code) == ("HTTP/2", 200)
        assert whole.json()["choices"][0]["message"]["content"]
        assert whole.headers["x-llm-d-served-endpoint"]
        with client.stream("POST", router.url + "/v1/chat/completions", json=CHAT | {"stream": True}) as stream:
            assert stream.headers["content-type"].startswith("text/event-stream")
            lines = [line for line in stream.iter_lines() if line]
        assert len(lines) > 3 and lines[-1] == "data: [DONE]"
        assert client.get(router.url + "/v1/models").json()["data"][0]["id"] == MODEL
        assert client.head(router.url + "/v1/models").status_code in (200, 405)
        refused = client.post(router.url + "/v1/chat/completions", content=b"{")
        assert refused.status_code == 400 and "error unmarshaling request bodyMap" in refused.json()["error"]["message"]


def test_the_openai_client_over_tls(lab, tmp_path):
    authority = Authority(tmp_path)
    router = lab.router(lab.sim().urls, secure_serving=True, cert_path=authority.secret("serving", authority.issue("serving")))
    context = authority.client()
    context.set_alpn_protocols(["h2", "http/1.1"])
    http = httpx.Client(verify=context, http2=True)
    client = openai.OpenAI(base_url=f"https://localhost:{router.port}/v1", api_key="any", max_retries=0, timeout=60, http_client=http)
    assert client.chat.completions.create(**CHAT).choices[0].message.content
    assert len(list(client.chat.completions.create(**CHAT, stream=True))) > 2
    assert http.get(f"https://localhost:{router.port}/v1/models").http_version == "HTTP/2"
    old = httpx.get(f"https://localhost:{router.port}/v1/models", verify=authority.client())
    assert (old.http_version, old.status_code) == ("HTTP/1.1", 200)
    for protocols, agreed in ((["h2"], "h2"), (["http/1.1", "h2"], "h2"), (["http/1.1"], "http/1.1")):
        context = authority.client()
        context.set_alpn_protocols(protocols)
        with socket.create_connection(("127.0.0.1", router.port), timeout=20) as plain:
            with context.wrap_socket(plain, server_hostname="localhost") as secure:
                assert secure.selected_alpn_protocol() == agreed
                secure.sendall(b"GET /v1/models HTTP/1.1\r\nHost: x\r\n\r\n")
                first = secure.recv(9)
                assert (first == b"HTTP/1.1 ") == (agreed == "http/1.1")


@pytest.mark.parametrize("option, version", [("--http2-prior-knowledge", "2"), ("--http2", "1.1"), ("--http1.1", "1.1")])
def test_curl(router, option, version):
    got = subprocess.run(["curl", "-sS", option, "-o", os.devnull, "-w", "%{http_code} %{http_version}", "-d", json.dumps(CHAT),
                          "-H", "Content-Type: application/json", router.url + "/v1/chat/completions"],
                         capture_output=True, text=True, timeout=60)
    assert got.stdout == f"200 {version}", got


def test_large_bodies_both_ways(lab):
    upstream = lab.upstream(script=echo)
    router = lab.router([upstream.url])
    body = json.dumps({"model": MODEL, "prompt": "lorem ipsum é " * 400_000}).encode()
    with h2c() as client:
        for content in (body, iter([body[:100_000], body[100_000:]])):  # with a length, and without
            got = client.post(router.url + "/v1/completions", content=content)
            assert got.status_code == 200 and got.content == body
    assert [r.get("content-length") for r in upstream.requests] == [str(len(body))] * 2
    assert upstream.requests[0].line == "POST /v1/completions HTTP/1.1"


def test_many_streams_at_once(router):
    peer = Peer(router.port, take_windows=True)
    peer.until(h2.events.RemoteSettingsChanged)
    streams = [post(peer, chat_body(stream=i % 2 == 0)) for i in range(200)]
    for stream in streams:
        headers, body = peer.answer(stream)
        assert headers[":status"] == "200" and body
    peer.sock.close()


# What servers get.

def test_heads_become_http1(lab):
    upstream = lab.upstream()
    router = lab.router([upstream.url])
    peer = Peer(router.port)
    stream = post(peer, extra=[("cookie", "a=1"), ("x-one", "1"), ("cookie", "b=2"), ("te", "trailers"), ("x-request-id", "r1"),
                               ("x-gateway-destination-endpoint", "127.0.0.1:1"), ("x-prefiller-host-port", "127.0.0.1:1"),
                               ("x-encoder-hosts-ports", "127.0.0.1:1"), ("host", "GW")])
    headers, body = peer.answer(stream)
    assert headers[":status"] == "200" and headers["x-request-id"] == "r1" and json.loads(body)["id"] == "x"
    received = upstream.requests[0]
    assert received.headers == [("host", "gw"), ("content-type", "application/json"), ("x-one", "1"), ("x-request-id", "r1"),
                                ("cookie", "a=1; b=2"), ("content-length", str(len(chat_body())))]
    peer.sock.close()


def test_answers_of_servers_pass(lab):
    def script(connection, received):
        connection.sock.sendall(b"HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\nHTTP/1.1 201 Made\r\nX-Upper: V\r\nKeep-Alive: timeout=5\r\n"
                                b"Connection: keep-alive\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n")
    router = lab.router([lab.upstream(script=script).url])
    peer = Peer(router.port)
    headers, body = peer.answer(post(peer))
    assert (headers[":status"], headers["x-upper"], body) == ("201", "V", b"abc")
    assert not {"connection", "keep-alive", "transfer-encoding"} & set(headers)
    assert any(isinstance(e, h2.events.InformationalResponseReceived) for e in peer.events)
    peer.sock.close()


def test_keys_and_their_errors(lab, tmp_path):
    keys = tmp_path / "keys"
    keys.write_text("key-for-tests\n")
    upstream = lab.upstream()
    router = lab.router([upstream.url], client_api_keys_file=keys)
    with h2c() as client:
        refused = client.post(router.url + "/v1/chat/completions", json=CHAT)
        assert refused.status_code == 401 and refused.json()["error"]["code"] == "invalid_api_key"
        assert client.post(router.url + "/v1/chat/completions", json=CHAT, headers={"x-api-key": "key-for-tests"}).status_code == 200
    assert upstream.requests[0].get("x-api-key") is None


# Ends.

def test_a_reset_aborts_the_request_upstream(lab):
    closed = threading.Event()

    def script(connection, received):
        connection.sock.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nfirst")
        try:
            connection.more()
        except (ConnectionError, OSError):
            closed.set()
            raise
    router = lab.router([lab.upstream(script=script).url])
    peer = Peer(router.port)
    stream = post(peer)
    peer.until(h2.events.DataReceived, stream)
    peer.h2.reset_stream(stream, h2.errors.ErrorCodes.CANCEL)
    peer.flush()
    assert closed.wait(20)
    peer.sock.close()


def test_a_break_behind_the_router_resets_the_stream(lab):
    def script(connection, received):
        connection.sock.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nfirst")
        return False
    router = lab.router([lab.upstream(script=script).url])
    peer = Peer(router.port)
    stream = post(peer)
    assert peer.until(h2.events.StreamReset, stream).error_code == h2.errors.ErrorCodes.INTERNAL_ERROR
    peer.sock.close()


def test_an_early_answer_ends_the_upload(lab):
    router = lab.router([lab.upstream().url], max_request_body="10Ki")
    peer = Peer(router.port)
    stream = peer.open([*POST, ("content-length", "1000000")])
    assert peer.outcome(stream) == 413
    assert peer.until(h2.events.StreamReset, stream).error_code == h2.errors.ErrorCodes.NO_ERROR
    assert peer.answer(post(peer))[0][":status"] == "200"
    peer.sock.close()


def test_drain(lab):
    release = threading.Event()

    def script(connection, received):
        release.wait(20)
        connection.sock.sendall(answer())
    router = lab.router([lab.upstream(script=script).url], drain_timeout="0", shutdown_grace="20s")
    peer = Peer(router.port)
    stream = post(peer)
    eventually("it is under way", lambda: router.value("llm_d_epp_request_running") == 1)
    router.popen.send_signal(signal.SIGTERM)
    peer.until(h2.events.ConnectionTerminated)
    release.set()
    # python-h2 takes no more after a GOAWAY: what follows is read as it is.
    data = b""
    while part := peer.sock.recv(65536):
        data += part
    assert b"chat.completion" in data
    peer.sock.close()
    assert router.popen.wait(30) == 0
    router.stopped = True


# Back-pressure.

def test_a_stream_that_is_not_read_stops_alone(lab):
    sent = []

    def script(connection, received):
        if b"endless" not in received.body:
            return connection.sock.sendall(answer())
        connection.sock.sendall(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
        connection.sock.settimeout(0.5)
        try:
            while len(sent) < 4000:
                connection.sock.sendall(b"10000\r\n" + b"x" * 65536 + b"\r\n")
                sent.append(65536)
        except socket.timeout:
            return False
    router = lab.router([lab.upstream(script=script).url])
    peer = Peer(router.port)
    peer.until(h2.events.RemoteSettingsChanged)
    peer.h2.increment_flow_control_window(10_000_000)
    stalled = post(peer, chat_body("endless"))
    peer.until(h2.events.DataReceived, stalled)
    for _ in range(20):
        assert peer.answer(post(peer))[0][":status"] == "200"
    eventually("the server has to wait", lambda: met(router, "write_timeout") == 0 and len(sent) > 0)
    assert sum(sent) < 64 << 20
    peer.sock.close()


# What is refused.

@pytest.mark.parametrize("head", [
    [*POST, ("Upper", "x")], [*POST, ("connection", "close")], [*POST, ("transfer-encoding", "chunked")], [*POST, ("te", "gzip")],
    [*POST, ("upgrade", "h2c")], [*POST, ("keep-alive", "1")], [*POST, ("proxy-connection", "x")], [*POST, (":path", "/again")],
    POST[:3], POST[1:], [POST[0], *POST[2:]], [("x-early", "1"), *POST], [*POST, (":status", "200")], [*POST, ("x", "a\r\nb: c")],
    [*POST, ("x", "a\nb")], [*POST, ("x", "a\0b")], [*POST, ("x y", "z")], [*POST, ("x\r\ny", "z")], [*POST, ("host", "other")],
    [*POST, ("host", "gw"), ("host", "gw")], [*POST, ("content-length", "1"), ("content-length", "1")], [*POST, ("content-length", "-1")],
    [*POST, ("content-length", "1, 1")], [*POST[:3], (":path", "")], [*POST[:3], (":path", "/a b")], [*POST[:3], (":path", "/a\r\nx: y")],
    [*POST[:2], (":authority", "a b"), POST[3]], [(":method", "PO ST"), *POST[1:]], [*POST, ("", "x")]], ids=lambda head: repr(head[-1]))
def test_malformed_heads_reset_their_stream(lab, router, head):
    peer = Peer(router.port)
    peer.flush()
    assert peer.raw(frame(1, flags=5, stream=1, payload=peer.h2.encoder.encode(head)))
    reset = frame(3, stream=1, payload=b"\0\0\0\1")
    data = b""
    while reset not in data:
        part = peer.sock.recv(65536)
        assert part, data
        data += part
    peer.sock.close()


@pytest.mark.parametrize("head, status", [
    ([*POST[:3], (":path", "/a#b")], 400), ([*POST[:3], (":path", "http://x/y")], "PROTOCOL_ERROR"),
    ([(":method", "CONNECT"), (":authority", "x:1")], 501), ([*POST, ("expect", "magic")], 417)], ids=str)
def test_requests_that_are_not_served(router, head, status):
    peer = Peer(router.port)
    stream = peer.open(head, end=True)
    assert peer.outcome(stream) == status
    peer.sock.close()


@pytest.mark.parametrize("declared, sent", [("3", b"{}"), ("1", b"{}"), ("0", b"{}")])
def test_bodies_of_another_length(lab, declared, sent):
    upstream = lab.upstream()
    router = lab.router([upstream.url])
    peer = Peer(router.port)
    peer.flush()
    head = frame(1, flags=4, stream=1, payload=peer.h2.encoder.encode([*POST, ("content-length", declared)]))
    assert peer.raw(head + frame(0, flags=1, stream=1, payload=sent))
    data = b""
    while frame(3, stream=1, payload=b"\0\0\0\1") not in data:
        part = peer.sock.recv(65536)
        assert part, data
        data += part
    assert upstream.requests == []
    peer.sock.close()


# Limits.

@pytest.fixture(scope="module")
def limited(module_lab):
    return module_lab.router([module_lab.upstream().url], max_request_header_bytes="8Ki", max_request_headers=20, max_request_body="10Ki",
                             header_timeout="500ms", body_idle_timeout="500ms")


def test_heads_and_bodies_have_limits(limited):
    before = met(limited, "header_list"), met(limited, "body")
    peer = Peer(limited.port)
    assert peer.outcome(post(peer, extra=[("x-long", "v" * 9000)])) == 431
    assert peer.outcome(post(peer, extra=[(f"x-{i}", "1") for i in range(30)])) == 431
    stream = peer.open(POST)
    peer.send(stream, b"x" * 12_000)
    assert peer.outcome(stream) == 413
    assert peer.answer(post(peer))[0][":status"] == "200"
    assert (met(limited, "header_list"), met(limited, "body")) == (before[0] + 2, before[1] + 1)
    peer.sock.close()


def test_slow_clients_run_out_of_time(limited):
    before = met(limited, "header_timeout"), met(limited, "body_idle_timeout")
    with socket.create_connection(("127.0.0.1", limited.port), timeout=20) as sock:
        sock.sendall(PREFACE)
        while sock.recv(4096):
            pass
    with socket.create_connection(("127.0.0.1", limited.port), timeout=20) as sock:
        sock.sendall(PREFACE + frame(4) + frame(1, stream=1, payload=b"\x82"))
        while sock.recv(4096):
            pass
    peer = Peer(limited.port)
    assert peer.outcome(peer.open(POST)) == 408
    assert (met(limited, "header_timeout"), met(limited, "body_idle_timeout")) == (before[0] + 2, before[1] + 1)
    peer.sock.close()


def test_bodies_of_all_together(lab):
    router = lab.router([lab.upstream().url], max_buffered_bytes="1Mi")
    peer = Peer(router.port)
    stream = peer.open(POST)
    try:
        peer.send(stream, b"x" * 3_000_000)
    except h2.exceptions.StreamClosedError:
        pass
    assert peer.outcome(stream) == 503
    assert met(router, "buffered_bytes") == 1
    peer.sock.close()


def test_rapid_reset(lab):
    router = lab.router([lab.upstream().url])
    peer = Peer(router.port)
    try:
        for _ in range(3000):
            stream = peer.open(POST)
            peer.h2.reset_stream(stream, h2.errors.ErrorCodes.CANCEL)
            peer.flush()
    except OSError:
        pass
    assert peer.ends_with() in (h2.errors.ErrorCodes.ENHANCE_YOUR_CALM, None)  # None: a reset has overtaken it
    assert met(router, "resets") == 1


@pytest.mark.parametrize("flood", [frame(6, payload=b"8 bytes!"), frame(4), frame(2, stream=1, payload=b"\0\0\0\0\x10")],
                         ids=["ping", "settings", "priority"])
def test_floods_of_control_frames(lab, flood):
    router = lab.router([lab.upstream().url])
    peer = Peer(router.port)
    for _ in range(100):
        if not peer.raw(flood * 100):
            break
    assert peer.ends_with() in (h2.errors.ErrorCodes.ENHANCE_YOUR_CALM, None)
    assert met(router, "control_frames") == 1


def test_more_streams_than_announced(lab):
    release = threading.Event()

    def script(connection, received):
        release.wait(20)
        connection.sock.sendall(answer())
    router = lab.router([lab.upstream(script=script).url], max_streams=10)
    peer = Peer(router.port)  # one that has not seen the limit; who has, loses its connection
    head = peer.h2.encoder.encode(POST)
    assert peer.raw(b"".join(frame(1, flags=4, stream=1 + 2 * i, payload=head) for i in range(11)))
    data = b""
    while frame(3, stream=21, payload=b"\0\0\0\7") not in data:
        part = peer.sock.recv(65536)
        assert part
        data += part
    assert met(router, "streams") == 1
    release.set()
    peer.sock.close()


def test_http1_on_the_same_port(router):
    with Wire(router.port) as wire:
        wire.send(b"GET /v1/models HTTP/1.1\r\nHost: x\r\n\r\n")
        assert wire.read().status == 200
        wire.send(PREFACE)  # too late
        assert wire.read().status == 505
