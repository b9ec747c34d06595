"""A soak with mixed faults through both front ends: `make soak`, or

    LLMD_BINARY=build/release/apps/llmd/llmd build/venv/bin/python tests/integration/soak.py [minutes=30] [requests=2000000] [seed=1]

`llmd router`, and `llmd epp` behind real Envoy, each have four simulated servers of their own. All the while a crowd (wrk, kept-alive
connections, 50 000 prefix families) asks plain questions, and other clients ask for whole and streamed answers, leave in the middle, read
slowly, and send what is no request; servers are killed, stalled and started again; configurations are reloaded, good ones and bad ones.
It ends when the minutes have passed and that many requests have been answered, and after three times the minutes at the latest. Then nothing may be in flight by any account, every request must have been
answered or shown a broken connection, and memory must not have grown between the first fifth and the end. Exit code 1 otherwise."""

import collections
import json
import os
import pathlib
import random
import re
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).parent))

import httpx  # noqa: E402

from envoy import Envoy  # noqa: E402
from ext_proc import Epp  # noqa: E402
from process import MODEL, Router, Sim, eventually  # noqa: E402
from wire import Wire, chat_body, request  # noqa: E402

CONFIG = """
apiVersion: llm-d.ai/v1
kind: EndpointPickerConfig
plugins: [{{type: queue-scorer}}, {{type: active-request-scorer}}, {{type: prefix-cache-scorer}}{more}]
schedulingProfiles:
- name: default
  plugins: [{{pluginRef: queue-scorer, weight: {weight}}}, {{pluginRef: active-request-scorer}}, {{pluginRef: prefix-cache-scorer}}]
"""
CROWD_MODEL = "m"  # of families.lua
BAD = [b"NOT HTTP\r\n\r\n", b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1, 1\r\n\r\nx", request(b"no json"), request(b'{"model":"m"}'),
       request(b"{" * 2000), b"GET /v1/models HTTP/1.1\r\nHost: a\r\nX: " + b"x" * 70_000 + b"\r\n\r\n",
       b"POST /v1/completions HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n"]
ANSWER_SECONDS = 60
CROWD = ["setpriv", "--pdeathsig", "KILL", "wrk", "-t1", "-c32", "-d5s", "--timeout", f"{ANSWER_SECONDS}s", "-s",
         str(pathlib.Path(__file__).parents[2] / "scripts/families.lua")]
MEMORY_GROWTH_KB = 8 * 1024


def resident_kb(pid):
    with open(f"/proc/{pid}/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("VmRSS"))


class Stand:
    """A front end with servers of its own, and what clients saw of it."""

    def __init__(self, name, directory, rng):
        self.name, self.directory, self.rng = name, directory, rng
        self.seen = collections.Counter()
        self.crowd_answers = 0
        self.unanswered = []
        self.started = 0
        self.sims = [self.sim() for _ in range(4)]
        self.config = directory / f"{name}.yaml"
        self.write_config()

    def log(self, kind):
        self.started += 1
        return self.directory / f"{self.name}-{kind}-{self.started}.log"

    def sim(self, port=None):
        return Sim(self.log("sim"), port=port, served_model_name=[MODEL, CROWD_MODEL], time_to_first_token="10ms", inter_token_latency="5ms",
                   max_num_seqs=64, failure_injection_rate=1, failure_types=["server_error"])

    def write_config(self, weight=1, more=""):
        beside = self.config.with_suffix(".new")
        beside.write_text(CONFIG.format(weight=weight, more=more))
        os.rename(beside, self.config)

    # Faults.
    def break_something(self):
        at = self.rng.randrange(len(self.sims))
        what = self.rng.choice(["kill", "stall", "reload", "hangup", "bad-config"])
        self.seen[f"fault: {what}"] += 1
        if what == "kill":
            self.sims[at].kill()
            time.sleep(self.rng.random())
            self.sims[at] = self.sim(self.sims[at].port)
        elif what == "stall":
            os.kill(self.sims[at].pid, signal.SIGSTOP)
            time.sleep(self.rng.random() * 2)
            os.kill(self.sims[at].pid, signal.SIGCONT)
        elif what == "reload":
            self.write_config(weight=self.rng.randrange(1, 9))
        elif what == "bad-config":
            self.write_config(more=", {type: no-such-plugin}")
        else:
            os.kill(self.picker.pid, signal.SIGHUP)

    # Clients.
    def ask(self, rng, number):
        kind = rng.choice(["whole", "whole", "stream", "stream", "large", "models", "leave", "slow", "bad"])
        try:
            self.seen[f"{kind}: {getattr(self, kind)(rng, number)}"] += 1
        except TimeoutError as fault:
            self.unanswered.append(f"{kind} {number}: {fault!r}")
        except OSError:
            self.seen[f"{kind}: broken"] += 1

    def crowd(self):
        """Five seconds of many plain requests."""
        told = subprocess.run([*CROWD, f"http://127.0.0.1:{self.port}"], capture_output=True, text=True, check=True).stdout
        self.crowd_answers += int(re.search(r"(\d+) requests in", told).group(1))
        if errors := re.search(r"Socket errors: (.*)", told):
            for kind, count in re.findall(r"(\w+) (\d+)", errors.group(1)):
                self.seen[f"crowd: {kind}"] += int(count)
                if kind == "timeout" and int(count):
                    self.unanswered.append(f"crowd: {count} answers took more than {ANSWER_SECONDS} s")
        if failed := re.search(r"Non-2xx or 3xx responses: (\d+)", told):
            self.crowd_answers -= int(failed.group(1))
            self.seen["crowd: not 200"] += int(failed.group(1))

    def answered(self):
        kinds = ("whole", "stream", "large", "models", "slow", "bad")
        return self.crowd_answers + sum(n for what, n in list(self.seen.items()) if what.split(":")[0] in kinds and "broken" not in what)

    def post(self, body):
        with Wire(self.port, timeout=ANSWER_SECONDS) as wire:
            wire.send(request(body, "Connection: close"))
            response = wire.read()
        return "broken" if response is None or not response.complete else response.status

    def whole(self, rng, number):
        return self.post(chat_body(f"question {number % 50} " * 20))

    def stream(self, rng, number):
        return self.post(chat_body(f"question {number % 50} " * 20, stream=True, max_tokens=20))

    def large(self, rng, number):
        return self.post(chat_body("context " * rng.randrange(1_000, 4_000), max_tokens=2))

    def models(self, rng, number):
        with Wire(self.port, timeout=ANSWER_SECONDS) as wire:
            wire.send(b"GET /v1/models HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
            response = wire.read()
        return response.status if response else "broken"

    def leave(self, rng, number):
        message = request(chat_body("leaving " * 100, stream=True, max_tokens=200))
        with Wire(self.port, timeout=ANSWER_SECONDS) as wire:
            wire.send(message[:rng.randrange(1, len(message) + 1)])
            wire.sock.settimeout(rng.random() * 0.3)
            try:
                wire.sock.recv(200)
            except TimeoutError:
                pass
            if rng.random() < 0.3:
                wire.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        return "left"

    def slow(self, rng, number):
        with Wire(self.port, timeout=ANSWER_SECONDS) as wire:
            wire.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            wire.send(request(chat_body("slow", stream=True, max_tokens=200, ignore_eos=True), "Connection: close"))
            total = 0
            while part := wire.sock.recv(500):
                total += len(part)
                time.sleep(0.002)
        return "read" if total else "broken"

    def bad(self, rng, number):
        with Wire(self.port, timeout=ANSWER_SECONDS) as wire:
            wire.send(rng.choice(BAD))
            response = wire.read()
        return response.status if response else "closed"

    # The end.
    def idle(self):
        page = self.picker.metrics()
        gauges = ["llm_d_epp_request_running", "inference_objective_running_requests", "llmd_grpc_connections" if self.name == "router" else "llm_d_epp_extproc_streams_inflight"]
        left = {name: page.value(name) for name in gauges if page.value(name)}
        state = httpx.get(f"{self.picker.admin}/debug/plugins/state", timeout=10).json()
        for plugin in state["plugins"].values():
            if plugin["type"] == "inflight-load-producer":
                left |= {e.get("name", "?"): e for e in plugin["state"]["endpoints"] if e["requests"] or e["tokens"]}
        return not left and True

    def stop(self):
        for thing in [*self.front, *self.sims]:
            thing.stop()


def router_stand(directory, rng):
    stand = Stand("router", directory, rng)
    stand.picker = Router(stand.log("router"), endpoint=[s.urls[0] for s in stand.sims], config_file=stand.config, first_byte_timeout="30s",
                          stream_idle_timeout="30s")
    stand.port = stand.picker.port
    stand.front = [stand.picker]
    return stand


def epp_stand(directory, rng):
    stand = Stand("epp", directory, rng)
    stand.picker = Epp(stand.log("epp"), config_file=stand.config, config_text="", endpoint=[s.urls[0] for s in stand.sims], enable_grpc_stream_metrics=True)
    envoy = Envoy(stand.log("envoy"), "fail-closed.yaml", stand.picker.grpc_port)
    stand.port = int(envoy.url.rsplit(":", 1)[1])
    stand.front = [envoy, stand.picker]
    return stand


def main(minutes, requests, seed):
    over = threading.Event()
    faults = []
    with tempfile.TemporaryDirectory() as name:
        rng = random.Random(seed)
        stands = [make(pathlib.Path(name), random.Random(rng.random())) for make in (router_stand, epp_stand)]
        begin = time.monotonic()

        def enough():
            past = (time.monotonic() - begin) / 60
            return past >= minutes and (past >= 3 * minutes or sum(stand.answered() for stand in stands) >= requests)

        def ask(stand, worker):
            mine = random.Random(f"{seed}-{stand.name}-{worker}")
            number = 0
            while not over.is_set():
                number += 1
                stand.ask(mine, number)

        def crowd(stand):
            while not over.is_set():
                stand.crowd()

        threads = [threading.Thread(target=ask, args=(stand, i)) for stand in stands for i in range(12)]
        threads += [threading.Thread(target=crowd, args=(stand,)) for stand in stands]
        for thread in threads:
            thread.start()
        memory = {stand.name: [] for stand in stands}
        # Here and not on a thread: servers end with the thread that started them.
        while not enough():
            for stand in stands:
                stand.break_something()
                stand.picker.check_alive()
                memory[stand.name].append(resident_kb(stand.picker.pid))
            time.sleep(rng.random() * 2)
        over.set()
        for thread in threads:
            thread.join(ANSWER_SECONDS + 60)
        if any(thread.is_alive() for thread in threads):
            faults.append("a client hangs")
        for stand in stands:
            samples = memory[stand.name]
            early, late = max(samples[:max(1, len(samples) // 5)]), samples[-1]
            print(f"{stand.name}: {stand.answered()} answers; {early} kB at most in the first fifth, {late} kB at the end; " +
                  json.dumps(dict(sorted(stand.seen.items()))), flush=True)
            if late > early + MEMORY_GROWTH_KB:
                faults.append(f"{stand.name}: memory grew from {early} to {late} kB")
            faults += [f"{stand.name}: unanswered: {one}" for one in stand.unanswered]
            try:
                eventually(f"{stand.name} is idle", stand.idle, seconds=30)
            except AssertionError as left:
                faults.append(str(left))
            stand.stop()
        answers = sum(stand.answered() for stand in stands)
        if answers < requests:
            faults.append(f"only {answers} of {requests} requests were answered in the time")
    print("\n".join(faults) or f"{answers} answers, nothing left in flight, nothing unanswered, memory flat")
    return 1 if faults else 0


if __name__ == "__main__":
    given = [float(argument) for argument in sys.argv[1:]]
    sys.exit(main(*(given + [30, 2_000_000, 1][len(given):])))
