"""The KV events of simulated servers, as subscribers of engines see them."""

import httpx
import pytest

from kv_events import Cache, Listener, replay
from process import MODEL, eventually, free_ports
from prometheus import Page

BLOCK = 16
ON = {"enable_kvcache": True, "block_size": BLOCK, "zmq_bind": True, "zmq_endpoint": "tcp://127.0.0.1:0",
      "kv_events_replay_endpoint": "tcp://127.0.0.1:0"}


def sources_of(url):
    (rank, source), = httpx.get(url + "/kv_event_sources").json().items()
    return rank, source


def page(url):
    return Page(httpx.get(url + "/metrics").text)


def complete(url, prompt, **fields):
    answer = httpx.post(url + "/v1/completions", json={"model": MODEL, "prompt": prompt, "max_tokens": 1, **fields})
    assert answer.status_code == 200, answer.text
    return answer.json()


def ids(first, count):
    return list(range(first, first + count))


@pytest.fixture
def listen():
    listeners = []

    def start(url):
        """A listener that is surely subscribed: it hears what a prompt of its own causes."""
        listener = Listener(sources_of(url)[1]["endpoint"])
        listeners.append(listener)
        for attempt in range(1000):
            complete(url, ids(10_000_000 + 1000 * attempt, BLOCK))
            message = listener.receive(0.05)
            if message:
                made = int(page(url).value("llmd_sim_kv_messages_total"))
                if made > message.sequence + 1:
                    listener.receive_until(made - 1)
                return listener
        raise AssertionError("the listener hears nothing")

    yield start
    for listener in listeners:
        listener.close()


@pytest.mark.parametrize("form", ["array", "map"])
def test_stores_and_removals_agree_with_the_servers_own_counts(lab, listen, form):
    sim = lab.sim(kv_cache_size=32, kv_events_format=form, **ON)
    url = sim.urls[0]
    listener = listen(url)
    for turn in range(40):
        complete(url, ids(1000 * (turn % 7), 16 * (3 + turn % 11)))
    made = int(page(url).value("llmd_sim_kv_messages_total"))
    live = listener.receive_until(made - 1)
    assert [m.sequence for m in live] == list(range(live[0].sequence, made))
    assert {m.topic for m in live} == {f"kv@127.0.0.1:{sim.port}@{MODEL}"}

    cache = Cache()
    everything = replay(sources_of(url)[1]["replay_endpoint"], 0)
    assert [m.sequence for m in everything] == list(range(made))
    assert [m.payload for m in everything[-len(live):]] == [m.payload for m in live]
    for message in everything:
        assert message.rank == 0
        cache.apply(message)
    counts = page(url)
    assert cache.stored == counts.value("llmd_sim_kv_blocks_total", event="stored")
    assert cache.removed == counts.value("llmd_sim_kv_blocks_total", event="removed") > 0
    assert len(cache.blocks) == counts.value("llmd_sim_kv_blocks") == 32

    # What the events call resident is what the next request finds.
    last = ids(1000 * (39 % 7), 16 * (3 + 39 % 11))
    resident = {tuple(tokens) for tokens in cache.blocks.values()}
    hits = 0
    while tuple(last[16 * hits:16 * hits + 16]) in resident:
        hits += 1
    usage = complete(url, last + [7])["usage"]
    assert usage["prompt_tokens_details"]["cached_tokens"] == 16 * hits > 0


def test_a_reset_goes_out_with_the_next_store(lab, listen):
    sim = lab.sim(kv_events_format="map", **ON)
    url = sim.urls[0]
    listener = listen(url)
    complete(url, ids(0, 64))
    listener.receive(20)
    assert httpx.post(url + "/reset_prefix_cache").status_code == 200
    assert listener.receive(0.2) is None
    complete(url, ids(0, 32))
    events = listener.receive(20).events
    assert [e["type"] for e in events] == ["AllBlocksCleared", "BlockStored"]
    assert len(events[1]["block_hashes"]) == 2
    assert page(url).value("llmd_sim_kv_blocks") == 2


def test_rendered_tokens_are_those_of_the_events(lab):
    sim = lab.sim(kv_events_format="map", lora_modules='{"name":"adapter","path":"somewhere"}', **ON)
    url = sim.urls[0]
    chat = {"model": MODEL, "messages": [{"role": "user", "content": "Tell me about " + "blocks and tokens " * 20}]}
    text = {"model": "adapter", "prompt": "Once upon a time, " * 20}
    for path, body in [("/v1/chat/completions", chat), ("/v1/completions", text)]:
        rendered = httpx.post(url + path + "/render", json=body).json()
        tokens = (rendered if path.startswith("/v1/chat") else rendered[0])["token_ids"]
        assert httpx.post(url + path, json={**body, "max_tokens": 1}).status_code == 200
        message = replay(sources_of(url)[1]["replay_endpoint"], 0)[-1]
        (event,) = message.events
        assert event["token_ids"] == tokens[:len(tokens) // BLOCK * BLOCK] != []
        assert event["lora_name"] == (None if body is chat else "adapter")
        assert httpx.post(url + "/tokenize", json=body).json()["tokens"] == tokens


def test_each_rank_publishes_on_its_own(lab):
    sim = lab.sim(data_parallel_size=2, port=free_ports(2), **ON)
    for rank in range(2):
        url = f"http://127.0.0.1:{sim.port + rank}"
        name, source = sources_of(url)
        assert name == str(rank)
        complete(url, ids(100 * rank, 32))
        (message,) = replay(source["replay_endpoint"], 0)
        assert message.rank == rank
        assert message.topic == f"kv@127.0.0.1:{sim.port + rank}@{MODEL}"


def test_what_is_lost_on_the_way_can_be_replayed(lab, listen):
    sim = lab.sim(**ON)
    url = sim.urls[0]
    listener = listen(url)
    before = int(page(url).value("llmd_sim_kv_messages_total"))
    assert httpx.post(url + "/admin/config", json={"kv-events-loss-rate": 40}).status_code == 200
    for turn in range(40):
        complete(url, ids(1000 * turn, BLOCK))
    assert httpx.post(url + "/admin/config", json={"kv-events-loss-rate": 0}).status_code == 200
    complete(url, ids(100_000, BLOCK))
    heard = [m.sequence for m in listener.receive_until(before + 40)]
    lost = int(page(url).value("llmd_sim_kv_message_faults_total", fault="lost"))
    assert 0 < lost < 40 and len(heard) == 41 - lost and heard == sorted(set(heard))
    missed = replay(sources_of(url)[1]["replay_endpoint"], before)
    assert [m.sequence for m in missed] == list(range(before, before + 41))


PRODUCER = "precise-prefix-cache-producer"
BLOCKS = "llmd_kv_index_blocks"


def precise(endpoints_file, events_port, tokens=""):
    return f"""
apiVersion: llm-d.ai/v1
kind: EndpointPickerConfig
plugins:
- {{type: file-discovery, parameters: {{path: {endpoints_file}}}}}
{tokens}
- type: {PRODUCER}
  parameters:
    indexerConfig: {{kvBlockIndexConfig: {{enableMetrics: true}}}}
    kvEventsConfig: {{podDiscoveryConfig: {{socketPort: {events_port}}}}}
- {{type: prefix-cache-scorer, parameters: {{prefixMatchInfoProducerName: {PRODUCER}}}}}
- type: max-score-picker
dataLayer: {{discovery: {{pluginRef: file-discovery}}}}
schedulingProfiles: [{{name: default, plugins: [{{pluginRef: prefix-cache-scorer}}, {{pluginRef: max-score-picker}}]}}]
"""


@pytest.fixture
def fleet(lab, tmp_path):
    """Two simulated servers and, by the plugins that provide tokens, a router that hears their events."""
    events_port = free_ports(2)
    file = tmp_path / "endpoints.yaml"
    sim = lab.sim(replicas=2, enable_kvcache=True, block_size=BLOCK, kv_events_format="map", zmq_bind=True,
                  zmq_endpoint=f"tcp://127.0.0.1:{events_port}", endpoints_out=file)
    eventually("the servers are in the file", file.exists)

    def start(tokens=lambda url: ""):
        router = lab.router(config_text=precise(file, events_port, tokens(sim.urls[0])))
        for i, url in enumerate(sim.urls):
            before, first = router.value(BLOCKS), 1_000_000 * (i + 1)
            for attempt in range(1000):
                complete(url, ids(first + 1000 * attempt, BLOCK))
                if router.value(BLOCKS) > before:
                    break
            assert router.value(BLOCKS) > before
        return sim, router

    return start


def served_by(router, path, body):
    answer = httpx.post(router.url + path, json={"model": MODEL, "max_tokens": 1, **body}, timeout=20)
    assert answer.status_code == 200, answer.text
    return answer.headers["x-llm-d-served-endpoint"]


def test_a_router_finds_the_server_that_has_the_prompt(fleet):
    sim, router = fleet()
    for i, url in enumerate(sim.urls):
        prompt = ids(5000 * (i + 1), 8 * BLOCK)
        before = router.value(BLOCKS)
        complete(url, prompt)
        eventually("its blocks are known", lambda: router.value(BLOCKS) >= before + 8)
        assert {served_by(router, "/v1/completions", {"prompt": prompt}) for _ in range(4)} == {
            f"127.0.0.1:{sim.ports[i]}"}


CHAT = {"messages": [{"role": "user", "content": "Tell me about " + "blocks and tokens " * 20}]}


def render(url):
    return f"- {{type: token-producer, parameters: {{modelName: {MODEL}, vllm: {{url: '{url}'}}}}}}"


def test_a_router_renders_prompts_to_find_them(fleet):
    sim, router = fleet(render)
    for i, url in enumerate(sim.urls):
        chat = {"messages": [{"role": "system", "content": f"You are server {i}."}, *CHAT["messages"]]}
        before = router.value(BLOCKS)
        assert httpx.post(url + "/v1/chat/completions", json={"model": MODEL, "max_tokens": 1, **chat}).status_code == 200
        eventually("its blocks are known", lambda: router.value(BLOCKS) > before)
        assert {served_by(router, "/v1/chat/completions", chat) for _ in range(4)} == {f"127.0.0.1:{sim.ports[i]}"}
    assert router.value("llmd_render_calls_total", result="answered") == 8
    assert router.value("llmd_render_calls_total", result="failed") == 0


def test_anthropic_prompts_are_rendered_as_chats(fleet):
    sim, router = fleet(render)
    for i, url in enumerate(sim.urls):
        words = f"You are server {i}. " + "blocks and tokens " * 20
        before = router.value(BLOCKS)
        chat = {"messages": [{"role": "system", "content": words}, {"role": "user", "content": "Hello."}]}
        assert httpx.post(url + "/v1/chat/completions", json={"model": MODEL, "max_tokens": 1, **chat}).status_code == 200
        eventually("its blocks are known", lambda: router.value(BLOCKS) > before)
        for _ in range(4):  # which the simulator does not serve
            answer = httpx.post(router.url + "/v1/messages", timeout=20, json={
                "model": MODEL, "max_tokens": 1, "system": [{"type": "text", "text": words}],
                "messages": [{"role": "user", "content": [{"type": "text", "text": "Hello."}]}]})
            assert answer.headers["x-llm-d-served-endpoint"] == f"127.0.0.1:{sim.ports[i]}", answer.text
    assert router.value("llmd_render_calls_total", result="failed") == 0


def test_requests_that_cannot_be_rendered_go_on(fleet):
    closed = free_ports()
    _, router = fleet(lambda _: render(f"http://127.0.0.1:{closed}"))
    for _ in range(3):
        served_by(router, "/v1/chat/completions", CHAT)
    # Only the first tries: a server that cannot be reached is left alone for a while.
    assert 1 <= router.value("llmd_render_calls_total", result="failed") <= 3
    assert router.value("llmd_degraded_decisions_total") == 3
