#!/usr/bin/env python3
"""Two real vLLM servers behind one router that goes by their KV events: are as many tokens cached as it promised? `make test-vllm`, or

    scripts/setup.sh vllm
    LLMD_BINARY=build/release/apps/llmd/llmd build/venv/bin/python scripts/test_vllm.py [--port 28000] [--logs FOLDER]

The model is made up: two small layers with random weights, a real tokenizer, two LoRA adapters. Each server caches 128 blocks of 32 tokens, so that
they evict all the time. Of every answer, what the router's decision counted on (the score of its prefix-cache-scorer, /debug/decisions) is compared
with the cached_tokens that vLLM reports of it. A row of the table is a phase of the workload; in those that send one request after another,
every answer has to agree but for what ALLOWED says. Exit code 1 when one does not.
"""
import argparse
import array
import concurrent.futures
import contextlib
import dataclasses
import itertools
import json
import math
import os
import pathlib
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time

import httpx

ROOT = pathlib.Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tests/integration"))

import process  # noqa: E402

BLOCK, BLOCKS, MODEL, ADAPTERS = 32, 128, "tiny", ("red", "blue")
MAX_LENGTH = 2048
LAYERS, WIDTH, HEAD, RANK = 2, 64, 32, 8  # of the model: two heads of queries, one of keys and values
ALLOWED = """
last block: vLLM computes at least a token of every prompt, so of one that it holds whole, in whole blocks, it computes the last block again.
not told: of several prompts vLLM reports what one had cached, and where it tells how likely a prompt is, it uses nothing. The router does not compare these.
a cache emptied: vLLM tells of it only with its next step, so the first request to that server counts on what is gone.
clients at once: blocks are evicted and stored between the decision and the moment when the server begins with the request.
"""
CLIENTS = 24  # of the phase whose requests come at once: more than the servers run at a time
CONCURRENT_MAX = 0.1  # of the prompts' tokens, over and under
CONFIG = """
apiVersion: llm-d.ai/v1
kind: EndpointPickerConfig
requestHandler: {{parsers: [{{pluginRef: openai-parser}}, {{pluginRef: anthropic-parser}}]}}
plugins:
- type: token-producer
  parameters: {{local: {{path: {model}}}}}
- type: precise-prefix-cache-producer
  parameters:
    tokenProcessorConfig: {{blockSizeTokens: {block}}}
    kvEventsConfig: {{podDiscoveryConfig: {{socketPort: {events}, replaySocketPort: {replay}}}}}
- {{type: prefix-cache-scorer, parameters: {{prefixMatchInfoProducerName: precise-prefix-cache-producer}}}}
- {{type: no-hit-lru-scorer, parameters: {{prefixMatchInfoProducerName: precise-prefix-cache-producer}}}}
- type: active-request-scorer
- type: max-score-picker
schedulingProfiles:
- name: default
  plugins: [{{pluginRef: prefix-cache-scorer, weight: 3}}, {{pluginRef: active-request-scorer, weight: 2}}, {{pluginRef: no-hit-lru-scorer}}, {{pluginRef: max-score-picker}}]
"""


# -- The model --


def make_model(folder):
    """A model of vLLM's without weights: it makes random ones (--load-format dummy)."""
    folder.mkdir()
    for name in ("tokenizer.json", "tokenizer_config.json"):
        (folder / name).write_bytes((ROOT / "build/tokenizers/qwen3" / name).read_bytes())
    tokenizer = json.loads((folder / "tokenizer.json").read_text())
    ids = tokenizer["model"]["vocab"] | {token["content"]: token["id"] for token in tokenizer["added_tokens"]}
    end = ids[json.loads((folder / "tokenizer_config.json").read_text())["eos_token"]]
    (folder / "config.json").write_text(json.dumps({
        "model_type": "qwen2", "architectures": ["Qwen2ForCausalLM"], "dtype": "bfloat16", "eos_token_id": end, "hidden_act": "silu",
        "hidden_size": WIDTH, "intermediate_size": 2 * WIDTH, "num_hidden_layers": LAYERS, "num_attention_heads": WIDTH // HEAD, "num_key_value_heads": 1,
        "max_position_embeddings": MAX_LENGTH, "rms_norm_eps": 1e-6, "tie_word_embeddings": True, "vocab_size": -(-(max(ids.values()) + 1) // 64) * 64}))


def make_adapter(folder, rng):
    """A LoRA adapter of random weights; its file is a length, a header in JSON and the numbers."""
    folder.mkdir()
    header, numbers = {}, array.array("f")
    for layer in range(LAYERS):
        for part, outputs in (("q_proj", WIDTH), ("v_proj", HEAD)):
            for side, rows, columns in (("A", RANK, WIDTH), ("B", outputs, RANK)):
                begin = numbers.itemsize * len(numbers)
                numbers.extend(rng.gauss(0, 0.02) for _ in range(rows * columns))
                header[f"base_model.model.model.layers.{layer}.self_attn.{part}.lora_{side}.weight"] = {
                    "dtype": "F32", "shape": [rows, columns], "data_offsets": [begin, numbers.itemsize * len(numbers)]}
    head = json.dumps(header).encode()
    (folder / "adapter_model.safetensors").write_bytes(len(head).to_bytes(8, "little") + head + numbers.tobytes())
    (folder / "adapter_config.json").write_text(json.dumps({"peft_type": "LORA", "r": RANK, "lora_alpha": 2 * RANK, "target_modules": ["q_proj", "v_proj"]}))


# -- The servers --


class Engine:
    """A vLLM server that can be killed and started again."""

    def __init__(self, folder, port, events_port, replay_port):
        self.url, self.log_path = f"http://127.0.0.1:{port}", folder / f"vllm-{port}.log"
        adapters = [f"{name}={folder / name}" for name in ADAPTERS]
        # vLLM listens only at addresses with "*" or "::" and connects to others; this one is 127.0.0.1 alone.
        events = {"enable_kv_cache_events": True, "publisher": "zmq", "topic": f"kv@127.0.0.1:{port}@{MODEL}",
                  "endpoint": f"tcp://[::ffff:127.0.0.1]:{events_port}", "replay_endpoint": f"tcp://[::ffff:127.0.0.1]:{replay_port}"}
        self.command = [ROOT / "build/vllm/bin/vllm", "serve", folder / "model", "--served-model-name", MODEL, "--host", "127.0.0.1", "--port", port,
                        "--load-format", "dummy", "--enforce-eager", "--max-model-len", MAX_LENGTH, "--max-num-seqs", 8, "--block-size", BLOCK,
                        "--num-gpu-blocks-override", BLOCKS + 1,  # one is vLLM's own
                        "--enable-prompt-tokens-details", "--kv-events-config", json.dumps(events),
                        "--enable-lora", "--max-loras", len(ADAPTERS), "--max-lora-rank", RANK, "--lora-modules", *adapters]
        self.environment = os.environ | {
            "PYTHONHASHSEED": "0", "VLLM_SERVER_DEV_MODE": "1",  # for /reset_prefix_cache
            "VLLM_CPU_KVCACHE_SPACE": "1", "VLLM_CPU_OMP_THREADS_BIND": "nobind", "OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": "",
            "TOKENIZERS_PARALLELISM": "false", "HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1", "VLLM_NO_USAGE_STATS": "1", "DO_NOT_TRACK": "1"}
        self.popen = None

    def start(self):
        with open(self.log_path, "ab") as log:
            # Its own session, so that its processes can be ended together; "nice", since it keeps every core busy at start.
            self.popen = subprocess.Popen(["setpriv", "--pdeathsig", "KILL", "nice", "-n", "10", *map(str, self.command)], env=self.environment,
                                          stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True)

    def ready(self):
        if self.popen.poll() is not None:
            sys.exit(f"test_vllm: vLLM ended with {self.popen.returncode}:\n{self.log_path.read_text(errors='replace')[-4000:]}")
        return process.http_ok(f"{self.url}/health")

    def kill(self):
        """Ends it at once, as a crash would."""
        if not self.popen:
            return
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.popen.pid, signal.SIGKILL)
        self.popen.wait()


# -- What is compared --


@dataclasses.dataclass
class Outcome:
    tokens: int    # of the prompts
    promised: int  # tokens, of them
    last: int      # promised tokens that vLLM computes again for the sake of the last one
    reported: int  # tokens
    told: bool     # whether the answer says what was cached

    @property
    def over(self):
        return max(0, self.promised - self.last - self.reported)

    @property
    def under(self):
        return max(0, self.reported - self.promised + self.last)


class Lab:
    """Router and servers, and what came of the requests."""

    def __init__(self, folder, port):
        base = port or process.free_ports(8)
        self.model, self.endpoints, self.config = folder / "model", folder / "endpoints.yaml", folder / "config.yaml"
        self.folder, self.router_ports = folder, {"port": base + 6, "metrics_port": base + 7}
        make_model(self.model)
        for i, name in enumerate(ADAPTERS):
            make_adapter(folder / name, random.Random(i))
        self.engines = [Engine(folder, base + i, base + 2 + i, base + 4 + i) for i in range(2)]
        # The router finds the events of NAME-rank-N at its port + N.
        self.endpoints.write_text("endpoints:\n" + "".join(f'- {{name: vllm-rank-{i}, address: 127.0.0.1, port: "{base + i}"}}\n' for i in range(2)))
        self.config.write_text(CONFIG.format(model=self.model, block=BLOCK, events=base + 2, replay=base + 4))
        self.router, self.numbers, self.client = None, itertools.count(), httpx.Client(timeout=120)
        self.lock, self.outcomes, self.last = threading.Lock(), [], {}  # last: what each endpoint was sent
        self.since = 0  # outcomes when the router started

    def start(self):
        for engine in self.engines:
            engine.start()
        for engine in self.engines:
            process.eventually(f"{engine.url} is healthy", engine.ready, seconds=600, interval=0.5)
        self.start_router()

    def start_router(self):
        if self.router:
            self.check_account()
            self.router.stop()
        self.since = len(self.outcomes)
        self.router = process.Router(self.folder / "router.log", endpoints_file=self.endpoints, config_file=self.config, refresh_metrics_interval="150ms",
                                     **self.router_ports)
        self.settle()

    def close(self):
        for engine in self.engines:
            engine.kill()
        if self.router:
            self.router.stop()

    def check_account(self):
        """The router has compared as we do, and trusts both servers."""
        told = [outcome for outcome in self.outcomes[self.since:] if outcome.told]
        page = self.router.metrics()
        own = [page.value(f"llmd_kv_{name}_tokens_total") for name in ("promised", "reported")]
        assert own == [sum(o.promised for o in told), sum(o.reported for o in told)], f"the router's own account differs: {own}"
        assert page.value("llmd_kv_endpoint_trusted") == len(self.engines), "the router does not trust a server"

    def heard(self):
        """Messages with KV events that the router has received."""
        return self.router.value("llm_d_epp_kv_cache_events_messages_received_total")

    def settle(self):
        """Waits until no further event comes."""
        before, since = None, time.monotonic()
        while time.monotonic() - since < 0.06:
            if (now := self.heard()) != before:
                before, since = now, time.monotonic()
            time.sleep(0.01)

    def ask(self, path, body, told=True):
        """Sends it, notes its outcome and returns the answer's text."""
        number = f"vllm-{next(self.numbers)}"
        stream = {"stream_options": {"include_usage": True}} if body.get("stream") and path != "/v1/messages" else {}
        answer = self.client.post(self.router.url + path, json={"model": MODEL, "max_tokens": 8, **body, **stream}, headers={"x-request-id": number})
        if answer.status_code != 200:
            raise AssertionError(f"{number}: {answer.status_code} {answer.text}")
        text, tokens, cached = read(answer)
        endpoint, share = self.decision(number)
        promised = round(share * (tokens // BLOCK)) * BLOCK
        outcome = Outcome(tokens, promised, BLOCK if promised == tokens else 0, cached, told)
        with self.lock:
            self.outcomes.append(outcome)
            self.last[endpoint] = path, body
        return text

    def one_by_one(self, requests, told=True):
        for path, body in requests:
            self.ask(path, body, told)
            self.settle()

    def at_once(self, requests):
        with concurrent.futures.ThreadPoolExecutor(CLIENTS) as pool:
            list(pool.map(lambda request: self.ask(*request), requests))
        self.settle()

    def decision(self, number):
        """Who answered, and the share of the prompt's whole blocks that the router believed to be there."""
        decisions = self.client.get(f"{self.router.admin}/debug/decisions", params={"request_id": number}).json()["decisions"]
        last = [d for d in decisions if d["outcome"] == "sent"][-1]  # another was tried before if a server was not there
        profile = last["profiles"][0]
        scorer = [s["name"] for s in profile["scorers"]].index("prefix-cache-scorer")
        return last["endpoint"], next(e["scores"][scorer] for e in profile["endpoints"] if e["endpoint"] == last["endpoint"])


def read(answer):
    """The text of an answer of any API, its prompt's tokens and how many of them were cached."""
    if answer.headers["content-type"].startswith("application/json"):
        parts = [answer.json()]
    else:
        parts = [json.loads(line.removeprefix("data: ")) for line in answer.text.splitlines() if line.startswith("data: {")]
    text, usage = "", {}
    for part in parts:
        for choice in part.get("choices", []):
            text += choice.get("text") or choice.get("message", choice.get("delta", {})).get("content") or ""
        for block in part.get("content", []):  # of Anthropic's API
            text += block.get("text", "")
        text += part.get("delta", {}).get("text", "")
        usage = part.get("usage") or part.get("message", {}).get("usage") or usage
    if "input_tokens" in usage:  # without those that were cached or are now
        cached = usage.get("cache_read_input_tokens") or 0
        return text, usage["input_tokens"] + cached + (usage.get("cache_creation_input_tokens") or 0), cached
    return text, usage["prompt_tokens"], (usage.get("prompt_tokens_details") or {}).get("cached_tokens") or 0


# -- The workload --


class Writer:
    """Makes requests with prompts of the words of this project's documents."""

    def __init__(self):
        self.words = " ".join(file.read_text() for file in sorted(ROOT.glob("docs/*.md"))).split()
        self.rng = random.Random(1)
        self.documents = [self.text(self.rng.randrange(80, 240)) for _ in range(40)]

    def text(self, words):
        return " ".join(self.rng.choices(self.words, k=words))

    def ids(self, count):
        return [self.rng.randrange(1000, 100_000) for _ in range(count)]

    def request(self, head, question, **more):
        """One of four: chat or completion, streamed or not."""
        body = {"stream": self.rng.random() < 0.5, **more}
        if self.rng.random() < 0.5:
            return "/v1/completions", {"prompt": f"{head}\n{question}", **body}
        return "/v1/chat/completions", {"messages": [{"role": "system", "content": head}, {"role": "user", "content": question}], **body}

    def about_documents(self, count, models=(MODEL,)):
        """Questions about documents that are more than the caches hold, the first of which are popular."""
        weights = [1 / (i + 1) for i in range(len(self.documents))]
        return [self.request(self.rng.choices(self.documents, weights)[0], self.text(12), model=self.rng.choice(models)) for _ in range(count)]


def shared_prefixes(lab, writer):
    heads = [writer.text(100) for _ in range(4)]
    lab.one_by_one(writer.request(writer.rng.choice(heads), writer.text(15)) for _ in range(40))


def conversations(lab, writer):
    """Turn by turn, with the answers in the prompts of the next turns."""
    talks = [[{"role": "system", "content": writer.text(40)}] for _ in range(6)]
    for _ in range(5):
        for i, talk in enumerate(talks):
            talk.append({"role": "user", "content": writer.text(20)})
            reply = lab.ask("/v1/chat/completions", {"messages": talk, "max_tokens": 40, "stream": i % 2 == 0})
            talk.append({"role": "assistant", "content": reply})
            lab.settle()


def messages_api(lab, writer):
    """Anthropic's, which vLLM takes as chats."""
    heads = [writer.text(100) for _ in range(3)]
    lab.one_by_one(("/v1/messages", {"system": writer.rng.choice(heads), "messages": [{"role": "user", "content": writer.text(15)}], "stream": i % 2 == 0})
                   for i in range(18))


def ends_of_blocks(lab, writer):
    """Prompts of token ids around the ends of blocks; whole blocks that are asked for again; answers that fill blocks."""
    prompts = [writer.ids(160) for _ in range(3)]
    lab.one_by_one(("/v1/completions", {"prompt": prompt[:length], "max_tokens": 1 + 40 * (length % 2)}) for prompt in prompts
                   for length in (31, 32, 33, 64, 64, 96, 95, 97, 128, 128, 128, 160, 96))


def adapters(lab, writer):
    heads = [writer.text(80) for _ in range(3)]
    lab.one_by_one(writer.request(head, writer.text(10), model=model) for _ in range(3) for head in heads for model in (MODEL, *ADAPTERS))


def salts(lab, writer):
    heads = [writer.text(80) for _ in range(2)]
    salted = [{}, {"cache_salt": "tenant-a"}, {"cache_salt": "tenant-b"}, {"cache_salt": "tenant-a", "model": ADAPTERS[0]}]
    lab.one_by_one(writer.request(head, writer.text(10), **salt) for _ in range(4) for head in heads for salt in salted)


def evictions(lab, writer):
    lab.one_by_one(writer.about_documents(120))


def clients_at_once(lab, writer):
    lab.at_once(writer.about_documents(180, (MODEL, MODEL, *ADAPTERS)))


def not_told(lab, writer):
    prompts = [writer.ids(4 * BLOCK + 1) for _ in range(3)]
    several, likelihood = {"prompt": prompts, "max_tokens": 1}, {"prompt": prompts[0], "max_tokens": 1, "echo": True, "logprobs": 1}
    lab.one_by_one([("/v1/completions", several), ("/v1/completions", likelihood)] * 3, told=False)


def a_cache_emptied(lab, writer):
    lab.client.post(f"{lab.engines[0].url}/reset_prefix_cache").raise_for_status()
    lab.one_by_one([lab.last["default/vllm-rank-0"], *writer.about_documents(40)])


def a_server_killed(lab, writer):
    """Requests go to the other one while it starts again."""
    restarts = "llmd_kv_event_publisher_restarts_total"
    before = lab.router.value(restarts)
    lab.engines[0].kill()
    lab.engines[0].start()
    lab.one_by_one(writer.about_documents(30))
    process.eventually("the server is back", lab.engines[0].ready, seconds=600, interval=0.5)
    process.eventually("the router knows that it began anew", lambda: lab.router.value(restarts) > before)


def after_it_is_back(lab, writer):
    lab.one_by_one(writer.about_documents(60, (MODEL, MODEL, *ADAPTERS)))


def router_restarted(lab, writer):
    """It learns from the servers' replays what they hold."""
    lab.start_router()
    lab.one_by_one(writer.about_documents(40, (MODEL, MODEL, *ADAPTERS)))


PHASES = (shared_prefixes, conversations, messages_api, ends_of_blocks, adapters, salts, not_told, evictions, clients_at_once, a_cache_emptied,
          a_server_killed, after_it_is_back, router_restarted)


# How many answers, from the first on, may differ: see ALLOWED.
MAY_DIFFER = {not_told: math.inf, clients_at_once: math.inf, a_cache_emptied: 1}


def row(name, outcomes):
    total = {field: sum(getattr(o, field) for o in outcomes) for field in ("tokens", "promised", "last", "reported", "over", "under")}
    exact = sum(not o.over and not o.under for o in outcomes)
    return f"| {name} | {len(outcomes)} | {' | '.join(str(total[f]) for f in total)} | {total['reported'] / total['tokens']:.1%} | {exact / len(outcomes):.1%} |"


def run(lab, writer):
    """Prints the table; returns what must not be."""
    print("| phase | requests | prompt tokens | promised | last block | reported | over | under | hit rate | exact |\n|---|---|---|---|---|---|---|---|---|---|", flush=True)
    faults = []
    for phase in PHASES:
        begin = len(lab.outcomes)
        phase(lab, writer)
        outcomes, name = lab.outcomes[begin:], phase.__name__.replace("_", " ")
        print(row(name, outcomes), flush=True)
        faults += [f"{name}: {o}" for i, o in enumerate(outcomes) if (o.over or o.under) and i >= MAY_DIFFER.get(phase, 0)]
        if phase is clients_at_once:
            most = CONCURRENT_MAX * sum(o.tokens for o in outcomes)
            faults += [f"{name}: more than {most:.0f} tokens are {field}" for field in ("over", "under") if sum(getattr(o, field) for o in outcomes) > most]
    lab.check_account()
    print(row("all", [outcome for outcome in lab.outcomes if outcome.told]), flush=True)
    return faults


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--port", type=int, help="the first of eight ports that are used; free ones by default")
    parser.add_argument("--logs", type=pathlib.Path, help="an empty folder for model, configuration and logs; they are not kept by default")
    args = parser.parse_args()
    with contextlib.ExitStack() as stack:
        folder = args.logs.resolve() if args.logs else pathlib.Path(stack.enter_context(tempfile.TemporaryDirectory()))
        folder.mkdir(parents=True, exist_ok=True)
        lab = Lab(folder, args.port)
        stack.callback(lab.close)
        lab.start()
        faults = run(lab, Writer())
    print(f"\nMay differ:{ALLOWED}")
    for fault in faults:
        print("NOT AS PROMISED", fault)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
