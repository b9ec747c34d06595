"""Several routers share what they know of caches through Redis."""

import contextlib
import threading

import httpx
import pytest

from kv_publisher import CLEARED, Publisher, removed, stored
from process import eventually, free_ports
from redis_server import RedisServer
from tls import Authority

SERVED = "x-llm-d-served-endpoint"
PRODUCER = "precise-prefix-cache-producer"
MODEL = "test-model"
PROMPT = list(range(1, 34))  # two blocks and a rest
# Of PROMPT's blocks with cbor-fnv, 16 tokens a block and no seed, as other routers make them.
KEYS = ["9540012594951042066", "16921089685996993662"]
UP = "llmd_kv_shared_index_up"


def config(address, servers, events):
    return f"""
apiVersion: llm-d.ai/v1
kind: EndpointPickerConfig
plugins:
- type: {PRODUCER}
  parameters:
    indexerConfig: {{kvBlockIndexConfig: {{redisConfig: {{address: "{address}"}}}}}}
    kvEventsConfig: {{zmqEndpoint: "{events}", discoverPods: false}}
- {{type: prefix-cache-scorer, parameters: {{prefixMatchInfoProducerName: {PRODUCER}}}}}
- type: max-score-picker
schedulingProfiles: [{{name: default, plugins: [{{pluginRef: prefix-cache-scorer}}, {{pluginRef: max-score-picker}}]}}]
"""


def entry(pod, tier="gpu"):
    return f'{{"PodIdentifier":"{pod}","DeviceTier":"{tier}","Speculative":false,"HasGroup":false,"GroupIdx":0}}'


class Shared:
    """Two scripted servers and their publishers, to which only the routers that are told so listen."""

    def __init__(self, lab, tmp_path, address=None, **redis):
        self.lab, self.path = lab, tmp_path
        self.redis = lab._add(RedisServer(tmp_path, **redis))
        self.address = (address or "redis://127.0.0.1:{port}").format(port=self.redis.port, path=self.redis.path)
        self.servers = [lab.upstream() for _ in range(2)]
        self.pods = [f"127.0.0.1:{s.port}" for s in self.servers]
        self.events = f"tcp://127.0.0.1:{free_ports()}"
        self.publishers = [lab._add(Publisher(pod, self.events, model=MODEL)) for pod in self.pods]

    def router(self, listens, up=True):
        file = self.path / f"config-{len(self.lab.running)}.yaml"
        file.write_text(config(self.address, self.servers, self.events if listens else ""))
        router = self.lab.router(config_file=file, endpoint=[f"http://{pod}" for pod in self.pods])
        if up:
            router.wait_for("the shared index is there", lambda: router.value(UP) == 1)
        if listens:
            for publisher in self.publishers:
                publisher.wait_for_listener()
        return router


def ask(router, prompt=PROMPT):
    response = httpx.post(f"{router.url}/v1/completions", timeout=20, json={"model": MODEL, "prompt": prompt})
    assert response.status_code == 200, response.text
    return response.headers[SERVED]


def served(router, prompt=PROMPT):
    return {ask(router, prompt) for _ in range(6)}


@pytest.mark.parametrize("address", ["redis://127.0.0.1:{port}", "valkey://localhost:{port}/0", "unix://{path}", "127.0.0.1:{port}"])
def test_what_one_hears_the_other_knows(lab, tmp_path, address):
    shared = Shared(lab, tmp_path, address)
    listens, other = shared.router(True), shared.router(False)
    first, second = shared.publishers
    redis = shared.redis
    first.send(stored([101, 102], PROMPT[:32]))
    eventually("the blocks are shared", lambda: len(redis.keys()) == 4)
    assert redis.keys() == sorted([*KEYS, "engine:101", "engine:102"])
    for key in KEYS:
        assert redis.ask("HGETALL", key) == [entry(shared.pods[0]), ""]
    assert redis.ask("ZRANGE", "engine:101", "0", "-1", "WITHSCORES") == [KEYS[0], "0"]
    assert redis.ask("ZRANGE", "engine:102", "0", "-1", "WITHSCORES") == [KEYS[1], "0"]
    assert served(other) == served(listens) == {shared.pods[0]}

    second.send(stored([201, 202], PROMPT[:32]), removed([202]))
    eventually("the other has the first block", lambda: redis.ask("HLEN", KEYS[0]) == 2)
    assert served(other) == {shared.pods[0]}  # the longer prefix
    first.send(removed([102]), removed([101]))
    eventually("one block is left", lambda: redis.ask("EXISTS", KEYS[1]) == 0 and redis.ask("HLEN", KEYS[0]) == 1)
    # What stands for a block that another pod held at the removal stays known, for blocks that follow it.
    assert redis.keys() == sorted([KEYS[0], "engine:101", "engine:201", "engine:202"])
    assert served(other) == {shared.pods[1]}
    assert other.value("llmd_kv_shared_index_lookups_total", result="answered") >= 18
    assert listens.value("llmd_kv_shared_index_changes_total", result="refused") == 0


def test_what_is_cleared_and_what_a_new_router_finds(lab, tmp_path):
    shared = Shared(lab, tmp_path)
    router = shared.router(True)
    first, second = shared.publishers
    redis = shared.redis
    first.send(stored([101], PROMPT[:16]))
    second.send(stored([201], PROMPT[:16]))
    redis.ask("SET", "12", "of somebody else")
    redis.ask("HSET", "13", "no entry", "")
    eventually("the blocks are shared", lambda: redis.ask("HLEN", KEYS[0]) == 2)
    router.stop()

    router = shared.router(True)
    first.send(stored([102], PROMPT[16:32], parent=101))  # whose parent the new router has not heard of
    eventually("the chain goes on", lambda: redis.ask("HKEYS", KEYS[1]) == [entry(shared.pods[0])])
    assert redis.ask("HLEN", KEYS[0]) == 2  # what was missed says nothing about others
    assert served(router) == {shared.pods[0]}
    first.send(CLEARED, stored([103], PROMPT[:16]))
    eventually("only one holds the first block again", lambda: redis.ask("ZRANGE", "engine:103", "0", "-1") == [KEYS[0]])
    assert sorted(redis.ask("HKEYS", KEYS[0])) == sorted(map(entry, shared.pods))
    assert redis.ask("EXISTS", KEYS[1]) == 0
    assert redis.ask("GET", "12") == "of somebody else" and redis.ask("HLEN", "13") == 1


@contextlib.contextmanager
def traffic(*routers):
    """Requests to the routers, one after the other, each of which must succeed."""
    faults, counts, end = [], [0] * len(routers), threading.Event()

    def run(i):
        while not end.is_set() and not faults:
            try:
                ask(routers[i])
                counts[i] += 1
            except Exception as fault:  # noqa: BLE001
                faults.append(fault)

    threads = [threading.Thread(target=run, args=(i,)) for i in range(len(routers))]
    for thread in threads:
        thread.start()
    try:
        yield counts
    finally:
        end.set()
        for thread in threads:
            thread.join()
    assert not faults, faults


def test_routing_goes_on_while_the_server_is_away(lab, tmp_path):
    shared = Shared(lab, tmp_path)
    listens, other = shared.router(True), shared.router(False)
    first, second = shared.publishers
    first.send(stored([101, 102], PROMPT[:32]))
    eventually("the blocks are shared", lambda: len(shared.redis.keys()) == 4)
    with traffic(listens, other) as counts:
        shared.redis.kill()
        for router in (listens, other):
            router.wait_for("it is missed", lambda: router.value(UP) == 0)
        before = counts[1]
        eventually("requests go on", lambda: counts[1] >= before + 10)
        assert other.value("llmd_kv_shared_index_lookups_total", result="skipped") >= 10
        assert served(listens) == {shared.pods[0]}  # by what it has heard itself
        eventually("they go anywhere", lambda: ask(other) == shared.pods[1])
        second.send(stored([201], list(range(100, 116))))

        shared.redis.start()
        for router in (listens, other):
            router.wait_for("it is there again", lambda: router.value(UP) == 1)
        eventually("what happened meanwhile is told", lambda: len(shared.redis.keys()) == 2)
        first.send(stored([103, 104], PROMPT[:32]))
        eventually("the blocks are shared again", lambda: len(shared.redis.keys()) == 6)
        assert served(other) == {shared.pods[0]}
        assert served(other, list(range(100, 120))) == {shared.pods[1]}


def test_a_server_that_hangs_holds_up_nobody_for_long(lab, tmp_path):
    import signal
    shared = Shared(lab, tmp_path)
    router = shared.router(False)
    shared.redis.popen.send_signal(signal.SIGSTOP)
    try:
        with traffic(router) as counts:
            router.wait_for("it is missed", lambda: router.value(UP) == 0)
            assert router.value("llmd_kv_shared_index_lookups_total", result="failed") >= 1
            before = counts[0]
            eventually("requests go on", lambda: counts[0] >= before + 20)
    finally:
        shared.redis.popen.send_signal(signal.SIGCONT)
    router.wait_for("it is there again", lambda: router.value(UP) == 1)


def test_tls_and_passwords(lab, tmp_path, monkeypatch):
    authority = Authority(tmp_path)
    certificate = authority.issue("redis")
    address = "rediss://:w%40rd%25word@localhost:{port}"
    monkeypatch.setenv("SSL_CERT_FILE", str(authority.file))
    shared = Shared(lab, tmp_path, address, password="w@rd%word", certificate=certificate)
    listens, other = shared.router(True), shared.router(False)
    shared.publishers[1].send(stored([101, 102], PROMPT[:32]))
    eventually("the blocks are shared", lambda: len(shared.redis.keys()) == 4)
    assert served(other) == {shared.pods[1]}

    monkeypatch.setenv("SSL_CERT_FILE", str(Authority(tmp_path, "another").file))
    distrusts = shared.router(False, up=False)
    distrusts.wait_for("it says why", lambda: "TLS could not be agreed on" in distrusts.log())
    assert served(distrusts) == set(shared.pods)
    for router in (listens, other, distrusts):
        assert "w@rd" not in router.log() and "w%40rd" not in router.log()
        assert "rd%" not in httpx.get(f"{router.admin}/debug/plugins", timeout=10).text
