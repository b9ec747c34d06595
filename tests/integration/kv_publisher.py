"""What an engine publishes of its KV cache: messages of MessagePack on a ZeroMQ socket."""

import struct

import zmq


def pack(value):
    """The few kinds of values that events have."""
    if value is None:
        return b"\xc0"
    if isinstance(value, float):
        return b"\xcb" + struct.pack(">d", value)
    if isinstance(value, int):
        return bytes([value]) if 0 <= value < 128 else b"\xcf" + struct.pack(">Q", value)
    if isinstance(value, str):
        return b"\xdb" + struct.pack(">I", len(value.encode())) + value.encode()
    return b"\xdd" + struct.pack(">I", len(value)) + b"".join(pack(item) for item in value)


def stored(blocks, tokens, parent=None, block_size=16):
    return ["BlockStored", blocks, parent, tokens, block_size, None, "GPU", None]


def removed(blocks):
    return ["BlockRemoved", blocks, "GPU"]


CLEARED = ["AllBlocksCleared"]


class Publisher:
    """Binds, or connects to `endpoint`, and waits until somebody listens before it sends."""

    def __init__(self, pod, endpoint, bind=False, model="m"):
        self.topic = f"kv@{pod}@{model}".encode()
        self.sequence = 0
        self.published = 1.0
        self.socket = zmq.Context.instance().socket(zmq.XPUB)
        self.socket.setsockopt(zmq.LINGER, 0)
        self.socket.setsockopt(zmq.XPUB_VERBOSE, 1)  # tells of a listener that comes back, too
        (self.socket.bind if bind else self.socket.connect)(endpoint)

    def wait_for_listener(self, seconds=20):
        message = b""
        while message != b"\x01kv@":  # others tell of who has left
            assert self.socket.poll(seconds * 1000), "nobody listens"
            message = self.socket.recv()

    def send(self, *events):
        self.published += 1
        payload = pack([self.published, list(events), 0])
        self.socket.send_multipart([self.topic, struct.pack(">Q", self.sequence), payload])
        self.sequence += 1

    def skip(self, batches=1):
        """As if they had been lost on their way."""
        self.sequence += batches

    def stop(self):
        self.socket.close()
