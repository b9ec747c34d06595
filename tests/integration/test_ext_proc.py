"""`llmd epp` through a real gRPC client: transcripts T1-T11 of the protocol, options, health, drain, two loops."""

import json
import signal
import threading

import grpc
import httpx
import pytest
from ext_proc import MESSAGES, Response, Stream, header_map, unary
from google.protobuf import json_format
from process import eventually

BODY = b'{"model":"m","prompt":"Hi"}'
SERIES = {"model_name": "m", "target_model_name": "m", "fairness_id": "default-flow", "priority": "0"}


@pytest.fixture(scope="module")
def epp(module_lab):
    return module_lab.epp([9100, 9101], enable_grpc_stream_metrics=True)


def test_messages_may_be_compressed(epp):
    body = json.dumps({"model": "m", "prompt": "x" * 200_000}).encode()
    with epp.channel() as channel:
        stream = Stream(channel, compression=grpc.Compression.Gzip)
        stream.post(body)
        assert "x-gateway-destination-endpoint" in stream.headers()[0]
        assert stream.body()[0] == body


@pytest.fixture
def stream(epp):
    with epp.channel() as channel:
        yield Stream(channel)


def answer_with(stream, body, headers=(), pieces=1):
    stream.send(response_headers={"headers": header_map([(":status", "200"), ("content-type", "application/json"), *headers])})
    for i in range(pieces):
        part = body[i * len(body) // pieces:(i + 1) * len(body) // pieces]
        stream.send(response_body={"body": part, "end_of_stream": i == pieces - 1})


def test_t1_a_request_and_its_answer(epp, stream):
    before = epp.value("llm_d_epp_request_total", **SERIES) or 0
    stream.post(BODY, headers=[(":scheme", "http"), (":authority", "gw"), ("content-type", "application/json"),
                               ("content-length", "27"), ("x-request-id", "r1")])
    message = stream.next()
    common = message.request_headers.response
    assert common.clear_route_cache
    first, second = common.header_mutation.set_headers[:2]
    endpoint = first.header.raw_value.decode()
    assert first.header.key == "x-gateway-destination-endpoint" and endpoint in ("127.0.0.1:9100", "127.0.0.1:9101")
    assert (second.header.key, second.header.raw_value) == ("Content-Length", b"27")
    assert {h.header.key: h.header.raw_value for h in common.header_mutation.set_headers[2:]} == {
        ":method": b"POST", ":path": b"/v1/completions", ":scheme": b"http", ":authority": b"gw",
        "content-type": b"application/json", "x-request-id": b"r1"}
    assert json_format.MessageToDict(message.dynamic_metadata) == {"envoy.lb": {"x-gateway-destination-endpoint": endpoint}}
    assert stream.body() == (BODY, [27])
    answer = b'{"id":"x","model":"m","usage":{"prompt_tokens":3,"completion_tokens":2,"total_tokens":5}}'
    answer_with(stream, answer, [("content-length", "89")], pieces=2)
    assert stream.headers() == ({"x-went-into-resp-headers": "true", ":status": "200", "content-type": "application/json"}, [])
    assert stream.body("response")[0] == answer
    stream.close()
    assert stream.next() == grpc.StatusCode.OK
    eventually("it is counted", lambda: epp.value("llm_d_epp_request_total", **SERIES) == before + 1)
    assert epp.value("llm_d_epp_request_output_tokens_sum", **SERIES) >= 2


def immediate(stream):
    message = stream.next()
    assert isinstance(message, Response), message
    reply = message.immediate_response
    assert stream.next() == grpc.StatusCode.OK
    headers = {h.header.key: h.header.raw_value.decode() for h in reply.headers.set_headers}
    return reply.status.code, reply.body.decode(), headers


def test_t3_no_endpoints(lab):
    epp = lab.epp([])
    none = "inference error: ServiceUnavailable - failed to find endpoint candidates for serving the request"
    with epp.channel() as channel:
        stream = Stream(channel)
        stream.post(BODY)
        assert immediate(stream) == (503, none, {"x-llm-d-request-dropped-reason": "rejected-no-endpoints"})
        stream = Stream(channel)
        stream.send(request_headers={"headers": header_map([(":method", "GET"), (":path", "/v1/models")]), "end_of_stream": True})
        assert immediate(stream) == (500, "inference error: Internal - no pods available in datastore", {})


@pytest.mark.parametrize("hint, found", [(["192.168.1.99:8000"], False), ([], False), (["127.0.0.1:1"], True),
                                         (["192.168.1.99:1", 7, "127.0.0.1:1"], True), ("127.0.0.1", True), (None, True)])
def test_t3_subset_hints(epp, hint, found):
    with epp.channel() as channel:
        stream = Stream(channel)
        metadata = MESSAGES["Metadata"]()
        if hint is not None:
            metadata.filter_metadata["envoy.lb.subset_hint"].update({"x-gateway-destination-endpoint-subset": hint})
        stream.post(BODY, metadata_context=metadata)
        if found:
            assert "x-gateway-destination-endpoint" in stream.headers()[0]
        else:
            assert immediate(stream)[0] == 503


def test_the_subset_filter_may_be_off(lab):
    epp = lab.epp([9100], disable_endpoint_subset_filter=True, emit_endpoint_scores=True)
    with epp.channel() as channel:
        stream = Stream(channel)
        metadata = MESSAGES["Metadata"]()
        metadata.filter_metadata["envoy.lb.subset_hint"].update({"x-gateway-destination-endpoint-subset": []})
        stream.post(BODY, metadata_context=metadata)
        told = json_format.MessageToDict(stream.next().dynamic_metadata)["envoy.lb"]
        assert told["x-gateway-destination-endpoint"] == "127.0.0.1:9100"
        assert set(told["x-gateway-destination-endpoint-scores"]) == {"127.0.0.1:9100"}


@pytest.mark.parametrize("cuts", [1, 2, 19])
def test_t5_malformed_json(stream, cuts):
    text = b"no healthy upstream"
    stream.send(request_headers={"headers": header_map([(":method", "POST"), (":path", "/v1/completions")])})
    for i in range(cuts):
        stream.send(request_body={"body": text[i * 19 // cuts:(i + 1) * 19 // cuts], "end_of_stream": i == cuts - 1})
    assert immediate(stream) == (400, "inference error: BadRequest - error unmarshaling request bodyMap: "
                                      "invalid character 'o' in literal null (expecting 'u')", {})


def test_t6_missing_model_and_prompt(epp):
    with epp.channel() as channel:
        for body, text in [(b'{"prompt":"hello world"}', "model not found in request body"),
                           (b'{"model":"m"}', "invalid completions request: must have prompt field")]:
            stream = Stream(channel)
            stream.post(body)
            assert immediate(stream) == (400, f"inference error: BadRequest - {text}", {})


@pytest.mark.parametrize("request_id", [None, "r9"])
def test_t7_get_models(stream, request_id):
    headers = [(":method", "GET"), (":path", "/v1/models")] + ([("x-request-id", request_id)] if request_id else [])
    stream.send(request_headers={"headers": header_map(headers), "end_of_stream": True})
    set_headers, removed = stream.headers()
    assert set(set_headers) == {"x-gateway-destination-endpoint"} | (set() if request_id else {"x-request-id"})
    assert not removed
    answer_with(stream, b'{"data":[]}')
    stream.headers()
    assert stream.body("response")[0] == b'{"data":[]}'
    stream.close()
    assert stream.next() == grpc.StatusCode.OK


def test_t11_the_client_goes_after_a_chunk(epp, stream):
    before = epp.value("llm_d_epp_extproc_streams_total", code="Canceled")
    stream.post(b'{"model":"m","prompt":"Hi","stream":true}')
    stream.headers()
    stream.body()
    stream.send(response_headers={"headers": header_map([(":status", "200"), ("content-type", "text/event-stream")])})
    stream.headers()
    stream.send(response_body={"body": b"data: {}\n\n"})
    assert stream.next().WhichOneof("response") == "response_body"
    assert epp.value("llm_d_epp_request_running", **SERIES) == 1
    stream.cancel()
    eventually("the request is over", lambda: epp.value("llm_d_epp_request_running", **SERIES) == 0)
    assert epp.value("llm_d_epp_extproc_streams_total", code="Canceled") == before + 1
    assert epp.value("llm_d_epp_extproc_streams_inflight") == 0


def test_clients_cannot_name_endpoints(stream):
    evil = [("x-gateway-destination-endpoint", "evil:1"), ("x-prefiller-host-port", "evil:1"), ("x-encoder-hosts-ports", "e"),
            ("x-data-parallel-host-port", "e"), ("x-kv-cache-source-host-port", "e"),
            ("x-gateway-destination-endpoint-subset", "e"), ("x-gateway-destination-endpoint-served", "e")]
    stream.post(BODY, headers=evil)
    set_headers, removed = stream.headers()
    assert set_headers["x-gateway-destination-endpoint"].startswith("127.0.0.1:91")
    assert sorted(removed) == sorted(name for name, _ in evil[1:])
    assert not set(set_headers) & {name for name, _ in evil[1:]}


def test_repeated_headers_are_left_alone(stream):
    stream.post(BODY, headers=[("cookie", "a"), ("cookie", "b"), ("accept", "c")])
    set_headers, _ = stream.headers()
    assert "cookie" not in set_headers and set_headers["accept"] == "c"


def test_lean_headers(lab):
    epp = lab.epp([9100], lean_headers=True)
    with epp.channel() as channel:
        stream = Stream(channel)
        stream.post(BODY, headers=[("accept", "a"), ("x-request-id", "r"), ("x-prefiller-host-port", "evil:1")])
        assert stream.headers() == ({"x-gateway-destination-endpoint": "127.0.0.1:9100", "content-length": "27"},
                                    ["x-prefiller-host-port"])
        stream.body()
        answer_with(stream, b"{}")
        assert stream.headers() == ({"x-went-into-resp-headers": "true"}, [])


def test_skipped_response_bodies(lab):
    epp = lab.epp([9100], response_body="skip", enable_grpc_stream_metrics=True)
    with epp.channel() as channel:
        stream = Stream(channel)
        stream.post(BODY)
        stream.headers()
        stream.body()
        stream.send(response_headers={"headers": header_map([(":status", "200")])})
        message = stream.next()
        assert message.mode_override.response_body_mode == 0 and message.mode_override.response_trailer_mode == 2
        stream.close()
        assert stream.next() == grpc.StatusCode.OK
    eventually("the request has ended well", lambda: epp.value("llm_d_epp_request_duration_seconds_count", **SERIES) == 1)


@pytest.mark.parametrize("service", ["", "readiness", "liveness", "inference-extension",
                                     "envoy.service.ext_proc.v3.ExternalProcessor"])
def test_health(epp, service):
    with epp.channel(epp.health_port) as channel:
        check = unary(channel, "/grpc.health.v1.Health/Check", MESSAGES["HealthCheckRequest"](service=service),
                      MESSAGES["HealthCheckResponse"])
        assert check.status == 1
        listed = unary(channel, "/grpc.health.v1.Health/List", MESSAGES["HealthCheckRequest"](), MESSAGES["HealthListResponse"])
        assert list(listed.statuses) == ["envoy.service.ext_proc.v3.ExternalProcessor"]


def test_health_on_the_ext_proc_port_is_an_option(epp, lab):
    asked = MESSAGES["HealthCheckRequest"](service="envoy.service.ext_proc.v3.ExternalProcessor")
    with epp.channel() as channel, pytest.raises(grpc.RpcError) as error:
        unary(channel, "/grpc.health.v1.Health/Check", asked, MESSAGES["HealthCheckResponse"])
    assert error.value.code() == grpc.StatusCode.UNIMPLEMENTED
    other = lab.epp([9100], health_checking=True)
    with other.channel() as channel:
        assert unary(channel, "/grpc.health.v1.Health/Check", asked, MESSAGES["HealthCheckResponse"]).status == 1


def test_a_drain_is_seen_at_once_and_serving_goes_on(lab):
    epp = lab.epp([9100], drain_timeout="2s")
    with epp.channel() as channel, epp.channel(epp.health_port) as health:
        open_stream = Stream(channel, timeout=60)
        open_stream.post(BODY)
        open_stream.headers()
        open_stream.body()
        watch = health.unary_stream("/grpc.health.v1.Health/Watch", request_serializer=lambda m: m.SerializeToString(),
                                    response_deserializer=MESSAGES["HealthCheckResponse"].FromString)
        statuses = iter(watch(MESSAGES["HealthCheckRequest"](), timeout=60))
        assert next(statuses).status == 1
        epp.popen.send_signal(signal.SIGTERM)
        assert next(statuses).status == 2
        assert httpx.get(f"{epp.admin}/readyz", timeout=5).status_code == 503
        late = Stream(channel)
        late.post(BODY)
        assert "x-gateway-destination-endpoint" in late.headers()[0]
        late.cancel()
        eventually("the goodbye has come", lambda: "stopping" in epp.log())
        answer_with(open_stream, b"{}")
        open_stream.headers()
        assert open_stream.body("response")[0] == b"{}"
        open_stream.close()
        assert open_stream.next() == grpc.StatusCode.OK
    assert epp.popen.wait(30) == 0


def test_both_loops_serve(lab):
    epp = lab.epp([9100, 9101], loops=2)
    channels = [epp.channel() for _ in range(4)]
    streams = [Stream(channel) for channel in channels]
    for stream in streams:
        stream.post(BODY)
    for stream in streams:
        stream.headers()
    threads = {(p := open(f"/proc/{epp.pid}/task/{t}/comm")).read().strip() for t in __import__("os").listdir(f"/proc/{epp.pid}/task")}
    assert {"epp-0", "epp-1"} <= threads
    for channel in channels:
        channel.close()


def test_many_streams_at_once(epp):
    def one(channel, i):
        stream = Stream(channel, timeout=60)
        body = json.dumps({"model": "m", "prompt": f"{i} " * (1 + 2000 * (i % 20)), "stream": i % 2 == 0}).encode()
        stream.post(body)
        stream.headers()
        back, sizes = stream.body()
        assert back == body and max(sizes) <= 62_000
        answer_with(stream, body, pieces=5)
        stream.headers()
        assert stream.body("response")[0] == body
        stream.close()
        assert stream.next() == grpc.StatusCode.OK
        done.append(i)

    done = []
    with epp.channel() as a, epp.channel() as b:
        threads = [threading.Thread(target=one, args=((a, b)[i % 2], i)) for i in range(100)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert len(done) == 100
    assert epp.value("llm_d_epp_request_running", **SERIES) == 0
    assert epp.value("llm_d_epp_extproc_streams_inflight") == 0


@pytest.mark.parametrize("flags, text", [
    (["--endpoint-selector=a=b"], "needs Kubernetes"), (["--grpc-max-recv-msg-size=-1"], "--grpc-max-recv-msg-size"),
    (["--lora-info-metric=x"], "was removed"), (["--metrics-client-ca-file=x"], "needs --metrics-cert-dir"), (["--no-such"], "no-such")])
def test_bad_command_lines(flags, text):
    import subprocess
    from process import BINARY
    done = subprocess.run([BINARY, "epp", *flags], capture_output=True, text=True, timeout=30)
    assert done.returncode == 2 and text in done.stderr and done.stderr.count("\n") == 1


def test_the_references_command_line_is_taken(lab):
    epp = lab.epp([9100], pool_name="pool", pool_namespace="ns", v=1, grpc_max_recv_msg_size="10MiB",
                  zap_encoder="json", enable_cert_reload=True, tls_min_version="VersionTLS12", ha_enable_leader_election="false")
    with epp.channel() as channel:
        stream = Stream(channel)
        stream.post(BODY)
        assert "x-gateway-destination-endpoint" in stream.headers()[0]


def test_the_proxy_says_who_served(lab, tmp_path):
    epp = lab.epp(endpoint=["http://127.0.0.1:9100"], config_text="apiVersion: llm-d.ai/v1\nkind: EndpointPickerConfig\n"
                  "plugins: [{type: destination-endpoint-served-verifier}, {type: random-picker}]\n")
    with epp.channel() as channel:
        for served in ("127.0.0.1:9100", None):
            stream = Stream(channel)
            stream.post(BODY)
            stream.headers()
            stream.body()
            metadata = MESSAGES["Metadata"]()
            if served:
                metadata.filter_metadata["envoy.lb"].update({"x-gateway-destination-endpoint-served": served})
            stream.send(response_headers={"headers": header_map([(":status", "200")])}, metadata_context=metadata)
            told = stream.headers()[0]["x-conformance-test-served-endpoint"]
            assert told == served if served else told.startswith("fail: ")


FALLEN_BACK = """apiVersion: llm-d.ai/v1
kind: EndpointPickerConfig
plugins: [{type: prefix-cache-scorer}, {type: inflight-load-producer}, {type: max-score-picker}]
schedulingProfiles:
- {name: default, plugins: [{pluginRef: prefix-cache-scorer}, {pluginRef: max-score-picker}]}
"""


def test_what_the_proxy_fell_back_to_is_charged(lab):
    """Load, prefix and explanation are those of the endpoint that served."""
    addresses = {f"127.0.0.1:{port}" for port in (9100, 9101)}
    epp = lab.epp(endpoint=[f"http://{address}" for address in addresses], config_text=FALLEN_BACK)
    body = json.dumps({"model": "m", "prompt": "The same beginning. " * 50}).encode()

    def holders(producer, entries, name, number):
        state = httpx.get(f"{epp.admin}/debug/plugins/state", timeout=10).json()["plugins"][producer]["state"]
        return {entry[name].removeprefix("default/") for entry in state[entries] if entry[number] > 0}

    def loaded():
        return holders("inflight-load-producer", "endpoints", "endpoint", "requests")

    with epp.channel() as channel:
        stream = Stream(channel)
        stream.post(body, headers=[("x-request-id", "fell-back")])
        chosen = stream.headers()[0]["x-gateway-destination-endpoint"]
        [other] = addresses - {chosen}
        stream.body()
        assert loaded() == {chosen}
        metadata = MESSAGES["Metadata"]()
        metadata.filter_metadata["envoy.lb"].update({"x-gateway-destination-endpoint-served": other})
        stream.send(response_headers={"headers": header_map([(":status", "200")])}, metadata_context=metadata)
        stream.headers()
        assert loaded() == {other}
        assert other in holders("approx-prefix-cache-producer", "pods", "pod", "blocks")
        stream.send(response_body={"body": b"{}", "end_of_stream": True})
        stream.body("response")
        stream.close()
        assert stream.next() == grpc.StatusCode.OK
    eventually("nothing is in flight", lambda: not loaded())
    kept = httpx.get(f"{epp.admin}/debug/decisions", params={"request_id": "fell-back"}, timeout=10).json()["decisions"]
    assert {(d["outcome"], d["address"]) for d in kept} == {("sent", chosen), ("served", other)}


@pytest.mark.parametrize("trailers", [False, True])
def test_numbers_about_an_answer_come_with_its_end(lab, trailers):
    epp = lab.epp(endpoint=["http://127.0.0.1:9100"], config_text="""
apiVersion: llm-d.ai/v1
kind: EndpointPickerConfig
plugins:
- {type: random-picker}
- type: request-attribute-reporter
  parameters:
    attributes: [{key: {name: cost}, expression: "usage.prompt_tokens + 3.0 * usage.completion_tokens", condition: "usage.total_tokens > 5.0"}]
""")
    with epp.channel() as channel:
        for completion, cost in [(4, 15), (1, None)]:
            stream = Stream(channel)
            stream.post(BODY)
            stream.headers()
            stream.body()
            stream.send(response_headers={"headers": header_map([(":status", "200"), ("content-type", "application/json")])})
            stream.headers()
            usage = {"prompt_tokens": 3, "completion_tokens": completion, "total_tokens": 3 + completion}
            answer = json.dumps({"usage": usage}).encode()
            stream.send(response_body={"body": answer[:20]})
            assert not stream.next().HasField("dynamic_metadata")
            stream.send(response_body={"body": answer[20:], "end_of_stream": not trailers})
            last = stream.next()
            if trailers:
                stream.send(response_trailers={})
                last = stream.next()
                assert last.WhichOneof("response") == "response_trailers"
            told = json_format.MessageToDict(last.dynamic_metadata)
            assert told == ({"envoy.lb": {"cost": cost}} if cost else {})
