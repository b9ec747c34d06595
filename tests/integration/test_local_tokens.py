"""The router has exact tokens without a server: those of Python's tokenizers."""

import httpx
import pytest

from kv_publisher import stored
from test_precise_prefix import SERVED, Fleet
from tokenizers_in_use import Model

BLOCK = 16


def local(folder):
    return f"- {{type: token-producer, parameters: {{local: {{path: {folder}}}}}}}"


def served_by(fleet, path, body):
    answer = httpx.post(fleet.router.url + path, json={"model": "m", **body}, timeout=20)
    assert answer.status_code == 200, answer.text
    return answer.headers[SERVED]


def hold(publisher, ids, first_block):
    """Tells of the whole blocks of a prompt."""
    whole = len(ids) // BLOCK
    publisher.send(stored(list(range(first_block, first_block + whole)), ids[:whole * BLOCK]))
    return whole


@pytest.mark.parametrize("name", ["qwen3", "llama3_1"])
def test_requests_find_the_blocks_of_their_tokens(lab, tmp_path, name):
    model = Model(name)
    fleet = Fleet(lab, tmp_path, True, local(model.folder))
    blocks = 0
    for i, publisher in enumerate(fleet.publishers):
        messages = [{"role": "system", "content": f"You are server {i}."},
                    {"role": "user", "content": "Räume auf: " + "def f(x):\n    return 漢字 😀\n" * 20}]
        text = f"{i}. Once upon a time\n" + "there was a prompt. " * 30
        blocks += hold(publisher, model.ids(model.chat(messages)), 1000 * (2 * i + 1))
        blocks += hold(publisher, model.ids(text, framed=True), 1000 * (2 * i + 2))
        fleet.wait_for_blocks(blocks)
        for path, body in [("/v1/chat/completions", {"messages": messages}), ("/v1/completions", {"prompt": text})]:
            before = fleet.hits()
            assert {served_by(fleet, path, body) for _ in range(3)} == {fleet.pods[i]}
            assert fleet.hits() > before
    assert fleet.router.value("llmd_render_calls_total", result="answered") == 12
    assert fleet.router.value("llmd_tokenizer_bytes_total", source="cache") > 0


def test_requests_that_cannot_be_tokenized_go_on(lab, tmp_path):
    fleet = Fleet(lab, tmp_path, True, local(Model("qwen3").folder))
    image = {"type": "image_url", "image_url": {"url": "https://x/y.png"}}
    served_by(fleet, "/v1/chat/completions", {"messages": [{"role": "user", "content": [image]}]})
    assert fleet.router.value("llmd_render_calls_total", result="failed") == 1
    assert fleet.router.value("llmd_degraded_decisions_total") == 1


def test_a_model_that_is_not_there_is_told_at_start(lab, tmp_path):
    with pytest.raises(AssertionError, match="parameter 'local': .*nowhere"):
        Fleet(lab, tmp_path, True, local(tmp_path / "nowhere"))
