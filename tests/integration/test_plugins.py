"""Published example configurations load and route, and what plugins add to requests and answers arrives."""

import json
import pathlib
import subprocess
import threading

import pytest

from process import BINARY
from upstream import answer
from wire import Wire, chat_body, once, request

EXAMPLES = pathlib.Path(__file__).parents[1] / "data/config"
LOADING = ["01-default", "03-prefill-decode-topology", "04-encode-prefill-decode", "05-predicted-latency", "07-data-parallel", "08-lora",
           "09-payload-agnostic", "10-gpu-aware"]
HEAD = "apiVersion: llm-d.ai/v1\nkind: EndpointPickerConfig\n"
LONG = "Tell me more about that. " * 200


def endpoints_file(tmp_path, *upstreams):
    """`upstreams` are (upstream, labels)."""
    lines = ["endpoints:"]
    for i, (upstream, labels) in enumerate(upstreams):
        lines.append(f'- {{name: e{i}, address: 127.0.0.1, port: "{upstream.port}", labels: {labels}}}')
    path = tmp_path / "endpoints.yaml"
    path.write_text("\n".join(lines))
    return path


def configured(tmp_path, text):
    path = tmp_path / "config.yaml"
    path.write_text(HEAD + text)
    return path


@pytest.mark.parametrize("name", LOADING)
def test_published_examples_check(name):
    done = subprocess.run([BINARY, "check", "--allow-experimental-plugins", "--config-file", EXAMPLES / f"{name}.yaml"],
                          capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert "max-score-picker" in done.stdout or "weighted-random-picker" in done.stdout


@pytest.mark.parametrize("name", [n for n in LOADING if n != "07-data-parallel"])
def test_published_examples_route(lab, tmp_path, name):
    both = "{llm-d.ai/role: encode-prefill-decode}"
    a, b = lab.upstream(), lab.upstream()
    router = lab.router(endpoints_file=endpoints_file(tmp_path, (a, both), (b, both)), config_file=EXAMPLES / f"{name}.yaml",
                        allow_experimental_plugins=True)
    for _ in range(3):
        assert once(router.port, request(chat_body())).status == 200
    assert len(a.requests) + len(b.requests) == 3


def test_experimental_plugins_need_the_flag(tmp_path):
    done = subprocess.run([BINARY, "check", "--config-file", EXAMPLES / "09-payload-agnostic.yaml"], capture_output=True, text=True, timeout=60)
    assert done.returncode == 2
    assert "session-affinity-scorer" in done.stderr and "--allow-experimental-plugins" in done.stderr


def test_deprecated_types_load_with_a_warning(tmp_path):
    path = configured(tmp_path, "plugins: [{type: by-label, parameters: {label: a, allowsNoLabel: true}}, {type: queue-scorer}]\n")
    done = subprocess.run([BINARY, "check", "--config-file", path], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert "deprecated; use label-selector-filter" in done.stdout + done.stderr


def test_the_decoding_server_learns_who_processes_the_prompt(lab, tmp_path):
    decode, prefill = lab.upstream(), lab.upstream()
    router = lab.router(endpoints_file=endpoints_file(tmp_path, (decode, "{llm-d.ai/role: decode}"), (prefill, "{llm-d.ai/role: prefill}")),
                        config_file=EXAMPLES / "03-prefill-decode-topology.yaml", allow_experimental_plugins=True)
    assert once(router.port, request(chat_body(), "x-prefiller-host-port: evil:1")).status == 200
    assert decode.requests[-1].get("x-prefiller-host-port") is None
    assert once(router.port, request(chat_body(LONG), "x-prefiller-host-port: evil:1")).status == 200
    assert decode.requests[-1].get("x-prefiller-host-port") == f"127.0.0.1:{prefill.port}"
    assert not prefill.requests
    assert router.value("llm_d_epp_disagg_decision_total", decision_type="prefill-decode") == 1
    assert router.value("llm_d_epp_disagg_decision_total", decision_type="decode-only") == 1


def test_ranks_are_reached_through_the_primary_port(lab, tmp_path):
    primary, rank = lab.upstream(), lab.upstream()
    config = configured(tmp_path, "plugins: [{type: queue-scorer}, {type: data-parallel-profile-handler, parameters: {primaryPort: %d}}]\n"
                        % primary.port)
    router = lab.router(endpoint=[rank.url], config_file=config)
    assert once(router.port, request(chat_body())).status == 200
    assert not rank.requests
    assert primary.requests[0].get("x-data-parallel-host-port") == f"127.0.0.1:{rank.port}"


def test_a_session_returns_to_its_endpoint(lab, tmp_path):
    upstreams = [lab.upstream() for _ in range(3)]
    config = configured(tmp_path, "plugins: [{type: session-affinity-scorer}, {type: max-score-picker}]\n")
    router = lab.router(endpoint=[u.url for u in upstreams], config_file=config, allow_experimental_plugins=True)
    first = once(router.port, request(chat_body()))
    token, served = first.headers["x-session-token"], first.headers["x-llm-d-served-endpoint"]
    for _ in range(6):
        again = once(router.port, request(chat_body(), f"X-Session-Token: {token}"))
        assert again.headers["x-llm-d-served-endpoint"] == served
        assert again.headers["x-session-token"] == token


def test_sessions_by_id_return_too(lab, tmp_path):
    upstreams = [lab.upstream() for _ in range(3)]
    config = configured(tmp_path, """
plugins:
- {type: session-affinity-filter, parameters: {strategy: session_id, sessionIdConfig: {sources: [{attribute: SessionIDDataKey, producer: session-id-producer}]}}}
- {type: session-id-producer, parameters: {cookieName: sid}}
- {type: max-score-picker}
""")
    router = lab.router(endpoint=[u.url for u in upstreams], config_file=config, allow_experimental_plugins=True)
    served = {}
    for i in range(12):
        response = once(router.port, request(chat_body(), f"Cookie: a=b; sid=s{i % 4}"))
        served.setdefault(i % 4, set()).add(response.headers["x-llm-d-served-endpoint"])
        assert "x-session-token" not in response.headers
    assert all(len(endpoints) == 1 for endpoints in served.values()), served
    assert len(set.union(*served.values())) > 1


def test_the_least_cost_spreads_a_burst_and_keeps_prefixes(lab, tmp_path):
    go = threading.Event()

    def wait(connection, received):
        go.wait(20)
        connection.sock.sendall(answer())

    upstreams = [lab.upstream(script=wait) for _ in range(3)]
    config = configured(tmp_path, "plugins: [{type: min-cost-scorer}, {type: max-score-picker}]\n")
    router = lab.router(endpoint=[u.url for u in upstreams], config_file=config)
    wires = [Wire(router.port) for _ in range(6)]
    for i, wire in enumerate(wires):
        wire.send(request(chat_body(f"{i} " + LONG)))
        router.wait_for("the request is under way", lambda n=i + 1: sum(len(u.requests) for u in upstreams) == n)
    assert [len(u.requests) for u in upstreams] == [2, 2, 2]
    go.set()
    served = [wire.read().headers["x-llm-d-served-endpoint"] for wire in wires]
    for wire in wires:
        wire.sock.close()
    for i in range(6):
        assert once(router.port, request(chat_body(f"{i} " + LONG))).headers["x-llm-d-served-endpoint"] == served[i]


def test_busy_gpus_get_no_requests(lab, tmp_path):
    upstreams = [lab.upstream() for _ in range(3)]
    exporter = lab.upstream()
    exporter.page = b"".join(b'DCGM_FI_DEV_GPU_UTIL{gpu="%d",pod="e%d"} %d\n' % (gpu, pod, use)
                             for gpu, pod, use in [(0, 0, 20), (1, 0, 97), (2, 1, 95), (3, 2, 50)])
    text = (EXAMPLES / "10-gpu-aware.yaml").read_text().replace("{type: dcgm-data-source}",
                                                                "{type: dcgm-data-source, parameters: {port: %d}}" % exporter.port)
    config = tmp_path / "config.yaml"
    config.write_text(text)
    router = lab.router(endpoints_file=endpoints_file(tmp_path, *((u, "{}") for u in upstreams)), config_file=config,
                        allow_experimental_plugins=True, upstream_api_key_file=key_file(tmp_path))
    router.wait_for("the exporter has been read for all", lambda: exporter.pages > 12)
    for _ in range(4):
        assert once(router.port, request(chat_body())).status == 200
    assert [len(u.requests) for u in upstreams] == [0, 0, 4]
    assert exporter.scrape.get("authorization") is None
    exporter.page = b"nothing_of_interest 1\n"
    router.wait_for("the missing numbers are counted",
                    lambda: router.value("llm_d_epp_datalayer_extract_errors_total", source_type="dcgm-data-source",
                                         extractor_type="dcgm-extractor") > 0)


def key_file(tmp_path):
    path = tmp_path / "key"
    path.write_text("up-key-1\n")
    path.chmod(0o600)
    return path


def test_the_cluster_with_the_shorter_queue_is_preferred(lab, tmp_path):
    gateways = [lab.upstream(), lab.upstream()]
    pickers = [lab.upstream(), lab.upstream()]
    for picker, queue in zip(pickers, (9, 2)):
        picker.page = (b'llm_d_epp_average_queue_size{name="pool"} %d\n'
                       b'llm_d_epp_average_kv_cache_utilization{name="pool"} 0.5\n' % queue)
    config = configured(tmp_path, """
plugins:
- {type: multicluster-queue-scorer}
- {type: multicluster-kv-cache-utilization-scorer}
- {type: max-score-picker}
- {type: multicluster-metrics-data-source, parameters: {scheme: http}}
- {type: multicluster-metrics-extractor}
dataLayer: {sources: [{pluginRef: multicluster-metrics-data-source, extractors: [{pluginRef: multicluster-metrics-extractor}]}]}
""")
    labels = ('{metricsAddress: 127.0.0.1, metricsPort: "%d"}' % picker.port for picker in pickers)
    router = lab.router(endpoints_file=endpoints_file(tmp_path, *zip(gateways, labels)), config_file=config, allow_experimental_plugins=True)
    router.wait_for("both pickers have been read twice", lambda: min(p.pages for p in pickers) > 1)
    for _ in range(4):
        assert once(router.port, request(chat_body())).status == 200
    assert [len(g.requests) for g in gateways] == [0, 4]


def test_latencies_are_predicted_and_learnt(lab, tmp_path, monkeypatch):
    asked, taught = [], []

    def predict(connection, received):
        body = json.loads(received.body)
        if "/add_training_data_bulk" in received.line:
            taught.extend(body["entries"])
            return connection.sock.sendall(answer(b"{}", "202 Accepted"))
        rows = body["requests"]
        asked.append(rows)
        # The endpoint that other requests are running on is fast.
        predictions = [{"ttft_ms": 10 if row["num_request_running"] else 900, "tpot_ms": 1} for row in rows]
        return connection.sock.sendall(answer(json.dumps({"predictions": predictions, "total_requests": len(rows)}).encode()))

    service = lab.upstream(script=predict)
    monkeypatch.setenv("PREDICTION_SERVER_URL", service.url)
    monkeypatch.setenv("TRAINING_SERVER_URL", service.url)
    go = threading.Event()

    def wait(connection, received):
        go.wait(20)
        connection.sock.sendall(answer())

    upstreams = [lab.upstream(script=wait) for _ in range(2)]
    config = configured(tmp_path, """
plugins:
- {type: predicted-latency-producer}
- {type: latency-scorer, parameters: {headroomSelectionStrategy: most}}
- {type: max-score-picker}
""")
    router = lab.router(endpoint=[u.url for u in upstreams], config_file=config)
    first, second = Wire(router.port), Wire(router.port)
    first.send(request(chat_body()))
    router.wait_for("the first request is under way", lambda: sum(len(u.requests) for u in upstreams) == 1)
    busy = next(u for u in upstreams if u.requests)
    second.send(request(chat_body(), "x-llm-d-slo-ttft-ms: 1000"))
    router.wait_for("so is the second", lambda: sum(len(u.requests) for u in upstreams) == 2)
    assert len(busy.requests) == 2
    go.set()
    assert first.read().status == second.read().status == 200
    assert [len(rows) for rows in asked] == [2, 2]
    assert sorted(row["num_request_running"] for row in asked[1]) == [0, 1]
    router.wait_for("the service has learnt", lambda: len(taught) == 2)
    assert all(entry["actual_ttft_ms"] >= 0 and entry["actual_tpot_ms"] == 0 for entry in taught)
    assert router.value("llmd_prediction_calls_total", result="answered") == 2


def test_without_predictions_requests_are_routed_all_the_same(lab, tmp_path, monkeypatch):
    silent = lab.upstream(script=lambda connection, received: threading.Event().wait(30))
    monkeypatch.setenv("PREDICTION_SERVER_URL", silent.url)
    upstream = lab.upstream()
    config = configured(tmp_path, "plugins: [{type: predicted-latency-producer}, {type: latency-scorer}, {type: max-score-picker}]\n")
    router = lab.router(endpoint=[upstream.url], config_file=config)
    assert once(router.port, request(chat_body())).status == 200
    assert router.value("llmd_degraded_decisions_total") == 1
