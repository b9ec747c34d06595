"""Requests go where engines say that their prompts are cached."""

import itertools
import signal

import httpx
import pytest

from kv_publisher import CLEARED, Publisher, removed, stored
from process import MODEL, eventually, free_ports
from upstream import answer

SERVED = "x-llm-d-served-endpoint"
PRODUCER = "precise-prefix-cache-producer"
BLOCKS = "llmd_kv_index_blocks"


def config(events, endpoints_file, plugins=""):
    return f"""
apiVersion: llm-d.ai/v1
kind: EndpointPickerConfig
plugins:
- {{type: file-discovery, parameters: {{path: {endpoints_file}, watchFile: true}}}}
{plugins}
- type: {PRODUCER}
  parameters:
    indexerConfig: {{kvBlockIndexConfig: {{enableMetrics: true}}}}
    kvEventsConfig: {events}
- {{type: prefix-cache-scorer, parameters: {{prefixMatchInfoProducerName: {PRODUCER}}}}}
- type: max-score-picker
dataLayer: {{discovery: {{pluginRef: file-discovery}}}}
schedulingProfiles: [{{name: default, plugins: [{{pluginRef: prefix-cache-scorer}}, {{pluginRef: max-score-picker}}]}}]
"""


class Fleet:
    """Two scripted servers, their publishers, and a router that listens to them."""

    def __init__(self, lab, tmp_path, central, plugins=""):
        self.servers = [lab.upstream() for _ in range(2)]
        self.pods = [f"127.0.0.1:{s.port}" for s in self.servers]
        self.file = tmp_path / "endpoints.yaml"
        self.set_endpoints([0, 1])
        port = free_ports(2)
        endpoints = [f"tcp://127.0.0.1:{port}"] * 2 if central else [f"tcp://127.0.0.1:{port + i}" for i in range(2)]
        self.publishers = [lab._add(Publisher(pod, at, bind=not central)) for pod, at in zip(self.pods, endpoints)]
        events = (f"{{zmqEndpoint: '{endpoints[0]}', discoverPods: false}}" if central else
                  f"{{podDiscoveryConfig: {{socketPort: {port}}}}}")
        self.config_file = tmp_path / "config.yaml"
        self.config_file.write_text(config(events, self.file, plugins))
        self.router = lab.router(config_file=self.config_file)
        for publisher in self.publishers:
            publisher.wait_for_listener()

    def set_endpoints(self, which):
        text = "endpoints:\n" + "".join(
            f'- {{name: pod-rank-{i}, address: 127.0.0.1, port: "{self.servers[i].port}"}}\n' for i in which)
        draft = self.file.with_suffix(".new")
        draft.write_text(text)
        draft.rename(self.file)

    def wait_for_blocks(self, count):
        eventually(f"{count} blocks are known", lambda: self.router.value(BLOCKS) == count)

    def state(self):
        return httpx.get(f"{self.router.admin}/debug/plugins/state", timeout=10).json()["plugins"][PRODUCER]["state"]

    def ask(self, tokens):
        response = httpx.post(f"{self.router.url}/v1/completions", timeout=20, json={"model": "m", "prompt": tokens})
        assert response.status_code == 200, response.text
        return response.headers[SERVED]

    def hits(self):
        return self.router.value("llm_d_epp_kv_cache_index_lookup_hits_total")


PROMPT = list(range(1000, 1050))  # three blocks and a rest


@pytest.mark.parametrize("central", [True, False], ids=["central", "discovered"])
def test_requests_follow_the_blocks(lab, tmp_path, central):
    fleet = Fleet(lab, tmp_path, central)
    first, second = fleet.publishers
    for publisher, pod in [(first, fleet.pods[0]), (second, fleet.pods[1])]:
        publisher.send(stored([1, 2], PROMPT[:32]), stored([3], PROMPT[32:48], parent=2))
        fleet.wait_for_blocks(3)
        assert {fleet.ask(PROMPT) for _ in range(6)} == {pod}
        before = fleet.hits()
        publisher.send(removed([3]), removed([1, 2]))
        fleet.wait_for_blocks(0)
        fleet.ask(PROMPT)
        assert fleet.hits() == before  # nobody holds it any more

    first.send(stored([1], PROMPT[:16]))
    second.send(stored([1, 2, 3], PROMPT[:48]))
    fleet.wait_for_blocks(3)
    assert {fleet.ask(PROMPT) for _ in range(6)} == {fleet.pods[1]}  # the longer prefix
    second.send(CLEARED)
    fleet.wait_for_blocks(1)
    assert {fleet.ask(PROMPT) for _ in range(6)} == {fleet.pods[0]}


def test_what_was_missed_is_not_guessed(lab, tmp_path):
    fleet = Fleet(lab, tmp_path, central=True)
    first, _ = fleet.publishers
    first.send(stored([1, 2, 3], PROMPT[:48]))
    fleet.wait_for_blocks(3)
    first.skip()  # perhaps a removal
    first.send(stored([9], list(range(16))))
    fleet.wait_for_blocks(1)
    assert [s["partial"] for s in fleet.state()["subscribers"]] == [True]
    assert fleet.router.value("llmd_kv_event_batches_lost_total", pod_identifier=fleet.pods[0]) == 1


def test_what_proves_wrong_is_forgotten(lab, tmp_path):
    fleet = Fleet(lab, tmp_path, central=True)
    cached = [48]
    for server in fleet.servers:
        server.script = lambda connection, received: connection.sock.sendall(answer(
            b'{"usage":{"prompt_tokens":50,"completion_tokens":1,"prompt_tokens_details":{"cached_tokens":%d}}}' % cached[0]))
    first, _ = fleet.publishers
    first.send(stored([1, 2, 3], PROMPT[:48]))
    fleet.wait_for_blocks(3)
    name = "pod-rank-0"
    promised = lambda: fleet.router.value("llmd_kv_promised_tokens_total", endpoint_name=name)
    assert {fleet.ask(PROMPT) for _ in range(20)} == {fleet.pods[0]}
    eventually("its promises are kept", lambda: promised() == 960)
    assert fleet.router.value("llmd_kv_over_promised_tokens_total", endpoint_name=name) == 0

    cached[0] = 0  # it has restarted, say, and nobody was told
    while fleet.router.value(BLOCKS) == 3:
        fleet.ask(PROMPT)
        assert promised() < 100 * 48
    assert fleet.router.value("llmd_kv_endpoint_trusted", endpoint_name=name) == 0
    assert [s["partial"] for s in fleet.state()["subscribers"]] == [True]

    cached[0] = 48
    first.send(CLEARED, stored([1, 2, 3], PROMPT[:48]))
    fleet.wait_for_blocks(3)

    def trusted():
        assert fleet.ask(PROMPT) == fleet.pods[0]
        return fleet.router.value("llmd_kv_endpoint_trusted", endpoint_name=name) == 1

    eventually("it is trusted again", trusted)


def test_a_reload_with_other_parameters_begins_anew(lab, tmp_path):
    fleet = Fleet(lab, tmp_path, central=True)
    first, _ = fleet.publishers
    first.send(stored([1, 2, 3], PROMPT[:48]))
    fleet.wait_for_blocks(3)
    file = fleet.config_file
    file.write_text(file.read_text().replace("indexerConfig:", "tokenProcessorConfig: {blockSize: 48}\n    indexerConfig:"))
    fleet.router.popen.send_signal(signal.SIGHUP)
    eventually("the new one is used", lambda: fleet.state()["blockSizeTokens"] == 48)
    first.wait_for_listener()
    first.send(stored([1, 2, 3], PROMPT[:48]))
    eventually("its block is known", lambda: fleet.state()["index"]["blocks"] == 1)
    assert {fleet.ask(PROMPT) for _ in range(4)} == {fleet.pods[0]}


def test_endpoints_that_leave_take_their_blocks_along(lab, tmp_path):
    fleet = Fleet(lab, tmp_path, central=False)
    for publisher in fleet.publishers:
        publisher.send(stored([1, 2, 3], PROMPT[:48]))
    eventually("both hold all", lambda: [s["blocks"] for s in fleet.state()["subscribers"]] == [3, 3])
    fleet.set_endpoints([1])
    eventually("one is left", lambda: [s["pod"] for s in fleet.state()["subscribers"]] == [fleet.pods[1]])
    assert fleet.ask(PROMPT) == fleet.pods[1]
    fleet.set_endpoints([0, 1])
    fleet.publishers[0].wait_for_listener()
    eventually("it is back, with nothing",
               lambda: sorted(s["blocks"] for s in fleet.state()["subscribers"]) == [0, 3])
    assert {fleet.ask(PROMPT) for _ in range(4)} == {fleet.pods[1]}


def test_with_simulated_engines(lab, tmp_path):
    port = free_ports()
    sims = [lab.sim(enable_kvcache=True, kv_cache_size=4096, zmq_endpoint=f"tcp://127.0.0.1:{port}") for _ in range(2)]
    file = tmp_path / "endpoints.yaml"
    file.write_text("endpoints:\n" + "".join(
        f'- {{name: sim{i}, address: 127.0.0.1, port: "{sim.port}"}}\n' for i, sim in enumerate(sims)))
    router = lab.router(config_text=config(f"{{zmqEndpoint: 'tcp://127.0.0.1:{port}', discoverPods: false}}", file))

    def ask(i, url=router.url):
        body = {"model": MODEL, "max_tokens": 1, "prompt": list(range(1000 * i, 1000 * i + 330))}
        response = httpx.post(f"{url}/v1/completions", timeout=60, json=body)
        assert response.status_code == 200, response.text
        return response

    def subscribers():
        state = httpx.get(f"{router.admin}/debug/plugins/state", timeout=10).json()
        return len(state["plugins"][PRODUCER]["state"]["subscribers"])

    # What engines say before they are connected is lost.
    fresh = itertools.count(1000)
    eventually("both engines are heard",
               lambda: [ask(next(fresh), sim.urls[0]) for sim in sims] and subscribers() == 2)
    first = []
    for i in range(1, 9):
        before = router.value(BLOCKS)
        first.append(ask(i).headers[SERVED])
        eventually("its blocks are known", lambda: router.value(BLOCKS) >= before + 20)
    second = [ask(i) for i in range(1, 9)]
    assert [response.headers[SERVED] for response in second] == first
    assert {response.json()["usage"]["prompt_tokens_details"]["cached_tokens"] for response in second} == {320}
    assert len(set(first)) == 2
