"""Listens to KV events as an engine's subscribers do, and asks for those it missed."""

import struct
import time

import msgpack
import zmq


class Message:
    def __init__(self, topic, sequence, payload):
        self.topic = topic.decode()
        self.sequence = struct.unpack(">Q", sequence)[0]
        self.payload = payload
        self.published, self.events, self.rank = msgpack.unpackb(payload)


class Listener:
    """All messages that reach one SUB socket."""

    def __init__(self, endpoint):
        self.socket = zmq.Context.instance().socket(zmq.SUB)
        self.socket.setsockopt(zmq.LINGER, 0)
        self.socket.subscribe(b"kv@")
        self.socket.connect(endpoint)

    def receive(self, seconds):
        """The next message, or None."""
        return Message(*self.socket.recv_multipart()) if self.socket.poll(seconds * 1000) else None

    def receive_until(self, sequence, seconds=20):
        """The messages up to that number."""
        messages, deadline = [], time.monotonic() + seconds
        while not messages or messages[-1].sequence < sequence:
            message = self.receive(max(0, deadline - time.monotonic()))
            assert message, f"no message {sequence} within {seconds} s"
            messages.append(message)
        return messages

    def close(self):
        self.socket.close()


def replay(endpoint, start, seconds=20):
    """What the engine still has from `start` on."""
    socket = zmq.Context.instance().socket(zmq.DEALER)
    socket.setsockopt(zmq.LINGER, 0)
    socket.connect(endpoint)
    try:
        socket.send_multipart([b"", struct.pack(">Q", start)])
        messages = []
        while True:
            assert socket.poll(seconds * 1000), "the replay does not end"
            empty, topic, sequence, payload = socket.recv_multipart()
            assert empty == b""
            if not payload:
                assert (topic, sequence) == (b"", b"\xff" * 8)
                return messages
            messages.append(Message(topic, sequence, payload))
    finally:
        socket.close()


class Cache:
    """The blocks that events say are resident: by hash, with the tokens of a map or an array event."""

    def __init__(self):
        self.blocks = {}
        self.stored = self.removed = self.clears = 0

    def apply(self, message):
        for event in message.events:
            if isinstance(event, dict):
                kind, hashes, tokens, size = (event["type"], event.get("block_hashes"), event.get("token_ids"),
                                              event.get("block_size"))
            else:
                kind, hashes = event[0], event[1] if len(event) > 1 else None
                tokens, size = (event[3], event[4]) if kind == "BlockStored" else (None, None)
            if kind == "AllBlocksCleared":
                self.blocks.clear()
                self.clears += 1
            elif kind == "BlockRemoved":
                for block in hashes:
                    del self.blocks[block]
                self.removed += len(hashes)
            else:
                assert len(tokens) == size * len(hashes)
                for i, block in enumerate(hashes):
                    assert block not in self.blocks
                    self.blocks[block] = tokens[i * size:(i + 1) * size]
                self.stored += len(hashes)
        return self
