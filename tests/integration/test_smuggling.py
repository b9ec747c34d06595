"""No bytes of a client make the router, or a proxy in front of it, see other requests than the client's proxy sees.

tests/data/smuggling/requests.jsonl holds the cases, one a line: `bytes` as sent; `upstream`, the [request line, body] of each request that
reaches the model server; `answers`, the statuses in order; `then`, what the connection is afterwards: closed, open for another request, or
waiting for the rest. `headers` must arrive as given, those in `absent` not at all."""

import itertools
import json
import pathlib
import socket
import subprocess

import httpx
import pytest

from envoy import BINARY as ENVOY
from process import eventually, free_ports
from upstream import answer
from wire import Wire

CASES = [json.loads(line) for line in (pathlib.Path(__file__).parents[1] / "data/smuggling/requests.jsonl").read_text().splitlines()]


def echo(connection, received):
    connection.sock.sendall(answer(json.dumps({"line": received.line}).encode()))


def bodies_of(requests):
    return [[r.line, r.body.decode("latin-1")] for r in requests]


def check_framing(received):
    """What the router sends leaves no choice to whoever reads it."""
    names = [name for name, _ in received.headers]
    assert "transfer-encoding" not in names
    assert names.count("content-length") <= 1 and names.count("host") == 1
    if received.body:
        assert received.get("content-length") == str(len(received.body))


@pytest.fixture(scope="module")
def router_and_upstream(module_lab):
    upstream = module_lab.upstream(script=echo)
    return module_lab.router(endpoint=[upstream.url]), upstream


@pytest.mark.parametrize("case", CASES, ids=[case["name"] for case in CASES])
def test_exactly_the_intended_requests_arrive(router_and_upstream, case):
    router, upstream = router_and_upstream
    before = len(upstream.requests)
    end = "GET /end-of-the-case HTTP/1.1"
    with Wire(router.port) as wire, Wire(router.port) as other:
        wire.send(case["bytes"].encode("latin-1"))
        lines = [line for line, _ in case["upstream"]]
        for status in case["answers"]:
            response = wire.read()
            assert response and response.status == status
            if status == 200:
                assert response.json()["line"] == lines.pop(0)
        if case["then"] == "closed":
            assert wire.closed()
        last = wire if case["then"] == "open" else other
        last.send(f"{end}\r\nHost: gw\r\n\r\n".encode())
        assert last.read().json()["line"] == end
    arrived = upstream.requests[before:]
    assert bodies_of(arrived) == case["upstream"] + [[end, ""]]
    for received in arrived:
        check_framing(received)
    for name, value in case.get("headers", {}).items():
        assert arrived[0].get(name) == value
    for name in case.get("absent", []):
        assert arrived[0].get(name) is None, name


class Front:
    """Another proxy in front of the router. It gives every request that it forwards an x-front-id and logs that with what it took for
    the request's body, so that its view of the boundaries can be compared with ours."""

    def __init__(self, directory, command, text):
        self.port = free_ports()
        self.log_path = directory / "front.log"
        config = directory / "front.yaml"
        config.write_text(text.replace("@PORT@", str(self.port)).replace("@LOG@", str(self.log_path)).replace("@DIR@", str(directory)))
        self._errors = open(directory / "front.err", "wb")
        self.popen = subprocess.Popen(["setpriv", "--pdeathsig", "KILL", *command, str(config)], stdout=self._errors, stderr=self._errors)
        eventually("the front listens", self._listens)

    def _listens(self):
        assert self.popen.poll() is None, pathlib.Path(self._errors.name).read_text()
        try:
            socket.create_connection(("127.0.0.1", self.port), timeout=1).close()
            return True
        except OSError:
            return False

    def logged(self):
        return {entry["id"]: entry for entry in map(json.loads, self.log_path.read_text(errors="replace").splitlines())}

    def stop(self):
        self.popen.kill()
        self.popen.wait()
        self._errors.close()


# As permissive as nginx can be.
NGINX = """
daemon off; worker_processes 1; pid @DIR@/pid; error_log stderr crit;
events { worker_connections 256; }
http {
  log_format views escape=json '{"id":"$request_id","body":"$request_body"}';
  access_log @LOG@ views;
  client_body_temp_path @DIR@; proxy_temp_path @DIR@; fastcgi_temp_path @DIR@; uwsgi_temp_path @DIR@; scgi_temp_path @DIR@;
  ignore_invalid_headers off; underscores_in_headers on;
  upstream router { server 127.0.0.1:@ROUTER@; keepalive 1; }
  server {
    listen 127.0.0.1:@PORT@; client_max_body_size 10m; client_body_buffer_size 1m; proxy_request_buffering @BUFFERING@;
    location / {
      proxy_pass http://router; proxy_http_version 1.1; proxy_next_upstream off;
      proxy_set_header Connection ""; proxy_set_header Host $http_host; proxy_set_header X-Front-Id $request_id;
    }
  }
}
"""

ENVOY_CONFIG = """
static_resources:
  listeners:
  - address: {socket_address: {address: 127.0.0.1, port_value: @PORT@}}
    filter_chains:
    - filters:
      - name: envoy.filters.network.http_connection_manager
        typed_config:
          "@type": type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager
          stat_prefix: front
          http_protocol_options: {accept_http_10: true, default_host_for_http_10: gw, allow_absolute_url: true}
          access_log:
          - name: envoy.access_loggers.file
            typed_config:
              "@type": type.googleapis.com/envoy.extensions.access_loggers.file.v3.FileAccessLog
              path: "@LOG@"
              log_format: {json_format: {id: "%STREAM_ID%", bytes: "%BYTES_RECEIVED%"}}
          route_config:
            virtual_hosts:
            - name: all
              domains: ["*"]
              request_headers_to_add:
              - {header: {key: x-front-id, value: "%STREAM_ID%"}, append_action: OVERWRITE_IF_EXISTS_OR_ADD}
              routes: [{match: {prefix: "/"}, route: {cluster: router}}]
          http_filters:
          - name: envoy.filters.http.router
            typed_config: {"@type": type.googleapis.com/envoy.extensions.filters.http.router.v3.Router}
  clusters:
  - name: router
    type: STATIC
    load_assignment:
      cluster_name: router
      endpoints: [{lb_endpoints: [{endpoint: {address: {socket_address: {address: 127.0.0.1, port_value: @ROUTER@}}}}]}]
"""


def start_front(kind, directory, router_port):
    if kind == "envoy":
        command = [str(ENVOY), "--concurrency", "1", "-l", "critical", "--file-flush-interval-msec", "20", "--disable-hot-restart", "--config-path"]
        return Front(directory, command, ENVOY_CONFIG.replace("@ROUTER@", str(router_port)))
    text = NGINX.replace("@BUFFERING@", "on" if kind == "nginx" else "off").replace("@ROUTER@", str(router_port))
    return Front(directory, ["/usr/sbin/nginx", "-p", str(directory), "-c"], text)


def send_and_drain(port, data):
    """Sends the bytes of a case and a last request; reads until the front closes, or waits for what will not come."""
    with socket.create_connection(("127.0.0.1", port), timeout=0.2) as sock:
        try:
            sock.sendall(data + b"GET /last HTTP/1.1\r\nHost: gw\r\nConnection: close\r\n\r\n")
            while sock.recv(65536):
                pass
        except OSError:
            pass


@pytest.mark.parametrize("kind", ["nginx", "nginx-streaming", "envoy"])
def test_a_front_proxy_and_the_router_agree_on_boundaries(lab, tmp_path, kind):
    upstream = lab.upstream(script=echo)
    router = lab.router(endpoint=[upstream.url])
    front = lab._add(start_front(kind, tmp_path, router.port))
    numbers = itertools.count()
    client = httpx.Client(base_url=f"http://127.0.0.1:{front.port}", timeout=30)
    for case in CASES:
        send_and_drain(front.port, case["bytes"].encode("latin-1"))
        # The connections between the two are reused: were they out of step, this would get another's answer.
        for _ in range(2):
            path = f"/after-{case['name']}-{next(numbers)}"
            assert client.get(path).json()["line"] == f"GET {path} HTTP/1.1", case["name"]
    seen = {}
    for received in list(upstream.requests):
        ids = [value for name, value in received.headers if name == "x-front-id"]
        assert len(ids) == 1 and ids[0] not in seen, f"a request that the front did not send: {received.head!r}"
        seen[ids[0]] = received
        check_framing(received)
    assert len(seen) > len(CASES)
    logged = eventually("the front has logged them", lambda: (views := front.logged()).keys() >= seen.keys() and views)
    for front_id, received in seen.items():
        view = logged[front_id]
        if "bytes" in view:
            assert view["bytes"] == len(received.body)
        elif kind == "nginx":
            assert view["body"] == received.body.decode("latin-1")
