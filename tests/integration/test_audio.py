"""Audio comes as a form: its model is known and rewritten in place, everything else goes as it came."""

import openai
import pytest

from upstream import answer

SOUND = bytes(range(256)) * 5000 + b"\r\n--not-the-boundary\r\n"


@pytest.fixture
def client(lab):
    upstream = lab.upstream(script=lambda connection, received: connection.sock.sendall(
        answer(b'{"text":"hello","usage":{"type":"tokens","input_tokens":7,"output_tokens":2,"total_tokens":9}}')))
    router = lab.router(endpoint=[upstream.url])
    return openai.OpenAI(base_url=f"http://127.0.0.1:{router.port}/v1", api_key="none", max_retries=0), router, upstream


@pytest.mark.parametrize("rewritten", [None, "whisper-large-v3"])
def test_forms_keep_every_byte_but_the_model(client, rewritten):
    openai_client, router, upstream = client
    headers = {"x-llm-d-model-name-rewrite": rewritten} if rewritten else {}
    heard = openai_client.audio.transcriptions.create(model="whisper-1", file=("a.wav", SOUND), language="en", extra_headers=headers)
    assert heard.text == "hello"
    received = upstream.requests[-1]
    assert received.line.startswith("POST /v1/audio/transcriptions ")
    assert int(received.get("content-length")) == len(received.body)
    boundary = received.get("content-type").split("boundary=")[1]
    parts = {}
    for part in received.body.split(f"--{boundary}".encode())[1:-1]:
        head, content = part.split(b"\r\n\r\n", 1)
        parts[head.split(b'name="')[1].split(b'"')[0].decode()] = content[:-2]
    assert parts == {"model": (rewritten or "whisper-1").encode(), "language": b"en", "file": SOUND}
    labels = {"model_name": "whisper-1", "target_model_name": rewritten or "whisper-1", "fairness_id": "default-flow", "priority": "0"}
    assert router.value("llm_d_epp_request_total", **labels) == 1
    assert router.value("llm_d_epp_request_input_tokens_sum", **labels) == 7


def test_what_is_no_such_form_is_refused(client):
    openai_client, _, upstream = client
    with pytest.raises(openai.BadRequestError, match="content type must be multipart/form-data"):
        openai_client.post("/audio/translations", cast_to=object, body={"model": "whisper-1"})
    assert not upstream.requests
