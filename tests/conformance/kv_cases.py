"""kv_cases.py SEED COUNT > cases.json: random KV events and prompts for the precise prefix cache, for scorediff.py.

Prompts are written as in texts.py; kept out is what README.md lists under "Where we differ on purpose"."""

import itertools
import json
import random
import sys

import msgpack

from cases import CHAT, TIES, chat, config, fleet, ids
from texts import rendered, text_of

rng = random.Random(int(sys.argv[1]) if __name__ == "__main__" else 0)

STORED = ["block_hashes", "parent_block_hash", "token_ids", "block_size", "lora_id", "medium", "lora_name", "extra_keys", "group_idx",
          "kv_cache_spec_kind", "kv_cache_spec_sliding_window"]
REMOVED = ["block_hashes", "medium", "group_idx"]
NAMES = {"BlockStored": STORED, "BlockRemoved": REMOVED, "AllBlocksCleared": []}
CLEARED = ("AllBlocksCleared", {})
WAIT, WAIT_LONG = ({"op": "sleep", "ms": ms} for ms in (400, 1500))  # until events, or a fleet, are known
clock = itertools.count(1795956394)
IMAGES = [("kitten", 40), ("house", 100), ("river", 16), ("map", 230)]


def fresh():
    return rng.randrange(1, 2**31)


def some_hash():
    return rng.getrandbits(62) | (1 << 62)  # what the reference reads has 64 bits


# --- prompts

class Prompt:
    """Texts (seed, length) and images, in a request of one of the kinds `how`."""

    def __init__(self, *parts, how=None):
        self.parts, self.how = parts, how or rng.choice(["ids", "text", "chat"])

    def _content(self, text):
        """In parts, texts as `text(seed, length)`."""
        return [{"type": "text", "text": text(*p)} if isinstance(p[0], int) else image(*p) for p in self.parts]

    def _rendered(self):
        return rendered({"messages": [{"content": self._content(text_of)}]})

    def tokens(self):
        return self._rendered()["token_ids"]

    def images(self):
        """(hash, first token, end) of each."""
        features = self._rendered().get("features", {"mm_hashes": {"image": []}, "mm_placeholders": {"image": []}})
        return [(name, at["offset"], at["offset"] + at["length"])
                for name, at in zip(features["mm_hashes"]["image"], features["mm_placeholders"]["image"])]

    def longer(self, *parts):
        return Prompt(*self.parts, *parts, how=self.how)

    def probe(self, model="m", **more):
        if self.how == "ids":
            marks = ",".join(f"@[{seed}:{length}]" for seed, length in self.parts)
            return {"op": "probe", "body": ids(json.dumps({"model": model, "prompt": marks, **more}))}
        content = self._content(mark)
        if all("text" in part for part in content):
            content = "".join(part["text"] for part in content)
        if self.how == "text":
            return {"op": "probe", "body": json.dumps({"model": model, "prompt": content, **more})}
        return {"op": "probe", "path": CHAT, "body": chat([{"role": "user", "content": content}], model, **more)}


def mark(seed, length):
    return f"@{{{seed}:{length}}}"


def image(name, tokens):
    return {"type": "image_url", "image_url": {"url": f"https://example.com/{name}-{tokens}.png"}}


def some_prompt(block):
    return Prompt((fresh(), rng.choice([block * 3, block * 8, block * 20 + 7, 700])))


def asked(prompt, **more):
    """For the prompt, one that goes on, one that is cut, and one that shares some of it."""
    (seed, length), *_ = prompt.parts
    others = [prompt.longer((fresh(), 40)), Prompt((seed, rng.randint(1, length)), how=prompt.how),
              Prompt((seed, rng.randint(1, length)), (fresh(), 90), how=prompt.how)]
    return [p.probe(**more) for p in [prompt, *rng.sample(others, 2)]]


# --- engines

class Engine:
    """Says what is stored in and removed from a cache. `own`: on a socket of its own."""

    def __init__(self, ep, block, own=False, arrays=None, binary=None):
        self.ep, self.block, self.own = ep, block, own
        self.arrays = rng.random() < .5 if arrays is None else arrays
        self.binary = rng.random() < .3 if binary is None else binary

    def message(self, *events, model="m", pod=None, **more):
        topic = f"kv@{pod or f'127.0.1.{10 + self.ep}:9100'}@{model}"
        payload = msgpack.packb([next(clock) + .5, [self._event(*e) for e in events], 0]).hex()
        return {"op": "kv", "topic": topic, "payload": payload, **({"ep": self.ep} if self.own else {}), **more}

    def _hash(self, value):
        return bytes(24) + value.to_bytes(8, "big") if self.binary and value is not None else value

    def _event(self, kind, fields):
        fields = {k: [self._hash(h) for h in v] if k == "block_hashes" else self._hash(v) if k == "parent_block_hash" else v
                  for k, v in fields.items()}
        if not self.arrays:
            return {"type": kind, **fields}
        row = [fields.get(name) for name in NAMES[kind]]
        while row and row[-1] is None and len(row) > (4 if kind == "BlockStored" else 1):
            row.pop()
        return [kind, *row]


class Chain:
    """The blocks of a prompt in an engine's cache, `size` tokens of the prompt at most."""

    def __init__(self, engine, prompt, size=None, medium="GPU", lora=None, salt=None, group=None, hashes=None):
        self.engine, self.medium, self.lora, self.group, self.salt = engine, medium, lora, group, salt
        self.tokens, self.images = prompt.tokens(), prompt.images()
        count = min(len(self.tokens), size or len(self.tokens)) // engine.block
        first = some_hash()
        self.hashes = hashes[:count] if hashes else list(range(first, first + count))

    def _extras(self, i):
        start, end = i * self.engine.block, (i + 1) * self.engine.block
        names = [name for name, first, last in self.images if first < end and last > start]
        return [name if rng.random() < .8 else [name, 3] for name in names] + ([self.salt] if self.salt and i == 0 else []) or None

    def _scope(self):
        return {**({"medium": self.medium} if self.medium else {}), **({"group_idx": self.group[0]} if self.group else {})}

    def stored(self, first=0, end=None, **more):
        """One event of blocks [first, end)."""
        end, size = len(self.hashes) if end is None else end, self.engine.block
        extras = [self._extras(i) for i in range(first, end)]
        fields = {"block_hashes": self.hashes[first:end], "parent_block_hash": self.hashes[first - 1] if first else None,
                  "token_ids": self.tokens[first * size:end * size], "block_size": size, **self._scope(),
                  **({"lora_id": 1, "lora_name": self.lora} if self.lora else {}), **({"extra_keys": extras} if any(extras) else {}),
                  **({"kv_cache_spec_kind": self.group[1]} if self.group and self.group[1] else {}), **more}
        return "BlockStored", fields

    def pieces(self, most, multiple=1):
        """Events that store all of it, each but the last of a multiple of so many blocks."""
        whole = len(self.hashes) // multiple
        cuts = sorted({0, len(self.hashes), *(multiple * rng.randint(0, whole) for _ in range(rng.randint(0, most - 1)))})
        return [self.stored(a, b) for a, b in zip(cuts, cuts[1:])]

    def located(self, medium, first=0, end=None):
        """Says that blocks are also elsewhere, without their tokens."""
        return "BlockStored", {"block_hashes": self.hashes[first:end], "parent_block_hash": None, "token_ids": [], "block_size": 0,
                               "medium": medium}

    def removed(self, blocks, **more):
        return "BlockRemoved", {"block_hashes": [self.hashes[i] for i in blocks], **self._scope(), **more}

    def tail(self, most=None):
        """Events that remove its last blocks, from the end."""
        count = rng.randint(0, min(most or len(self.hashes), len(self.hashes)))
        blocks = range(len(self.hashes) - 1, len(self.hashes) - 1 - count, -1)
        return [self.removed(blocks)] if rng.random() < .5 else [self.removed([i]) for i in blocks]


def sent(engine, events, **more):
    """The events in some messages."""
    cuts = sorted({0, len(events), *(rng.randint(0, len(events)) for _ in range(2))})
    return [engine.message(*events[a:b], **more) for a, b in zip(cuts, cuts[1:])]


def interleaved(*streams):
    """All messages, those of each stream in their order."""
    streams, out = [list(s) for s in streams if s], []
    while streams:
        stream = rng.choice(streams)
        out.append(stream.pop(0))
        streams = [s for s in streams if s]
    return out


# --- configurations

def precise(block, scorers=(), weights=None, scorer=None, events=None, sources=False, **more):
    parameters = {"tokenProcessorConfig": {"blockSizeTokens": block, "hashAlgorithm": rng.choice(["", "cbor-fnv", "xxh64"])},
                  "indexerConfig": {"kvBlockIndexConfig": {"inMemoryConfig": {"size": 100000, "podCacheSize": 100}}},
                  "kvEventsConfig": {"zmqEndpoint": "tcp://127.0.0.1:5999", "discoverPods": False, "concurrency": 2, **(events or {})}, **more}
    if weights:
        parameters["indexerConfig"]["kvCacheBackendConfigs"] = [{"name": n, "weight": w} for n, w in weights.items()]
    name = "precise-prefix-cache-producer"
    of_prefix = ("prefix-cache-scorer", {"prefixMatchInfoProducerName": name, **(scorer or {})})
    plugins = [("token-producer", {"modelName": "m", "vllm": {"url": "http://127.0.1.10:9100"}}), (name, parameters), of_prefix,
               *(n for n, _ in scorers), "max-score-picker",
               *(["endpoint-notification-source", "metrics-data-source", "core-metrics-extractor"] if sources else [])]
    return config(plugins, ("default", [("prefix-cache-scorer", 1), *scorers, "max-score-picker"]))


SOURCES = ("  sources:\n  - pluginRef: endpoint-notification-source\n    extractors: [{pluginRef: precise-prefix-cache-producer}]\n"
           "  - pluginRef: metrics-data-source\n    extractors: [{pluginRef: core-metrics-extractor}]\n")


def some_block():
    return rng.choice([16, 16, 32, 64])


def engines(block, **more):
    return [Engine(ep, block, **more) for ep in range(rng.randint(2, 5))]


def some_of(all_engines):
    return rng.sample(all_engines, rng.randint(1, len(all_engines)))


def cut(prompt, block):
    return rng.randint(block, len(prompt.tokens()))


def before_and_after(steps, later, probes):
    """The first probe of each prompt before what comes later, all of them after it."""
    return [*steps, WAIT, *(some[0] for some in probes), *later, WAIT, *(p for some in probes for p in some)]


# --- kinds of cases: what precise() takes, engines, steps

def plain():
    block = some_block()
    fleet_, steps, probes = engines(block), [], []
    for _ in range(4):
        prompt = some_prompt(block)
        for engine in some_of(fleet_):
            steps += sent(engine, Chain(engine, prompt, cut(prompt, block)).pieces(3))
        probes += asked(prompt)
    return {"block": block}, fleet_, [*steps, WAIT, *probes]


def sizes():
    """Engines' blocks are larger or smaller than the index's; what loses blocks has whole ones of both."""
    block = rng.choice([32, 64])
    fleet_ = [Engine(ep, rng.choice([8, 16, block, 128])) for ep in range(rng.randint(2, 5))]
    steps, probes = [], []
    for _ in range(4):
        prompt = some_prompt(128)
        for engine in some_of(fleet_):
            per, size, removes = max(1, block // engine.block), cut(prompt, 128), rng.random() < .5
            chain = Chain(engine, prompt, size // 128 * 128 if removes else size)
            steps += sent(engine, chain.pieces(3, per))
            if removes:
                count = len(chain.hashes)
                steps.append(engine.message(chain.removed(range(count - 1, per * rng.randint(0, count // per) - 1, -1))))
        probes += asked(prompt)
    return {"block": block}, fleet_, [*steps, WAIT, *probes]


def chunked():
    """Long chains that grow in many messages, of several engines at once."""
    block = some_block()
    fleet_, probes = engines(block), []
    streams = [[] for _ in fleet_]
    for _ in range(3):
        prompt = Prompt((fresh(), 2500))
        for engine in some_of(fleet_):
            chain = Chain(engine, prompt, cut(prompt, block))
            streams[engine.ep] += [engine.message(e) for e in chain.pieces(8)]
        probes += asked(prompt)
    return {"block": block}, fleet_, [*interleaved(*streams), WAIT, *probes]


def removals():
    """Of ends, beginnings and middles, and of what comes back."""
    block = some_block()
    fleet_, steps, later, probes = engines(block), [], [], []
    for _ in range(4):
        prompt = some_prompt(block)
        for engine in some_of(fleet_):
            chain = Chain(engine, prompt, cut(prompt, block))
            steps += sent(engine, chain.pieces(3))
            count = len(chain.hashes)
            if rng.random() < .6:
                later += sent(engine, chain.tail())
            elif rng.random() < .5:
                holes = rng.sample(range(count), rng.randint(1, count))
                later.append(engine.message(chain.removed(holes)))
                if rng.random() < .5:
                    later.append(engine.message(*(chain.stored(i, i + 1) for i in sorted(holes) if i - 1 not in holes)))
        probes.append(asked(prompt))
    return {"block": block}, fleet_, before_and_after(steps, later, probes)


def clears():
    block = some_block()
    fleet_, steps, probes, prompts = engines(block), [], [], []
    for _ in range(3):
        prompts.append(some_prompt(block))
        for engine in some_of(fleet_):
            steps += sent(engine, Chain(engine, prompts[-1], cut(prompts[-1], block)).pieces(2))
        probes += asked(prompts[-1])
    again = []
    for engine in some_of(fleet_):
        after = [CLEARED]
        if rng.random() < .6:
            prompt = rng.choice(prompts)
            after += Chain(engine, prompt, cut(prompt, block)).pieces(2)
        again.append(engine.message(*after))
    return {"block": block}, fleet_, [*steps, WAIT, *probes[::3], *again, WAIT, *probes]


def tiers():
    """Blocks in several media: with their tokens, or only named."""
    block = some_block()
    weights = rng.choice([None, {"gpu": 1.0, "cpu": .8}, {"gpu": .9, "cpu": .5, "disk": .25}, {"gpu": 1.0, "cpu_pinned": .7, "shared_storage": .3}])
    fleet_, steps, later, probes = engines(block), [], [], []
    for _ in range(4):
        prompt = some_prompt(block)
        for engine in some_of(fleet_):
            chain = Chain(engine, prompt, cut(prompt, block), medium=rng.choice(["GPU", "GPU", "gpu", None, "CPU", "DISK", "CPU_PINNED"]))
            steps += sent(engine, chain.pieces(2))
            count = len(chain.hashes)
            if rng.random() < .6:
                other = rng.choice(["CPU", "cpu", "DISK", "CPU_PINNED", "SHARED_STORAGE", "EXTERNAL"])
                steps.append(engine.message(chain.located(other, rng.randint(0, count - 1), rng.randint(1, count) if rng.random() < .5 else None)))
            if rng.random() < .6:
                later.append(engine.message(chain.removed(range(count - 1, rng.randint(-1, count - 2), -1))))
        probes.append(asked(prompt))
    scorer = rng.choice([None, {"matchLengthWeight": .5, "matchLengthScaleTokens": 512}])
    return {"block": block, "weights": weights, "scorer": scorer}, fleet_, before_and_after(steps, later, probes)


def loras():
    block = some_block()
    fleet_, steps, probes = engines(block), [], []
    for _ in range(4):
        prompt = some_prompt(block)
        for engine in some_of(fleet_):
            chain = Chain(engine, prompt, cut(prompt, block), lora=rng.choice([None, "ad0", "ad1"]))
            steps += sent(engine, chain.pieces(2), model=rng.choice(["m", "m", "other"]))
        for model in ("m", "ad0", "ad1", "other"):
            probes += asked(prompt, model=model)[:2]
    return {"block": block}, fleet_, [*steps, WAIT, *probes]


def salts():
    block = some_block()
    fleet_, steps, probes = engines(block), [], []
    for _ in range(4):
        prompt = some_prompt(block)
        for engine in some_of(fleet_):
            steps += sent(engine, Chain(engine, prompt, cut(prompt, block), salt=rng.choice([None, "s0", "s1"])).pieces(3))
        for salt in ({}, {"cache_salt": "s0"}, {"cache_salt": "s1"}):
            probes += asked(prompt, **salt)[:2]
    return {"block": block}, fleet_, [*steps, WAIT, *probes]


def duplicates():
    """Blocks that are announced more than once, and removed as often or not."""
    block = some_block()
    fleet_, steps, probes = engines(block), [], []
    for _ in range(4):
        prompt = some_prompt(block)
        for engine in some_of(fleet_):
            chain = Chain(engine, prompt, cut(prompt, block))
            events = chain.pieces(2)
            count = len(chain.hashes)
            for _ in range(rng.randint(1, 3)):
                first = rng.randint(0, count - 1)
                events.append(chain.stored(first, rng.randint(first + 1, count)))
            for _ in range(rng.randint(0, 3)):
                events.append(chain.removed(rng.sample(range(count), rng.randint(1, count))))
            if rng.random() < .3:
                events.append(chain.removed([count - 1] * 2))
            steps += sent(engine, events)
        probes += asked(prompt)
    return {"block": block}, fleet_, [*steps, WAIT, *probes]


def orphans():
    """Blocks whose beginnings were never heard of, blocks that do not fill one of the index, and removals of unknown ones."""
    block = some_block()
    fleet_, steps, probes = engines(block), [], []
    for _ in range(4):
        prompt = some_prompt(block)
        for engine in some_of(fleet_):
            chain = Chain(engine, prompt, cut(prompt, block))
            events = chain.pieces(2)
            stray = Chain(engine, some_prompt(block))
            events.insert(rng.randint(0, len(events)), stray.stored(rng.randint(1, len(stray.hashes) - 1)))
            events.insert(rng.randint(0, len(events)), stray.removed([0]))
            events.insert(rng.randint(0, len(events)), stray.located("CPU"))
            events.insert(rng.randint(0, len(events)), ("BlockStored", {
                "block_hashes": [some_hash()], "parent_block_hash": None, "token_ids": stray.tokens[:block - 1], "block_size": block - 1}))
            steps += sent(engine, events)
            steps.append(engine.message(stray.removed([0]), pod="127.0.1.99:1"))
        probes += asked(prompt)
    return {"block": block}, fleet_, [*steps, WAIT, *probes]


INDEXED = ["full_attention", "mla_attention", "sink_full_attention"]
OTHER_KINDS = ["sliding_window", "sliding_window_mla", "mamba", "chunked_local_attention", "encoder_only_attention", "cross_attention",
               "unknown", "novel"]


def groups():
    """Hybrid models: groups of several kinds, some of which count."""
    block = some_block()
    fleet_, steps, later, probes = engines(block), [], [], []
    kinds = {engine.ep: [rng.choice(INDEXED), rng.choice(INDEXED + OTHER_KINDS), rng.choice(OTHER_KINDS)] for engine in fleet_}
    told = set()
    for _ in range(4):
        prompt = some_prompt(block)
        for engine in some_of(fleet_):
            hashes = None
            for group, kind in rng.sample(list(enumerate(kinds[engine.ep])), rng.randint(1, 3)):
                named = None if (engine.ep, group) in told and rng.random() < .5 else kind
                if named is None or rng.random() < .9:
                    chain = Chain(engine, prompt, cut(prompt, block), group=(group, named), hashes=hashes if rng.random() < .7 else None)
                else:  # a group of which no kind has been told
                    chain = Chain(engine, prompt, cut(prompt, block), group=(group + 7, None))
                hashes = chain.hashes
                more = {"kv_cache_spec_sliding_window": 128} if kind.startswith("sliding") else {}
                if named:
                    told.add((engine.ep, group))
                if rng.random() < .15:  # not dense: its last block is missing
                    more["token_ids"] = chain.tokens[:(len(chain.hashes) - 1) * block]
                steps.append(engine.message(chain.stored(**more)))
                count = len(chain.hashes)
                blocks = range(count - 1, rng.randint(-1, count - 1), -1)
                if rng.random() < .5:
                    later.append(engine.message(chain.removed(blocks)))
                elif rng.random() < .3:
                    later.append(engine.message(chain.removed(blocks, group_idx=rng.choice([None, 0, 1, 5]))))
            if rng.random() < .2:  # of no group
                chain = Chain(engine, prompt, cut(prompt, block))
                steps.append(engine.message(chain.stored()))
                later += sent(engine, chain.tail())
        probes.append(asked(prompt))
    return {"block": block}, fleet_, before_and_after(steps, later, probes)


def several_prompts():
    block = some_block()
    fleet_, steps, prompts = engines(block), [], []
    for _ in range(5):
        prompts.append(some_prompt(block))
        for engine in some_of(fleet_):
            steps += sent(engine, Chain(engine, prompts[-1], cut(prompts[-1], block)).pieces(2))
    probes = []
    for _ in range(12):
        some = [*rng.sample(prompts, rng.randint(1, 4)), *([Prompt((fresh(), rng.choice([3, 200])))] if rng.random() < .5 else [])]
        texts = [mark(*p.parts[0]) for p in some]
        probes.append({"op": "probe", "body": json.dumps({"model": "m", "prompt": texts})})
    return {"block": block}, fleet_, [*steps, WAIT, *probes]


def images():
    """Of one text with other images, and of images at other places."""
    block = some_block()
    fleet_, steps, probes = engines(block), [], []
    for _ in range(3):
        seed, *shown = fresh(), *rng.sample(IMAGES, 2)
        prompt = Prompt((seed, rng.randint(10, 150)), shown[0], (fresh(), rng.randint(1, 200)), shown[1], (fresh(), 150), how="chat")
        salt = rng.choice([None, None, "s0"])
        for engine in some_of(fleet_):
            steps += sent(engine, Chain(engine, prompt, cut(prompt, block), salt=salt).pieces(3))
        others = [prompt, prompt.longer((fresh(), 60)), Prompt(*prompt.parts[:2], (fresh(), 100), how="chat"),
                  Prompt(prompt.parts[0], (shown[0][0] + "s", shown[0][1]), *prompt.parts[2:], how="chat"),
                  Prompt(*prompt.parts[:3], ("map" if shown[1][0] != "map" else "river", shown[1][1]), prompt.parts[4], how="chat"),
                  Prompt((seed, 10), *prompt.parts[1:], how="chat")]
        probes += [p.probe(**({"cache_salt": salt} if salt else {})) for p in others]
    return {"block": block}, fleet_, [*steps, WAIT, *probes]


OWN = {"zmqEndpoint": "", "discoverPods": True}


def discovered():
    """Each engine has its socket; endpoints go and come back."""
    block = some_block()
    fleet_ = engines(block, own=True)
    prompts = [some_prompt(block) for _ in range(4)]

    def stores(of):
        return [m for engine in of for prompt in rng.sample(prompts, 2)
                for m in sent(engine, Chain(engine, prompt, cut(prompt, block)).pieces(2), pod=rng.choice([None, "elsewhere:1"]))]

    def probes():
        return [p for prompt in prompts for p in asked(prompt)[:2]]

    present = rng.sample(fleet_, rng.randint(1, len(fleet_) - 1))
    steps = [*stores(fleet_), WAIT, *probes(), {"op": "fleet", "present": sorted(e.ep for e in present)}, WAIT_LONG, *probes(),
             *stores(present), WAIT, *probes(), {"op": "fleet", "present": [e.ep for e in fleet_]}, WAIT_LONG, *probes(),
             *stores(fleet_), WAIT, *probes()]
    return {"block": block, "events": {**OWN, "podDiscoveryConfig": {"socketPort": 6000}}}, fleet_, steps


def replayed():
    """Messages are lost and asked for again; engines begin anew."""
    block = some_block()
    fleet_ = engines(block, own=True)
    streams = [[] for _ in fleet_]
    prompts = [some_prompt(block) for _ in range(4)]
    for engine in fleet_:
        for prompt in prompts:
            chain = Chain(engine, prompt, cut(prompt, block))
            for message in sent(engine, [*chain.pieces(3), *(chain.tail(3) if rng.random() < .4 else [])]):
                streams[engine.ep].append({**message, "lost": rng.random() < .4})
        streams[engine.ep] += [engine.message(CLEARED, lost=True)] if rng.random() < .2 else []
        last = some_prompt(block)
        streams[engine.ep].append(engine.message(*Chain(engine, last).pieces(1)))  # by which a gap before it is seen
    probes = [p for prompt in prompts for p in asked(prompt)]
    steps = [*interleaved(*streams), WAIT, *probes]
    for engine in some_of(fleet_):
        prompt = rng.choice(prompts)
        steps += [{"op": "restart", "ep": engine.ep}, engine.message(*Chain(engine, prompt, cut(prompt, block)).pieces(2))]
    steps += [WAIT, *(p.probe() for p in prompts)]
    if rng.random() < .5:  # what was said while nobody listened is asked for when the endpoint is back
        gone = rng.choice(fleet_)
        steps += [{"op": "fleet", "present": [e.ep for e in fleet_ if e is not gone]}, WAIT_LONG,
                  *({**m, "lost": True} for m in sent(gone, Chain(gone, prompts[0]).pieces(3))),
                  *(p.probe() for p in prompts), {"op": "fleet", "present": [e.ep for e in fleet_]}, WAIT_LONG, *(p.probe() for p in prompts)]
    return {"block": block, "events": {**OWN, "podDiscoveryConfig": {"socketPort": 6000, "replaySocketPort": 6001}}}, fleet_, steps


def speculative():
    """What was sent to an endpoint is believed to be there, for a time."""
    block = some_block()
    fleet_, steps, prompts = engines(block), [], []
    ttl = rng.choice([1, 60])
    for _ in range(4):
        prompts.append(some_prompt(block))
        for engine in some_of(fleet_)[:2]:
            steps += sent(engine, Chain(engine, prompts[-1], cut(prompts[-1], block)).pieces(2))
    probes = [p for prompt in prompts for p in asked(prompt)]
    later = [{"op": "sleep", "ms": 2500}] if ttl == 1 else [fleet_[0].message(CLEARED), WAIT]
    steps += [WAIT, *(probes[:2] if ttl == 1 else probes), *later, *probes[::-1][:None if ttl == 60 else 1]]
    return {"block": block, "scorers": (TIES,), "speculativeIndexing": True, "speculativeTTL": f"{ttl}s"}, fleet_, steps


def sglang():
    """Shorter arrays, and other media."""
    block = some_block()
    fleet_, steps, later, probes = engines(block, arrays=True, binary=False), [], [], []
    for _ in range(4):
        prompt = some_prompt(block)
        for engine in some_of(fleet_):
            chain = Chain(engine, prompt, cut(prompt, block), medium=rng.choice([None, "GPU", "CPU_PINNED", "DISK", "EXTERNAL"]))
            steps += sent(engine, chain.pieces(3))
            if rng.random() < .5:
                later += sent(engine, chain.tail())
        probes.append(asked(prompt))
    weights = rng.choice([None, {"gpu": 1.0, "cpu_pinned": .7, "disk": .4}])
    return {"block": block, "weights": weights, "events": {"engineType": "sglang"}}, fleet_, before_and_after(steps, later, probes)


def mixed():
    """Chains of everything, from engines of one block size."""
    block = some_block()
    fleet_, later, probes = engines(block), [], []
    streams = [[] for _ in fleet_]
    for _ in range(5):
        prompt, salt, lora = some_prompt(block), rng.choice([None, "s0"]), rng.choice([None, "ad0"])
        for engine in some_of(fleet_):
            chain = Chain(engine, prompt, cut(prompt, block), medium=rng.choice(["GPU", "CPU"]), lora=rng.choice([None, lora]),
                          salt=rng.choice([None, salt]), group=rng.choice([None, (0, "full_attention")]))
            streams[engine.ep] += sent(engine, chain.pieces(4))
            if rng.random() < .4:
                later += sent(engine, [chain.located("DISK"), *chain.tail()])
        more = {**({"cache_salt": salt} if salt else {}), **({"model": lora} if lora else {})}
        probes += [*asked(prompt, **more), prompt.probe()]
    return ({"block": block, "weights": {"gpu": 1.0, "cpu": .8, "disk": .3}, "scorer": {"matchLengthWeight": .3}}, fleet_,
            [*interleaved(*streams), WAIT, *probes[::2], *later, WAIT, *probes])


KINDS = [plain, sizes, chunked, removals, clears, tiers, loras, salts, duplicates, orphans, groups, several_prompts, images, discovered,
         replayed, speculative, sglang, mixed, groups, replayed]
WIRED = [images, discovered, replayed, sglang]  # need more than the events of vLLM in process


def case(i):
    kind = KINDS[i % len(KINDS)]
    configured, all_engines, steps = kind()
    own = all_engines[0].own
    return {"name": f"kv-{kind.__name__}-{i}", "plugins": precise(**configured, sources=own), "endpoints": fleet(len(all_engines)), "steps": steps,
            **({"dataLayer": SOURCES} if own else {}), **({"wired": True} if kind in WIRED else {})}


if __name__ == "__main__":
    json.dump([case(i) for i in range(int(sys.argv[2]))], sys.stdout)
