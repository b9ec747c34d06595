"""The official Anthropic client against the router and a scripted model server."""

import json

import anthropic
import pytest
from process import free_ports
from upstream import answer
from wire import listens

ASK = {"model": "claude-like", "max_tokens": 16, "messages": [{"role": "user", "content": "Tell me about herons."}]}
USAGE = {"input_tokens": 25, "cache_read_input_tokens": 10, "output_tokens": 7}
EVENTS = [
    ("message_start", {"message": {"id": "msg_1", "type": "message", "role": "assistant", "model": "claude-like",
                                   "content": [], "stop_reason": None, "stop_sequence": None,
                                   "usage": USAGE | {"output_tokens": 1}}}),
    ("content_block_start", {"index": 0, "content_block": {"type": "text", "text": ""}}),
    ("content_block_delta", {"index": 0, "delta": {"type": "text_delta", "text": "They "}}),
    ("content_block_delta", {"index": 0, "delta": {"type": "text_delta", "text": "wade."}}),
    ("content_block_stop", {"index": 0}),
    ("message_delta", {"delta": {"stop_reason": "end_turn", "stop_sequence": None}, "usage": {"output_tokens": 7}}),
    ("message_stop", {}),
]


def messages(connection, received):
    path = received.line.split()[1]
    if path == "/v1/messages/count_tokens":
        connection.sock.sendall(answer(b'{"input_tokens":25}'))
    elif json.loads(received.body).get("stream"):
        events = "".join(f"event: {n}\ndata: {json.dumps({'type': n} | f)}\n\n" for n, f in EVENTS).encode()
        connection.sock.sendall(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Length: %d\r\n\r\n" %
                                len(events) + events)
    else:
        message = {"id": "msg_1", "type": "message", "role": "assistant", "model": "claude-like", "stop_reason": "end_turn",
                   "stop_sequence": None, "usage": USAGE, "content": [{"type": "text", "text": "They wade."}]}
        connection.sock.sendall(answer(json.dumps(message).encode()))


@pytest.fixture
def router(lab):
    return lab.router(endpoint=[lab.upstream(script=messages).url])


def client_of(router):
    return anthropic.Anthropic(base_url=router.url, api_key="unused", max_retries=0)


def counted(router):
    return tuple(router.value(f"llm_d_epp_request_{name}_tokens_sum", model_name="claude-like")
                 for name in ("input", "output"))


def test_messages_answer_and_are_counted(router):
    message = client_of(router).messages.create(**ASK)
    assert message.content[0].text == "They wade."
    assert message.usage.input_tokens == 25
    assert counted(router) == (25, 7)


def test_streamed_messages_are_counted(router):
    with client_of(router).messages.stream(**ASK) as stream:
        assert "".join(stream.text_stream) == "They wade."
    assert counted(router) == (25, 7)


def test_tokens_are_counted_by_the_server(router):
    assert client_of(router).messages.count_tokens(model=ASK["model"], messages=ASK["messages"]).input_tokens == 25


def test_refusals_are_of_the_class_that_clients_expect(router):
    with pytest.raises(anthropic.BadRequestError) as error:
        client_of(router).messages.create(**ASK | {"messages": []})
    assert error.value.body["type"] == "error"
    assert error.value.body["error"] == {
        "type": "invalid_request_error",
        "message": "inference error: BadRequest - invalid messages request: must have at least one message"}


def test_a_pool_without_servers_is_an_overloaded_one(lab):
    router = lab.router(endpoint=[f"http://127.0.0.1:{free_ports()}"], wait_ready=False)
    router.wait_for("router listens", lambda: listens(router.port))
    with pytest.raises(anthropic.InternalServerError) as error:
        client_of(router).messages.create(**ASK)
    assert error.value.status_code == 503
    assert error.value.body["error"]["type"] == "overloaded_error"
