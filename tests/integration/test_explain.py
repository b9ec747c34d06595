"""Recent decisions on the admin port, and `llmd explain`: the same for both front ends."""

import json
import subprocess

import httpx
import pytest

from process import BINARY, MODEL
from test_plugins import configured, endpoints_file
from wire import chat_body, once, request

FILTERED = """
plugins:
- {type: label-selector-filter, name: only-b, parameters: {matchLabels: {kind: b}}}
- {type: queue-scorer}
- {type: kv-cache-utilization-scorer}
schedulingProfiles:
- name: default
  plugins: [{pluginRef: only-b}, {pluginRef: queue-scorer, weight: 2}, {pluginRef: kv-cache-utilization-scorer, weight: 0.5}]
"""


def decisions(process, status=200, **query):
    answer = httpx.get(f"{process.admin}/debug/decisions", params=query, timeout=10)
    assert answer.status_code == status, answer.text
    return answer.json()["decisions"] if status == 200 else answer.text


def explain(process, *arguments, code=0):
    run = subprocess.run([BINARY, "explain", "--admin", process.admin, *arguments], capture_output=True, text=True, timeout=60)
    assert run.returncode == code, run.stderr
    return run.stdout if code == 0 else run.stderr


def by_router(lab, endpoints, config, **options):
    router = lab.router(endpoints_file=endpoints, config_file=config, **options)

    def send(request_id, body, *headers):
        lines = [f"{name}: {value}" for name, value in (("X-Request-Id", request_id), *headers)]
        return once(router.port, request(body, *lines)).status
    return router, send


def by_epp(lab, endpoints, config, **options):
    pytest.importorskip("grpc")
    from ext_proc import Stream
    epp = lab.epp(config_text=config.read_text(), endpoints_file=endpoints, **options)

    def send(request_id, body, *headers):
        with epp.channel() as channel:
            stream = Stream(channel)
            stream.post(body, path="/v1/chat/completions", headers=[("x-request-id", request_id), *headers])
            message = stream.next()
            stream.cancel()
            return message.immediate_response.status.code if message.HasField("immediate_response") else 200
    return epp, send


class Nobody:
    """No server listens there."""
    port = 1


@pytest.fixture(params=[by_router, by_epp], ids=["router", "epp"])
def front_end(request, lab, tmp_path):
    """Starts the front end with one upstream for each letter, its label `kind`; a dot is a server that is not there."""
    def start(kinds, config=FILTERED, **options):
        servers = [Nobody if kind == "." else lab.upstream() for kind in kinds]
        endpoints = endpoints_file(tmp_path, *[(s, f"{{kind: {kind.replace('.', 'b')}}}") for s, kind in zip(servers, kinds)])
        return request.param(lab, endpoints, configured(tmp_path, config), **options)
    return start


def test_a_decision_shows_filters_scores_and_the_pick(front_end):
    process, send = front_end("abb")
    assert send("why-1", chat_body()) == 200
    (d,) = decisions(process, request_id="why-1")
    assert (d["outcome"], d["try"], d["model"], d["targetModel"], d["path"]) == ("sent", 1, MODEL, MODEL, "/v1/chat/completions")
    assert [e["endpoint"] for e in d["endpoints"]] == ["default/e0", "default/e1", "default/e2"]
    (profile,) = d["profiles"]
    assert profile["primary"] and profile["filters"][0]["name"] == "only-b" and profile["filters"][0]["removed"] == ["default/e0"]
    assert [(s["name"], s["weight"]) for s in profile["scorers"]] == [("queue-scorer", 2.0), ("kv-cache-utilization-scorer", 0.5)]
    assert {e["endpoint"] for e in profile["endpoints"]} == {"default/e1", "default/e2"}
    for row in profile["endpoints"]:
        assert row["scores"] == [1.0, 1.0] and row["weighted"] == [2.0, 0.5] and row["total"] == 2.5
    assert profile["picked"] == [d["endpoint"]] and profile["tie"]["equals"] == 2 and profile["tie"]["turn"] == 1
    assert d["why"] == "2 share the highest total, 2.5; its turn among them was longest ago"
    assert set(d["microseconds"]) == {"parse", "admit", "locate", "produce", "schedule", "commit"}
    assert d["microseconds"]["schedule"] > 0

    assert send("why-2", chat_body()) == 200
    (other,) = decisions(process, request_id="why-2")
    assert {other["endpoint"], d["endpoint"]} == {"default/e1", "default/e2"}
    assert [x["requestId"] for x in decisions(process)] == ["why-2", "why-1"]
    assert [x["requestId"] for x in decisions(process, limit=1)] == ["why-2"]
    assert "endpoints" not in decisions(process)[0]

    text = explain(process, "why-1")
    assert "only-b removed 1: default/e0" in text and f"went to {d['endpoint']}" in text and d["why"] in text
    assert "why-2" in explain(process) and json.loads(explain(process, "why-1", "--json"))["decisions"][0]["endpoint"] == d["endpoint"]


def test_refused_requests_are_there_with_the_reason(front_end):
    process, send = front_end("a")
    assert send("drained", chat_body()) == 429
    (d,) = decisions(process, request_id="drained")
    assert (d["outcome"], d["status"], d["dropReason"], d["endpoint"]) == ("refused", 429, "rejected-saturated", None)
    assert d["profiles"][0]["failed"] and d["profiles"][0]["filters"][0]["removed"] == ["default/e0"]
    assert d["profiles"][0]["why"] == "no endpoint was left after only-b"
    assert send("unreadable", b"no json") == 400
    (d,) = decisions(process, request_id="unreadable")
    assert (d["status"], d["profiles"], d["code"]) == (400, [], "BadRequest")
    assert "refused" in explain(process, "drained")


def test_admission_that_rejects_is_shown(front_end, tmp_path):
    objects = tmp_path / "objects"
    objects.mkdir()
    (objects / "low.yaml").write_text("apiVersion: llm-d.ai/v1alpha2\nkind: InferenceObjective\nmetadata: {name: low}\nspec: {priority: -1}\n")
    process, send = front_end(".", objects_dir=objects)
    assert send("shed", chat_body(), ("x-llm-d-inference-objective", "low")) == 429
    (d,) = decisions(process, request_id="shed")
    assert (d["outcome"], d["status"], d["priority"], d["endpoint"]) == ("refused", 429, -1, None)
    assert d["why"] == d["error"] == "system saturated, sheddable request dropped"
    assert "system saturated" in explain(process, "shed")


def test_parameters_are_checked(front_end):
    process, _ = front_end("b")
    for query, words in [("requestid=x", "'requestid' (did you mean 'request_id'?)"), ("limit=0", "limit: '0'"), ("limit=x", "limit: 'x'"),
                         ("limit=1001", "1 to 1000"), ("limit=1&limit=1", "limit: is given twice"), ("request_id=", "1 to 128"),
                         ("request_id=" + "x" * 129, "1 to 128"), ("request_id=a%20b", "visible"), ("request_id=%zz", "percent")]:
        answer = httpx.get(f"{process.admin}/debug/decisions?{query}", timeout=10)
        assert answer.status_code == 400 and words in answer.text and answer.text.count("\n") == 1, answer.text
    assert decisions(process, 404, request_id="never-seen") == "no decision is kept of request 'never-seen'\n"
    assert explain(process, "never-seen", code=1) == "llmd explain: no decision is kept of request 'never-seen'\n"
    assert httpx.post(f"{process.admin}/debug/decisions", timeout=10).status_code == 405
    assert decisions(process) == []


def test_an_odd_id_is_found(front_end):
    process, send = front_end("b")
    odd = "a&b=c%41#<script>+/" + "z" * 109
    assert send(odd, chat_body()) == 200
    assert decisions(process, request_id=odd)[0]["requestId"] == odd
    assert odd in explain(process, odd)


def test_nothing_secret_is_kept(front_end):
    process, send = front_end("b")
    assert send("quiet", chat_body("the secret prompt")) == 200
    everything = json.dumps(decisions(process, request_id="quiet")) + json.dumps(decisions(process))
    assert "secret prompt" not in everything


def test_no_history_when_it_is_off(front_end):
    process, send = front_end("b", decision_history=0)
    assert send("off", chat_body()) == 200
    assert "--decision-history is 0" in decisions(process, 404, request_id="off")


def test_retries_are_successive_decisions(lab):
    good = lab.upstream()
    router = lab.router(endpoint=[good.url, "http://127.0.0.1:1"], no_ejection=True, loops=1)
    ids = [f"retry-{i}" for i in range(4)]
    for request_id in ids:
        assert once(router.port, request(chat_body(), f"X-Request-Id: {request_id}")).status == 200
    retried = next(tries for i in ids if len(tries := decisions(router, request_id=i)) == 2)
    assert [(d["try"], d["after"], d["address"]) for d in retried] == [(1, "", "127.0.0.1:1"), (2, "connect", f"127.0.0.1:{good.port}")]
    assert retried[1]["candidates"] == 1 and retried[1]["why"] == "the only endpoint left"
    assert "try 2, after connect: went to" in explain(router, retried[0]["requestId"])


def test_a_request_that_fails_for_good(lab):
    router = lab.router(endpoint=["http://127.0.0.1:1", "http://127.0.0.1:2"], no_ejection=True)
    assert once(router.port, request(chat_body(), "X-Request-Id: lost")).status == 503
    tries = decisions(router, request_id="lost")
    assert {d["address"] for d in tries[:2]} == {"127.0.0.1:1", "127.0.0.1:2"}
    assert [(d["outcome"], d["try"]) for d in tries] == [("sent", 1), ("sent", 2), ("refused", 3), ("answered", 2)]
    assert tries[2]["dropReason"] == "rejected-no-endpoints" and tries[3]["error"] == "cannot connect to the model server"


def test_a_request_without_a_body(lab):
    upstream = lab.upstream()
    router = lab.router(endpoint=[upstream.url])
    assert httpx.get(router.url + "/v1/models", headers={"x-request-id": "models"}, timeout=10).status_code == 200
    (d,) = decisions(router, request_id="models")
    assert d["outcome"] == "sent" and d["why"] == "a request without a body goes to any endpoint that serves clients"


def test_the_token_opens_it_and_names_of_sites_do_not(lab, tmp_path):
    token = tmp_path / "token"
    token.write_text("explain-token-1\n")
    upstream = lab.upstream()
    router = lab.router(endpoint=[upstream.url], admin_token_file=token)
    assert httpx.get(f"{router.admin}/debug/decisions", timeout=10).status_code == 401
    assert "--token-file" in explain(router, code=1)
    assert explain(router, "--token-file", str(token)) == "no request has come yet\n"
    plain = lab.router(endpoint=[upstream.url])
    for host, status in [("127.0.0.1", 200), (f"localhost:{plain.metrics_port}", 200), ("[::1]", 200), ("evil.example", 403)]:
        assert httpx.get(f"{plain.admin}/debug/decisions", headers={"host": host}, timeout=10).status_code == status, host


def test_explain_reports_bad_arguments(tmp_path):
    def run(*arguments):
        done = subprocess.run([BINARY, "explain", *arguments], capture_output=True, text=True, timeout=60)
        assert len(done.stderr.splitlines()) == 1, done.stderr
        return done.returncode, done.stderr
    assert run("--admin", "http://127.0.0.1:1")[0] == 1
    assert "--admin" in run("--admin", "127.0.0.1:9090")[1]
    assert "missing" in run("--token-file", str(tmp_path / "missing"))[1]
    assert run("--limit", "0")[0] == 2 and run("--jsn")[0] == 2
