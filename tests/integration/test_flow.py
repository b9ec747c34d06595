"""Flow control over real sockets, the same for both front ends: `llmd router`, and `llmd epp` behind Envoy. Servers hold every
request until the test lets it go, so that the order in which requests reach them is the order of dispatch."""

import json
import os
import signal
import threading

import pytest

from envoy import Envoy
from load import Load
from process import eventually, free_ports
from test_discovery import entry, write
from test_explain import decisions, explain
from upstream import answer
from wire import Wire, chat_body, listens, request

pytest.importorskip("grpc")

DROPPED = "x-llm-d-request-dropped-reason"

OBJECTIVES = "\n---\n".join(
    f"apiVersion: llm-d.ai/v1alpha2\nkind: InferenceObjective\nmetadata: {{name: {name}}}\nspec: {{priority: {priority}}}"
    for name, priority in {"urgent": 7, "batch": -1}.items())


def config(concurrency, **flow):
    """One flow-control section over servers that take `concurrency` requests at a time. `plugins`: types to declare beside. `filters`:
    of the profile."""
    filters = [{"pluginRef": f} for f in flow.pop("filters", [])]
    declared = [{"type": t} for t in flow.pop("plugins", [])]
    flow.setdefault("saturationDetector", {"pluginRef": "concurrency-detector"})
    return json.dumps({
        "apiVersion": "llm-d.ai/v1", "kind": "EndpointPickerConfig", "featureGates": ["flowControl"],
        "plugins": [{"type": "concurrency-detector", "parameters": {"maxConcurrency": concurrency}},
                    {"type": "active-request-scorer"}, {"type": "max-score-picker"}, *declared],
        "schedulingProfiles": [{"name": "default", "plugins": [*filters, {"pluginRef": "active-request-scorer"}, {"pluginRef": "max-score-picker"}]}],
        "flowControl": flow})


class Front:
    """A picker and what clients talk to: `port` and `url`."""

    def __init__(self, lab, kind, directory, servers, text, **options):
        self.endpoints_file = directory / "endpoints.yaml"
        self.set_endpoints(servers)
        (directory / "objects").mkdir()
        (directory / "objects" / "objectives.yaml").write_text(OBJECTIVES)
        options |= {"config_text": text, "endpoints_file": self.endpoints_file, "objects_dir": directory / "objects"}
        if kind == "router":
            self.picker = self.door = lab.router(wait_ready=bool(servers), **options)
            self.picker.wait_for("router listens", lambda: listens(self.picker.port))
        else:
            self.picker = lab.epp(**options)
            self.door = lab._add(Envoy(lab._log("envoy"), "fail-closed.yaml", self.picker.grpc_port))
        self.port, self.url = self.door.port, self.door.url

    def set_endpoints(self, ports):
        write(self.endpoints_file, *(entry(f"m{i}", port) for i, port in enumerate(ports)))

    def value(self, name, **labels):
        return self.picker.value("llm_d_epp_" + name, **labels)

    def waiting(self, n, **labels):
        eventually(f"{n} requests wait", lambda: self.value("flow_control_queue_size", **labels) == n)

    def outcomes(self, outcome):
        return self.value("flow_control_requests_total", outcome=outcome)


class Server:
    """Takes requests and answers each when it is allowed to. `order`: the contents of those that came."""

    def __init__(self, lab):
        self.order = []
        self._permits = threading.Semaphore(0)
        self.port = lab.upstream(script=self._serve).port

    def _serve(self, connection, received):
        self.order.append(json.loads(received.body)["messages"][0]["content"])
        if not self._permits.acquire(timeout=60):
            return False
        connection.sock.sendall(answer())

    def release(self, n=1):
        self._permits.release(n)

    def has(self, n):
        eventually(f"{n} requests are at the server", lambda: len(self.order) == n)


class Ask(threading.Thread):
    """One request in the background. join() gives (status, message, drop reason)."""

    def __init__(self, front, name, objective=None, headers=(), **fields):
        super().__init__(daemon=True)
        self.wire = Wire(front.port, timeout=60)
        headers = [*headers] + ([f"x-llm-d-inference-objective: {objective}"] if objective else [])
        self.wire.send(request(chat_body(name, **fields), *headers))
        self.outcome = None
        self.start()

    def run(self):
        try:
            response = self.wire.read()
        except OSError:
            return
        if response is None or not response.complete:
            self.outcome = "broken"
            return
        text = response.body.decode()
        if response.status != 200 and text.startswith("{"):
            text = json.loads(text)["error"]["message"]
        self.outcome = response.status, "" if response.status == 200 else text, response.headers.get(DROPPED, "")

    def leave(self):
        self.wire.sock.shutdown(2)
        self.wire.sock.close()

    def join(self, timeout=60):
        super().join(timeout)
        assert not self.is_alive(), "no answer"
        return self.outcome


SERVED = (200, "", "")
FULL = (429, "inference error: ResourceExhausted - request rejected pre-queue: queue at capacity", "rejected-saturated")
TOO_LATE = (429, "inference error: ResourceExhausted - request timed out in queue: request evicted from queue: request TTL expired",
            "rejected-ttl-expired")


@pytest.fixture(params=["router", "epp"])
def stage(request, lab, tmp_path):
    """Makes a front over one server that holds requests."""
    server = Server(lab)

    def make(concurrency=1, servers=None, options=None, **flow):
        return Front(lab, request.param, tmp_path, [server.port] if servers is None else servers, config(concurrency, **flow),
                     **(options or {})), server
    yield make
    server.release(1000)


def occupied(front, server, name="first", objective=None):
    """A request that the server has; until it is released nothing else fits."""
    ask = Ask(front, name, objective)
    server.has(1)
    return ask


def test_the_more_important_band_goes_first(stage):
    front, server = stage(priorityBands=[{"priority": 7}, {"priority": -1}])
    asks = [occupied(front, server)]
    for n, (name, objective) in enumerate([("batch", "batch"), ("usual", None), ("urgent", "urgent")], 1):
        asks.append(Ask(front, name, objective))
        front.waiting(n)
    for n in range(2, 5):
        server.release()
        server.has(n)
    server.release()
    assert [ask.join() for ask in asks] == [SERVED] * 4
    assert server.order == ["first", "urgent", "usual", "batch"]
    front.waiting(0)
    assert front.outcomes("Dispatched") == 4


def test_a_full_band_refuses_and_others_do_not(stage):
    front, server = stage(priorityBands=[{"priority": 7, "maxRequests": "2"}])
    asks = [occupied(front, server)]
    for n in (1, 2):
        asks.append(Ask(front, f"urgent-{n}", "urgent"))
        front.waiting(n)
    assert Ask(front, "one too many", "urgent").join() == FULL
    asks.append(Ask(front, "usual"))
    front.waiting(3)
    server.release(4)
    assert [ask.join() for ask in asks] == [SERVED] * 4
    assert front.outcomes("RejectedCapacity") == 1 and "one too many" not in server.order


def test_a_request_that_waits_too_long_is_refused(stage):
    front, server = stage(defaultRequestTTL="300ms")
    first = occupied(front, server)
    assert Ask(front, "late").join() == TOO_LATE
    front.waiting(0)
    server.release()
    assert first.join() == SERVED and server.order == ["first"]
    assert front.outcomes("EvictedTTL") == 1


def test_a_client_that_leaves_leaves_the_queue(stage):
    front, server = stage()
    first = occupied(front, server)
    gone = Ask(front, "gone")
    front.waiting(1)
    stays = Ask(front, "stays")
    front.waiting(2)
    gone.leave()
    front.waiting(1)
    server.release(2)
    assert [first.join(), stays.join()] == [SERVED] * 2
    assert server.order == ["first", "stays"]
    assert front.outcomes("EvictedContextCancelled") == 1


def test_requests_wait_for_the_first_endpoint(stage):
    front, server = stage(concurrency=100, servers=[], noEndpointRequestTTL="60s")
    asks = [Ask(front, f"early-{i}") for i in range(5)]
    front.waiting(5)
    front.set_endpoints([server.port])
    server.has(5)
    server.release(5)
    assert [ask.join() for ask in asks] == [SERVED] * 5


def test_an_empty_pool_has_a_limit_of_its_own(stage):
    front, _ = stage(servers=[], noEndpointRequestTTL="300ms", defaultRequestTTL="60s")
    status, message, reason = Ask(front, "nobody").join()
    assert (status, reason) == (503, "rejected-no-endpoints")
    assert message == ("inference error: ServiceUnavailable - request timed out in queue and no endpoints are available: "
                       "request evicted from queue: no endpoints available")


def test_explain_says_why_a_request_waited_and_behind_how_many(stage):
    front, server = stage(priorityBands=[{"priority": 7}, {"priority": 0, "fairnessPolicyRef": "round-robin-fairness-policy"}],
                          plugins=["round-robin-fairness-policy"])
    asks = [occupied(front, server)]
    for n, (name, tenant) in enumerate([("a-1", "a"), ("a-2", "a"), ("b-1", "b"), ("leaves", "b")]):
        asks.append(Ask(front, name, headers=[f"x-llm-d-inference-fairness-id: {tenant}"]))
        front.waiting(n + 1)
    asks.pop().leave()
    front.waiting(3)
    server.release(4)
    assert [ask.join() for ask in asks] == [SERVED] * 4

    first, *waited = sorted(decisions(front.picker), key=lambda d: d["wait"] is not None)
    assert first["wait"] is None
    assert sorted((d["wait"]["aheadInFlow"], d["wait"]["aheadInBand"], d["outcome"]) for d in waited) == [
        (0, 0, "sent"), (0, 1, "sent"), (1, 1, "sent"), (1, 3, "left")]
    for d in waited:
        assert d["wait"]["why"] == "the pool was as full as its band may make it" and d["microseconds"]["admit"] > 0
        assert d["wait"]["saturation"] >= 1 == d["wait"]["ceiling"]
    (left,) = [d for d in waited if d["outcome"] == "left"]
    text = explain(front.picker, left["requestId"])
    assert "the pool was as full as its band may make it" in text and "1 ahead in its flow, 3 in its band" in text


def test_shutdown_answers_every_waiter(stage):
    front, server = stage()
    first = occupied(front, server)
    asks = [Ask(front, f"waits-{i}") for i in range(4)]
    front.waiting(4)
    os.kill(front.picker.pid, signal.SIGTERM)
    # Whoever waits is answered, and the request that the server has still ends well.
    outcomes = [ask.join() for ask in asks]
    server.release(5)
    assert first.join() == SERVED
    assert front.picker.popen.wait(30) == 0  # a second signal would end it in another way
    front.picker.stopped = True
    for status, message, reason in outcomes:
        assert (status, reason) == (503, "rejected-shutting-down"), message
        assert message.startswith("inference error: ServiceUnavailable - flow controller shutting down: ")


@pytest.mark.parametrize("kind", ["router", "epp"])
def test_scaling_to_zero_and_back_under_traffic_loses_nothing(lab, tmp_path, kind):
    """Four times 1 → 0 → 1 under eight clients."""
    sim = lab.sim(2, max_num_seqs=8, inter_token_latency="2ms")
    front = Front(lab, kind, tmp_path, sim.ports, config(4, noEndpointRequestTTL="60s"))
    with Load(front, workers=8, timeout=60, keeps_ids=kind == "router") as load:
        for round in range(1, 5):
            eventually("requests are answered", lambda: load.count("ok") > 10 * round)
            front.set_endpoints([])
            front.waiting(8)
            front.set_endpoints(sim.ports)
            front.waiting(0)
    bad = [detail for outcome, detail in load.results if outcome != "ok"]
    assert not bad, bad[:3]
    # One that was let in as the pool became empty waits again, and is let in again.
    assert front.outcomes("Dispatched") >= load.count("ok")


def test_while_a_server_is_down_requests_wait_for_the_others(lab, tmp_path):
    """Sixteen clients, two servers with room for four requests, one that nobody hears from; full ones are filtered out."""
    sim = lab.sim(2, max_num_seqs=2, inter_token_latency="5ms")
    front = Front(lab, "router", tmp_path, [*sim.ports, free_ports()], config(2, filters=["concurrency-detector"]))
    with Load(front, workers=16, timeout=60) as load:
        eventually("requests are answered", lambda: load.count("ok") > 400)
    bad = [detail for outcome, detail in load.results if outcome != "ok"]
    assert not bad, bad[:3]
