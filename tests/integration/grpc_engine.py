"""vLLM's gRPC service on grpcio, with messages as bytes: it records calls and answers by script."""

import struct
import threading
from concurrent import futures

import grpc

GENERATE = "/vllm.grpc.engine.VllmEngine/Generate"
EMBED = "/vllm.grpc.engine.VllmEngine/Embed"


def varint(n):
    out = b""
    while n >= 128:
        out += bytes([n & 127 | 128])
        n >>= 7
    return out + bytes([n])


def number(field, n):
    return varint(field << 3) + varint(n)


def data(field, content):
    return varint(field << 3 | 2) + varint(len(content)) + content


def framed(message, flag=0):
    return bytes([flag]) + struct.pack(">I", len(message)) + message


def tokenized(*ids):
    return data(2, data(1, b"text") + data(2, b"".join(map(varint, ids))))


def generate(*ids, stream=False):
    return data(1, b"r1") + tokenized(*(ids or (1, 300, 70_000))) + data(4, number(8, 16)) + (number(5, 1) if stream else b"")


CHUNK = data(1, data(1, varint(5)) + number(2, 7) + number(3, 1))
COMPLETE = data(2, data(1, varint(5) * 10) + data(2, b"stop") + number(3, 7) + number(4, 10))


class Engine(grpc.GenericRpcHandler):
    """`script(requests, context)` yields the messages of an answer; `requests` are the call's, as they come."""

    def __init__(self, script=None, credentials=None):
        self.script = script or (lambda requests, context: iter([COMPLETE] if list(requests) else []))
        self.calls = []  # (method, metadata)
        self.cancelled = threading.Event()
        self._server = grpc.server(futures.ThreadPoolExecutor(16))
        self._server.add_generic_rpc_handlers((self,))
        if credentials:
            self.port = self._server.add_secure_port("127.0.0.1:0", credentials)
        else:
            self.port = self._server.add_insecure_port("127.0.0.1:0")
        self.url = f"http://127.0.0.1:{self.port}"
        self._server.start()

    def service(self, details):
        self.calls.append((details.method, dict(details.invocation_metadata)))

        def handle(requests, context):
            context.add_callback(lambda: context.code() or self.cancelled.set())
            yield from self.script(requests, context)
        return grpc.stream_stream_rpc_method_handler(handle)

    def stop(self):
        self._server.stop(None).wait()


def call(channel, method=GENERATE, kind="unary_stream"):
    """A function that makes calls with messages as bytes."""
    return getattr(channel, kind)(method, request_serializer=None, response_deserializer=None)


def channel_to(port, credentials=None, **options):
    options = [("grpc.use_local_subchannel_pool", 1), *options.items()]
    if credentials:
        return grpc.secure_channel(f"localhost:{port}", credentials, options=options)
    return grpc.insecure_channel(f"127.0.0.1:{port}", options=options)
