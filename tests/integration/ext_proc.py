"""The ext-proc service as a client sees it: its messages built by google's protobuf from a schema of our own (field numbers
from Envoy's published API), the `llmd epp` process, and one stream."""

import json
import queue
import re
import threading

import grpc
from google.protobuf import descriptor_pb2, descriptor_pool, json_format, message_factory, struct_pb2
from process import START_SECONDS, Process, flags, free_ports, http_ok

METHOD = "/envoy.service.ext_proc.v3.ExternalProcessor/Process"

# message: {field: (number, type)}; "X[]" is repeated, "map<X>" a map from strings, "a|b" the oneof a with field b.
SCHEMA = {
    "HeaderValue": {"key": (1, "string"), "value": (2, "string"), "raw_value": (3, "bytes")},
    "HeaderMap": {"headers": (1, "HeaderValue[]")},
    "HeaderValueOption": {"header": (1, "HeaderValue"), "append_action": (3, "int32")},
    "HeaderMutation": {"set_headers": (1, "HeaderValueOption[]"), "remove_headers": (2, "string[]")},
    "Metadata": {"filter_metadata": (1, "map<.google.protobuf.Struct>")},
    "HttpHeaders": {"headers": (1, "HeaderMap"), "end_of_stream": (3, "bool")},
    "HttpBody": {"body": (1, "bytes"), "end_of_stream": (2, "bool")},
    "HttpTrailers": {"trailers": (1, "HeaderMap")},
    "ProcessingRequest": {
        "request|request_headers": (2, "HttpHeaders"), "request|response_headers": (3, "HttpHeaders"),
        "request|request_body": (4, "HttpBody"), "request|response_body": (5, "HttpBody"),
        "request|request_trailers": (6, "HttpTrailers"), "request|response_trailers": (7, "HttpTrailers"),
        "metadata_context": (8, "Metadata")},
    "StreamedBodyResponse": {"body": (1, "bytes"), "end_of_stream": (2, "bool")},
    "BodyMutation": {"body": (1, "bytes"), "clear_body": (2, "bool"), "streamed_response": (3, "StreamedBodyResponse")},
    "CommonResponse": {"status": (1, "int32"), "header_mutation": (2, "HeaderMutation"),
                       "body_mutation": (3, "BodyMutation"), "trailers": (4, "HeaderMap"), "clear_route_cache": (5, "bool")},
    "HeadersResponse": {"response": (1, "CommonResponse")},
    "BodyResponse": {"response": (1, "CommonResponse")},
    "TrailersResponse": {"header_mutation": (1, "HeaderMutation")},
    "HttpStatus": {"code": (1, "int32")},
    "ImmediateResponse": {"status": (1, "HttpStatus"), "headers": (2, "HeaderMutation"), "body": (3, "bytes")},
    "ProcessingMode": {"request_header_mode": (1, "int32"), "response_header_mode": (2, "int32"),
                       "request_body_mode": (3, "int32"), "response_body_mode": (4, "int32"),
                       "request_trailer_mode": (5, "int32"), "response_trailer_mode": (6, "int32")},
    "ProcessingResponse": {
        "response|request_headers": (1, "HeadersResponse"), "response|response_headers": (2, "HeadersResponse"),
        "response|request_body": (3, "BodyResponse"), "response|response_body": (4, "BodyResponse"),
        "response|request_trailers": (5, "TrailersResponse"), "response|response_trailers": (6, "TrailersResponse"),
        "response|immediate_response": (7, "ImmediateResponse"),
        "dynamic_metadata": (8, ".google.protobuf.Struct"), "mode_override": (9, "ProcessingMode")},
    "HealthCheckRequest": {"service": (1, "string")},
    "HealthCheckResponse": {"status": (1, "int32")},
    "HealthListResponse": {"statuses": (1, "map<HealthCheckResponse>")},
}
SCALARS = {"string": 9, "bytes": 12, "bool": 8, "int32": 5}


def _messages():
    field_type = descriptor_pb2.FieldDescriptorProto
    file = descriptor_pb2.FileDescriptorProto(name="llmd_test.proto", package="llmd.test", syntax="proto3",
                                              dependency=["google/protobuf/struct.proto"])

    def type_into(field, name):
        if name in SCALARS:
            field.type = SCALARS[name]
        else:
            field.type = field_type.TYPE_MESSAGE
            field.type_name = name if name.startswith(".") else f".llmd.test.{name}"

    for name, fields in SCHEMA.items():
        message = file.message_type.add(name=name)
        for key, (number, kind) in fields.items():
            field = message.field.add(number=number, label=field_type.LABEL_OPTIONAL)
            if "|" in key:
                oneof, key = key.split("|")
                if not message.oneof_decl:
                    message.oneof_decl.add(name=oneof)
                field.oneof_index = 0
            field.name = key
            if kind.startswith("map<"):
                entry = message.nested_type.add(name=key.title().replace("_", "") + "Entry")
                entry.options.map_entry = True
                entry.field.add(name="key", number=1, label=1, type=SCALARS["string"])
                type_into(entry.field.add(name="value", number=2, label=1), kind[4:-1])
                field.label = field_type.LABEL_REPEATED
                field.type = field_type.TYPE_MESSAGE
                field.type_name = f".llmd.test.{name}.{entry.name}"
                continue
            if kind.endswith("[]"):
                field.label = field_type.LABEL_REPEATED
                kind = kind[:-2]
            type_into(field, kind)
    pool = descriptor_pool.DescriptorPool()
    known = descriptor_pb2.FileDescriptorProto()
    struct_pb2.DESCRIPTOR.CopyToProto(known)
    pool.Add(known)
    pool.Add(file)
    return {name: message_factory.GetMessageClass(pool.FindMessageTypeByName(f"llmd.test.{name}")) for name in SCHEMA}


MESSAGES = _messages()
Request, Response = MESSAGES["ProcessingRequest"], MESSAGES["ProcessingResponse"]


def header_map(pairs):
    return {"headers": [{"key": k, "raw_value": v.encode()} for k, v in pairs]}


def request_of(step):
    """A scripted step of extproc.json as a ProcessingRequest."""
    end = step.get("end_of_stream", False)
    kind = step["send"]
    if kind.endswith("_headers"):
        part = {"headers": header_map(step["headers"]), "end_of_stream": end}
    elif kind.endswith("_body"):
        part = {"body": step["body"].encode(), "end_of_stream": end}
    else:
        part = {}
    request = Request(**{kind: part})
    if step.get("subset_hint") is not None:
        request.metadata_context.filter_metadata["envoy.lb.subset_hint"].update(step["subset_hint"])
    return request


UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
ENDPOINT = re.compile(r"127\.0\.0\.1:\d{4,5}")


def header_lines(mutation):
    return sorted(f"{h.header.key.lower()}={(h.header.raw_value or h.header.value.encode()).decode()}"
                  for h in mutation.set_headers)


def normalised(response):
    """A message in the form of extproc.json: endpoints written EP, generated ids UUID, long bodies cut."""
    kind = response.WhichOneof("response")
    out = {"t": "immediate" if kind == "immediate_response" else kind}
    if kind == "immediate_response":
        immediate = response.immediate_response
        out |= {"status": immediate.status.code, "body": immediate.body.decode(), "set": header_lines(immediate.headers)}
    elif not kind.endswith("_trailers"):
        common = getattr(response, kind).response
        if common.clear_route_cache:
            out["clear_route_cache"] = True
        if common.header_mutation.set_headers:
            out["set"] = header_lines(common.header_mutation)
        if common.header_mutation.remove_headers:
            out["remove"] = sorted(common.header_mutation.remove_headers)
        if common.body_mutation.HasField("streamed_response"):
            streamed = common.body_mutation.streamed_response
            out |= {"body": streamed.body.decode(), "eos": streamed.end_of_stream}
    if response.HasField("mode_override"):
        out["mode_override"] = json_format.MessageToDict(response.mode_override, preserving_proto_field_name=True)
    if response.HasField("dynamic_metadata"):
        out["metadata"] = json.dumps(json_format.MessageToDict(response.dynamic_metadata), separators=(",", ":"))
    return json.loads(UUID.sub("UUID", ENDPOINT.sub("EP", json.dumps(out))))


class Stream:
    """One ext-proc stream. Answers are collected by a thread; wait() takes them in order."""

    def __init__(self, channel, timeout=20, **call):
        self._out = queue.Queue()
        self._in = queue.Queue()
        stub = channel.stream_stream(METHOD, request_serializer=lambda m: m.SerializeToString(),
                                     response_deserializer=Response.FromString)
        self._call = stub(iter(self._out.get, None), timeout=timeout, **call)
        threading.Thread(target=self._collect, daemon=True).start()

    def _collect(self):
        try:
            for message in self._call:
                self._in.put(message)
        except grpc.RpcError:
            pass
        self._in.put(self._call.code())

    def send(self, **parts):
        self._out.put(Request(**parts))

    def send_message(self, message):
        self._out.put(message)

    def close(self):
        self._out.put(None)

    def cancel(self):
        self._call.cancel()

    def next(self, seconds=15):
        """The next message, or the status code that ended the stream."""
        return self._in.get(timeout=seconds)

    def details(self):
        return self._call.details()

    # What most tests say.
    def post(self, body, path="/v1/completions", headers=(), end=True, **metadata):
        self.send(request_headers={"headers": header_map([(":method", "POST"), (":path", path), *headers])})
        self.send(request_body={"body": body, "end_of_stream": end}, **metadata)

    def headers(self, seconds=15):
        """The next message, which must be about headers: (set as a dict, removed)."""
        message = self.next(seconds)
        kind = message.WhichOneof("response")
        assert kind in ("request_headers", "response_headers"), message
        mutation = getattr(message, kind).response.header_mutation
        return {h.header.key.lower(): h.header.raw_value.decode() for h in mutation.set_headers}, \
            list(mutation.remove_headers)

    def body(self, direction="request"):
        """The body up to its end, and the sizes of its pieces."""
        whole, sizes, end = b"", [], False
        while not end:
            message = self.next()
            part = getattr(message, f"{direction}_body").response.body_mutation.streamed_response
            assert message.WhichOneof("response") == f"{direction}_body", message
            whole += part.body
            sizes.append(len(part.body))
            end = part.end_of_stream
        return whole, sizes


PLUGINS = """
- type: approx-prefix-cache-producer
- type: queue-scorer
- type: kv-cache-utilization-scorer
- type: prefix-cache-scorer
- type: max-score-picker
- type: single-profile-handler
"""


def config(endpoints_file):
    return f"""apiVersion: llm-d.ai/v1alpha1
kind: EndpointPickerConfig
plugins:
- {{name: file-discovery, type: file-discovery, parameters: {{path: {endpoints_file}, watchFile: true}}}}{PLUGINS}
schedulingProfiles:
- name: default
  plugins:
  - {{pluginRef: queue-scorer, weight: 2}}
  - {{pluginRef: kv-cache-utilization-scorer, weight: 2}}
  - {{pluginRef: prefix-cache-scorer, weight: 3}}
  - {{pluginRef: max-score-picker}}
dataLayer:
  discovery: {{pluginRef: file-discovery}}
"""


class Epp(Process):
    """`llmd epp` on free ports with a file of endpoints; in plaintext unless `secure_serving`."""

    def __init__(self, log_path, endpoint_ports=(), secure_serving=False, **options):
        self.grpc_port, self.health_port, self.metrics_port = (
            options.pop(name, None) or free_ports() for name in ("grpc_port", "grpc_health_port", "metrics_port"))
        self.endpoints_file = str(log_path) + ".endpoints.yaml"
        self.set_endpoints(endpoint_ports)
        options.setdefault("config_text", config(self.endpoints_file) + options.pop("more_config", ""))
        options.setdefault("drain_timeout", "0s")
        options.setdefault("loops", 2)
        tracing = "true" if options.pop("tracing", False) else "false"
        arguments = flags({"host": "127.0.0.1", "metrics_host": "127.0.0.1", "grpc_port": self.grpc_port,
                           "grpc_health_port": self.health_port, "metrics_port": self.metrics_port, **options})
        plain = [] if secure_serving else ["--secure-serving=false"]
        super().__init__("epp", [*plain, "--metrics-endpoint-auth=false", f"--tracing={tracing}", *arguments], log_path)
        self.wait_for("picker is ready", lambda: http_ok(f"{self.admin}/readyz"), START_SECONDS)

    def set_endpoints(self, ports):
        with open(self.endpoints_file, "w") as f:
            f.write("endpoints: []\n" if not ports else "endpoints:\n")
            for i, port in enumerate(ports):
                f.write(f'- name: m{i}\n  address: 127.0.0.1\n  port: "{port}"\n')

    @property
    def admin(self):
        return f"http://127.0.0.1:{self.metrics_port}"

    def channel(self, port=None, credentials=None):
        # A channel of its own pool, so that every one is a connection of its own.
        options = [("grpc.use_local_subchannel_pool", 1)]
        address = f"127.0.0.1:{port or self.grpc_port}"
        if credentials:
            return grpc.secure_channel(address, credentials, options=options)
        return grpc.insecure_channel(address, options=options)

    def metrics(self):
        import httpx
        from prometheus import Page
        return Page(httpx.get(f"{self.admin}/metrics", timeout=10).text)

    def value(self, name, **labels):
        return self.metrics().value(name, **labels)


def unary(channel, method, request, response_type):
    stub = channel.unary_unary(method, request_serializer=lambda m: m.SerializeToString(),
                               response_deserializer=response_type.FromString)
    return stub(request, timeout=15)
