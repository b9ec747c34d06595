"""`llmd tokenizer` over HTTP, gRPC and a unix socket: the tokens are those of Python's tokenizers, chats those of jinja2."""

import json
import random

import grpc
import httpx
import pytest

from grpc_engine import data, number
from process import TokenizerService
from tokenizers_in_use import FOLDER, NAMES, Model

SERVICE = "/tokenization.TokenizationService/"
SEED = random.randrange(1 << 32)

TEXTS = [
    "", " ", "Hello world", "def f(x):\n    return x ** 2  # comment\n\n\nclass A:\n\tpass\n" * 30,
    "敏捷的棕色狐狸跳过了懒狗。" * 40, "素早い茶色の狐が、のろまな犬を飛び越える。カタカナ" * 30, "다람쥐 헌 쳇바퀴에 타고파 " * 30,
    "Съешь же ещё этих мягких французских булок 0123456789 " * 20, "مرحبا بالعالم ١٢٣ " * 20, "हिन्दी में पाठ " * 20,
    "😀👩‍👩‍👧‍👦🇩🇪✈️" * 50, "a" * 3000, " " * 3000, "\n" * 3000, "1234567890" * 300, "!?.,;" * 500, "=" * 1000,
    "e\u0301A\u030a\u1e9b\u0323\ufb01\u2460\u00bd", "\u00a0\u2003\u3000\u200b\u200d\ufeff\u0000\u0007",
    "x<|im_start|>y<|eot_id|>z<s>a</s><bos><start_of_turn>b<｜User｜>c<think>", "\r\n\r\n \t\r", "I'll we've IT'S don’t",
    "| a | b |\n|---|---|\n" * 50, '{"k": [1, 2.5e10, null], "s": "\\u00e9\\n"}' * 40,
]

TOOLS = [{"type": "function", "function": {
    "name": "weather", "description": "Météo of a city", "parameters": {
        "type": "object", "properties": {"city": {"type": "string"}, "days": {"type": "integer", "default": 1.0}}}}}]
CALL = {"id": "call_1", "type": "function", "function": {"name": "weather", "arguments": '{"city": "Köln", "days": 3}'}}
CHATS = [
    ([{"role": "user", "content": "Hi <|im_end|> there"}], {}),
    ([{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Räume\n\nauf 漢字 😀"},
      {"role": "assistant", "content": "<think>\nwhy\n</think>\n\nDone."}, {"role": "user", "content": "  And now?\n"}], {}),
    ([{"role": "user", "content": [{"type": "text", "text": "one"}, {"type": "text", "text": "two"}]}], {}),
    ([{"role": "user", "content": "No answer yet"}], {"add_generation_prompt": False}),
    ([{"role": "user", "content": "Weather?"}], {"tools": TOOLS}),
    ([{"role": "user", "content": "Weather?"}, {"role": "assistant", "content": "", "tool_calls": [CALL]},
      {"role": "tool", "tool_call_id": "call_1", "content": "sunny"}, {"role": "user", "content": "Thanks"}], {"tools": TOOLS}),
    ([{"role": "user", "content": "Think"}], {"chat_template_kwargs": {"enable_thinking": False}}),
]


def as_templates_see(messages, wants_parts):
    """What vLLM makes of messages."""
    out = []
    for message in messages:
        message = json.loads(json.dumps(message))
        content = message["content"]
        parts = content if isinstance(content, list) else [{"type": "text", "text": content}]
        message["content"] = parts if wants_parts else "\n".join(part["text"] for part in parts)
        for call in message.get("tool_calls", []):
            call["function"]["arguments"] = json.loads(call["function"]["arguments"])
        out.append(message)
    return out


@pytest.fixture(scope="module")
def models():
    return {name: Model(name) for name in NAMES}


@pytest.fixture(scope="module")
def service(module_lab, models):
    socket = module_lab.directory / "run" / "tokenizer.socket"
    it = module_lab._add(TokenizerService(module_lab._log("tokenizer"), {n: m.folder for n, m in models.items()}, socket=socket))
    it.socket = socket
    return it


def post(service, path, body, status=200):
    answer = httpx.post(f"{service.url}/v1/{path}/render", json=body, timeout=60)
    assert answer.status_code == status, answer.text
    return answer.json()


def texts_of_files():
    """Sources and documents of this project, cut at random."""
    rng = random.Random(SEED)
    folder = FOLDER.parents[1]
    files = sorted([*folder.glob("docs/*.md"), *folder.glob("src/request/*.cc"), *folder.glob("tests/integration/*.py")])
    for file in rng.sample(files, 12):
        text = file.read_text()
        begin = rng.randrange(len(text) // 2 + 1)
        yield text[begin:begin + rng.randrange(1, 30_000)]


@pytest.mark.parametrize("name", NAMES)
def test_texts_have_the_tokens_that_python_has(service, models, name):
    texts = [*TEXTS, *texts_of_files()]
    answers = post(service, "completions", {"model": name, "prompt": texts, "add_special_tokens": False})
    assert len(answers) == len(texts)
    for text, answer in zip(texts, answers):
        assert answer["token_ids"] == models[name].ids(text), (SEED, text)


@pytest.mark.parametrize("name", ["qwen3", "llama3_1", "llama2", "gemma3"])
def test_sequences_begin_as_python_has_them(service, models, name):
    answers = post(service, "completions", {"model": name, "prompt": ["Hello", ""]})
    assert [a["token_ids"] for a in answers] == [models[name].ids(text, framed=True) for text in ["Hello", ""]]


@pytest.mark.parametrize("name", ["qwen3", "llama3_1", "deepseek_v3", "gemma3"])
def test_chats_are_rendered_as_python_renders_them(service, models, name):
    model = models[name]
    wants_parts = "in message['content']" in model.template
    equal = 0
    for messages, options in CHATS:
        seen = {**options, **options.get("chat_template_kwargs", {})}
        body = {"model": name, "messages": messages, **options}
        try:
            text = model.chat(as_templates_see(messages, wants_parts), **seen)
        except Exception:  # the template does not want this chat
            post(service, "chat/completions", body, status=400)
            continue
        answer = post(service, "chat/completions", body)
        assert answer["token_ids"] == model.ids(text), text
        equal += 1
    assert equal >= 5


def call(service, method, message, over_socket=False):
    target = f"unix:{service.socket}" if over_socket else f"127.0.0.1:{service.grpc_port}"
    with grpc.insecure_channel(target, options=[("grpc.default_authority", "localhost")]) as channel:
        return fields(channel.unary_unary(SERVICE + method)(message, timeout=30))


def fields(message):
    """{number: value} of a message; lists of numbers stay packed."""
    out, at = {}, 0

    def varint():
        nonlocal at
        value, shift = 0, 0
        while True:
            byte = message[at]
            at += 1
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value
    while at < len(message):
        key = varint()
        value = varint()
        if key & 7 == 2:
            out[key >> 3] = message[at:at + value]
            at += value
        else:
            out[key >> 3] = value
    return out


def unpacked(packed):
    ids, value, shift = [], 0, 0
    for byte in packed:
        value |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            ids.append(value)
            value, shift = 0, 0
    return ids


@pytest.mark.parametrize("over_socket", [False, True], ids=["tcp", "socket"])
def test_grpc_has_the_same_tokens(service, models, over_socket):
    model, text = models["llama3_1"], "Hello wörld\n\n" * 100
    name = b"llama3_1"
    answer = call(service, "Tokenize", data(1, text.encode()) + data(2, name) + number(3, 1), over_socket)
    assert (unpacked(answer[1]), answer[2]) == (model.ids(text, framed=True), 1)
    answer = call(service, "Tokenize", data(1, text.encode()) + data(2, name), over_socket)
    assert unpacked(answer[1]) == model.ids(text)
    answer = call(service, "RenderCompletion", data(1, name) + data(2, text.encode()), over_socket)
    assert (unpacked(answer[2]), answer[3]) == (model.ids(text, framed=True), 1)
    assert answer[1].startswith(b"render-")

    assert call(service, "InitializeTokenizer", data(1, name), over_socket) == {1: 1}
    refused = call(service, "InitializeTokenizer", data(1, b"lama3_1"), over_socket)
    assert refused[1] == 0 and refused[2] == b"there is no model 'lama3_1' (did you mean 'llama3_1'?)"


def test_grpc_renders_chats(service, models):
    model = models["qwen3"]
    messages = as_templates_see(CHATS[5][0], False)
    content = data(3, data(1, b"text") + data(2, "Weather?".encode()))
    message = (data(1, b"qwen3") + data(2, data(1, b"user") + content) +
               data(2, data(1, b"assistant") + data(2, b"") + data(4, json.dumps([CALL]).encode())) +
               data(2, data(1, b"tool") + data(2, b"sunny")) + data(2, data(1, b"user") + data(2, b"Thanks")) +
               data(3, json.dumps(TOOLS).encode()) + data(7, b'{"enable_thinking": false}'))
    answer = call(service, "RenderChatCompletion", message)
    assert answer[4] == 1, answer
    assert unpacked(answer[2]) == model.ids(model.chat(messages, tools=TOOLS, enable_thinking=False))
    answer = call(service, "RenderChatCompletion", message + number(5, 0))
    assert unpacked(answer[2]) == model.ids(
        model.chat(messages, tools=TOOLS, enable_thinking=False, add_generation_prompt=False))


def test_what_is_wrong_is_said(service):
    assert "no model 'qwen'" in post(service, "completions", {"model": "qwen", "prompt": "x"}, 404)["error"]["message"]
    assert "field 'model': required" in post(service, "completions", {"prompt": "x"}, 400)["error"]["message"]
    image = [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "x"}}]}]
    refused = post(service, "chat/completions", {"model": "qwen3", "messages": image}, 400)
    assert refused["error"]["message"] == "content of type 'image_url' has no text"
    answer = call(service, "RenderChatCompletion", data(1, b"gpt4o") + data(2, data(1, b"user") + data(2, b"x")))
    assert answer[4] == 0 and answer[5] == b"the model has no chat template"
    for method, message in [("Tokenize", b"\xff"), ("RenderChatCompletion", data(3, b"{"))]:
        with pytest.raises(grpc.RpcError) as refused:
            call(service, method, message)
        assert refused.value.code() == grpc.StatusCode.INVALID_ARGUMENT


def test_a_model_alone_needs_no_name(lab, models):
    service = lab._add(TokenizerService(lab._log("tokenizer"), {"": models["llama2"].folder}, socket=""))
    assert post(service, "completions", {"prompt": "x", "model": ""})[0]["token_ids"] == models["llama2"].ids("x", framed=True)
    assert "llmd_tokenizer_bytes_total" in httpx.get(f"{service.url}/metrics").text
