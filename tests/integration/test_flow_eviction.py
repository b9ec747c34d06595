"""Running requests of negative priority give way to more important ones, under both front ends."""

import json
import threading

import pytest

from process import eventually
from test_flow import SERVED, Ask, Front, config
from upstream import answer

pytest.importorskip("grpc")

EVICTED = (429, "request evicted by flow control", "evicted")
PIECE = b'data: {"choices":[{"delta":{"content":"x"}}]}\n\n'


class Server:
    """Begins to answer a stream and goes on until it is let go or the connection breaks. `gone`: those that broke."""

    def __init__(self, lab):
        self.order, self.gone = [], []
        self.let_go = threading.Event()
        self.port = lab.upstream(script=self._serve).port

    def _serve(self, connection, received):
        body = json.loads(received.body)
        name = body["messages"][0]["content"]
        self.order.append(name)
        if name == "urgent":
            connection.sock.sendall(answer())
            return None
        streams = body.get("stream")
        try:
            if streams:
                connection.sock.sendall(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n")
                for _ in range(3):
                    connection.sock.sendall(b"%x\r\n%s\r\n" % (len(PIECE), PIECE))
            # The peer says nothing more: whatever comes is the end of its connection.
            connection.sock.settimeout(60)
            connection.more()
        except (ConnectionError, OSError):
            self.gone.append(name)
        return False


@pytest.fixture(params=["router", "epp"])
def stage(request, lab, tmp_path):
    server = Server(lab)
    front = Front(lab, request.param, tmp_path, [server.port], config(1, enableEviction=True, priorityBands=[{"priority": 7}, {"priority": -1}]))
    return front, server


def revoked(front, n):
    eventually(f"{n} revocations are confirmed",
               lambda: front.value("flow_control_revocations_total", outcome="confirmed") == n)
    assert front.value("flow_control_revocations_issued_total", priority="-1") == n
    assert front.value("flow_control_revocations_total", outcome="timed_out") == 0
    eventually("nothing is pending", lambda: front.value("flow_control_pending_reclaim") == 0)


def test_a_request_without_an_answer_yet_is_refused(stage):
    front, server = stage
    batch = Ask(front, "batch", "batch")
    eventually("the server has it", lambda: server.order)
    assert Ask(front, "urgent", "urgent").join() == SERVED
    assert batch.join() == EVICTED
    eventually("the server is told", lambda: server.gone == ["batch"])
    revoked(front, 1)


def test_an_answer_that_has_begun_breaks_off(stage):
    front, server = stage
    batch = Ask(front, "batch", "batch", stream=True)
    eventually("its answer has begun", lambda: front.value("request_ttft_seconds_count", priority="-1") == 1)
    assert Ask(front, "urgent", "urgent").join() == SERVED
    assert batch.join() == "broken"
    eventually("the server is told", lambda: server.gone == ["batch"])
    revoked(front, 1)
    spent = {kind: front.picker.value("llmd_flow_revoked_tokens_total", kind=kind, priority="-1") for kind in ("prompt", "output")}
    assert spent["prompt"] > 0 and spent["output"] >= 1


def test_requests_of_other_priorities_stay(stage):
    front, server = stage
    usual = Ask(front, "usual")
    eventually("the server has it", lambda: server.order)
    urgent = Ask(front, "urgent", "urgent")
    front.waiting(1)
    usual.leave()
    assert urgent.join() == SERVED
    assert front.value("flow_control_revocations_issued_total") == 0
