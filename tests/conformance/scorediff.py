"""Compares endpoint pickers from outside: scripted cases over ext-proc, and the scores in the picker's dynamic metadata.

    scorediff.py record CASES --epp 'COMMAND' > OBSERVED      one JSON line a probe; COMMAND takes the reference's flags
    scorediff.py compare OBSERVED OTHER                       scores equal within 1e-9, the other's pick among the observed best

The fleet of a case is served here, on 127.0.1.10 and up, so that a subset hint (addresses) says where a request may go."""

import argparse
import contextlib
import gzip
import http.server
import json
import pathlib
import re
import shlex
import socket
import subprocess
import sys
import tempfile
import threading
import time

HERE = pathlib.Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parent / "integration")]

import grpc  # noqa: E402
from engines import Engines  # noqa: E402
from ext_proc import MESSAGES, Stream, header_map  # noqa: E402
from google.protobuf import json_format  # noqa: E402
from process import eventually, free_ports  # noqa: E402
from texts import expand, rendered  # noqa: E402

TOLERANCE = 1e-9
# Headers by which a picker tells the server or the client more than the destination.
SHOWN = ("x-prefiller-host-port", "x-encoder-hosts-ports", "x-data-parallel-host-port", "x-kv-cache-source-host-port", "x-session-token",
         "x-my-session")
DROPPED = "x-llm-d-request-dropped-reason"
ANSWER = b'{"usage":{"prompt_tokens":3,"completion_tokens":2,"total_tokens":5}}'


def read_lines(path):
    with (gzip.open if str(path).endswith(".gz") else open)(path, "rt") as f:
        return [json.loads(line) for line in f]


def read_cases(path):
    with (gzip.open if str(path).endswith(".gz") else open)(path, "rt") as f:
        return json.load(f)


class PageServer(http.server.ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, *_):
        """A picker that is stopped resets its connections."""


class Fleet:
    """Model servers that have a metrics page, tell the tokens of prompts, and publish the KV events of the case."""

    MOST = 12
    # By these a case calls the ports of servers, of the picker's socket for events, and of the engines' sockets for events and replays.
    PORTS = 9100, 5999, 6000, 6001

    def __init__(self):
        self.port = free_ports()
        self.pages, self.scrapes = [""] * self.MOST, [0] * self.MOST
        self.servers, self.engines = [], None
        for i in range(self.MOST):
            server = PageServer((self.address(i), self.port), self._handler(i))
            threading.Thread(target=server.serve_forever, daemon=True).start()
            self.servers.append(server)

    def _handler(fleet, i):
        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True

            def do_GET(self):
                fleet.scrapes[i] += 1
                self._answer("text/plain; version=0.0.4", fleet.pages[i])

            def do_POST(self):
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                self._answer("application/json", json.dumps(rendered(body)))

            def _answer(self, kind, text):
                self.send_response(200)
                self.send_header("Content-Type", kind)
                self.send_header("Content-Length", str(len(text.encode())))
                self.end_headers()
                self.wfile.write(text.encode())

            def log_message(self, *_):
                pass
        return Handler

    @staticmethod
    def address(i):
        return f"127.0.1.{10 + i}"

    def name_of(self, host_port):
        """`e3` for its address; an unusual port is kept."""
        host, port = host_port.rsplit(":", 1)
        return f"e{int(host.rsplit('.', 1)[1]) - 10}" + ("" if int(port) == self.port else f":{port}")

    def names_of(self, hosts_ports):
        return ",".join(self.name_of(h) for h in hosts_ports.split(","))

    def serve(self, case):
        if self.engines:
            self.engines.stop()
        self.engines = Engines(case, self.address, free_ports(3))
        self.labels = [endpoint["labels"] for endpoint in case["endpoints"]]
        for i, endpoint in enumerate(case["endpoints"]):
            self.pages[i], self.scrapes[i] = endpoint["metrics"], 0
        self.size = len(case["endpoints"])

    def with_ports(self, text):
        """What a case says, with the ports that are used."""
        port = self.engines.port
        used = dict(zip(self.PORTS, (self.port, port, port + 1, port + 2)))
        return re.sub(r"\b\d{4}\b", lambda number: str(used.get(int(number[0]), number[0])), text)

    def list_endpoints(self, present):
        """Writes the file of endpoints, at once."""
        part = self.endpoints.with_suffix(".part")
        part.write_text("endpoints:\n" + "".join(
            f'- {{name: e{i}, address: {self.address(i)}, port: "{self.port}", labels: {json.dumps(self.labels[i])}}}\n' for i in present))
        part.rename(self.endpoints)

    def act(self, step):
        """What is no request: time that passes, and what engines do and who belongs to the fleet. Returns whether the step was that."""
        acts = {"sleep": lambda: time.sleep(step["ms"] / 1000), "kv": lambda: self.engines.publish(step, self.with_ports(step["topic"])),
                "restart": lambda: self.engines.restart(step["ep"]), "fleet": lambda: self.list_endpoints(step["present"])}
        if act := acts.get(step["op"]):
            act()
        return bool(act)

    def read(self):
        """Whether the metrics of every endpoint have been read, and dealt with."""
        return all(n >= 3 for n in self.scrapes[:self.size])

    def stop(self):
        if self.engines:
            self.engines.stop()
        for server in self.servers:
            server.shutdown()
            server.server_close()


def configuration(case, fleet, directory):
    """The case's configuration with a file of its endpoints."""
    fleet.endpoints = pathlib.Path(directory) / "endpoints.yaml"
    fleet.list_endpoints(range(len(case["endpoints"])))
    ops = {step["op"] for step in case["steps"]}
    plugins = fleet.with_ports(case["plugins"]) if "kv" in ops else case["plugins"]
    return ("apiVersion: llm-d.ai/v1alpha1\nkind: EndpointPickerConfig\nplugins:\n"
            f"- {{name: file-discovery, type: file-discovery, parameters: {{path: {fleet.endpoints}, "
            f"watchFile: {json.dumps('fleet' in ops)}}}}}\n{plugins}\n"
            f"dataLayer:\n  discovery: {{pluginRef: file-discovery}}\n{case.get('dataLayer', '')}")


class Picker:
    """A picker started by its command line."""

    def __init__(self, command, config, directory):
        self.grpc_port = free_ports()
        path = pathlib.Path(directory) / "config.yaml"
        path.write_text(config)
        self.log = open(pathlib.Path(directory) / "log", "w+")
        self.process = subprocess.Popen(
            [*shlex.split(command), "--config-file", path, "--pool-name", "pool", "--secure-serving=false", "--metrics-endpoint-auth=false",
             "--tracing=false", "--emit-endpoint-scores", "--allow-experimental-plugins", "--metrics-staleness-threshold", "60s",
             "--grpc-port", str(self.grpc_port), "--grpc-health-port", str(free_ports()), "--metrics-port", str(free_ports())],
            stdout=self.log, stderr=self.log)
        try:
            eventually("the picker listens", self._listens)
        except BaseException:
            self.stop()
            raise

    def _listens(self):
        assert self.process.poll() is None, self.last_words()
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self.grpc_port)):
            return True

    def last_words(self):
        self.log.seek(0)
        return self.log.read()[-800:]

    def channel(self):
        return grpc.insecure_channel(f"127.0.0.1:{self.grpc_port}", options=[("grpc.use_local_subchannel_pool", 1)])

    def stop(self):
        self.process.kill()
        self.process.wait()
        self.log.close()


class Asked:
    """One request: its stream, and what the picker said."""

    def __init__(self, channel, fleet, step, number):
        self.stream = Stream(channel)
        self.fleet, self.said = fleet, {}
        self.refused = False
        pairs = [(":method", "POST"), (":path", step.get("path") or "/v1/completions"), ("content-type", "application/json"),
                 ("x-request-id", f"r{number}"), *((k, v) for k, v in step.get("headers", []))]
        self.stream.send(request_headers={"headers": header_map(pairs)})
        metadata = MESSAGES["Metadata"]()
        subset = step.get("subset", [step["ep"]] if step["op"] in ("train", "open") and "ep" in step else None)
        if subset is not None:
            metadata.filter_metadata["envoy.lb.subset_hint"].update(
                {"x-gateway-destination-endpoint-subset": [f"{fleet.address(i)}:{fleet.port}" for i in subset]})
        self.stream.send(request_body={"body": expand(step["body"]).encode(), "end_of_stream": True}, metadata_context=metadata)

    def _note(self, mutation):
        for option in mutation.set_headers:
            name, value = option.header.key.lower(), (option.header.raw_value or option.header.value.encode()).decode()
            if name.endswith(("-port", "-ports")) and name in SHOWN and value:
                self.said[name] = self.fleet.names_of(value)
            elif name in SHOWN:
                self.said["answer " + name] = value

    def decision(self):
        """Waits for the picker's words on the request."""
        while True:
            message = self.stream.next(30)
            if not hasattr(message, "WhichOneof"):
                self.said["error"], self.refused = f"{message.name}: {self.stream.details()}", True
                return self.said
            kind = message.WhichOneof("response")
            if kind == "immediate_response":
                reply = message.immediate_response
                self.said |= {"status": reply.status.code, "body": reply.body.decode()}
                self.said |= {"reason": h.header.raw_value.decode() for h in reply.headers.set_headers if h.header.key == DROPPED}
                self.refused = True
                return self.said
            if kind == "request_headers":
                told = json_format.MessageToDict(message.dynamic_metadata).get("envoy.lb", {})
                self.said["picked"] = self.fleet.names_of(told["x-gateway-destination-endpoint"])
                scores = told.get("x-gateway-destination-endpoint-scores", {})
                self.said["scores"] = {self.fleet.name_of(k): v for k, v in scores.items()}
                sent = message.request_headers.response.header_mutation
                self._note(type(sent)(set_headers=[h for h in sent.set_headers if h.header.key.lower() not in ("x-session-token", "x-my-session")]))
            elif message.request_body.response.body_mutation.streamed_response.end_of_stream:
                return self.said

    def finish(self):
        """The server's answer, up to the end of the stream."""
        if not self.refused:
            self.stream.send(response_headers={"headers": header_map([(":status", "200"), ("content-type", "application/json")])})
            self.stream.send(response_body={"body": ANSWER, "end_of_stream": True})
            self.stream.close()
            while hasattr(message := self.stream.next(30), "WhichOneof"):
                if message.WhichOneof("response") == "response_headers":
                    self._note(message.response_headers.response.header_mutation)


def in_any_order(requests, said):
    """What requests that are alike and arrive at once were told, in the order of where they went."""
    order = {json.dumps(request): i for i, request in reversed(list(enumerate(requests)))}
    return [one for _, one in sorted(zip(requests, said), key=lambda pair: (order[json.dumps(pair[0])], pair[1].get("picked", "")))]


def run(case, fleet, picker, settle=0.0, settled=lambda said: True):
    """Runs a case's script and yields what was said to its probes. `settle` seconds are given to updates that a picker makes
    after it has answered. A probe whose answer is not `settled` is asked again, for 20 s at most: events may be on their way."""
    number, open_requests = 0, {}

    def answers(step, at):
        nonlocal number
        requests = step.get("requests", [step])
        asked = []
        for one in requests:
            number += 1
            asked.append(Asked(channel, fleet, one, number))
        said = [one.decision() for one in asked]
        if step["op"] == "open":
            open_requests[step["id"]] = asked[0]
        else:
            for one in asked:
                one.finish()
        if step["op"] not in ("probe", "together") and not asked[0].refused:
            return []
        return [{"case": case["name"], "step": at, **({"i": i} if len(said) > 1 else {}), **one}
                for i, one in enumerate(in_any_order(requests, said))]

    with picker.channel() as channel:
        for at, step in enumerate(case["steps"]):
            if fleet.act(step):
                continue
            if step["op"] == "close":
                open_requests.pop(step["id"]).finish()
                continue
            said, deadline = answers(step, at), time.monotonic() + 20
            while not all(map(settled, said)) and time.monotonic() < deadline:
                said = answers(step, at)
            yield from said
            time.sleep(settle)
        for one in open_requests.values():
            one.finish()


def record(arguments):
    fleet = Fleet()
    for case in read_cases(arguments.cases):
        if arguments.only not in case["name"]:
            continue
        fleet.serve(case)
        with tempfile.TemporaryDirectory() as directory:
            try:
                picker = Picker(arguments.epp, configuration(case, fleet, directory), directory)
            except AssertionError as fault:
                print(json.dumps({"case": case["name"], "died": str(fault)}), flush=True)
                continue
            try:
                eventually("metrics are read", fleet.read)
                for said in run(case, fleet, picker, arguments.settle):
                    print(json.dumps(said), flush=True)
            finally:
                picker.stop()
    fleet.stop()


# --- comparison

def text_of(said):
    """The text of a refusal as far as it is a contract."""
    head, mark, _ = said.get("body", "").partition("failed to find target endpoint: ")
    return head + mark


def difference(theirs, ours):
    """Why our words are not the reference's, or None."""
    if ours is None:
        return "missing"
    if any(theirs.get(key) != ours.get(key) for key in ("status", "reason", "error")):
        return "outcome"
    if text_of(theirs) != text_of(ours):
        return "text"
    for name in SHOWN:
        for key in (name, "answer " + name):
            if theirs.get(key) != ours.get(key):
                return key
    if not theirs.get("scores"):  # refused, or without its scores: handlers that change ports lose them
        return None
    if set(theirs["scores"]) != set(ours["scores"]):
        return "candidates"
    if any(abs(score - ours["scores"][name]) > TOLERANCE for name, score in theirs["scores"].items()):
        return "scores"
    best = sorted(theirs["scores"].values(), reverse=True)
    for place, name in enumerate(ours["picked"].split(",")):
        if abs(theirs["scores"].get(name.split(":")[0], -1) - best[place]) > TOLERANCE:
            return "pick"
    ports = [[name.partition(":")[2] for name in said["picked"].split(",")] for said in (theirs, ours)]
    return None if ports[0] == ports[1] else "targets"


def key_of(said):
    return said["case"], said.get("step", -1), said.get("i", 0)


def compare(arguments):
    theirs, ours = ({key_of(said): said for said in read_lines(path)} for path in (arguments.observed, arguments.other))
    differing = {}
    for key, said in theirs.items():
        why = "died" if "died" in said else difference(said, ours.get(key))
        if why:
            differing.setdefault(key[0], []).append((key[1:], why))
            if arguments.verbose:
                print(key, why, json.dumps(said), json.dumps(ours.get(key)), sep="\n  ")
    for name, places in differing.items():
        print(name, ", ".join(f"{step}.{i} {why}" for (step, i), why in places))
    print(f"{len(theirs)} probes, {sum(map(len, differing.values()))} differ, in {len(differing)} cases")
    return bool(differing)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(required=True)
    one = commands.add_parser("record")
    one.add_argument("cases")
    one.add_argument("--epp", required=True, help="command line of the picker")
    one.add_argument("--only", default="", help="cases whose name contains this")
    one.add_argument("--settle", type=float, default=0.01, help="seconds between steps")
    one.set_defaults(run=record)
    two = commands.add_parser("compare")
    two.add_argument("observed")
    two.add_argument("other")
    two.add_argument("-v", "--verbose", action="store_true")
    two.set_defaults(run=compare)
    arguments = parser.parse_args()
    return arguments.run(arguments)


if __name__ == "__main__":
    sys.exit(main())
