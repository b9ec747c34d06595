"""One table for both front ends: what a client is told, what its server gets, what is counted. `llmd router` proxies to scripted
servers; `llmd epp` is asked by a client of its protocol that does what a proxy would do. An outcome is the status, the text of
spec 01 §3 and the drop reason: plain text from the picker, within the API's error object from the router."""

import dataclasses
import json

import pytest
from ext_proc import Stream, header_map
from process import eventually
from upstream import BUSY, METRICS
from wire import Wire, listens

pytest.importorskip("grpc")

HEAD = "apiVersion: llm-d.ai/v1\nkind: EndpointPickerConfig\n"
DROPPED = "x-llm-d-request-dropped-reason"
DONE = b'{"id":"x","usage":{"prompt_tokens":3,"completion_tokens":2,"total_tokens":5}}'
COMPLETION, CHAT, MESSAGES = "/v1/completions", "/v1/chat/completions", "/v1/messages"

OBJECTS = """
apiVersion: llm-d.ai/v1alpha2
kind: InferenceObjective
metadata: {name: batch}
spec: {poolRef: {name: epp}, priority: -1}
---
apiVersion: llm-d.ai/v1alpha2
kind: InferenceObjective
metadata: {name: urgent}
spec: {poolRef: {name: epp}, priority: 7}
---
apiVersion: llm-d.ai/v1alpha2
kind: InferenceModelRewrite
metadata: {name: food}
spec:
  poolRef: {name: epp}
  rules:
  - matches: [{model: {value: food}}]
    targets: [{modelRewrite: food-v2}]
"""


def profile(plugins, references, more=""):
    return (f"{HEAD}{more}plugins: [{', '.join(plugins)}]\n"
            f"schedulingProfiles: [{{name: default, plugins: [{', '.join(f'{{pluginRef: {r}}}' for r in references)}]}}]\n")


DEFAULT = profile(["{type: queue-scorer}", "{type: prefix-cache-scorer}", "{type: max-score-picker}"],
                  ["queue-scorer", "prefix-cache-scorer", "max-score-picker"])
SCREENED = profile(["{type: queue-scorer}", "{type: disaggregatedset-rollout-screener, parameters: {scope: {labelSelector: {matchLabels: {app: a}}}, "
                    "headerSelectors: [{name: v, headerName: x-version, labelKey: version}], revisionGating: {mode: disabled}}}"], ["queue-scorer"])

# Pools by name: the configuration, the labels of each server, its metrics page, and whether it is there at all.
POOLS = {
    "usual": dict(config=DEFAULT),
    "empty": dict(config=DEFAULT, servers=[]),
    "drained": dict(config=profile(["{type: decode-filter}", "{type: queue-scorer}"], ["decode-filter", "queue-scorer"]),
                    servers=["llm-d.ai/role=prefill"]),
    "busy": dict(config=DEFAULT, page=BUSY),
    "admitted": dict(config=profile(["{type: probabilistic-admitter}", "{type: random-picker}", "{type: utilization-detector, parameters: "
                                     "{queueDepthThreshold: 1000, kvCacheUtilThreshold: 1}}"], ["random-picker"]),
                     page=BUSY),
    "picky": dict(config=profile(["{type: queue-scorer}", "{type: openai-parser}"], ["queue-scorer"],
                                 "requestHandler: {parsers: [{pluginRef: openai-parser}]}\n")),
    "profiles": dict(config=f"{HEAD}plugins: [{{type: header-profile-handler}}, {{type: queue-scorer}}]\nschedulingProfiles: ["
                            "{name: decode, plugins: [{pluginRef: queue-scorer}]}, {name: other, plugins: [{pluginRef: queue-scorer}]}]\n"),
    "screened": dict(config=SCREENED, servers=["app=a,version=v1"]),
}


@dataclasses.dataclass
class Case:
    name: str
    body: bytes = b'{"model":"m","prompt":"Hi"}'
    path: str = COMPLETION
    method: str = "POST"
    headers: tuple = ()
    pool: str = "usual"
    # Of the server, if it is asked.
    reply: bytes = DONE
    reply_type: str = "application/json"
    reply_status: int = 200
    cuts: int = 1
    leaves: bool = False  # the client goes after the first piece
    # The outcome.
    status: int = 200
    message: str = ""
    reason: str = ""
    sent: bytes | None = None    # what the server got; None: the body as it is
    answer: bytes | None = None  # what the client got; None: the reply as it is
    counted: dict = dataclasses.field(default_factory=dict)  # series and how much it grows


def refused(name, body, message, path=COMPLETION, status=400, **more):
    code = {400: "BadRequest", 412: "PreconditionFailed", 429: "ResourceExhausted", 500: "Internal", 503: "ServiceUnavailable"}[status]
    counted = {} if status == 500 else {f"request_error_total{{error_code={code}}}": 1}
    return Case(name, body, path, status=status, message=f"inference error: {code} - {message}", counted=counted, **more)


BODY = Case.body
UNMARSHAL = "error unmarshaling request bodyMap: "
NO_CHAT = "invalid chat completions request: must have valid messages field"


def tokens(prompt, completion, cached=None):
    out = {"request_input_tokens_sum": prompt, "request_output_tokens_sum": completion}
    return out if cached is None else out | {"request_cached_tokens_sum": cached}


def events(*parts):
    return b"".join(b"data: " + p.encode() + b"\n\n" for p in parts) + b"data: [DONE]\n\n"


def anthropic_events(*parts):
    return b"".join(b"event: %s\ndata: %s\n\n" % (json.loads(p)["type"].encode(), p.encode()) for p in parts)


STREAM = dict(body=b'{"model":"m","prompt":"Hi","stream":true}', reply_type="text/event-stream")
USAGE_LAST = events('{"choices":[{"text":"a"}]}', '{"choices":[],"usage":{"prompt_tokens":7,"completion_tokens":10,"total_tokens":17}}')
ANTHROPIC = b'{"model":"m","max_tokens":5,"messages":[{"role":"user","content":"Hi"}]}'
SPOKEN = anthropic_events('{"type":"message_start","message":{"usage":{"input_tokens":25,"cache_read_input_tokens":10,"output_tokens":1}}}',
                          '{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"a"}}',
                          '{"type":"message_delta","usage":{"output_tokens":7}}')

CASES = [
    # Bodies that are not understood.
    refused("no-json", b"no healthy upstream", UNMARSHAL + "invalid character 'o' in literal null (expecting 'u')"),
    refused("cut-json", b'{"model":"m"', UNMARSHAL + "unexpected end of JSON input"),
    refused("a-list", b"[1, 2]", UNMARSHAL + "json: cannot unmarshal array into Go value of type map[string]interface {}"),
    refused("bom", b'\xef\xbb\xbf{"model":"m","prompt":"Hi"}', UNMARSHAL + "invalid character '\u00ef' looking for beginning of value"),
    refused("no-prompt", b'{"model":"m"}', "invalid completions request: must have prompt field"),
    refused("empty-prompt", b'{"model":"m","prompt":""}', "invalid completions request: must have prompt field"),
    refused("no-messages", b'{"model":"m"}', NO_CHAT, CHAT),
    refused("empty-messages", b'{"model":"m","messages":[]}', NO_CHAT, CHAT),
    refused("messages-as-text", b'{"model":"m","messages":"hi"}', NO_CHAT, CHAT),
    refused("no-input", b'{"model":"m"}', "invalid embeddings request: must have input field", "/v1/embeddings"),
    refused("no-response-input", b'{"model":"m"}', "invalid responses request: must have input field", "/v1/responses"),
    refused("no-items", b'{"model":"m"}', "invalid conversations request: must have items field", "/v1/conversations"),
    refused("no-image-prompt", b'{"model":"m"}', "invalid images generations request: must have prompt field", "/v1/images/generations"),
    refused("no-anthropic-messages", b'{"model":"m","messages":[]}', "invalid messages request: must have at least one message", MESSAGES),
    refused("no-token-ids", b'{"model":"m"}', "invalid generate request: must have non-empty token_ids field", "/inference/v1/generate"),
    refused("no-model", b'{"prompt":"hello world"}', "model not found in request body"),
    refused("empty-model", b'{"model":"","prompt":"hello world"}', "model not found in request body"),
    refused("no-parser", BODY, "no parser registered matching path suffix for: /no/such/path", "/no/such/path", pool="picky"),
    # No server for the request.
    refused("no-servers", BODY, "failed to find endpoint candidates for serving the request", status=503, pool="empty",
            reason="rejected-no-endpoints"),
    refused("no-servers-for-a-get", b"", "no pods available in datastore", "/v1/models", status=500, method="GET", pool="empty"),
    refused("filtered-away", BODY, "no endpoints available for the given request", status=429, pool="drained", reason="rejected-saturated"),
    refused("screened-away", BODY, "screeners eliminated all endpoint candidates", status=503, pool="screened", reason="rejected-no-endpoints",
            headers=(("x-version", "v2"),)),
    refused("no-such-profile", BODY, "failed to find target endpoint: no profile ran", status=429, pool="profiles",
            headers=(("epp-profile", "none"),)),
    refused("nothing-cached", BODY[:-1] + b',"user":"1"}', "no decode worker has the requested KV cache", status=412,
            headers=(("prefer", "return=minimal, If-Available;a=b"),)),
    # Priorities.
    refused("sheddable", BODY, "system saturated, sheddable request dropped", status=429, pool="busy", reason="rejected-saturated",
            headers=(("x-llm-d-inference-objective", "batch"),)),
    refused("sheddable-by-the-old-name", BODY, "system saturated, sheddable request dropped", status=429, pool="busy",
            reason="rejected-saturated", headers=(("x-gateway-inference-objective", "batch"),)),
    refused("denied", BODY, "request cannot be admitted: the pool is too full for requests of this priority", status=429, pool="admitted",
            reason="rejected-saturated", headers=(("x-llm-d-inference-objective", "batch"),)),
    Case("not-sheddable", pool="busy", counted={"request_total{priority=0}": 1}),
    Case("an-unknown-objective", pool="busy", headers=(("x-llm-d-inference-objective", "none"),), counted={"request_total{priority=0}": 1}),
    Case("urgent", pool="busy", headers=(("x-llm-d-inference-objective", "urgent"),), counted={"request_total{priority=7}": 1}),
    Case("fairness", headers=(("x-llm-d-inference-fairness-id", "alice"),), counted={"request_total{fairness_id=alice}": 1}),
    Case("fairness-by-the-old-name", headers=(("x-gateway-inference-fairness-id", "bob"),), counted={"request_total{fairness_id=bob}": 1}),
    Case("an-empty-new-name-hides-the-old-one", headers=(("x-llm-d-inference-fairness-id", ""), ("x-gateway-inference-fairness-id", "carol")),
         counted={"request_total{fairness_id=default-flow}": 1, "request_total{fairness_id=carol}": 0}),
    # Models.
    Case("a-rule", b'{"model":"food","prompt":"a<b","seed":9007199254740993,"temperature":1.0}',
         sent=b'{"model":"food-v2","prompt":"a<b","seed":9007199254740993,"temperature":1.0}', reply=b'{"model":"food-v2","choices":[]}',
         answer=b'{"model":"food","choices":[]}', counted={"request_total{model_name=food,target_model_name=food-v2}": 1}),
    Case("a-rule-on-a-stream", b'{"stream":true,"model":"food","prompt":"Hi"}', sent=b'{"stream":true,"model":"food-v2","prompt":"Hi"}',
         reply=events('{"model":"food-v2","choices":[]}', '{"model":"food-v2","choices":[1]}'), reply_type="text/event-stream", cuts=7,
         answer=events('{"model":"food","choices":[]}', '{"model":"food","choices":[1]}')),
    Case("a-header", headers=(("x-llm-d-model-name-rewrite", "z"),), sent=b'{"model":"z","prompt":"Hi"}',
         counted={"request_total{model_name=m,target_model_name=z}": 1}),
    Case("a-rule-beats-a-header", b'{"model":"food","prompt":"Hi"}', headers=(("x-llm-d-model-name-rewrite", "z"),),
         sent=b'{"model":"food-v2","prompt":"Hi"}'),
    Case("the-last-of-two-models", b'{"model":"a","prompt":"Hi","model":"b"}', counted={"request_total{model_name=b}": 1}),
    # Requests that are passed on.
    Case("unknown-path", b"\x00\x01 anything", "/v2/models/x/infer"),
    Case("a-query", path=COMPLETION + "?beta=true", counted={"request_total{model_name=m}": 1}),
    Case("get", b"", "/v1/models", "GET", reply=b'{"data":[]}'),
    Case("post-without-a-body", b"", method="POST"),
    Case("escapes", '{"model":"m","prompt":"a<b \\u00e9 \\ud83d\\ude00 é","seed":9007199254740993,"temperature":1.0,"x":{"y":[1.50]}}'.encode()),
    Case("a-long-body", json.dumps({"model": "m", "prompt": "long " * 40_000}).encode()),
    Case("count-tokens", ANTHROPIC, MESSAGES + "/count_tokens", reply=b'{"input_tokens":25}'),
    Case("another-profile", pool="profiles", headers=(("epp-profile", " other "),)),
    Case("a-version", pool="screened", headers=(("x-version", "v1"),)),
    # Answers.
    Case("an-error-of-the-server", reply=b'{"error":"cuda"}', reply_status=500, counted={"request_error_total{error_code=ModelServerError}": 1}),
    Case("an-empty-answer", reply=b""),
    Case("not-json", reply=b"<html>", reply_type="text/html"),
    # Usage, in every form.
    Case("usage", counted=tokens(3, 2)),
    Case("usage-in-pieces", reply=DONE, cuts=9, counted=tokens(3, 2)),
    Case("usage-with-cached", reply=b'{"usage":{"prompt_tokens":30,"completion_tokens":2,"total_tokens":32,"prompt_tokens_details":{"cached_tokens":16}}}',
         counted=tokens(30, 2, 16)),
    Case("usage-as-text", reply=b'{"usage":{"prompt_tokens":"12","completion_tokens":"4","total_tokens":"16"}}', counted=tokens(12, 4)),
    Case("usage-that-is-none", reply=b'{"usage":{"prompt_tokens":[],"completion_tokens":{}}}', counted=tokens(0, 0)),
    Case("no-usage", reply=b'{"choices":[]}', counted=tokens(0, 0)),
    Case("usage-of-a-stream", **STREAM, reply=USAGE_LAST, counted=tokens(7, 10)),
    Case("usage-of-a-stream-in-pieces", **STREAM, reply=USAGE_LAST, cuts=23, counted=tokens(7, 10)),
    Case("usage-in-every-event", **STREAM, cuts=3, reply=events(
        '{"choices":[1],"usage":{"prompt_tokens":7,"completion_tokens":1,"total_tokens":8}}',
        '{"choices":[1],"usage":{"prompt_tokens":7,"completion_tokens":2,"total_tokens":9}}'), counted=tokens(7, 2)),
    Case("usage-of-responses", b'{"model":"m","input":"Hi"}', "/v1/responses", reply=b'{"usage":{"input_tokens":11,"output_tokens":6,'
         b'"total_tokens":17,"input_tokens_details":{"cached_tokens":8}}}', counted=tokens(11, 6, 8)),
    Case("usage-of-streamed-responses", b'{"model":"m","input":"Hi","stream":true}', "/v1/responses", reply_type="text/event-stream", cuts=5,
         reply=events('{"type":"response.created"}', '{"type":"response.completed","response":{"usage":{"input_tokens":11,"output_tokens":6,"total_tokens":17}}}'),
         counted=tokens(11, 6)),
    Case("usage-of-messages", ANTHROPIC, MESSAGES, reply=b'{"usage":{"input_tokens":25,"cache_read_input_tokens":10,"output_tokens":7}}',
         counted=tokens(25, 7, 10)),
    Case("usage-of-streamed-messages", ANTHROPIC[:-1] + b',"stream":true}', MESSAGES, reply_type="text/event-stream", reply=SPOKEN, cuts=11,
         counted=tokens(25, 7, 10)),
    Case("usage-of-embeddings", b'{"model":"m","input":["Hi","Ho"]}', "/v1/embeddings", reply=b'{"data":[],"usage":{"prompt_tokens":4,"total_tokens":4}}',
         counted=tokens(4, 0)),
    # Ends.
    Case("the-client-leaves", **STREAM, reply=events("{}", "{}"), cuts=2, leaves=True, counted={"request_running": 0}),
]


def pieces(data, cuts):
    return [data[i * len(data) // cuts:(i + 1) * len(data) // cuts] for i in range(cuts)]


class Front:
    """One front end over one pool."""

    def __init__(self, lab, pool, directory):
        self.case = None
        self.servers = [lab.upstream(script=getattr(self, "serve", None), page=POOLS[pool].get("page", METRICS))
                        for _ in POOLS[pool].get("servers", ["", ""])]
        labels = POOLS[pool].get("servers", ["", ""])
        endpoints = directory / "endpoints.yaml"
        endpoints.write_text("endpoints:" + "".join(
            f'\n- {{name: e{i}, address: 127.0.0.1, port: "{s.port}", labels: {{{", ".join(l.replace("=", ": ") for l in labels[i].split(",") if l)}}}}}'
            for i, s in enumerate(self.servers)) + ("" if self.servers else " []") + "\n")
        objects = directory / "objects"
        objects.mkdir()
        (objects / "all.yaml").write_text(OBJECTS)
        self.picker = self.start(lab, config_text=POOLS[pool]["config"], endpoints_file=endpoints, objects_dir=objects,
                                 allow_experimental_plugins=True)
        self.picker.wait_for("metrics are read", lambda: all(s.pages >= 2 for s in self.servers))

    def counts(self, series):
        return {name: self._count(name) for name in series}

    def _count(self, name):
        family, _, labels = name.partition("{")
        wanted = dict(part.split("=", 1) for part in labels.rstrip("}").split(",") if part)
        return sum(value for found, having, value in self.picker.metrics().samples
                   if found == "llm_d_epp_" + family and wanted.items() <= having.items())


class ThroughRouter(Front):
    def start(self, lab, **options):
        router = lab.router(wait_ready=False, **options)
        router.wait_for("router listens", lambda: listens(router.port))
        return router

    def serve(self, connection, received):
        case = self.case
        head = f"HTTP/1.1 {case.reply_status} X\r\nContent-Type: {case.reply_type}\r\n"
        if case.cuts == 1 and not case.leaves:
            connection.sock.sendall(f"{head}Content-Length: {len(case.reply)}\r\n\r\n".encode() + case.reply)
            return
        connection.sock.sendall(f"{head}Transfer-Encoding: chunked\r\n\r\n".encode())
        for piece in pieces(case.reply, case.cuts):
            connection.sock.sendall(b"%x\r\n%s\r\n" % (len(piece), piece))
            if case.leaves:
                connection.sock.recv(1)
                return
        connection.sock.sendall(b"0\r\n\r\n")

    def ask(self, case):
        self.case = case
        before = sum(len(s.requests) for s in self.servers)
        lines = [f"{case.method} {case.path} HTTP/1.1", "Host: test", "Content-Type: application/json", *(f"{k}: {v}" for k, v in case.headers)]
        if case.method == "POST":
            lines.append(f"Content-Length: {len(case.body)}")
        with Wire(self.picker.port) as wire:
            wire.send("\r\n".join(lines).encode() + b"\r\n\r\n" + case.body)
            if case.leaves:
                wire._until(pieces(case.reply, case.cuts)[0])
                return None
            response = wire.read()
        assert response.complete
        if sum(len(s.requests) for s in self.servers) == before:
            return response.status, message_in(response, case), response.headers.get(DROPPED, "")
        received = max((s.requests[-1] for s in self.servers if s.requests), key=lambda r: r.body == expected_body(case))
        assert DROPPED not in response.headers
        return response.status, received.body, response.body


def message_in(response, case):
    """The text within the error object of the path's API."""
    body = response.json()
    if case.path.split("?")[0] == MESSAGES:
        assert set(body) == {"type", "error", "request_id"} and set(body["error"]) == {"type", "message"} and body["type"] == "error"
    else:
        assert set(body) == {"error"} and set(body["error"]) == {"message", "type", "param", "code"}
        assert body["error"]["code"] == response.status
    return body["error"]["message"]


class ThroughEpp(Front):
    def start(self, lab, **options):
        return lab.epp(**options)

    def ask(self, case):
        with self.picker.channel() as channel:
            return self._ask(Stream(channel), case)

    def _ask(self, stream, case):
        headers = [(":method", case.method), (":path", case.path), ("content-type", "application/json"), *case.headers]
        ends = case.method == "GET" or not case.body
        stream.send(request_headers={"headers": header_map(headers), "end_of_stream": ends})
        if not ends:
            for i, part in enumerate(parts := pieces(case.body, 3)):
                stream.send(request_body={"body": part, "end_of_stream": i == len(parts) - 1})
        message = stream.next()
        if message.WhichOneof("response") == "immediate_response":
            reply = message.immediate_response
            reasons = [h.header.raw_value.decode() for h in reply.headers.set_headers if h.header.key == DROPPED]
            assert len(reply.headers.set_headers) == len(reasons)
            return reply.status.code, reply.body.decode(), "".join(reasons)
        destination = message.request_headers.response.header_mutation.set_headers[0].header
        assert destination.key == "x-gateway-destination-endpoint"
        assert destination.raw_value.decode() in {f"127.0.0.1:{s.port}" for s in self.servers}
        sent = b"" if ends else stream.body()[0]
        stream.send(response_headers={"headers": header_map([(":status", str(case.reply_status)), ("content-type", case.reply_type)])})
        stream.headers()
        parts = pieces(case.reply, case.cuts)
        if case.leaves:
            stream.send(response_body={"body": parts[0]})
            stream.next()
            stream.cancel()
            return None
        for i, part in enumerate(parts):
            stream.send(response_body={"body": part, "end_of_stream": i == len(parts) - 1})
        got = stream.body("response")[0]
        stream.close()
        assert stream.next().name == "OK"
        return case.reply_status, sent, got


def expected_body(case):
    return case.body if case.sent is None else case.sent


FRONTS = {"router": ThroughRouter, "epp": ThroughEpp}


@pytest.fixture(scope="module")
def fronts(module_lab, tmp_path_factory):
    made = {}

    def front(kind, pool):
        if (kind, pool) not in made:
            made[kind, pool] = FRONTS[kind](module_lab, pool, tmp_path_factory.mktemp(f"{kind}-{pool}"))
        return made[kind, pool]
    return front


@pytest.mark.parametrize("kind", FRONTS)
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_outcome(fronts, kind, case):
    front = fronts(kind, case.pool)
    before = front.counts(case.counted)
    outcome = front.ask(case)
    if case.message:
        assert outcome == (case.status, case.message, case.reason)
    elif not case.leaves:
        assert outcome == (case.reply_status, expected_body(case), case.reply if case.answer is None else case.answer)
    expected = {name: before[name] + more for name, more in case.counted.items()}
    eventually(f"{expected} is counted", lambda: front.counts(case.counted) == expected)
