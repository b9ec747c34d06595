"""The official client against the router and two simulated servers."""

import asyncio

import openai
import pytest

from conftest import client_of
from process import MODEL


@pytest.fixture(scope="module")
def router(module_lab):
    sim = module_lab.sim(replicas=2)
    return module_lab.router(endpoint=sim.urls)


ASK = {"model": MODEL, "messages": [{"role": "user", "content": "Tell me about herons."}], "max_tokens": 8}


def test_chat_answers_with_text_and_usage(router):
    answer = client_of(router).chat.completions.create(**ASK)
    assert answer.object == "chat.completion"
    assert answer.choices[0].message.role == "assistant"
    assert answer.choices[0].message.content
    assert answer.usage.prompt_tokens > 0
    assert 1 <= answer.usage.completion_tokens <= 8
    assert answer.usage.total_tokens == answer.usage.prompt_tokens + answer.usage.completion_tokens


def test_streamed_chat_is_the_role_then_text_then_a_reason_then_usage(router):
    chunks = list(client_of(router).chat.completions.create(**ASK, stream=True, stream_options={"include_usage": True}))
    assert chunks[0].choices[0].delta.role == "assistant"
    text = [c.choices[0].delta.content for c in chunks if c.choices and c.choices[0].delta.content]
    reasons = [c.choices[0].finish_reason for c in chunks if c.choices and c.choices[0].finish_reason]
    assert len(reasons) == 1 and reasons[0] in ("stop", "length")
    assert chunks[-1].choices == []
    assert chunks[-1].usage.completion_tokens == len(text)
    assert len({c.id for c in chunks}) == 1


def test_completions_answer_and_stream(router):
    client = client_of(router)
    answer = client.completions.create(model=MODEL, prompt="Once upon a time", max_tokens=6)
    assert answer.object == "text_completion" and answer.choices[0].text
    streamed = list(client.completions.create(model=MODEL, prompt="Once upon a time", max_tokens=6, stream=True))
    assert any(c.choices and c.choices[0].text for c in streamed)


def test_every_token_list_of_a_batch_gets_its_choice(router):
    answer = client_of(router).completions.create(model=MODEL, prompt=[[1, 2], [3]], max_tokens=2)
    assert [c.index for c in answer.choices] == [0, 1]
    assert answer.usage.prompt_tokens == 3


def test_models_are_listed(router):
    assert MODEL in [m.id for m in client_of(router).models.list()]


def test_async_clients_share_the_router(router):
    async def run():
        async with openai.AsyncOpenAI(base_url=router.url + "/v1", api_key="any", max_retries=0) as client:
            plain = [client.chat.completions.create(**ASK) for _ in range(20)]
            answers = await asyncio.gather(*plain)

            async def stream():
                chunks = [c async for c in await client.chat.completions.create(**ASK, stream=True)]
                return [c.choices[0].finish_reason for c in chunks if c.choices][-1]

            return answers, await asyncio.gather(*[stream() for _ in range(20)])

    answers, reasons = asyncio.run(run())
    assert len({a.id for a in answers}) == 20
    assert all(r in ("stop", "length") for r in reasons)


def test_an_error_of_the_model_server_reaches_the_client_as_it_is(router):
    with pytest.raises(openai.NotFoundError) as caught:
        client_of(router).chat.completions.create(**{**ASK, "model": "no-such-model"})
    assert caught.value.body["message"] == "The model `no-such-model` does not exist."
    assert caught.value.body["code"] == 404


def test_a_refusal_of_the_router_is_an_error_object(router):
    with pytest.raises(openai.BadRequestError) as caught:
        client_of(router).post("/chat/completions", body={"model": MODEL}, cast_to=object)
    assert "must have valid messages field" in caught.value.body["message"]
