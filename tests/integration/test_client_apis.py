"""The official clients on the APIs beside plain chat: tools, responses, embeddings, and every refusal as the right exception. A
scripted server answers as vLLM does; what it answers is checked by the clients' own types."""

import json
import pathlib

import anthropic
import openai
import pytest
from conftest import client_of
from process import free_ports
from upstream import BUSY, answer
from wire import listens

RECORDED = pathlib.Path(__file__).parents[1] / "data/vllm/answer-responses.json"
WEATHER = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
OPENAI_TOOLS = [{"type": "function", "function": {"name": "weather", "description": "What it is like.", "parameters": WEATHER}}]
ANTHROPIC_TOOLS = [{"name": "weather", "description": "What it is like.", "input_schema": WEATHER}]
ASK = {"model": "m", "messages": [{"role": "user", "content": "How is it in Boston?"}]}


def chat(body):
    usage = {"prompt_tokens": 21, "completion_tokens": 9, "total_tokens": 30}
    call = {"id": "chatcmpl-tool-1", "type": "function", "function": {"name": "weather", "arguments": '{"city":"Boston"}'}}
    base = {"id": "c1", "created": 1, "model": body["model"]}
    if not body.get("stream"):
        return base | {"object": "chat.completion", "usage": usage, "choices": [
            {"index": 0, "finish_reason": "tool_calls", "message": {"role": "assistant", "content": None, "tool_calls": [call]}}]}
    deltas = [{"role": "assistant", "content": None}, {"tool_calls": [call | {"index": 0, "function": {"name": "weather", "arguments": ""}}]}]
    deltas += [{"tool_calls": [{"index": 0, "function": {"arguments": part}}]} for part in ('{"city":', '"Boston"', "}")]
    chunks = [base | {"object": "chat.completion.chunk", "choices": [{"index": 0, "delta": d, "finish_reason": None}]} for d in deltas]
    chunks.append(base | {"object": "chat.completion.chunk", "choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls"}]})
    if body.get("stream_options", {}).get("include_usage"):
        chunks.append(base | {"object": "chat.completion.chunk", "choices": [], "usage": usage})
    return [(None, c) for c in chunks] + [(None, "[DONE]")]


def responses(body):
    whole = json.loads(RECORDED.read_text())
    if not body.get("stream"):
        return whole
    item = whole["output"][0]
    place = {"item_id": item["id"], "output_index": 0, "content_index": 0}
    told = [("response.created", {"response": whole | {"output": [], "usage": None, "status": "in_progress"}}),
            ("response.output_item.added", {"output_index": 0, "item": item | {"content": [], "status": "in_progress"}}),
            ("response.content_part.added", place | {"part": {"type": "output_text", "text": "", "annotations": []}}),
            *(("response.output_text.delta", place | {"delta": part, "logprobs": []}) for part in ("ฟาсс", "ฟาсс")),
            ("response.output_text.done", place | {"text": "ฟาссฟาсс", "logprobs": []}),
            ("response.output_item.done", {"output_index": 0, "item": item}), ("response.completed", {"response": whole})]
    return [(name, {"type": name, "sequence_number": i} | fields) for i, (name, fields) in enumerate(told)]


def embeddings(body):
    count = 1 if isinstance(body["input"], str) else len(body["input"])
    return {"object": "list", "model": body["model"], "usage": {"prompt_tokens": 2 * count, "total_tokens": 2 * count},
            "data": [{"object": "embedding", "index": i, "embedding": [0.5, i]} for i in range(count)]}


def messages(body):
    usage = {"input_tokens": 21, "output_tokens": 9}
    base = {"id": "msg_1", "type": "message", "role": "assistant", "model": body["model"], "stop_sequence": None}
    if not body.get("stream"):
        return base | {"stop_reason": "tool_use", "usage": usage, "content": [
            {"type": "tool_use", "id": "toolu_1", "name": "weather", "input": {"city": "Boston"}}]}
    told = [("message_start", {"message": base | {"content": [], "stop_reason": None, "usage": usage | {"output_tokens": 1}}}),
            ("content_block_start", {"index": 0, "content_block": {"type": "tool_use", "id": "toolu_1", "name": "weather", "input": {}}}),
            *(("content_block_delta", {"index": 0, "delta": {"type": "input_json_delta", "partial_json": part}}) for part in ('{"city":', ' "Boston"}')),
            ("content_block_stop", {"index": 0}),
            ("message_delta", {"delta": {"stop_reason": "tool_use", "stop_sequence": None}, "usage": {"output_tokens": 9}}), ("message_stop", {})]
    return [(name, {"type": name} | fields) for name, fields in told]


APIS = {"/v1/chat/completions": chat, "/v1/responses": responses, "/v1/embeddings": embeddings, "/v1/messages": messages}


def serve(connection, received):
    said = APIS[received.line.split()[1]](json.loads(received.body))
    if isinstance(said, dict):
        connection.sock.sendall(answer(json.dumps(said).encode()))
        return
    connection.sock.sendall(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n")
    for name, data in said:
        event = (f"event: {name}\n" if name else "") + f"data: {data if isinstance(data, str) else json.dumps(data)}\n\n"
        connection.sock.sendall(b"%x\r\n%s\r\n" % (len(event.encode()), event.encode()))
    connection.sock.sendall(b"0\r\n\r\n")


@pytest.fixture(scope="module")
def router(module_lab):
    return module_lab.router(endpoint=[module_lab.upstream(script=serve).url])


def anthropic_of(router):
    return anthropic.Anthropic(base_url=router.url, api_key="any", max_retries=0, timeout=60)


def counted(router):
    return [router.value(f"llm_d_epp_request_{name}_tokens_sum", model_name="m") or 0 for name in ("input", "output")]


@pytest.fixture
def grows(router):
    """Asserts how many prompt and answer tokens the test's request is counted with."""
    before, expected = counted(router), []
    yield lambda *tokens: expected.extend(tokens)
    assert [now - then for now, then in zip(counted(router), before)] == expected


def test_tools_are_called(router, grows):
    choice = client_of(router).chat.completions.create(**ASK, tools=OPENAI_TOOLS, tool_choice="auto").choices[0]
    assert choice.finish_reason == "tool_calls"
    assert choice.message.tool_calls[0].function.name == "weather"
    assert json.loads(choice.message.tool_calls[0].function.arguments) == {"city": "Boston"}
    grows(21, 9)


def test_streamed_tools_are_called(router, grows):
    with client_of(router).chat.completions.stream(**ASK, tools=OPENAI_TOOLS, stream_options={"include_usage": True}) as stream:
        call = stream.get_final_completion().choices[0].message.tool_calls[0]
    assert (call.function.name, json.loads(call.function.arguments)) == ("weather", {"city": "Boston"})
    grows(21, 9)


def test_the_answer_of_a_tool_is_sent(router):
    call = {"id": "c", "type": "function", "function": {"name": "weather", "arguments": "{}"}}
    history = [*ASK["messages"], {"role": "assistant", "tool_calls": [call]}, {"role": "tool", "tool_call_id": "c", "content": "sunny"}]
    assert client_of(router).chat.completions.create(model="m", messages=history, tools=OPENAI_TOOLS).choices


def test_responses_answer(router):
    before = router.value("llm_d_epp_request_output_tokens_sum", model_name="tiny") or 0
    response = client_of(router).responses.create(model="tiny", input="Hi", instructions="Be brief.", max_output_tokens=4)
    assert response.output_text == "ฟาссฟาсс" and response.usage.input_tokens == 10
    assert router.value("llm_d_epp_request_output_tokens_sum", model_name="tiny") == before + 4


def test_streamed_responses_answer(router):
    before = router.value("llm_d_epp_request_input_tokens_sum", model_name="tiny") or 0
    with client_of(router).responses.stream(model="tiny", input=[{"role": "user", "content": "Hi"}]) as stream:
        text = "".join(event.delta for event in stream if event.type == "response.output_text.delta")
        assert stream.get_final_response().usage.output_tokens == 4
    assert text == "ฟาссฟาсс"
    assert router.value("llm_d_epp_request_input_tokens_sum", model_name="tiny") == before + 10


@pytest.mark.parametrize("given, count", [("Hi", 1), (["Hi", "Ho"], 2), ([1, 2, 3], 3)])
def test_embeddings_answer(router, grows, given, count):
    answered = client_of(router).embeddings.create(model="m", input=given, encoding_format="float")
    assert [e.embedding for e in answered.data] == [[0.5, i] for i in range(count)]
    grows(2 * count, 0)


def test_anthropics_tools_are_called(router, grows):
    message = anthropic_of(router).messages.create(**ASK, max_tokens=9, tools=ANTHROPIC_TOOLS)
    assert message.stop_reason == "tool_use" and message.content[0].input == {"city": "Boston"}
    grows(21, 9)


def test_anthropics_streamed_tools_are_called(router, grows):
    with anthropic_of(router).messages.stream(**ASK, max_tokens=9, tools=ANTHROPIC_TOOLS) as stream:
        message = stream.get_final_message()
    assert message.content[0].name == "weather" and message.content[0].input == {"city": "Boston"}
    grows(21, 9)


def test_anthropics_results_of_tools_are_sent(router):
    history = [*ASK["messages"], {"role": "assistant", "content": [{"type": "tool_use", "id": "t", "name": "weather", "input": {"city": "Boston"}}]},
               {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t", "content": "sunny"}]}]
    assert anthropic_of(router).messages.create(model="m", max_tokens=9, messages=history, tools=ANTHROPIC_TOOLS).content


# --- refusals

FILTERED = """
apiVersion: llm-d.ai/v1
kind: EndpointPickerConfig
plugins: [{type: decode-filter}, {type: queue-scorer}]
schedulingProfiles: [{name: default, plugins: [{pluginRef: decode-filter}, {pluginRef: queue-scorer}]}]
"""


def filtered(lab):
    return lab.router(endpoint=[f"{lab.upstream(page=BUSY).url};llm-d.ai/role=prefill"], config_text=FILTERED)


def unreachable(lab):
    router = lab.router(endpoint=[f"http://127.0.0.1:{free_ports()}"], wait_ready=False)
    router.wait_for("router listens", lambda: listens(router.port))
    return router


def keyed(lab):
    path = lab.directory / "keys"
    path.write_text("sk-the-only-one\n")
    return lab.router(endpoint=[lab.upstream().url], client_api_keys_file=path)


def failing(status):
    def router(lab):
        error = answer(b'{"type":"error","error":{"type":"t","message":"the server says no"}}', f"{status} X")
        return lab.router(endpoint=[lab.upstream(script=lambda connection, _: connection.sock.sendall(error)).url])
    router.__name__ = f"server_says_{status}"
    return router


def usual(lab):
    return lab.router(endpoint=[lab.upstream().url])


@pytest.mark.parametrize("setting, more, kind, text", [
    (usual, {"messages": []}, "BadRequestError", "must have"),
    (usual, {"extra_headers": {"Prefer": "if-available"}}, "APIStatusError", "no decode worker has the requested KV cache"),
    (keyed, {}, "AuthenticationError", "key"),
    (filtered, {}, "RateLimitError", "no endpoints available for the given request"),
    (unreachable, {}, "InternalServerError", "cannot connect to the model server"),
    (failing(400), {}, "BadRequestError", "the server says no"),
    (failing(404), {}, "NotFoundError", "the server says no"),
    (failing(422), {}, "UnprocessableEntityError", "the server says no"),
    (failing(429), {}, "RateLimitError", "the server says no"),
    (failing(500), {}, "InternalServerError", "the server says no"),
], ids=lambda value: getattr(value, "__name__", None))
@pytest.mark.parametrize("library", [openai, anthropic], ids=["openai", "anthropic"])
def test_refusals_are_of_the_class_that_clients_expect(lab, library, setting, more, kind, text):
    router = setting(lab)
    with pytest.raises(getattr(library, kind)) as caught:
        if library is openai:
            client_of(router).chat.completions.create(**ASK | more)
        else:
            anthropic_of(router).messages.create(**ASK | {"max_tokens": 9} | more)
    assert text in json.dumps(caught.value.body)


@pytest.mark.parametrize("library", [openai, anthropic], ids=["openai", "anthropic"])
def test_a_stream_that_breaks_off_is_an_error(lab, library):
    def script(connection, received):
        connection.sock.sendall(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
                                b"10\r\n: still thinking\r\n")
        return False

    router = lab.router(endpoint=[lab.upstream(script=script).url])
    with pytest.raises(Exception, match="peer closed connection without sending complete message body"):
        if library is openai:
            list(client_of(router).chat.completions.create(**ASK, stream=True))
        else:
            list(anthropic_of(router).messages.create(**ASK, max_tokens=9, stream=True))
