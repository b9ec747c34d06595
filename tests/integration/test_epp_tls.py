"""`llmd epp` over TLS: grpcio and real Envoy as clients, self-signed and given certificates, their swap."""

import json
import ssl
import threading

import httpx
import pytest
from envoy import Envoy
from ext_proc import MESSAGES, Stream, unary
from process import MODEL, eventually
from tls import Authority, serial_in, serial_of

grpc = pytest.importorskip("grpc")
POST = json.dumps({"model": MODEL, "prompt": "hi"}).encode()


@pytest.fixture(scope="module")
def authority(tmp_path_factory):
    return Authority(tmp_path_factory.mktemp("certificates"))


@pytest.fixture(scope="module")
def certs(authority):
    return authority.secret("serving", authority.issue("serving"))


def credentials(authority, pair=None):
    key, chain = (pair[1].read_bytes(), pair[0].read_bytes()) if pair else (None, None)
    return grpc.ssl_channel_credentials(authority.file.read_bytes(), key, chain)


def choose(channel):
    """The endpoint that the picker names for one request."""
    stream = Stream(channel)
    stream.post(POST)
    headers, _ = stream.headers()
    body, _ = stream.body()
    stream.close()
    assert body == POST
    return headers["x-gateway-destination-endpoint"]


def h2(authority):
    context = authority.client()
    context.set_alpn_protocols(["h2"])
    return context


def test_grpc_over_tls(lab, authority, certs):
    epp = lab.epp([9100], secure_serving=True, cert_path=certs, health_checking=True)
    with epp.channel(credentials=credentials(authority)) as channel:
        for _ in range(5):
            assert choose(channel) == "127.0.0.1:9100"
        health = unary(channel, "/grpc.health.v1.Health/Check", MESSAGES["HealthCheckRequest"](service=""),
                       MESSAGES["HealthCheckResponse"])
        assert health.status == 1
    # The health port stays plain, for Kubernetes' probes.
    with epp.channel(epp.health_port) as channel:
        assert unary(channel, "/grpc.health.v1.Health/Check", MESSAGES["HealthCheckRequest"](service=""),
                     MESSAGES["HealthCheckResponse"]).status == 1
    with epp.channel() as plain:
        stream = Stream(plain)
        stream.post(POST)
        assert stream.next() == grpc.StatusCode.UNAVAILABLE
    eventually("it is counted", lambda: epp.value("llmd_tls_handshakes_total", use="serving", result="failed") >= 1)


def test_large_bodies_over_tls(lab, authority, certs):
    epp = lab.epp([9100], secure_serving=True, cert_path=certs)
    body = json.dumps({"model": MODEL, "prompt": "lorem ipsum " * 200_000}).encode()
    with epp.channel(credentials=credentials(authority)) as channel:
        stream = Stream(channel)
        stream.post(body[:60_000], end=False)
        for at in range(60_000, len(body), 60_000):
            stream.send(request_body={"body": body[at:at + 60_000], "end_of_stream": at + 60_000 >= len(body)})
        stream.headers()
        echoed, sizes = stream.body()
        assert echoed == body and max(sizes) <= 62_000
        stream.close()


def test_peers_need_certificates_when_asked(lab, authority, certs, tmp_path):
    epp = lab.epp([9100], secure_serving=True, cert_path=certs, client_ca_file=authority.file)
    with epp.channel(credentials=credentials(authority, authority.issue("envoy"))) as channel:
        assert choose(channel) == "127.0.0.1:9100"
    stranger = Authority(tmp_path, "stranger").issue("envoy")
    for pair in (None, stranger):
        with epp.channel(credentials=credentials(authority, pair)) as channel:
            stream = Stream(channel)
            stream.post(POST)
            assert stream.next() == grpc.StatusCode.UNAVAILABLE


def test_a_self_signed_certificate_by_default(lab):
    epp = lab.epp([9100], secure_serving=True)
    eventually("it says so", lambda: "a self-signed certificate was made" in epp.log())
    pem = ssl.get_server_certificate(("127.0.0.1", epp.grpc_port))
    with epp.channel(credentials=grpc.ssl_channel_credentials(pem.encode())) as channel:
        stream = Stream(channel)  # the certificate names nobody, so verification fails
        stream.post(POST)
        assert stream.next() == grpc.StatusCode.UNAVAILABLE
    envoy = lab._add(Envoy(lab._log("envoy"), "fail-closed.yaml", epp.grpc_port, authority=""))
    answer = httpx.post(envoy.url + "/v1/completions", content=b"no json", timeout=30)
    assert answer.status_code == 400, "the picker's answer, through an Envoy that does not verify"


@pytest.mark.parametrize("mode", ["fail-closed", "fail-open"])
def test_envoy_over_tls(lab, authority, certs, mode):
    sim = lab.sim(2)
    epp = lab.epp(sim.ports, secure_serving=True, cert_path=certs, enable_grpc_stream_metrics=True)
    envoy = lab._add(Envoy(lab._log("envoy"), f"{mode}.yaml", epp.grpc_port, sim.port, authority=authority.file))
    for stream in (False, True):
        for _ in range(5):
            answer = httpx.post(envoy.url + "/v1/completions", timeout=30, json={
                "model": MODEL, "prompt": "hello", "max_tokens": 5, "stream": stream})
            assert answer.status_code == 200 and answer.headers["x-went-into-resp-headers"] == "true"
    prompt = "lorem ipsum é " * 40_000
    assert httpx.post(envoy.url + "/v1/completions", json={"model": MODEL, "prompt": prompt, "max_tokens": 1},
                      timeout=30).status_code in (200, 400)
    eventually("streams end", lambda: epp.value("llm_d_epp_extproc_streams_total", code="OK") >= 11)
    assert epp.value("llmd_tls_handshakes_total", use="serving", result="full") >= 1
    assert epp.value("llmd_tls_handshakes_total", use="serving", result="failed") == 0


def test_certificates_are_swapped_under_envoy(lab, authority):
    folder = authority.secret("swapped", authority.issue("swapped-0"))
    sim = lab.sim(1)
    epp = lab.epp(sim.ports, secure_serving=True, cert_path=folder, enable_cert_reload=True)
    envoy = lab._add(Envoy(lab._log("envoy"), "fail-closed.yaml", epp.grpc_port, authority=authority.file))
    stop, answers = threading.Event(), []

    def load():
        while not stop.is_set():
            answers.append(httpx.post(envoy.url + "/v1/completions", timeout=30, json={
                "model": MODEL, "prompt": "hello", "max_tokens": 2}).status_code)

    thread = threading.Thread(target=load)
    thread.start()
    try:
        for i in (1, 2):
            pair = authority.issue(f"swapped-{i}")
            authority.secret("swapped", pair)
            eventually("the new certificate is shown", lambda: serial_of(epp.grpc_port, h2(authority)) == serial_in(pair[0]))
    finally:
        stop.set()
        thread.join()
    assert answers and set(answers) == {200}


def test_flags_of_the_reference(lab, authority, certs):
    """A command line as the reference's charts write it, with a discovery from a file: TLS counts there, too."""
    epp = lab.epp([9100], secure_serving=True, cert_path=certs, enable_cert_reload=True, tls_min_version="VersionTLS12",
                  tls_cipher_suites="TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256,TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256")
    context = h2(authority)
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    assert serial_of(epp.grpc_port, context)
    plain = lab.epp([9100], cert_path=certs)
    eventually("it warns", lambda: '"flag":"--cert-path"' in plain.log())
    with plain.channel() as channel:
        assert choose(channel) == "127.0.0.1:9100"
