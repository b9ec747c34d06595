"""vLLM's and Vertex AI's gRPC APIs through `llmd epp`: what is read from requests and answers, and what is refused."""

import gzip
import json

import pytest
from ext_proc import Response, Stream, header_map
from grpc_engine import CHUNK, COMPLETE, EMBED, GENERATE, data, framed, generate, number, tokenized

CHAT = "/google.cloud.aiplatform.v1beta1.PredictionService/ChatCompletions"


def zipped(message):
    return framed(gzip.compress(message), 1)


def http_body(text):
    return data(1, b"application/json") + data(2, text)


@pytest.fixture(scope="module")
def epp(module_lab):
    return module_lab.epp([9100], more_config="requestHandler: {parsers: [{pluginRef: vllmgrpc-parser}, {pluginRef: vertexai-parser}]}\n")


@pytest.fixture
def stream(epp):
    with epp.channel() as channel:
        yield Stream(channel)


def usage(epp):
    page = epp.metrics()
    return tuple(page.value(f"llm_d_epp_request_{kind}_tokens_sum") for kind in ("input", "output"))


def answered(epp, stream, pieces, trailers=True):
    """Sends an answer and checks that it comes back as it is; returns the usage that was read."""
    before = usage(epp)
    stream.send(response_headers={"headers": header_map([(":status", "200"), ("content-type", "application/grpc")])})
    stream.headers()
    for piece in pieces:
        stream.send(response_body={"body": piece})
        part = stream.next().response_body.response.body_mutation.streamed_response
        assert (part.body, part.end_of_stream) == (piece, False)
    stream.send(response_trailers={"trailers": header_map([("grpc-status", "0")])})
    assert stream.next().WhichOneof("response") == "response_trailers"
    stream.close()
    stream.next()
    after = usage(epp)
    return after[0] - before[0], after[1] - before[1]


@pytest.mark.parametrize("compressed", [False, True])
def test_t8_generate_with_a_streamed_answer(epp, stream, compressed):
    body = (zipped if compressed else framed)(generate(stream=True))
    stream.post(body, path=GENERATE, headers=[("content-type", "application/grpc"), ("te", "trailers")])
    assert stream.headers()[0]["x-gateway-destination-endpoint"] == "127.0.0.1:9100"
    assert stream.body()[0] == body
    assert answered(epp, stream, [framed(CHUNK), framed(CHUNK), framed(COMPLETE)]) == (7, 10)


def test_messages_cut_anywhere(epp, stream):
    body = framed(generate())
    stream.post(body[:7], path=GENERATE, end=False)
    stream.send(request_body={"body": body[7:], "end_of_stream": True})
    stream.headers()
    assert stream.body()[0] == body
    answer = framed(COMPLETE)
    assert answered(epp, stream, [answer[:3], answer[3:9], answer[9:]]) == (7, 10)


def test_embed(epp, stream):
    stream.post(framed(data(1, b"r1") + tokenized(1, 2)), path=EMBED)
    stream.headers()
    stream.body()
    assert answered(epp, stream, [framed(data(1, b"\0" * 16) + number(2, 7) + number(3, 4))]) == (7, 0)


def test_answers_that_make_no_sense_pass(epp, stream):
    stream.post(framed(generate()), path=GENERATE)
    stream.headers()
    stream.body()
    assert answered(epp, stream, [b"no frame at all", b"\xff" * 50]) == (0, 0)


def test_a_prediction(epp, stream):
    text = json.dumps({"model": "m", "messages": [{"role": "user", "content": "hi"}]}).encode()
    body = framed(data(1, b"projects/p") + data(2, http_body(text)))
    stream.post(body, path=CHAT)
    stream.headers()
    assert stream.body()[0] == body
    answer = b'{"usage":{"prompt_tokens":7,"completion_tokens":10,"total_tokens":17}}'
    assert answered(epp, stream, [framed(http_body(answer))]) == (7, 10)


@pytest.mark.parametrize("path, body, message", [
    (GENERATE, b"no frame", "invalid or unsupported gRPC payload"),
    (GENERATE, b"\0\xff\xff\xff\xff" + generate(), "invalid or unsupported gRPC payload"),
    (GENERATE, zipped(b"\0" * (5 << 20)), "invalid or unsupported gRPC payload"),
    (GENERATE, framed(data(1, b"r1")), "not supported request inputType"),
    (EMBED, framed(data(1, b"r1")), "missing tokenized input in EmbedRequest"),
    (CHAT, framed(data(1, b"e")), "ChatCompletionsRequest has no HttpBody"),
    (CHAT, framed(data(2, http_body(b"{"))),
     "parsing ChatCompletionsRequest: error unmarshaling request bodyMap: unexpected end of JSON input"),
    ("/v1/completions", b"{}", "no parser registered matching path suffix for: /v1/completions"),
], ids=["no-frame", "huge-length", "bomb", "no-input", "no-tokens", "no-body", "bad-json", "no-parser"])
def test_what_is_refused(stream, path, body, message):
    stream.post(body, path=path)
    reply = stream.next()
    assert isinstance(reply, Response), reply
    assert reply.immediate_response.status.code == 400
    assert reply.immediate_response.body.decode() == f"inference error: BadRequest - {message}"


def test_other_methods_pass_unread(epp, stream):
    body = framed(b"\xff\xff")
    stream.post(body, path="/vllm.grpc.engine.VllmEngine/Abort")
    stream.headers()
    assert stream.body()[0] == body
    assert answered(epp, stream, [framed(b"")]) == (0, 0)
