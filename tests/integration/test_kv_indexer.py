"""`llmd kv-indexer` over HTTP and gRPC: scores by what servers publish of their caches."""

import signal
import struct
import subprocess
import threading

import grpc
import httpx
import pytest

from grpc_engine import data
from kv_publisher import CLEARED, Publisher, removed, stored
from process import BINARY, MODEL, KvIndexer, TokenizerService, eventually, free_ports
from redis_server import RedisServer
from test_tokenizer_service import fields
from tokenizers_in_use import Model

BLOCKS = "llmd_kv_index_blocks"
METHOD = "/indexer.v1.IndexerService/GetPodScores"
IDS = list(range(1, 71))


def post(indexer, path, body, status=200):
    answer = httpx.post(indexer.url + path, json=body, timeout=30)
    assert answer.status_code == status, answer.text
    return answer.json() if status == 200 else answer.json()["error"]["message"]


def messages_of(message):
    """The messages in field 1."""
    out = []
    while message:
        assert message[0] == 10 and message[1] < 128
        out.append(message[2:2 + message[1]])
        message = message[2 + message[1]:]
    return out


def fixed64(message):
    """{"pod": score} of a PodScore."""
    size = message[1]
    pod, rest = message[2:2 + size].decode(), message[2 + size:]
    assert message[0] == 10 and rest[0] == 17
    return pod, struct.unpack("<d", rest[1:])[0]


def pod_scores(indexer, prompt, model="m", pods=(), target=None):
    request = data(1, prompt.encode()) + data(2, model.encode()) + b"".join(data(3, pod.encode()) for pod in pods)
    with grpc.insecure_channel(target or f"127.0.0.1:{indexer.grpc_port}",
                               options=[("grpc.default_authority", "localhost")]) as channel:
        answer = channel.unary_unary(METHOD)(request, timeout=30)
    return dict(fixed64(message) for message in messages_of(answer))


class Pods:
    """Publishers of two pods, and an indexer that they connect to."""

    def __init__(self, lab, tmp_path, tokens="", index="", **options):
        self.names = ["10.0.0.1:8000", "10.0.0.2:8000"]
        at = f"tcp://127.0.0.1:{free_ports()}"
        self.publishers = [lab._add(Publisher(name, at)) for name in self.names]
        file = tmp_path / "indexer.yaml"
        file.write_text(f"precise-prefix-cache-producer: {{kvEventsConfig: {{zmqEndpoint: '{at}', discoverPods: false}}, {index}}}\n"
                        + tokens)
        self.indexer = lab._add(KvIndexer(lab._log("kv-indexer"), config_file=file,
                                          endpoint=[f"http://{name}" for name in self.names], **options))
        for publisher in self.publishers:
            publisher.wait_for_listener()

    def hold(self, pod, ids, first=1):
        whole = len(ids) // 16
        before = self.indexer.value(BLOCKS)
        self.publishers[pod].send(stored(list(range(first, first + whole)), ids[:whole * 16]))
        eventually("its blocks are known", lambda: self.indexer.value(BLOCKS) > before)
        return whole


def test_token_ids_are_scored(lab, tmp_path):
    pods = Pods(lab, tmp_path)
    a, b = pods.names
    ask = {"model": "m", "prompt": IDS}
    assert post(pods.indexer, "/v1/score", ask) == {"block_size_tokens": 16, "total_blocks": 4, "pods": []}
    pods.hold(0, IDS[:32])
    pods.hold(1, IDS[:64])
    assert post(pods.indexer, "/v1/score", ask) == {
        "block_size_tokens": 16, "total_blocks": 4,
        "pods": [{"pod": b, "score": 4, "blocks": 4, "tiers": {"gpu": 4}},
                 {"pod": a, "score": 2, "blocks": 2, "tiers": {"gpu": 2}}]}
    assert post(pods.indexer, "/score_completions", ask) == {a: 2, b: 4}
    assert post(pods.indexer, "/score_completions", {**ask, "pods": [a, "10.9.9.9:1"]}) == {a: 2}
    assert post(pods.indexer, "/score_completions", {**ask, "model": "other"}) == {}
    assert post(pods.indexer, "/score_completions", {**ask, "cache_salt": "s"}) == {}
    assert post(pods.indexer, "/v1/score", {**ask, "prompt": [IDS, IDS[:16], [7]]})["total_blocks"] == 5

    pods.publishers[1].send(removed([3]))
    eventually("the removal is known", lambda: post(pods.indexer, "/score_completions", ask) == {a: 2, b: 2})
    pods.publishers[0].send(CLEARED)
    eventually("the clearing is known", lambda: post(pods.indexer, "/score_completions", ask) == {b: 2})
    assert pods.indexer.value("llmd_kv_indexer_requests_total", api="http", result="scored") >= 9


@pytest.mark.parametrize("backend", ["local", "http", "socket"])
def test_texts_and_chats_are_scored_by_their_tokens(lab, tmp_path, backend):
    model = Model("llama3_1")
    service = None
    if backend != "local":
        service = lab._add(TokenizerService(lab._log("tokenizer"), {"its-name": model.folder}, socket=tmp_path / "t.socket"))
    source = {"local": f"local: {{path: {model.folder}}}",
              "http": f"modelName: its-name, vllm: {{url: '{service and service.url}'}}",
              "socket": f"modelName: its-name, udsTokenizerConfig: {{socketFile: {tmp_path}/t.socket}}"}[backend]
    pods = Pods(lab, tmp_path, f"token-producer: {{{source}}}\n", socket=tmp_path / "indexer.socket")
    a, b = pods.names
    text = "Es war einmal ein Prompt. " * 20
    messages = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Räume auf: 漢字 😀 " * 10}]
    of_text = pods.hold(0, model.ids(text, framed=True))
    of_chat = pods.hold(1, model.ids(model.chat(messages)), 1000)

    assert post(pods.indexer, "/score_completions", {"model": "m", "prompt": text}) == {a: of_text}
    assert post(pods.indexer, "/score_chat_completions", {"model": "m", "messages": messages}) == {b: of_chat}
    for body, blocks in [({"prompt": text}, of_text), ({"messages": messages}, of_chat)]:
        scores = post(pods.indexer, "/v1/score", {"model": "m", **body})
        assert (scores["total_blocks"], scores["pods"][0]["blocks"]) == (blocks, blocks)
    assert pod_scores(pods.indexer, text) == {a: of_text}
    assert pod_scores(pods.indexer, text, target=f"unix:{tmp_path}/indexer.socket") == {a: of_text}
    assert pod_scores(pods.indexer, text, pods=[b]) == {}
    assert pod_scores(pods.indexer, text, model="other") == {}
    assert pods.indexer.value("llmd_kv_indexer_requests_total", api="grpc", result="scored") == 4
    if service:
        service.kill()
        assert "cannot" in post(pods.indexer, "/score_completions", {"model": "m", "prompt": text + "!"}, 503)
        with pytest.raises(grpc.RpcError) as refused:
            pod_scores(pods.indexer, text)
        assert refused.value.code() == grpc.StatusCode.UNAVAILABLE


def test_simulated_servers_are_followed(lab, tmp_path):
    port, file = free_ports(2), tmp_path / "endpoints.yaml"
    sim = lab.sim(replicas=2, enable_kvcache=True, zmq_bind=True, zmq_endpoint=f"tcp://127.0.0.1:{port}", endpoints_out=file)
    eventually("the servers are in the file", file.exists)
    config = tmp_path / "indexer.yaml"
    config.write_text(f"precise-prefix-cache-producer: {{kvEventsConfig: {{podDiscoveryConfig: {{socketPort: {port}}}}}}}\n"
                      f"token-producer: {{modelName: {MODEL}, vllm: {{url: '{sim.urls[0]}'}}}}\n")
    indexer = lab._add(KvIndexer(lab._log("kv-indexer"), config_file=config, endpoints_file=file))
    messages = [{"role": "user", "content": "Tell me of the index. " * 40}]
    for i, url in enumerate(sim.urls):
        name = f"127.0.0.1:{sim.ports[i]}"
        ids = iter(range(1_000_000 * (i + 1), 1_000_000 * (i + 2), 1000))

        def heard():
            first = next(ids)
            body = {"model": MODEL, "prompt": list(range(first, first + 48))}
            assert httpx.post(url + "/v1/completions", json={**body, "max_tokens": 1}).status_code == 200
            return post(indexer, "/score_completions", body) == {name: 3}
        eventually("its events are heard", heard)
        chat = {"model": MODEL, "messages": [{"role": "user", "content": f"{i} "}] + messages}
        assert httpx.post(url + "/v1/chat/completions", json={**chat, "max_tokens": 1}).status_code == 200
        scores = eventually("the chat is known", lambda: post(indexer, "/score_chat_completions", chat))
        assert list(scores) == [name] and scores[name] > 5

    assert httpx.get(indexer.url + "/readyz").status_code == 200
    draft = file.with_suffix(".new")
    draft.write_text(f'endpoints:\n- {{name: sim-rank-0, address: 127.0.0.1, port: "{sim.ports[0]}"}}\n')
    draft.rename(file)
    eventually("a server that is gone has no score", lambda: post(indexer, "/score_chat_completions", chat) == {})
    draft.write_text("endpoints: []\n")
    draft.rename(file)
    eventually("nobody is there", lambda: httpx.get(indexer.url + "/readyz").status_code == 503)
    assert httpx.get(indexer.url + "/healthz").status_code == 200


def test_an_index_in_redis_is_asked_as_well(lab, tmp_path):
    redis = lab._add(RedisServer(tmp_path))
    index = f"indexerConfig: {{kvBlockIndexConfig: {{redisConfig: {{address: 'redis://127.0.0.1:{redis.port}'}}}}}}"
    pods = Pods(lab, tmp_path, index=index)
    pods.indexer.wait_for("the shared index is there", lambda: pods.indexer.value("llmd_kv_shared_index_up") == 1)
    pods.hold(0, IDS[:32])
    deaf = tmp_path / "deaf.yaml"
    deaf.write_text(f"precise-prefix-cache-producer: {{kvEventsConfig: {{discoverPods: false}}, {index}}}\n")
    other = lab._add(KvIndexer(lab._log("kv-indexer"), config_file=deaf, endpoint=[f"http://{name}" for name in pods.names]))
    ask = {"model": "m", "prompt": IDS}
    eventually("another knows it by Redis", lambda: post(other, "/score_completions", ask) == {pods.names[0]: 2})
    redis.kill()
    assert post(other, "/score_completions", ask) == {}
    assert post(pods.indexer, "/score_completions", ask) == {pods.names[0]: 2}


def test_what_is_wrong_is_said(lab, tmp_path):
    pods = Pods(lab, tmp_path)
    assert post(pods.indexer, "/score_completions", {"model": "m", "prompt": "a text"}, 400) == \
        "prompts must be token ids: no token-producer is configured"
    assert post(pods.indexer, "/score_completions", {"prompt": [1]}, 400) == "the request names no model"
    assert post(pods.indexer, "/v1/score", {"model": "m", "prompt": [1], "pods": 1}, 400) == "'pods' is no list of names"
    assert post(pods.indexer, "/score", {}, 404) == "there is nothing at this path"
    assert httpx.get(pods.indexer.url + "/v1/score").status_code == 405
    assert httpx.post(pods.indexer.url + "/v1/score", content=b" " * (33 << 20)).status_code == 413
    for prompt, model in [("a text", "m"), ("a text", "")]:
        with pytest.raises(grpc.RpcError) as refused:
            pod_scores(pods.indexer, prompt, model)
        assert refused.value.code() == grpc.StatusCode.INVALID_ARGUMENT

    def start(*arguments):
        it = subprocess.run([BINARY, "kv-indexer", *arguments], capture_output=True, text=True, timeout=60)
        assert it.returncode == 2
        return it.stderr
    bad = tmp_path / "bad.yaml"
    bad.write_text("precise-prefix-cache-producer:\n  kvEventConfig: {}\n")
    assert start("--endpoint", "http://a:1", "--config-file", str(bad)) == \
        f"llmd kv-indexer: {bad}:2: parameter 'precise-prefix-cache-producer.kvEventConfig': unknown (did you mean 'kvEventsConfig'?)\n"
    assert start() == "llmd kv-indexer: no endpoints: give --endpoint or --endpoints-file\n"
    assert "did you mean '--endpoint'" in start("--endpoin", "x")


def test_open_requests_end_when_it_is_stopped(lab, tmp_path):
    model = Model("llama3_1")
    service = lab._add(TokenizerService(lab._log("tokenizer"), {"m": model.folder}, socket=tmp_path / "t.socket"))
    pods = Pods(lab, tmp_path, f"token-producer: {{modelName: m, udsTokenizerConfig: {{socketFile: {tmp_path}/t.socket}}}}\n")
    service.popen.send_signal(signal.SIGSTOP)
    answers = []
    asking = threading.Thread(target=lambda: answers.append(
        httpx.post(pods.indexer.url + "/score_completions", json={"model": "m", "prompt": "a text"}, timeout=30)))
    asking.start()
    eventually("the question has come to the stopped service", lambda: any(
        int(line.split()[2]) for line in subprocess.run(["ss", "-xn"], capture_output=True, text=True).stdout.splitlines()
        if f"{tmp_path}/t.socket" in line))
    pods.indexer.popen.send_signal(signal.SIGTERM)
    eventually("it does not accept any more", lambda: not listens(pods.indexer.port))
    service.popen.send_signal(signal.SIGCONT)
    asking.join()
    assert [answer.status_code for answer in answers] == [200]
    assert pods.indexer.popen.wait(30) == 0


def listens(port):
    try:
        httpx.get(f"http://127.0.0.1:{port}/healthz", timeout=2)
        return True
    except httpx.ConnectError:
        return False
