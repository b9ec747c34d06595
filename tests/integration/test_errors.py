"""Refusals: status, message and drop reason of the contract, in the envelope that OpenAI clients expect."""

import pytest

from process import MODEL, free_ports
from wire import chat_body, listens, once, request

DROPPED = "x-llm-d-request-dropped-reason"


def error_of(response):
    body = response.json()
    assert set(body) == {"error"}
    error = body["error"]
    assert set(error) >= {"message", "type", "param", "code"}
    assert error["code"] == response.status
    assert response.headers["content-type"].startswith("application/json")
    return error


@pytest.fixture(scope="module")
def router(module_lab):
    return module_lab.router(endpoint=[module_lab.upstream().url])


@pytest.mark.parametrize("path, body, message", [
    ("/v1/chat/completions", b"no healthy upstream", "inference error: BadRequest - error unmarshaling request bodyMap: "),
    ("/v1/completions", b"[1, 2]", "inference error: BadRequest - error unmarshaling request bodyMap: "),
    ("/v1/completions", b'{"model":"m"}', "inference error: BadRequest - invalid completions request: must have prompt field"),
    ("/v1/chat/completions", b'{"model":"m","messages":[]}',
     "inference error: BadRequest - invalid chat completions request: must have valid messages field"),
    ("/v1/embeddings", b'{"model":"m"}', "inference error: BadRequest - invalid embeddings request: must have input field"),
    ("/v1/completions", b'{"prompt":"hello world"}', "inference error: BadRequest - model not found in request body"),
], ids=["not-json", "not-object", "no-prompt", "no-messages", "no-input", "no-model"])
def test_bad_requests_are_400_with_the_parsers_words(router, path, body, message):
    response = once(router.port, request(body, path=path))
    assert response.status == 400
    assert error_of(response)["message"].startswith(message)
    assert DROPPED not in response.headers


def test_no_endpoints_is_503_with_a_drop_reason(lab, tmp_path):
    empty = tmp_path / "endpoints.yaml"
    empty.write_text("endpoints: []\n")
    router = lab.router(endpoints_file=empty, wait_ready=False)
    router.wait_for("router listens", lambda: listens(router.port))
    response = once(router.port, request(chat_body()))
    assert response.status == 503
    assert error_of(response)["message"] == (
        "inference error: ServiceUnavailable - failed to find endpoint candidates for serving the request")
    assert response.headers[DROPPED] == "rejected-no-endpoints"


def test_a_bodyless_request_to_an_empty_pool_is_500(lab, tmp_path):
    empty = tmp_path / "endpoints.yaml"
    empty.write_text("endpoints: []\n")
    router = lab.router(endpoints_file=empty, wait_ready=False)
    router.wait_for("router listens", lambda: listens(router.port))
    response = once(router.port, b"GET /v1/models HTTP/1.1\r\nHost: a\r\n\r\n")
    assert response.status == 500
    assert error_of(response)["message"] == "inference error: Internal - no pods available in datastore"


def test_an_unknown_path_is_400_when_no_parser_is_a_fallback(lab):
    config = """
apiVersion: llm-d.ai/v1
kind: EndpointPickerConfig
requestHandler: {parsers: [{pluginRef: openai-parser}]}
plugins: [{type: openai-parser}, {type: queue-scorer}]
schedulingProfiles: [{name: default, plugins: [{pluginRef: queue-scorer}]}]
"""
    router = lab.router(endpoint=[lab.upstream().url], config_text=config)
    response = once(router.port, request(b'{"model":"m"}', path="/no/such/path"))
    assert response.status == 400
    assert error_of(response)["message"] == (
        "inference error: BadRequest - no parser registered matching path suffix for: /no/such/path")


def test_a_server_that_refuses_connections_is_503(lab):
    router = lab.router(endpoint=[f"http://127.0.0.1:{free_ports()}"], wait_ready=False)
    router.wait_for("router listens", lambda: listens(router.port))
    response = once(router.port, request(chat_body()))
    assert response.status == 503
    assert error_of(response)["message"]


def test_an_answer_that_is_not_http_is_502(lab):
    def script(connection, received):
        connection.sock.sendall(b"220 this is a mail server\r\n\r\n")
        return False

    router = lab.router(endpoint=[lab.upstream(script=script).url])
    response = once(router.port, request(chat_body()))
    assert response.status == 502
    assert error_of(response)["message"]


def test_filters_that_leave_nobody_are_429(lab):
    config = """
apiVersion: llm-d.ai/v1
kind: EndpointPickerConfig
plugins: [{type: decode-filter}, {type: queue-scorer}]
schedulingProfiles: [{name: default, plugins: [{pluginRef: decode-filter}, {pluginRef: queue-scorer}]}]
"""
    upstream = lab.upstream()
    router = lab.router(endpoint=[f"{upstream.url};llm-d.ai/role=prefill"], config_text=config)
    response = once(router.port, request(chat_body(model=MODEL)))
    assert response.status == 429
    assert error_of(response)["message"] == (
        "inference error: ResourceExhausted - no endpoints available for the given request")
    assert response.headers[DROPPED] == "rejected-saturated"
