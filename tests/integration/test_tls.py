"""TLS of the router: towards clients, towards model servers, on the admin port, to the collector. Certificates of files."""

import http.client
import json
import re
import socket
import ssl
import subprocess
import threading
import time

import httpx
import openai
import pytest

from process import BINARY, MODEL, Router, Sim, eventually, flags, free_ports
from test_tracing import BODY, Collector
from tls import Authority, serial_in, serial_of

CHAT = {"model": MODEL, "messages": [{"role": "user", "content": "hi"}], "max_tokens": 20}
COMPLETION = {"model": MODEL, "prompt": "hello", "max_tokens": 3}


@pytest.fixture(scope="module")
def authority(tmp_path_factory):
    return Authority(tmp_path_factory.mktemp("certificates"))


@pytest.fixture(scope="module")
def certs(authority):
    return authority.secret("serving", authority.issue("serving"))


@pytest.fixture(scope="module")
def sim(module_lab):
    return module_lab.sim(2)


@pytest.fixture(scope="module")
def router(module_lab, sim, certs):
    return module_lab.router(sim.urls, secure_serving=True, cert_path=certs)


def https(router):
    return f"https://localhost:{router.port}"


def refused(*arguments):
    ended = subprocess.run([BINARY, *arguments], capture_output=True, text=True, timeout=60)
    return ended.returncode, ended.stderr.strip()


# Towards clients.

def test_the_openai_client_over_https(router, authority):
    client = openai.OpenAI(base_url=https(router) + "/v1", api_key="any", max_retries=0, timeout=60,
                           http_client=httpx.Client(verify=authority.client()))
    assert client.chat.completions.create(**CHAT).choices[0].message.content
    pieces = list(client.chat.completions.create(**CHAT, stream=True, stream_options={"include_usage": True}))
    assert len(pieces) > 2 and pieces[-1].usage.completion_tokens > 0
    assert client.models.list().data[0].id == MODEL
    assert router.value("llmd_tls_handshakes_total", use="serving", result="full") >= 1


def test_large_bodies_both_ways(lab, authority, certs):
    upstream = lab.upstream(script=lambda connection, received: connection.sock.sendall(
        b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(received.body) + received.body))
    router = lab.router([upstream.url], secure_serving=True, cert_path=certs)
    body = json.dumps({"model": MODEL, "prompt": "lorem ipsum é " * 400_000}).encode()
    with httpx.Client(verify=authority.client()) as client:
        for _ in range(2):
            answer = client.post(https(router) + "/v1/completions", content=body, timeout=60)
            assert answer.status_code == 200 and answer.content == body
    assert upstream.requests[-1].body == body


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_versions_and_their_suites(router, authority, version):
    with socket.create_connection(("127.0.0.1", router.port), timeout=10) as plain:
        context = authority.client(highest=version)
        with context.wrap_socket(plain, server_hostname="localhost") as secure:
            name, protocol, _ = secure.cipher()
            assert secure.selected_alpn_protocol() == "http/1.1"
            assert "GCM" in name or "CHACHA20" in name
            assert name.startswith("TLS_" if version == ssl.TLSVersion.TLSv1_3 else "ECDHE-")


def test_the_least_version_and_chosen_suites(lab, sim, authority, certs):
    newest = lab.router(sim.urls, secure_serving=True, cert_path=certs, tls_min_version="VersionTLS13")
    with pytest.raises(ssl.SSLError):
        serial_of(newest.port, authority.client(highest=ssl.TLSVersion.TLSv1_2))
    assert serial_of(newest.port, authority.client())
    chosen = lab.router(sim.urls, secure_serving=True, cert_path=certs,
                        tls_cipher_suites="TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256")
    with socket.create_connection(("127.0.0.1", chosen.port), timeout=10) as plain:
        context = authority.client(highest=ssl.TLSVersion.TLSv1_2)
        with context.wrap_socket(plain, server_hostname="localhost") as secure:
            assert secure.cipher()[0] == "ECDHE-ECDSA-CHACHA20-POLY1305"


def test_clients_that_offer_other_protocols_only_are_refused(router, authority):
    context = authority.client()
    context.set_alpn_protocols(["spdy/3"])
    with pytest.raises(ssl.SSLError, match="(?i)no.application.protocol"):
        serial_of(router.port, context)


def test_plain_http_is_told_to_use_https(router):
    answer = httpx.get(f"http://127.0.0.1:{router.port}/v1/models", timeout=10)
    assert (answer.status_code, answer.text) == (400, "this port speaks TLS: use https\n")


def test_silent_and_slow_clients_run_out_of_time(lab, sim, certs):
    router = lab.router(sim.urls, secure_serving=True, cert_path=certs, header_timeout="300ms")
    for first in (b"", b"\x16\x03\x01"):
        with socket.create_connection(("127.0.0.1", router.port), timeout=20) as sock:
            sock.sendall(first)
            assert sock.recv(1) == b""
    eventually("both are counted", lambda: router.value("llmd_tls_handshakes_total", use="serving", result="failed") == 2)


def test_a_stream_is_a_record_per_event(lab, authority, certs):
    """The router adds no waiting: each event of the server's arrives by itself."""
    go = threading.Semaphore(0)

    def script(connection, received):
        connection.sock.sendall(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n")
        for i in range(5):
            assert go.acquire(timeout=20)
            connection.sock.sendall(b"8\r\ndata: %d\n\r\n" % i)
        connection.sock.sendall(b"0\r\n\r\n")

    upstream = lab.upstream(script=script)
    router = lab.router([upstream.url], secure_serving=True, cert_path=certs)
    with httpx.Client(verify=authority.client(), timeout=30) as client:
        with client.stream("POST", https(router) + "/v1/completions", json=COMPLETION) as answer:
            events = answer.iter_raw()
            for i in range(5):
                go.release()
                assert next(events) == b"data: %d\n" % i


def test_a_broken_answer_is_a_broken_connection(lab, authority, certs):
    def script(connection, received):
        connection.sock.sendall(b"HTTP/1.1 200 OK\r\n\r\nhalf")
        return False

    def reset(connection, received):
        connection.sock.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf")
        return False

    for how, complete in ((script, True), (reset, False)):
        upstream = lab.upstream(script=how)
        router = lab.router([upstream.url], secure_serving=True, cert_path=certs)
        connection = http.client.HTTPSConnection("localhost", router.port, context=authority.client(), timeout=20)
        connection.request("POST", "/v1/completions", json.dumps(COMPLETION))
        answer = connection.getresponse()
        if complete:
            assert answer.read() == b"half"
        else:
            with pytest.raises((http.client.IncompleteRead, ssl.SSLError, ConnectionError)):
                answer.read()


def test_clients_need_certificates_when_asked(lab, sim, authority, certs, tmp_path):
    router = lab.router(sim.urls, secure_serving=True, cert_path=certs, client_ca_file=authority.file)
    good = authority.client(certificate=authority.issue("client"))
    with httpx.Client(verify=good) as client:
        assert client.post(https(router) + "/v1/completions", json=COMPLETION).status_code == 200
    stranger = Authority(tmp_path, "stranger").issue("client")
    for context in (authority.client(), authority.client(certificate=stranger)):
        with httpx.Client(verify=context) as client, pytest.raises(httpx.HTTPError):
            client.post(https(router) + "/v1/completions", json=COMPLETION)


def test_certificates_are_swapped_under_load(lab, sim, authority):
    folder = authority.secret("swapped", authority.issue("swapped-0"))
    router = lab.router(sim.urls, secure_serving=True, cert_path=folder, enable_cert_reload=True)
    context = authority.client()
    stop, answers = threading.Event(), []

    def load():
        while not stop.is_set():
            with httpx.Client(verify=context) as client:
                answers.append(client.post(https(router) + "/v1/completions", json=COMPLETION).status_code)

    threads = [threading.Thread(target=load) for _ in range(2)]
    for thread in threads:
        thread.start()
    try:
        for i in (1, 2):
            pair = authority.issue(f"swapped-{i}")
            authority.secret("swapped", pair)
            eventually("the new certificate is shown", lambda: serial_of(router.port, context) == serial_in(pair[0]))
        last = serial_in(pair[0])
        authority.secret("swapped", (authority.issue("swapped-3")[0], pair[1]))  # not its key
        eventually("the bad pair is counted", lambda: router.value(
            "llmd_tls_reloads_total", use="serving", result="failed") >= 1)
        assert serial_of(router.port, context) == last
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    assert len(answers) > 5 and set(answers) == {200}
    assert router.value("llmd_tls_reloads_total", use="serving", result="applied") == 2
    eventually("the reason is logged", lambda: "is not the key of the certificate" in router.log())
    assert "PRIVATE KEY" not in router.log()


def test_flags_are_checked_at_start(authority, certs, tmp_path):
    endpoint = ["--endpoint", "http://127.0.0.1:1"]
    cases = [
        (["--cert-path", str(certs)], "llmd router: --cert-path: needs --secure-serving"),
        (["--secure-serving", "--tls-min-version", "VersionTLS2"],
         "llmd router: --tls-min-version: 'VersionTLS2' is no TLS version; VersionTLS12 and VersionTLS13 are available "
         "(did you mean 'VersionTLS12'?)"),
        (["--secure-serving", "--tls-cipher-suites", "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA255"],
         "llmd router: --tls-cipher-suites: 'TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA255' is not an available cipher suite "
         "(did you mean 'TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256'?)"),
        (["--secure-serving", "--cert-path", str(tmp_path)],
         f"llmd router: --cert-path: '{tmp_path}/tls.crt': cannot be read: No such file or directory"),
        (["--metrics-client-ca-file", str(authority.file)],
         "llmd router: --metrics-client-ca-file: needs --metrics-cert-dir"),
        (["--metrics-cert-dir", str(certs), "--metrics-endpoint-auth=false"],
         "llmd router: --metrics-cert-dir: needs --metrics-client-ca-file or --metrics-endpoint-auth"),
        (["--metrics-cert-dir", str(tmp_path)],
         f"llmd router: --metrics-cert-dir: '{tmp_path}/tls.crt': cannot be read: No such file or directory"),
        (["--upstream-client-cert", "x"], "llmd router: --upstream-client-cert and --upstream-client-key go together"),
    ]
    for more, message in cases:
        code, said = refused("router", *endpoint, "--port", "0", "--metrics-port", "0", *more)
        assert (code, said.splitlines()[-1]) == (2, message)


# Towards model servers.

@pytest.fixture(scope="module")
def secure_sim(module_lab, authority, tmp_path_factory):
    pair = authority.issue("sim")
    path = tmp_path_factory.mktemp("sim") / "endpoints.yaml"
    it = SecureSim(module_lab._log("secure-sim"), authority, replicas=2, ssl_certfile=pair[0], ssl_keyfile=pair[1],
                   endpoints_out=path)
    it.endpoints_file = path
    return module_lab._add(it)


class SecureSim(Sim):
    """Simulated servers that speak TLS."""

    def __init__(self, log_path, authority, replicas=1, **options):
        self.port = free_ports(replicas)
        self.ports = [self.port + i for i in range(replicas)]
        super(Sim, self).__init__("sim", flags({"port": self.port, "replicas": replicas, "model": MODEL, **options}), log_path)
        for url in self.urls:
            self.wait_for("simulated server answers", lambda u=url: self.healthy(u, authority))

    @staticmethod
    def healthy(url, authority):
        try:
            return httpx.get(url + "/health", verify=authority.client(), timeout=5).status_code == 200
        except httpx.HTTPError:
            return False

    @property
    def urls(self):
        return [f"https://localhost:{p}" for p in self.ports]


def complete(router, **more):
    return httpx.post(router.url + "/v1/completions", json={**COMPLETION, **more}, timeout=30)


def test_https_model_servers(lab, secure_sim, authority):
    router = lab.router(secure_sim.urls, upstream_ca_file=authority.file)
    for stream in (False, True):
        for _ in range(4):
            assert complete(router, stream=stream).status_code == 200
    assert router.value("llmd_tls_handshakes_total", use="upstream", result="failed") == 0
    eventually("both are scraped", lambda: 'llm_d_epp_ready_endpoints{name="epp"} 2\n' in
               httpx.get(router.admin + "/metrics", timeout=10).text)
    assert "cannot be scraped" not in router.log()


def test_sessions_with_model_servers_are_resumed(lab, secure_sim, authority):
    router = lab.router(secure_sim.urls[:1], upstream_ca_file=authority.file, loops=1)
    first = router.value("llmd_tls_handshakes_total", use="upstream", result="resumed")
    # Idle connections are closed after 4 s, so the next request needs a new one.
    assert complete(router).status_code == 200
    eventually("a later connection is a resumed one", lambda: time.sleep(4.2) or complete(router).status_code == 200 and
               router.value("llmd_tls_handshakes_total", use="upstream", result="resumed") > first, seconds=40)


def test_endpoints_file_with_https(lab, secure_sim, authority):
    assert "scheme: https" in secure_sim.endpoints_file.read_text()
    router = lab.router(endpoints_file=secure_sim.endpoints_file, upstream_ca_file=authority.file)
    assert complete(router).status_code == 200


@pytest.mark.parametrize("what, options, reason", [
    ("another authority", {}, "unable to get local issuer certificate|self-signed certificate in certificate chain"),
    ("another name", {"upstream_server_name": "elsewhere.test"}, "hostname mismatch"),
])
def test_model_servers_that_cannot_be_verified(lab, secure_sim, authority, tmp_path, what, options, reason):
    if options:
        options["upstream_ca_file"] = authority.file
    else:
        options["upstream_ca_file"] = Authority(tmp_path, "other").file
    router = lab.router(secure_sim.urls, **options)
    answer = complete(router)
    assert answer.status_code == 503 and "cannot connect to the model server" in answer.text
    eventually("the reason is logged", lambda: re.search(reason, router.log()))
    unverified = lab.router(secure_sim.urls, upstream_insecure_skip_verify=True)
    assert complete(unverified).status_code == 200
    eventually("it warns", lambda: "--upstream-insecure-skip-verify" in unverified.log())


def test_a_failed_handshake_is_tried_elsewhere(lab, secure_sim, authority, tmp_path):
    other = Authority(tmp_path, "other")
    bad = lab.upstream(tls=other.server(other.issue("bad")))
    router = lab.router([secure_sim.urls[0], f"https://localhost:{bad.port}"], upstream_ca_file=authority.file, no_ejection=True)
    for _ in range(6):
        assert complete(router).status_code == 200
    assert not bad.requests
    assert router.value("llmd_tls_handshakes_total", use="upstream", result="failed") > 0


def test_the_router_shows_its_certificate(lab, authority):
    upstream = lab.upstream(tls=authority.server(authority.issue("mutual"), client_authority=authority))
    url = f"https://localhost:{upstream.port}"
    pair = authority.issue("router")
    router = lab.router([url], upstream_ca_file=authority.file, upstream_client_cert=pair[0], upstream_client_key=pair[1])
    assert complete(router).status_code == 200
    without = lab.router([url], upstream_ca_file=authority.file)
    assert complete(without).status_code == 503


def test_metrics_pages_over_https_of_plain_endpoints(lab, authority):
    """As the reference does it: the source's scheme decides, and nothing is verified unless a CA is named."""
    page = lab.upstream(tls=authority.server(authority.issue("page")))
    plain = lab.upstream()

    def config(more):
        return f"""{{apiVersion: llm-d.ai/v1, kind: EndpointPickerConfig, plugins: [
          {{type: metrics-data-source, parameters: {{scheme: https, port: {page.port}{more}}}}}, {{type: core-metrics-extractor}},
          {{type: queue-scorer}}],
          dataLayer: {{sources: [{{pluginRef: metrics-data-source, extractors: [{{pluginRef: core-metrics-extractor}}]}}]}},
          schedulingProfiles: [{{name: default, plugins: [{{pluginRef: queue-scorer}}]}}]}}"""

    for more, warned in (("", True), (f", caCertPath: {authority.file}", False)):
        before = page.pages
        router = lab.router([plain.url], config_text=config(more))
        eventually("it is scraped", lambda b=before: page.pages > b)
        router.stop()
        assert ("without verification" in router.log()) == warned
    before = page.pages
    strict = lab.router([plain.url], config_text=config(", insecureSkipVerify: false"))
    eventually("it is refused", lambda: "endpoint cannot be scraped" in strict.log())
    assert page.pages == before and plain.pages == 0


# The admin port and the collector.

def test_the_admin_port_over_tls(lab, sim, authority, certs):
    ready = free_ports()
    router = lab.router(sim.urls, wait_ready=False, metrics_cert_dir=certs, metrics_client_ca_file=authority.file,
                        ready_port=ready)
    router.wait_for("ready", lambda: _status(f"http://127.0.0.1:{ready}/ready") == 200)
    admin = f"https://localhost:{router.metrics_port}"
    with httpx.Client(verify=authority.client(certificate=authority.issue("prometheus"))) as client:
        assert "llm_d_epp_info" in client.get(admin + "/metrics").text
    with httpx.Client(verify=authority.client()) as client, pytest.raises(httpx.HTTPError):
        client.get(admin + "/metrics")


def test_the_admin_port_without_client_certificates(lab, sim, authority, certs):
    router = lab.router(sim.urls, wait_ready=False, metrics_cert_dir=certs)
    with httpx.Client(verify=authority.client()) as client:
        router.wait_for("ready", lambda: _status(f"https://localhost:{router.metrics_port}/readyz", client) == 200)
        assert "llmd_tls_handshakes_total" in client.get(f"https://localhost:{router.metrics_port}/metrics").text
    eventually("it warns", lambda: "answers anybody" in router.log())


def _status(url, client=httpx):
    try:
        return client.get(url, timeout=5).status_code
    except httpx.HTTPError:
        return None


def test_traces_go_to_an_https_collector(lab, sim, authority, monkeypatch):
    collector = Collector(tls=authority.server(authority.issue("collector")))
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", f"https://localhost:{collector.server.server_port}")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_CERTIFICATE", str(authority.file))
    monkeypatch.setenv("OTEL_BSP_SCHEDULE_DELAY", "20")
    monkeypatch.setenv("OTEL_TRACES_SAMPLER_ARG", "1")
    router = lab.router(sim.urls)
    assert httpx.post(router.url + "/v1/completions", json=BODY, timeout=30).status_code == 200
    eventually("spans arrive", lambda: collector.spans)
    collector.stop()
