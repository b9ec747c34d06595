"""The model that a request is served by: its rule, its header, its body; and the name that its client reads in the answer."""

import json

import pytest
from process import eventually
from upstream import answer
from wire import chat_body, once, request

RULES = """
apiVersion: llm-d.ai/v1alpha2
kind: InferenceModelRewrite
metadata: {name: food}
spec:
  poolRef: {name: epp}
  rules:
  - matches: [{model: {value: food}}]
    targets: [{modelRewrite: %s}]
"""


def serves(connection, received):
    """Answers with the model that was asked for, in JSON or as a stream that is cut within the name."""
    body = json.loads(received.body)
    text = json.dumps({"id": "x", "model": body["model"], "choices": []})
    if not body.get("stream"):
        connection.sock.sendall(answer(text.encode()))
        return
    event = f"data: {text}\n\n".encode()
    connection.sock.sendall(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n")
    cut = event.index(body["model"].encode()) + 2
    for part in (event[:cut], event[cut:], b"data: [DONE]\n\n"):
        connection.sock.sendall(b"%x\r\n%s\r\n" % (len(part), part))
    connection.sock.sendall(b"0\r\n\r\n")


@pytest.fixture
def rules(tmp_path):
    directory = tmp_path / "objects"
    directory.mkdir()
    (directory / "food.yaml").write_text(RULES % "food-v2")
    return directory


def test_a_rule_renames_on_the_way_in_and_back_on_the_way_out(lab, rules):
    upstream = lab.upstream(script=serves)
    router = lab.router(endpoint=[upstream.url], objects_dir=rules)
    response = once(router.port, request(chat_body(model="food")))
    assert json.loads(upstream.requests[-1].body)["model"] == "food-v2"
    assert json.loads(response.body)["model"] == "food"
    streamed = once(router.port, request(chat_body(model="food", stream=True)))
    assert b'"model": "food"' in streamed.body and b"food-v2" not in streamed.body
    assert streamed.body.endswith(b"data: [DONE]\n\n")
    assert router.value("llm_d_epp_model_rewrite_decisions_total", model_rewrite_name="food", model_name="food",
                        target_model="food-v2") == 2


def test_the_header_names_the_model_where_no_rule_does(lab, rules):
    upstream = lab.upstream(script=serves)
    router = lab.router(endpoint=[upstream.url], objects_dir=rules)
    for model, expected in (("drink", "other"), ("food", "food-v2")):
        response = once(router.port, request(chat_body(model=model), "X-LLM-D-Model-Name-Rewrite: other"))
        assert json.loads(upstream.requests[-1].body)["model"] == expected
        assert json.loads(response.body)["model"] == model


def test_a_changed_rule_counts_and_a_bad_one_does_not(lab, rules):
    upstream = lab.upstream(script=serves)
    router = lab.router(endpoint=[upstream.url], objects_dir=rules)

    def served():
        once(router.port, request(chat_body(model="food")))
        return json.loads(upstream.requests[-1].body)["model"]

    (rules / "food.yaml").write_text(RULES % "food-v3")
    eventually("the new rule", lambda: served() == "food-v3")
    (rules / "food.yaml").write_text(RULES.replace("rules", "rulez") % "food-v4")
    eventually("the bad one is counted", lambda: router.value("llmd_objects_reloads_total", result="failure") == 1)
    assert served() == "food-v3"
