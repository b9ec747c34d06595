"""Spans, as an OpenTelemetry collector receives them: decoded with the published schema."""

import http.server
import threading

import httpx
import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from process import MODEL, eventually

PARENT = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
BODY = {"model": MODEL, "prompt": "hello"}


class Collector:
    def __init__(self, tls=None):
        self.spans, self.resource, self.scopes = [], {}, {}
        collector = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self):
                body = self.rfile.read(int(self.headers["content-length"]))
                collector.take(self.path, ExportTraceServiceRequest.FromString(body))
                self.send_response(200)
                self.send_header("content-length", "0")
                self.end_headers()

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        if tls:
            self.server.socket = tls.wrap_socket(self.server.socket, server_side=True)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def take(self, path, export):
        assert path == "/v1/traces"
        for resource in export.resource_spans:
            self.resource = {a.key: a.value.string_value for a in resource.resource.attributes}
            for scope in resource.scope_spans:
                for span in scope.spans:
                    self.scopes[span.name] = scope.scope.name
                    self.spans.append(span)

    @property
    def url(self):
        return f"http://127.0.0.1:{self.server.server_port}"

    def stop(self):
        self.server.shutdown()
        self.server.server_close()


@pytest.fixture
def collector(monkeypatch):
    it = Collector()
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", it.url)
    monkeypatch.setenv("OTEL_BSP_SCHEDULE_DELAY", "20")
    monkeypatch.setenv("OTEL_SERVICE_NAME", "router-under-test")
    yield it
    it.stop()


def attributes(span):
    return {a.key: getattr(a.value, a.value.WhichOneof("value")) for a in span.attributes}


def test_a_request_leaves_its_stages_below_the_callers_span(lab, collector):
    upstream = lab.upstream()
    router = lab.router([upstream.url])
    response = httpx.post(f"{router.url}/v1/completions", json=BODY, headers={"traceparent": PARENT, "x-request-id": "r1"})
    assert response.status_code == 200
    spans = eventually("spans", lambda: {s.name: s for s in collector.spans})
    assert all(s.trace_id.hex() == "4bf92f3577b34da6a3ce929d0e0e4736" for s in collector.spans)

    root = spans["gateway.request"]
    assert root.parent_span_id.hex() == "00f067aa0ba902b7"
    assert root.kind == root.SPAN_KIND_SERVER
    children = {"gateway.request_orchestration": "gateway.request",
                "run_scheduler_profile": "gateway.request_orchestration",
                "filter_endpoints": "run_scheduler_profile",
                "llm_d.epp.scoring": "run_scheduler_profile",
                "llm_d.epp.scorer.queue-scorer": "llm_d.epp.scoring",
                "pick_endpoints": "run_scheduler_profile",
                "llm_d.epp.producer.approx-prefix-cache-producer": "gateway.request_orchestration"}
    for name, parent in children.items():
        span = spans[name]
        assert span.parent_span_id == spans[parent].span_id, name
        assert spans[parent].start_time_unix_nano <= span.start_time_unix_nano <= span.end_time_unix_nano, name
        assert span.end_time_unix_nano <= spans[parent].end_time_unix_nano, name
    assert attributes(spans["gateway.request_orchestration"])["target_model"] == MODEL
    profile = attributes(spans["run_scheduler_profile"])
    assert profile["gen_ai.request.id"] == "r1" and profile["gen_ai.request.model"] == MODEL
    scorer = attributes(spans["llm_d.epp.scorer.queue-scorer"])
    assert scorer["llm_d.epp.scorer.endpoints_scored"] == 1 and scorer["llm_d.epp.scorer.type"] == "queue-scorer"
    assert collector.scopes["filter_endpoints"] == "llm-d-router/pkg/epp/scheduling"
    assert collector.resource["service.name"] == "router-under-test"

    # The server is told about the span of the router, not about that of its caller.
    sent = upstream.requests[-1].get("traceparent")
    assert sent == f"00-4bf92f3577b34da6a3ce929d0e0e4736-{root.span_id.hex()}-01"


def test_a_refused_request_is_marked(lab, collector):
    router = lab.router([lab.upstream().url])
    response = httpx.post(f"{router.url}/v1/completions", json={"prompt": "x"}, headers={"traceparent": PARENT})
    assert response.status_code == 400
    root = eventually("span", lambda: next((s for s in collector.spans if s.name == "gateway.request"), None))
    assert root.status.code == root.status.STATUS_CODE_ERROR
    assert "model not found" in root.status.message


def test_the_callers_no_counts(lab, collector):
    upstream = lab.upstream()
    router = lab.router([upstream.url])
    unsampled = PARENT[:-2] + "00"
    for _ in range(3):
        assert httpx.post(f"{router.url}/v1/completions", json=BODY, headers={"traceparent": unsampled}).status_code == 200
    router.stop()
    assert collector.spans == []
    sent = upstream.requests[-1].get("traceparent")
    assert sent.startswith(PARENT[:36]) and sent.endswith("-00") and sent != unsampled


def test_spans_are_exported_before_the_process_ends(lab, collector, monkeypatch):
    monkeypatch.setenv("OTEL_BSP_SCHEDULE_DELAY", "3600000")
    sim = lab.sim()
    router = lab.router(sim.urls)
    assert httpx.post(f"{router.url}/v1/completions", json=BODY, headers={"traceparent": PARENT}).status_code == 200
    router.stop()
    assert "gateway.request" in {s.name for s in collector.spans}


def test_without_a_collector_the_header_passes_untouched(lab):
    upstream = lab.upstream()
    router = lab.router([upstream.url])
    assert httpx.post(f"{router.url}/v1/completions", json=BODY, headers={"traceparent": PARENT}).status_code == 200
    assert upstream.requests[-1].get("traceparent") == PARENT


def test_a_gateway_may_carry_the_context_beside_the_request(lab, collector):
    pytest.importorskip("grpc")
    from ext_proc import Stream
    epp = lab.epp([9100], tracing=True)
    other = "00-11111111111111111111111111111111-2222222222222222-01"
    with epp.channel() as channel:
        for headers, parent in (((), PARENT), ((("traceparent", other),), other)):
            stream = Stream(channel, metadata=(("traceparent", PARENT),))
            stream.post(b'{"model":"m","prompt":"Hi"}', headers=headers)
            sent = stream.headers()[0]["traceparent"]
            assert sent.split("-")[1] == parent.split("-")[1] and sent.split("-")[2] != parent.split("-")[2]
            stream.cancel()
    eventually("both left a span", lambda: {s.parent_span_id.hex() for s in collector.spans if s.name == "gateway.request"}
               == {"00f067aa0ba902b7", "2222222222222222"})
