"""What a case's engines say of their caches: KV events on ZeroMQ sockets, and replays of what was lost.

An engine without a socket of its own sends to the picker's; the others have one each, on the endpoint's address, and one that answers
requests for replays with everything they ever sent."""

import collections
import contextlib
import struct
import threading
import time

import zmq

LAST = [b"", b"\xff" * 8, b""]  # ends a replay


class Socket:
    """Publishes, and knows how many listen."""

    def __init__(self, context, endpoint, bind):
        self.socket = context.socket(zmq.XPUB)
        self.socket.setsockopt(zmq.LINGER, 0)
        self.socket.setsockopt(zmq.XPUB_VERBOSER, 1)
        (self.socket.bind if bind else self.socket.connect)(endpoint)
        self.listeners = 0

    def wait_for_listener(self, seconds=20):
        deadline = time.monotonic() + seconds
        while self.socket.poll(0) or not self.listeners:
            assert self.socket.poll(1000 * max(0, deadline - time.monotonic())), "nobody listens for KV events"
            self.listeners += 1 if self.socket.recv()[0] else -1

    def send(self, topic, number, payload):
        self.wait_for_listener()
        self.socket.send_multipart([topic, struct.pack(">Q", number), payload])


class Engine(Socket):
    """One with sockets of its own."""

    def __init__(self, context, address, port, replay_port):
        super().__init__(context, f"tcp://{address}:{port}", bind=True)
        self.sent = []
        self.replays = context.socket(zmq.ROUTER)
        self.replays.setsockopt(zmq.LINGER, 0)
        self.replays.bind(f"tcp://{address}:{replay_port}")
        threading.Thread(target=self._replay, daemon=True).start()

    def _replay(self):
        with contextlib.suppress(zmq.ContextTerminated):
            while True:
                who, _, start = self.replays.recv_multipart()
                for topic, number, payload in self.sent[struct.unpack(">Q", start)[0]:]:
                    self.replays.send_multipart([who, b"", topic, struct.pack(">Q", number), payload])
                self.replays.send_multipart([who, b"", *LAST])
        self.replays.close()

    def publish(self, topic, payload, lost):
        self.sent.append((topic, len(self.sent), payload))
        if not lost:
            self.send(*self.sent[-1])


class Engines:
    """Those of one case: endpoint `i` has the address `address(i)`. The picker listens on `port` of this host, or connects to
    `port + 1` of the endpoints and asks `port + 2` for replays."""

    def __init__(self, case, address, port):
        self.context = zmq.Context()
        self.numbers = collections.Counter()
        self.shared, self.port = None, port
        steps = [step for step in case["steps"] if step["op"] == "kv"]
        self.own = {i: Engine(self.context, address(i), port + 1, port + 2) for i in {step["ep"] for step in steps if "ep" in step}}

    def publish(self, step, topic):
        payload, topic = bytes.fromhex(step["payload"]), topic.encode()
        if "ep" in step:
            self.own[step["ep"]].publish(topic, payload, step.get("lost", False))
            return
        pod = topic.split(b"@")[1]
        if not self.shared:
            self.shared = Socket(self.context, f"tcp://127.0.0.1:{self.port}", bind=False)
        self.shared.send(topic, self.numbers[pod], payload)
        self.numbers[pod] += 1

    def restart(self, i):
        self.own[i].sent.clear()

    def stop(self):
        for one in [*self.own.values(), *([self.shared] if self.shared else [])]:
            one.socket.close()
        self.context.term()
