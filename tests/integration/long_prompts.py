"""CPU and memory of a router that routes prompts of 100 000 tokens by exact tokens: `make long-prompts`.

Half of each prompt is known to one of two servers, the other half is new; servers tell of what they computed. The router
makes the tokens itself. Fails when a prompt does not go where its first half is, whole.

usage: LLMD_BINARY=... long_prompts.py [seconds=30] [rate=10]
"""

import concurrent.futures
import pathlib
import random
import statistics
import sys
import tempfile
import time

import httpx

sys.path.insert(0, str(pathlib.Path(__file__).parent))

from conftest import Lab  # noqa: E402
from kv_publisher import stored  # noqa: E402
from test_precise_prefix import SERVED, Fleet  # noqa: E402
from tokenizers_in_use import Model  # noqa: E402

BLOCK, HALF, KNOWN = 16, 50_000, 20
ROOT = pathlib.Path(__file__).parents[2]


def cpu_seconds(pid):
    return sum(int((task / "schedstat").read_text().split()[0])
               for task in pathlib.Path(f"/proc/{pid}/task").iterdir()) / 1e9


def resident_mb(pid, field="VmRSS"):
    lines = pathlib.Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith(field))


class Writer:
    """Text of the words of this project's documents, of as many tokens as are asked for."""

    def __init__(self, model):
        self.words = " ".join(file.read_text() for file in sorted(ROOT.glob("docs/*.md"))).split()
        self.rng = random.Random(1)
        some = self.text(20_000)
        self.tokens_a_word = len(model.ids(some)) / 20_000

    def text(self, words):
        return " ".join(self.rng.choices(self.words, k=words))

    def of_tokens(self, tokens):
        return self.text(round(tokens / self.tokens_a_word)) + "\n\n"


def tell(publisher, first_block, ids):
    """The server has computed these tokens. Returns how many blocks they are."""
    whole = len(ids) // BLOCK
    publisher.send(stored(list(range(first_block, first_block + whole)), ids[:whole * BLOCK]))
    return whole


def ask(client, prompt):
    answer = client.post("/v1/completions", json={"model": "m", "prompt": prompt})
    answer.raise_for_status()
    return answer.headers[SERVED]


def run(fleet, halves, prompts, rate):
    """Sends the prompts, each at its time. Returns those that went elsewhere, and the times they took, in seconds."""
    with (httpx.Client(base_url=fleet.router.url, timeout=60, limits=httpx.Limits(max_connections=32)) as client,
          concurrent.futures.ThreadPoolExecutor(32) as pool):
        for half in halves:
            ask(client, half)  # its tokens have been made once
        begin, cpu, took = time.monotonic(), cpu_seconds(fleet.router.pid), []

        def one(i):
            time.sleep(max(0, begin + i / rate - time.monotonic()))
            start = time.monotonic()
            pod = ask(client, prompts[i])
            took.append(time.monotonic() - start)
            return pod != fleet.pods[i % KNOWN % 2]

        strays = sum(pool.map(one, range(len(prompts))))
        return strays, took, (cpu_seconds(fleet.router.pid) - cpu) / (time.monotonic() - begin)


def main(seconds, rate):
    model = Model("qwen3")
    writer = Writer(model)
    halves = [writer.of_tokens(HALF) for _ in range(KNOWN)]
    prompts = [halves[i % KNOWN] + writer.of_tokens(HALF) for i in range(seconds * rate)]
    ids = [model.ids(half) for half in halves]
    print(f"{len(prompts)} prompts of {statistics.mean(map(len, prompts)) / 1000:.0f} kB, "
          f"their known halves {statistics.mean(map(len, ids)):.0f} tokens", flush=True)
    with tempfile.TemporaryDirectory() as directory:
        lab = Lab(directory)
        try:
            fleet = Fleet(lab, pathlib.Path(directory), True,
                          f"- {{type: token-producer, parameters: {{local: {{path: {model.folder}}}}}}}")
            idle, blocks = resident_mb(fleet.router.pid), 0
            for i in range(KNOWN):
                blocks += tell(fleet.publishers[i % 2], blocks + 1, ids[i])
            fleet.wait_for_blocks(blocks)
            before = fleet.hits()
            strays, took, cores = run(fleet, halves, prompts, rate)
            hits = (fleet.hits() - before) / (KNOWN + len(prompts))
            print(f"{strays} went elsewhere; {hits:.0f} blocks of each were found\n"
                  f"router: {cores:.2f} cores at {rate} a second; {idle:.0f} MB idle, "
                  f"{resident_mb(fleet.router.pid, 'VmHWM'):.0f} MB at most\n"
                  f"answered after P50 {1000 * statistics.median(took):.0f} ms, "
                  f"P95 {1000 * statistics.quantiles(took, n=20)[-1]:.0f} ms")
            return 1 if strays or hits < HALF / BLOCK * 0.98 else 0
        finally:
            lab.close()


if __name__ == "__main__":
    arguments = [int(a) for a in sys.argv[1:]]
    sys.exit(main(*(arguments + [30, 10][len(arguments):])))
