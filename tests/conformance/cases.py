"""cases.py SEED COUNT > cases.json: random fleets, configurations and scripts for scorediff.py.

A case is what README.md describes, its prompts are written as in texts.py. Kept out is what the reference answers by chance (equal
scores in a profile whose scores are not shown), by the clock, or otherwise than it should (README.md)."""

import base64
import json
import random
import sys
import zlib

from flattenings import FLATTENED

rng = random.Random(int(sys.argv[1]) if __name__ == "__main__" else 0)


def fresh():
    return rng.randrange(1, 2**31)


def text(length, seed=None):
    return f"@{{{fresh() if seed is None else seed}:{length}}}"


# --- fleets

def gauges(*values):
    return "".join(f"# TYPE {name.split('{')[0]} gauge\n{name} {value}\n" for name, value in values)


def vllm_page(run, wait, kv, block=16, blocks=4096, lora=None):
    tags = '{engine="0",model_name="m"}'
    page = gauges((f"vllm:num_requests_running{tags}", run), (f"vllm:num_requests_waiting{tags}", wait),
                  (f"vllm:kv_cache_usage_perc{tags}", kv),
                  (f'vllm:cache_config_info{{block_size="{block}",num_gpu_blocks="{blocks}"}}', 1))
    if lora:
        most, running, waiting = lora
        page += gauges((f'vllm:lora_requests_info{{max_lora="{most}",running_lora_adapters="{running}",'
                        f'waiting_lora_adapters="{waiting}"}}', 1795956394))
    return page


def sglang_page(run, wait, kv, block=16, blocks=4096, **_):
    return gauges(("sglang:num_running_reqs", run), ("sglang:num_queue_reqs", wait), ("sglang:token_usage", kv),
                  (f'sglang:cache_config_info{{page_size="{block}",num_pages="{blocks}"}}', 1))


def trtllm_page(run, wait, kv, block=16, blocks=4096, **_):
    return gauges(("trtllm_num_requests_running", run), ("trtllm_num_requests_waiting", wait), ("trtllm_kv_cache_utilization", kv),
                  ("trtllm_kv_cache_tokens_per_block", block), ("trtllm_kv_cache_max_blocks", blocks))


PAGES = {"vllm": vllm_page, "sglang": sglang_page, "trtllm-serve": trtllm_page}


def adapters(i):
    return (rng.randint(1, 3), ",".join(rng.sample("abc", rng.randint(0, 2))), ",".join(rng.sample("ad", rng.randint(0, 1))))


def fleet(count, labels=lambda i: {}, lora=None, engine=lambda i: "vllm", **page):
    waits = rng.sample(range(20), count)  # all different: a picker that goes by queues has one answer
    return [{"labels": labels(i), "metrics": PAGES[engine(i)](rng.randint(0, 30), waits[i], round(rng.random() * .7, 3),
                                                              lora=lora(i) if lora else None, **page)} for i in range(count)]


def some():
    return rng.randint(3, 6)


# --- configurations

def ref(of):
    name, weight = of if isinstance(of, tuple) else (of, None)
    return f"{{pluginRef: {name}{'' if weight is None else f', weight: {weight}'}}}"


def config(plugins, *profiles):
    """`plugins`: a type, (type, parameters) or (type, parameters, name). A profile: (name, references)."""
    lines = []
    for of in plugins:
        kind, parameters, name = (*((of,) if isinstance(of, str) else of), None, None)[:3]
        lines.append(f"- {{type: {kind}{f', name: {name}' if name else ''}"
                     f"{f', parameters: {json.dumps(parameters)}' if parameters is not None else ''}}}")
    lines.append("schedulingProfiles:")
    for name, references in profiles:
        lines += [f"- name: {name}", "  plugins:", *(f"  - {ref(r)}" for r in references)]
    return "\n".join(lines) + "\n"


TIES = ("queue-scorer", .0371)  # all queues differ, so with it one endpoint is best


def scored(*scorers, plugins=(), picker="max-score-picker"):
    """One profile of these scorers: a type, or (type, weight) or (type, weight, parameters)."""
    whole = [(s, None, None) if isinstance(s, str) else (*s, None)[:3] for s in scorers]
    kind = picker if isinstance(picker, str) else picker[0]
    return config([*plugins, *((t, p) for t, _, p in whole), picker], ("default", [*((t, w) for t, w, _ in whole), kind]))


# --- requests

def completion(prompt, model="m", **more):
    return json.dumps({"model": model, "prompt": prompt, "max_tokens": rng.choice([16, 100, 500]), **more})


def chat(messages, model="m", **more):
    return json.dumps({"model": model, "messages": messages, **more})


def ids(of):
    """A prompt of token ids."""
    return of.replace('"@[', "[@[").replace(']"', "]]")


def step(op, body, path=None, **more):
    return {"op": op, "body": body, **({"path": path} if path else {}), **more}


def probe(length=None, **more):
    return step("probe", completion(text(length or rng.randint(10, 3000))), **more)


def with_header(name, value):
    return {"headers": [[name, value]]}


CHAT, MESSAGES = "/v1/chat/completions", "/v1/messages"


def families(count, how=None, number=5, homes=3, **more):
    """Prompts sent to known endpoints, `homes` at most, then asked for: longer, shorter, and with another end."""
    steps = []
    for _ in range(number):
        length, seed = rng.choice([120, 500, 1500, 4000, 9000]), fresh()
        kind = how or rng.choice(["text", "chat", "salt", "ids", "list", "embeddings", "responses", "messages"])

        def body(cut):
            start, end = text(cut, seed), text(60)
            if kind == "text":
                return completion(start + end), None
            if kind == "salt":
                return completion(start + end, cache_salt=f"s{seed}"), None
            if kind == "ids":
                return ids(completion(f"@[{seed}:{cut}]")), None
            if kind == "list":
                return completion([start, end]), None
            if kind == "embeddings":
                return json.dumps({"model": "m", "input": start}), "/v1/embeddings"
            if kind == "responses":
                return json.dumps({"model": "m", "instructions": start, "input": end}), "/v1/responses"
            if kind == "messages":
                return json.dumps({"model": "m", "max_tokens": 5, "system": start,
                                   "messages": [{"role": "user", "content": end}]}), MESSAGES
            return chat([{"role": "system", "content": start}, {"role": "user", "content": end}]), CHAT

        for endpoint in rng.sample(range(count), rng.randint(1, min(homes, count))):
            steps.append(step("train", *body(rng.randint(length // 3, length)), ep=endpoint, **more))
        steps += [step("probe", *body(length), **more), step("probe", *body(rng.randint(40, length)), **more)]
    return steps


def in_flight(count, rounds=3):
    """Requests left open, asked in between, closed one by one."""
    steps, open_ids = [], []
    for i in range(rounds):
        for _ in range(rng.randint(1, 4)):
            open_ids.append(f"o{i}-{len(open_ids)}")
            steps.append(step("open", completion(text(rng.randint(100, 8000))), ep=rng.randrange(count), id=open_ids[-1]))
        steps.append(probe(800))
        for _ in range(rng.randint(0, 2)):
            steps.append({"op": "close", "id": open_ids.pop(rng.randrange(len(open_ids)))} if open_ids else probe(40))
        steps += [{"op": "sleep", "ms": 100}, probe()]
    return steps


def conversation(count, turns=6):
    """A chat that grows, each turn sent somewhere and the next one asked for."""
    system, messages, steps = rng.choice([200, 3000]), [], []
    messages.append({"role": "system", "content": text(system)})
    more = rng.choice([{}, {"cache_salt": "z"}, {"tools": [{"type": "function", "function": {
        "name": "f", "description": text(300), "parameters": {"type": "object", "properties": {"x": {"type": "string"}}}}}]}])
    for _ in range(turns):
        messages.append({"role": "user", "content": text(rng.choice([100, 900]))})
        steps.append(step("probe", chat(messages, **more), CHAT))
        if rng.random() < .7:
            steps.append(step("train", chat(messages, **more), CHAT, ep=rng.randrange(count)))
        messages.append({"role": "assistant", "content": text(rng.choice([100, 600]))})
    return steps


# --- kinds of cases: (configuration, fleet, steps)

def metrics_scorers():
    k, scorers = some(), ["queue-scorer", "kv-cache-utilization-scorer", "running-requests-size-scorer",
                          ("load-aware-scorer", {"threshold": rng.choice([5, 10, 100])})]
    chosen = rng.sample(scorers, rng.randint(1, 4))
    weighed = [(s, round(rng.uniform(.1, 4), 2)) if isinstance(s, str) else (s[0], round(rng.uniform(.1, 4), 2), s[1]) for s in chosen]
    engines = rng.choice([["vllm"], ["sglang", "vllm"], ["trtllm-serve", "sglang", "vllm"]])
    return (scored(*weighed), fleet(k, lambda i: {"llm-d.ai/engine-type": engines[i % len(engines)]}, engine=lambda i: engines[i % len(engines)]),
            [probe() for _ in range(3)] + [probe(subset=rng.sample(range(k), 2)) for _ in range(2)])


def lora_mixes():
    k = some()
    scorers = [("lora-affinity-scorer", 2), *rng.sample([("queue-scorer", 1), ("prefix-cache-scorer", 1.5), ("kv-cache-utilization-scorer", .5)], 2)]
    steps = [step("train", completion(text(900, 7), model=m), ep=rng.randrange(k)) for m in "ab"]
    return scored(*scorers), fleet(k, lora=adapters), steps + [step("probe", completion(text(900, 7), model=m)) for m in "abcdm"]


def renamed_models():
    k, name = some(), rng.choice(["x-llm-d-model-name-rewrite", "x-gateway-model-name-rewrite"])
    steps = [step("train", completion(text(700, 7), model="a"), ep=1)]
    steps += [step("probe", completion(text(700, 7), model=m), **with_header(name, to)) for m in "mab" for to in "ac"]
    return scored("lora-affinity-scorer", "prefix-cache-scorer", TIES), fleet(k, lora=adapters), steps


def prefixes():
    k = some()
    weight = rng.choice([{}, {"matchLengthWeight": rng.choice([.25, .5, 1.0]), "matchLengthScaleTokens": rng.choice([512, 2048, 8192])}])
    producer = rng.choice([[], [("approx-prefix-cache-producer", {
        "autoTune": False, "blockSizeTokens": rng.choice([16, 64, 128, 256]), "maxPrefixTokensToMatch": rng.choice([0, 512, 8192]),
        "lruCapacityPerServer": 4096})]])
    return (scored(("prefix-cache-scorer", 1, weight), TIES, plugins=producer),
            fleet(k, block=rng.choice([1, 16, 32, 64, 128, 256]), blocks=100000), families(k))


def prefix_chains():
    k = some()
    return (scored(("prefix-cache-scorer", 3), ("queue-scorer", 2), ("kv-cache-utilization-scorer", 2)), fleet(k),
            conversation(k) + conversation(k))


def flattened():
    k = 3
    path, first = rng.choice(FLATTENED)
    ascii_only = rng.random() < .5

    def said(op, at, body, **more):
        return step(op, json.dumps({"model": "m"} | body, ensure_ascii=ascii_only), at, **more)

    steps = [said("train", path, first, ep=1), *(said("probe", p, b) for p, b in FLATTENED if p == path)]
    return (scored(("prefix-cache-scorer", 2), ("context-length-aware", 3, {"label": "range"}), TIES),
            fleet(k, lambda i: {"range": "0-100000"}), steps + [said("probe", *rng.choice(FLATTENED)) for _ in range(3)])


def tool_conversations():
    k = some()
    call = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": "{\"x\": \"" + text(40) + "\"}"}}
    base = [{"role": "user", "content": text(500)}, {"role": "assistant", "content": None, "tool_calls": [call]},
            {"role": "tool", "tool_call_id": "c1", "content": text(300)}]
    anthropic = {"model": "m", "max_tokens": 9, "system": [{"type": "text", "text": text(400)}], "messages": [
        {"role": "user", "content": [{"type": "text", "text": text(300)}]},
        {"role": "assistant", "content": [{"type": "thinking", "thinking": text(80), "signature": "s"},
                                          {"type": "tool_use", "id": "t1", "name": "f", "input": {"b": [1, 2.50, "x"], "a": {"z": None}}}]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t1", "content": [{"type": "text", "text": text(200)}]}]}]}
    items = {"items": [{"type": "message", "role": "user", "content": text(700)}]}
    generate = ids(json.dumps({"model": "m", "token_ids": "@[9:900]", "sampling_params": {"max_tokens": 4}}))
    asked = [(chat(base), CHAT), (chat(base[:1]), CHAT), (json.dumps(anthropic), MESSAGES), (generate, "/inference/v1/generate"),
             (json.dumps(anthropic | {"tools": [{"name": "f", "description": "d <&>", "input_schema": {"type": "object"}}]}), MESSAGES),
             (json.dumps({"model": "m", **items}), "/v1/conversations"),
             (json.dumps({"model": "m", "input": [{"role": "user", "content": text(500)}], "tools": [{"type": "web_search"}]}), "/v1/responses")]
    steps = []
    for body, path in asked:
        steps += [step("train", body, path, ep=rng.randrange(k)), step("probe", body, path)]
    return scored("prefix-cache-scorer", TIES), fleet(k), steps


def no_hits():
    """Every endpoint has been used before: those that were not are ranked by chance."""
    k = some()
    steps = [step("train", completion(text(900)), ep=e) for e in rng.sample(range(k), k)] + [probe(900) for _ in range(k)]
    return scored(("prefix-cache-scorer", 2), "no-hit-lru-scorer", TIES), fleet(k), steps + families(k, "text", 3) + [probe(900) for _ in range(3)]


def active_requests():
    k, parameters = some(), rng.choice([{}, {"idleThreshold": 1, "maxBusyScore": .5}, {"idleThreshold": 2}])
    return scored(("active-request-scorer", 1, parameters), TIES), fleet(k), in_flight(k, 4)


def token_load():
    k = some()
    producer = ("inflight-load-producer", rng.choice([
        {}, {"addEstimatedOutputTokens": True}, {"addEstimatedOutputTokens": True, "outputRatio": .5, "maxEstimatedOutputTokens": 300}]))
    return (scored(("token-load-scorer", 2, {"queueThresholdTokens": rng.choice([4096, 65536])}), TIES, plugins=[producer]), fleet(k),
            in_flight(k))


def context_lengths():
    k, filters = 6, rng.random() < .5
    ranges = ["0-2048", "2048-8192", " 0 - 8192", "100-100", "x", None]
    if filters:
        ranges[0] = "0-100000"
    plugins = [("context-length-aware", {"label": "range", "enableFiltering": filters}), "queue-scorer", "max-score-picker"]
    return (config(plugins, ("default", ["context-length-aware", ("queue-scorer", .3), "max-score-picker"])),
            fleet(k, lambda i: {"range": ranges[i]} if ranges[i] else {}), [probe(n) for n in (4, 400, 8192, 8193, 20000, 33000)])


def role_filters():
    roles = ["decode", "prefill", "prefill-decode", "both", "encode", "encode-prefill-decode", "encode-prefill"]
    kind = rng.choice(["decode-filter", "prefill-filter", "encode-filter"])
    return (config([kind, "queue-scorer", "max-score-picker"], ("default", [kind, "queue-scorer", "max-score-picker"])),
            fleet(8, lambda i: {"llm-d.ai/role": roles[i]} if i < 7 else {}), [probe() for _ in range(2)])


def label_filters():
    kind, parameters = rng.choice([
        ("label-selector-filter", {"matchLabels": {"tier": "gold"}}),
        ("label-selector-filter", {"matchExpressions": [{"key": "tier", "operator": "In", "values": ["gold", "tin"]}]}),
        ("label-selector-filter", {"matchExpressions": [{"key": "tier", "operator": "NotIn", "values": ["gold"]}]}),
        ("label-selector-filter", {"matchExpressions": [{"key": "tier", "operator": "DoesNotExist"}]}),
        ("label-selector-filter", {"matchExpressions": [{"key": "tier", "operator": "Exists"}], "matchLabels": {"a": "1"}}),
        ("label-selector-filter", {}),
        ("by-label-selector", {"matchLabels": {"a": "1"}}),
        ("by-label", {"label": "tier", "validValues": ["gold", "tin"]}),
        ("by-label", {"label": "tier", "validValues": ["gold"], "allowsNoLabel": True}),
        ("label-selector-filter", {"matchLabels": {"tier": "silver"}})])
    tiers = ["gold", "tin", "iron", None]
    return (config([(kind, parameters), "queue-scorer", "max-score-picker"], ("default", [kind, "queue-scorer", "max-score-picker"])),
            fleet(6, lambda i: ({"tier": tiers[i % 4]} if tiers[i % 4] else {}) | ({"a": "1"} if i < 3 else {})), [probe(), probe(subset=[0, 3])])


def utilization_filters():
    k = 6
    conditions = rng.sample([{"metric": "waiting-queue", "maxValue": 9}, {"metric": "kv-cache-utilization", "maxValue": .4},
                             {"metric": "running-requests", "maxValue": 14}, {"metric": "active-requests", "maxValue": 1}], 2)
    kind = ("utilization-filter", {"conditions": conditions, "fallbackOnEmpty": rng.random() < .5})
    return (config([kind, "queue-scorer", "max-score-picker"], ("default", [kind[0], "queue-scorer", "max-score-picker"])),
            fleet(k), in_flight(k, 2))


def attributes():
    k = some()
    name = rng.choice(["KVCacheUsagePercent", "WaitingQueueSize", "RunningRequestsSize", "free_slots"])
    # Built-in attributes are declarations only: their values cannot be read by name. Custom ones can.
    extractor = ("core-metrics-extractor", {"engineConfigs": [{
        "name": "vllm", "queuedRequestsSpec": "vllm:num_requests_waiting", "runningRequestsSpec": "vllm:num_requests_running",
        "kvUsageSpec": "vllm:kv_cache_usage_perc", "customMetrics": [{"attributeKey": "free_slots", "metricSpec": "free_slots"}]}]})
    normal = rng.choice([{}, {"normalization": {"fixedRange": {"min": 0, "max": 40}}}, {"normalization": {"adaptiveRange": {}}}])
    scorer = ("endpoint-attribute-scorer", {"attributeKey": name, "algorithm": {
        "type": rng.choice(["linear_lower_is_better", "linear_higher_is_better"]), **normal}})
    filter_ = ("endpoint-attribute-filter", {
        "attribute": name, "onMissing": rng.choice(["Pass", "Fail"]), "fallbackOnEmpty": rng.random() < .5, "algorithm": {
            "type": "threshold", "threshold": {"operator": rng.choice(["LessThan", "LessThanOrEqual", "GreaterThan", "GreaterThanOrEqual",
                                                                       "Equal", "NotEqual"]), "value": rng.choice([7, 20])}}})
    endpoints = fleet(k)
    for endpoint in endpoints[1:]:
        endpoint["metrics"] += gauges(("free_slots", rng.choice([0, 7, 20, 31, 55.5])))
    return (config([extractor, scorer, filter_, "queue-scorer", "max-score-picker"],
                   ("default", [filter_[0], (scorer[0], 2), ("queue-scorer", .1), "max-score-picker"])), endpoints, [probe() for _ in range(2)])


def header_labels():
    k = some()
    return (scored(("header-label-affinity-scorer", 2, {"headerName": "X-Tier", "labelKey": "tier"}), "queue-scorer"),
            fleet(k, lambda i: {"tier": ["gold", "Gold", ""][i % 3]} if i < 4 else {}),
            [probe(**with_header("x-tier", v)) for v in ("gold", "Gold", " gold ", "")] + [probe()])


def token_of(i, namespace="default"):
    return base64.b64encode(f"{namespace}/e{i}".encode()).decode()


def session_tokens():
    k, kind = some(), rng.choice(["session-affinity-scorer", "session-affinity-filter"])
    header = rng.choice([None, "X-My-Session"])
    parameters = {"encodedEndpointHeaderConfig": {"header": header}} if header else {}
    name = (header or "x-session-token").lower()
    values = [token_of(rng.randrange(k)) for _ in range(2)] + [token_of(9), token_of(1, "other"), "?", "", token_of(0) + "=", token_of(0).rstrip("=")]
    plugins = [(kind, parameters), "queue-scorer", "max-score-picker"]
    return (config(plugins, ("default", [(kind, 3) if kind.endswith("scorer") else kind, "queue-scorer", "max-score-picker"])), fleet(k),
            [probe(**with_header(name, v)) for v in values] + [probe()])


def session_ids():
    k, kind = some(), rng.choice(["session-affinity-scorer", "session-affinity-filter"])
    how = rng.choice(["header", "named", "producer", "cookie", "agent"])
    sources = {"header": None, "named": [{"header": "X-Other"}, {"header": "x-chat"}],
               "producer": [{"attribute": "SessionIDDataKey", "producer": "session-id-producer"}],
               "cookie": [{"attribute": "SessionIDDataKey", "producer": "session-id-producer"}],
               "agent": [{"attribute": "agent-identity", "producer": ""}]}[how]
    extra = {"producer": [("session-id-producer", {"headerName": "X-Chat"})], "cookie": [("session-id-producer", {"cookieName": "chat"})],
             "agent": [("agent-identity", {"additionalSessionHeaders": ["x-chat"]})]}.get(how, [])

    def said(session):
        name = {"header": "x-session-id", "named": "x-chat", "producer": "x-chat", "cookie": "cookie",
                "agent": rng.choice(["x-chat", "session-id", "x-claude-code-session-id"])}[how]
        return with_header(name, f"a=b; chat={session}; c=d" if how == "cookie" else session)

    steps = []
    for session in ("s1", "s2", " s3 "):
        home, other = rng.sample(range(k), 2)
        steps += [probe(**said(session)) for _ in range(rng.randint(0, 1))]
        steps += [step("train", completion(text(90)), ep=home, **said(session)), probe(**said(session)), probe(**said(session)),
                  step("train", completion(text(90)), ep=other, **said(session)), probe(**said(session))]
    plugins = [*extra, (kind, {"strategy": "session_id", **({"sessionIdConfig": {"sources": sources}} if sources else {})}), "queue-scorer",
               "max-score-picker"]
    return (config(plugins, ("default", [(kind, 3) if kind.endswith("scorer") else kind, "queue-scorer", "max-score-picker"])), fleet(k),
            steps + [probe()])


def header_profiles():
    k = some()
    plugins = [("header-profile-handler", rng.choice([{}, {"headerName": "X-Profile", "defaultProfile": "prefill"}])), "queue-scorer",
               "kv-cache-utilization-scorer", "decode-filter", "prefill-filter", "max-score-picker"]
    named = [probe(**with_header(name, v)) for name in ("epp-profile", "x-profile") for v in ("decode", "prefill", " decode ", "none", "")]
    return (config(plugins, ("decode", ["decode-filter", "queue-scorer", "max-score-picker"]),
                   ("prefill", ["prefill-filter", ("kv-cache-utilization-scorer", 2), "max-score-picker"])),
            fleet(k, lambda i: {"llm-d.ai/role": ["decode", "prefill", "both"][i % 3]}), named + [probe()])


ROLES = ["decode", "prefill", "decode", "prefill", "prefill", "both", "encode", "encode"]
PLACES = ("kubernetes.io/hostname", "topology.kubernetes.io/rack", "topology.kubernetes.io/zone", "topology.kubernetes.io/region")


def place(i):
    return dict(zip(PLACES, (f"h{i // 2}", f"r{i // 3}", f"z{i % 2}", "eu")))


def disaggregated(topology=False):
    """Prefill and decode on endpoints of their own; shown are the scores of decode, and who prefills."""
    first = rng.choice(["prefill-first", "decode-first"])
    decider = rng.choice([None, "always-disagg-pd-decider", ("prefix-based-pd-decider", {"nonCachedTokens": rng.choice([16, 256]),
                                                                                         "promptTokens": rng.choice([0, 512])})])
    if first == "prefill-first":
        decider = None
    name = decider if decider is None or isinstance(decider, str) else decider[0]
    handler = ("disagg-profile-handler", {"stageOrder": first, **({"deciders": {"prefill": name}} if name else {})})
    scorers = [("queue-scorer", 1), ("prefix-cache-scorer", rng.choice([.5, 2]))]
    place_plugins, place_refs = [], []
    if topology:
        kind = rng.choice(["topology-affinity-scorer", ("topology-affinity-filter", {"minAffinity": rng.choice(["host", "rack", "zone", "region"])})])
        place_plugins, place_refs = ["topology-extractor", kind], [(kind, 2) if isinstance(kind, str) else kind[0]]
    plugins = ([decider] if decider else []) + [handler, "prefill-filter", "decode-filter", "queue-scorer", "prefix-cache-scorer", *place_plugins,
                                               "max-score-picker"]
    later = "decode" if first == "prefill-first" else "prefill"
    profiles = [(p, [f"{p}-filter", *(place_refs if p == later else []), *scorers, "max-score-picker"]) for p in ("prefill", "decode")]
    endpoints = fleet(8, lambda i: {"llm-d.ai/role": ROLES[i]} | (place(i) if topology else {}))
    steps = [step("train", completion(text(2000, 5)), subset=[0, 1]), step("train", completion(text(3000, 6)), subset=[2, 3])]
    steps += [step("probe", completion(text(n, seed) + text(50))) for seed in (5, 6, 8) for n in (60, 900, 2500)]
    return config(plugins, *profiles), endpoints, steps + [probe(1000, subset=[0, 2]), probe(1000, subset=[1, 3])]


def placed():
    return disaggregated(topology=True)


def legacy_disaggregated():
    decider = rng.choice(["always-disagg-pd-decider", ("prefix-based-pd-decider", {"nonCachedTokens": 256})])
    name = decider if isinstance(decider, str) else decider[0]
    port = rng.choice([0, 8000])
    handler = ("pd-profile-handler", {"deciderPluginName": name, "primaryPort": port})
    plugins = [decider, handler, "disagg-headers-handler", "prefill-filter", "decode-filter", "queue-scorer", "max-score-picker"]
    return (config(plugins, *((p, [f"{p}-filter", "queue-scorer", "max-score-picker"]) for p in ("prefill", "decode"))),
            fleet(6, lambda i: {"llm-d.ai/role": ROLES[i]}), [probe(n) for n in (100, 900, 3000)])


def data_parallel():
    k = some()
    return (config([("data-parallel-profile-handler", {"primaryPort": rng.choice([8000, 9200])}), "queue-scorer", "max-score-picker"],
                   ("default", ["queue-scorer", "max-score-picker"])), fleet(k), [probe() for _ in range(2)])


def image(i, size=None):
    if size is None:
        return {"type": "image_url", "image_url": {"url": f"https://example.com/{i}.png"}}
    head = b"IHDR" + size[0].to_bytes(4, "big") + size[1].to_bytes(4, "big") + b"\x08\x02\0\0\0"
    png = b"\x89PNG\r\n\x1a\n\0\0\0\r" + head + zlib.crc32(head).to_bytes(4, "big") + bytes([i])
    return {"type": "image_url", "image_url": {"url": "data:image/png;base64," + base64.b64encode(png).decode()}}


def said_with(*parts):
    return chat([{"role": "system", "content": "You see."}, {"role": "user", "content": [{"type": "text", "text": text(200, 3)}, *parts]}])


def media():
    parts = [image(1), image(2), image(3, (1024, 768)), image(4, (20, 20)), {"type": "video_url", "video_url": {"url": "https://example.com/v.mp4"}},
             {"type": "input_audio", "input_audio": {"data": text(400, 4), "format": "wav"}}]
    return rng.sample(parts, rng.randint(1, 4))


def pictures():
    k = some()
    sets = [media() for _ in range(4)]
    steps = [step("train", said_with(*parts), CHAT, ep=rng.randrange(k)) for parts in sets]
    for parts in sets:
        steps += [step("probe", said_with(*parts), CHAT), step("probe", said_with(*parts[:1], image(9)), CHAT)]
    return (scored(("mm-embeddings-cache-scorer", 2), "prefix-cache-scorer", TIES), fleet(k), steps + [probe()])


def video_sizes():
    k = some()
    part = {"type": "video_url", "video_url": {"url": "https://example.com/v.mp4"}}
    sizes = [{}, {"x-llm-d-video-duration-seconds": "3"}, {"x-llm-d-video-duration-seconds": "30", "x-llm-d-video-fps": "8"},
             {"x-llm-d-video-resolution": "1280x720"}, {"x-llm-d-video-resolution": "x", "x-llm-d-video-fps": "-1"}]
    steps = [step("train", said_with(part), CHAT, ep=1)]
    steps += [step("probe", said_with(part), CHAT, headers=[list(h) for h in size.items()]) for size in sizes]
    return scored("prefix-cache-scorer", ("context-length-aware", 1, {"label": "range"}), TIES), fleet(
        k, lambda i: {"range": ["0-2000", "2000-9000", "9000-90000"][i % 3]}), steps


def encoded():
    plugins = ["always-disagg-multimodal-decider", ("disagg-profile-handler", {"deciders": {"encode": "always-disagg-multimodal-decider"}}),
               "encode-filter", "decode-filter", "queue-scorer", "max-score-picker"]
    return (config(plugins, ("encode", ["encode-filter", "queue-scorer", "max-score-picker"]), ("decode", ["decode-filter", "queue-scorer", "max-score-picker"])),
            fleet(8, lambda i: {"llm-d.ai/role": ROLES[i]}), [step("probe", said_with(*media()), CHAT), probe(), step("probe", said_with(image(1)), CHAT)])


def affinity_filters():
    k = some()
    filter_ = ("prefix-cache-affinity-filter", {
        "affinityThreshold": rng.choice([.3, .5, .8]), "explorationProbability": 0, "maxTTFTPenaltyMs": rng.choice([0, 5, 100, 18000]),
        "peakPrefillThroughput": rng.choice([1000, 15928])})
    return (config(["prefix-cache-scorer", filter_, "queue-scorer", "max-score-picker"],
                   ("default", [filter_[0], "queue-scorer", ("prefix-cache-scorer", 2), "max-score-picker"])),
            fleet(k), families(k, "text", 3) + in_flight(k, 1) + families(k, "text", 2))


def bursts():
    """Requests of one window: groups of one prompt, and prompts that share their beginning."""
    k, name = rng.randint(2, 5), "burst-prefix-cache-producer"
    parameters = {"windowDurationMs": 300, "maxPerReplica": rng.choice([-1, 1, 2, 3]), "minColocateBlocks": rng.choice([0, 2, 3]),
                  "balanceBy": rng.choice(["requests", "tokens"])}
    steps = []
    for _ in range(4):
        members = []
        for seed in [fresh() for _ in range(rng.randint(1, 3))]:
            for size in rng.sample([400, 900, 1300, 1700, 2200, 3000, 5000], rng.randint(1, 3)):
                members += [step("probe", completion(text(size, seed)))] * rng.choice([1, 1, 2, 3, 4])
        steps.append({"op": "together", "requests": members})
    return (scored(("prefix-cache-scorer", 1, {"prefixMatchInfoProducerName": name}), TIES, plugins=[(name, parameters)]), fleet(k),
            steps + [probe(700)])


def pulls():
    """Who may give its cache away: the header x-kv-cache-source-host-port. One at most: of several one is drawn."""
    k = some()
    parameters = {"minCachedTokenDelta": rng.choice([1, 128, 1000]), "prefixMatchInfoProducerName": "approx-prefix-cache-producer"}
    return (scored("queue-scorer", plugins=["approx-prefix-cache-producer", ("p2p-source-producer", parameters)]), fleet(k),
            families(k, "text", homes=1))


def latencies():
    """No predictor answers: the composite of what is known otherwise."""
    k = some()
    parameters = rng.choice([{}, {"compositeKVWeight": 2, "compositeQueueWeight": .5, "compositePrefixWeight": 3}, {"compositeKVWeight": 0, "compositeQueueWeight": 0,
                                                                                                             "compositePrefixWeight": 0}])
    plugins = ["predicted-latency-producer", ("latency-scorer", parameters), "slo-headroom-tier-filter", "queue-scorer", "max-score-picker"]
    return (config(plugins, ("default", ["slo-headroom-tier-filter", "latency-scorer", TIES, "max-score-picker"])), fleet(k),
            families(k, "text", 3))


def multicluster():
    k, name = some(), "multicluster-approx-prefix-cache-producer"
    return (scored(("multicluster-prefix-cache-scorer", 1, {"prefixMatchInfoProducerName": name, "matchLengthWeight": .25}), TIES, plugins=[name]),
            fleet(k), families(k))


def several_targets():
    k = some()
    return (scored(("queue-scorer", 2), "kv-cache-utilization-scorer", picker=("max-score-picker", {"maxNumOfEndpoints": rng.choice([2, 3, 9])})),
            fleet(k), [probe() for _ in range(3)])


def everything():
    k = some()
    names = ["queue-scorer", "kv-cache-utilization-scorer", "running-requests-size-scorer", "prefix-cache-scorer", "active-request-scorer",
             "load-aware-scorer", "lora-affinity-scorer"]
    return scored(*((n, round(rng.uniform(.1, 4), 2)) for n in names)), fleet(k, lora=adapters), families(k, None, 3) + in_flight(k, 1)


KINDS = [metrics_scorers, lora_mixes, renamed_models, prefixes, prefix_chains, flattened, tool_conversations, no_hits, active_requests,
         token_load, context_lengths, flattened, role_filters, label_filters, utilization_filters, attributes, header_labels, session_tokens,
         session_ids, header_profiles, flattened, disaggregated, placed, legacy_disaggregated, data_parallel, pictures, video_sizes, encoded,
         affinity_filters, flattened, bursts, pulls, latencies, multicluster, several_targets, everything]

if __name__ == "__main__":
    cases = []
    for i in range(int(sys.argv[2])):
        kind = KINDS[i % len(KINDS)]
        plugins, endpoints, steps = kind()
        cases.append({"name": f"{kind.__name__}-{i}", "plugins": plugins, "endpoints": endpoints, "steps": steps})
    json.dump(cases, sys.stdout, ensure_ascii=False)
