"""gRPC calls through `llmd router`, with grpcio on both sides: streams, trailers, errors, deadlines, ends."""

import threading

import grpc
import h2.events
import pytest
from grpc_engine import CHUNK, COMPLETE, EMBED, GENERATE, Engine, call, channel_to, data, framed, generate, number, tokenized
from h2_peer import Peer
from process import MODEL, eventually
from tls import Authority

CONFIG = """apiVersion: llm-d.ai/v1alpha1
kind: EndpointPickerConfig
requestHandler: {parsers: [{pluginRef: vllmgrpc-parser}, {pluginRef: passthrough-parser}]}
"""
HEAD = [(":method", "POST"), (":scheme", "http"), (":authority", "gw"), ("te", "trailers"), ("content-type", "application/grpc")]


def engine(lab, *arguments, **options):
    return lab._add(Engine(*arguments, **options))


def router(lab, *engines, **options):
    return lab.router([e.url for e in engines], config_text=CONFIG, **options)


def used(router, kind):
    return router.value(f"llm_d_epp_request_{kind}_tokens_sum")


def test_a_unary_call_and_its_usage(lab):
    server = engine(lab)
    front = router(lab, server)
    with channel_to(front.port) as channel:
        answer, details = call(channel, kind="unary_unary").with_call(
            generate(), timeout=20, metadata=[("x-mine", "1"), ("x-gateway-destination-endpoint", "127.0.0.1:1"), ("x-request-id", "r1")])
    assert answer == COMPLETE
    assert ("x-llm-d-served-endpoint", f"127.0.0.1:{server.port}") in details.initial_metadata()
    method, metadata = server.calls[0]
    assert method == GENERATE and metadata["x-mine"] == "1" and metadata["x-request-id"] == "r1"
    assert "x-gateway-destination-endpoint" not in metadata
    eventually("usage is read", lambda: (used(front, "input"), used(front, "output")) == (7, 10))


def test_a_server_stream_with_trailers(lab):
    def script(requests, context):
        list(requests)
        context.send_initial_metadata([("x-first", "1")])
        context.set_trailing_metadata([("x-last", "2")])
        yield from [CHUNK] * 500
        yield COMPLETE
    front = router(lab, engine(lab, script))
    with channel_to(front.port) as channel:
        stream = call(channel)(generate(stream=True), timeout=20)
        assert list(stream) == [CHUNK] * 500 + [COMPLETE]
        assert ("x-first", "1") in stream.initial_metadata() and ("x-last", "2") in stream.trailing_metadata()
        assert stream.code() == grpc.StatusCode.OK
    eventually("usage is read", lambda: used(front, "output") == 10)


def test_messages_large_and_compressed(lab):
    server = engine(lab, lambda requests, context: iter([data(2, data(1, b"\5" * 3_000_000)) if len(list(requests)[0]) > 3_000_000 else b""]))
    front = router(lab, server)
    with channel_to(front.port) as channel:
        for compression in (grpc.Compression.NoCompression, grpc.Compression.Gzip):
            answer = call(channel, kind="unary_unary")(generate(*[7] * 3_500_000), timeout=30, compression=compression)
            assert len(answer) > 3_000_000


def test_streams_both_ways(lab):
    """Messages after the first pass as they come, and answers before the last."""
    front = router(lab, engine(lab, lambda requests, context: (b"<" + r + b">" for r in requests)))
    with channel_to(front.port) as channel:
        go = threading.Semaphore(1)

        def messages():
            for i in range(50):
                go.acquire(timeout=20)
                yield b"%d" % i
        got = []
        for answer in call(channel, "/x.Y/Chat", "stream_stream")(messages(), timeout=20):
            got.append(answer)
            go.release()
        assert got == [b"<%d>" % i for i in range(50)]
        large = [b"x" * 1_000_000] * 8
        answers = list(call(channel, "/x.Y/Chat", "stream_stream")(iter(large), timeout=30))
        assert [len(a) for a in answers] == [1_000_002] * 8


def failing(channel, request=None, method=GENERATE, **options):
    with pytest.raises(grpc.RpcError) as failed:
        list(call(channel, method)(generate() if request is None else request, timeout=20, **options))
    return failed.value


def test_errors_of_servers_pass(lab):
    def script(requests, context):
        list(requests)
        context.set_trailing_metadata([("x-why", "so")])
        context.abort(grpc.StatusCode.NOT_FOUND, "no such thing, 100 %\n")
        yield

    def late(requests, context):
        yield CHUNK
        context.abort(grpc.StatusCode.DATA_LOSS, "gone")
    for how, code in ((script, grpc.StatusCode.NOT_FOUND), (late, grpc.StatusCode.DATA_LOSS)):
        front = router(lab, engine(lab, how))
        with channel_to(front.port) as channel:
            error = failing(channel)
            assert error.code() == code
            assert error.details() == ("no such thing, 100 %\n" if how is script else "gone")
            assert how is late or ("x-why", "so") in error.trailing_metadata()


def test_refusals_of_the_router(lab, tmp_path):
    keys = tmp_path / "keys"
    keys.write_text("key-for-tests\n")
    front = router(lab, engine(lab), client_api_keys_file=keys, max_request_body="10Ki")
    key = [("authorization", "Bearer key-for-tests")]
    with channel_to(front.port) as channel:
        error = failing(channel)
        assert error.code() == grpc.StatusCode.UNAUTHENTICATED and "no API key" in error.details()
        error = failing(channel, request=b"\xff", metadata=key)
        assert error.code() == grpc.StatusCode.INVALID_ARGUMENT
        assert error.details() == "inference error: BadRequest - invalid or unsupported gRPC payload"
        assert failing(channel, request=b"x" * 20_000, metadata=key).code() == grpc.StatusCode.RESOURCE_EXHAUSTED
        assert list(call(channel)(generate(), timeout=20, metadata=key)) == [COMPLETE]


def test_refusals_of_the_http_layer(lab):
    """What is wrong with a request as HTTP is told as gRPC tells it, with an answer of headers only."""
    front = router(lab, engine(lab), max_request_body="10Ki", body_idle_timeout="300ms")
    with channel_to(front.port) as channel:
        error = failing(channel, metadata=[(f"x-{i}", "1") for i in range(300)])
        assert error.code() == grpc.StatusCode.RESOURCE_EXHAUSTED and error.details() == "request head too large"
    head = [*HEAD[:3], (":path", GENERATE), *HEAD[3:], ("x-request-id", "mine")]
    peer = Peer(front.port, take_windows=True)
    for lines, status, message in ((("content-length", "20000"), "8", "request body too large: more than 10240 bytes"), (("expect", "a miracle"), "3", "unknown expectation"),
                                   (("x-slow", "1"), "4", "the request body did not arrive in time")):
        stream = peer.open([*head, lines])
        got = dict(peer.until(h2.events.ResponseReceived, stream).headers)
        assert (got[":status"], got["grpc-status"], got["grpc-message"], got["x-request-id"]) == ("200", status, message, "mine")
        peer.until(h2.events.StreamEnded, stream)
        eventually("it is logged", lambda: f'"error":"{message}"' in front.log())
    peer.sock.close()


def test_servers_that_are_gone(lab):
    server = engine(lab)
    other = engine(lab)
    front = router(lab, server, other)
    server.stop()
    with channel_to(front.port) as channel:
        for _ in range(6):
            assert list(call(channel)(generate(), timeout=20)) == [COMPLETE]
        other.stop()
        error = failing(channel)
        assert error.code() == grpc.StatusCode.UNAVAILABLE and "cannot connect to the model server" in error.details()


def test_a_server_of_http1_is_told_apart(lab):
    upstream = lab.upstream()
    front = lab.router([upstream.url], config_text=CONFIG)
    with channel_to(front.port) as channel:
        assert failing(channel).code() == grpc.StatusCode.UNAVAILABLE


def test_deadlines(lab):
    def script(requests, context):
        yield CHUNK
        while context.is_active():
            threading.Event().wait(0.05)
    server = engine(lab, script)
    front = router(lab, server)
    peer = Peer(front.port, take_windows=True)
    stream = peer.open(HEAD[:3] + [(":path", GENERATE), *HEAD[3:], ("grpc-timeout", "300m")])
    peer.send(stream, framed(generate(stream=True)), end=True)
    trailers = dict(peer.until(h2.events.TrailersReceived, stream).headers)
    assert trailers["grpc-status"] == "4"
    assert "grpc-timeout" not in server.calls[0][1]  # grpcio keeps it to itself
    stream = peer.open(HEAD[:3] + [(":path", GENERATE), *HEAD[3:], ("grpc-timeout", "soon")])
    assert dict(peer.until(h2.events.ResponseReceived, stream).headers)["grpc-status"] == "3"
    peer.sock.close()


def test_a_client_that_cancels_aborts_the_call(lab):
    ended = threading.Event()

    def script(requests, context):
        context.add_callback(ended.set)
        yield CHUNK
        ended.wait(20)
    front = router(lab, engine(lab, script))
    with channel_to(front.port) as channel:
        stream = call(channel)(generate(stream=True), timeout=60)
        assert next(stream) == CHUNK
        stream.cancel()
        assert ended.wait(10)
    eventually("it is over", lambda: front.value("llm_d_epp_request_running") == 0)


def test_embed_and_other_methods(lab):
    server = engine(lab, lambda requests, context: iter([data(1, b"\0" * 16) + number(2, 7) if list(requests) else b""]))
    front = router(lab, server)
    with channel_to(front.port) as channel:
        call(channel, EMBED, "unary_unary")(data(1, b"r") + tokenized(1, 2), timeout=20)
        call(channel, "/vllm.grpc.engine.VllmEngine/HealthCheck", "unary_unary")(b"", timeout=20)
    assert [method.rsplit("/")[-1] for method, _ in server.calls] == ["Embed", "HealthCheck"]
    eventually("usage is read", lambda: used(front, "input") == 7)


def test_over_tls_on_both_sides(lab, tmp_path):
    authority = Authority(tmp_path)
    pair = authority.issue("serving")
    credentials = grpc.ssl_server_credentials([(pair[1].read_bytes(), pair[0].read_bytes())])
    server = engine(lab, credentials=credentials)
    front = lab.router([f"https://127.0.0.1:{server.port}"], config_text=CONFIG, secure_serving=True,
                       cert_path=authority.secret("front", pair), upstream_ca_file=authority.file)
    with channel_to(front.port, grpc.ssl_channel_credentials(authority.file.read_bytes())) as channel:
        assert list(call(channel)(generate(), timeout=20)) == [COMPLETE]


def test_many_calls_share_connections(lab):
    server = engine(lab)
    front = router(lab, server)
    with channel_to(front.port) as channel:
        pending = [call(channel, kind="unary_unary").future(generate(i), timeout=60) for i in range(1, 301)]
        assert {f.result() for f in pending} == {COMPLETE}
    assert len(server.calls) == 300


def test_the_simulator_behind_the_router(lab):
    sim = lab.sim(2)
    front = lab.router(sim.urls, config_text=CONFIG)
    for port in (sim.port, front.port):
        with channel_to(port) as channel:
            messages = list(call(channel)(generate(*range(1, 100), stream=True), timeout=20))
            assert len(messages) > 1 and all(m[0] == 0x0a for m in messages[:-1]) and messages[-1][0] == 0x12
            whole, = call(channel)(data(3, b"Hello world"), timeout=20)
            assert whole[0] == 0x12
            info = call(channel, "/vllm.grpc.engine.VllmEngine/GetModelInfo", "unary_unary")(b"", timeout=20)
            assert MODEL.encode() in info
            assert failing(channel, request=b"\x1a\x05x" if port == sim.port else data(4, b"")).code() == grpc.StatusCode.INVALID_ARGUMENT
            assert failing(channel, method="/vllm.grpc.engine.VllmEngine/None").code() == grpc.StatusCode.UNIMPLEMENTED
    eventually("usage is read", lambda: used(front, "input") == 99 + 2)


def test_calls_with_the_same_image_go_to_the_server_that_has_encoded_it(lab):
    front = lab.router([engine(lab).url for _ in range(4)], config_text=CONFIG + """plugins: [{type: mm-embeddings-cache-scorer}, {type: max-score-picker}]
schedulingProfiles: [{name: default, plugins: [{pluginRef: mm-embeddings-cache-scorer}, {pluginRef: max-score-picker}]}]
""")
    with channel_to(front.port) as channel:
        def server_of(image):
            media = data(5, number(1, 1) + number(2, 576)) + data(6, image)
            _, details = call(channel, kind="unary_unary").with_call(generate() + data(7, media), timeout=20)
            return dict(details.initial_metadata())["x-llm-d-served-endpoint"]
        homes = {image: server_of(image) for image in (b"cat", b"dog", b"bird", b"fish")}
        assert len(set(homes.values())) > 1
        for image, home in list(homes.items()) * 3:
            assert server_of(image) == home


def test_calls_with_a_common_prefix_go_to_one_server(lab):
    front = lab.router([engine(lab).url for _ in range(4)], config_text=CONFIG + """plugins: [{type: prefix-cache-scorer}, {type: max-score-picker}]
schedulingProfiles: [{name: default, plugins: [{pluginRef: prefix-cache-scorer}, {pluginRef: max-score-picker}]}]
""")
    with channel_to(front.port) as channel:
        def server_of(first):
            _, details = call(channel, kind="unary_unary").with_call(generate(*range(first, first + 1000)), timeout=20)
            return dict(details.initial_metadata())["x-llm-d-served-endpoint"]
        homes = {first: server_of(first) for first in (1, 10_000, 20_000, 30_000)}
        assert len(set(homes.values())) == 4
        for first, home in list(homes.items()) * 3:
            assert server_of(first) == home
