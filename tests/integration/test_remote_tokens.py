"""The router has exact tokens from a tokenization service, over its socket, gRPC on TCP and HTTP: those of Python's tokenizers."""

import pytest

from process import TokenizerService, eventually
from test_local_tokens import hold, served_by
from test_precise_prefix import Fleet
from tokenizers_in_use import Model

NAME = "llama3_1"
MESSAGES = [{"role": "system", "content": "Räume auf: " + "def f(x):\n    return 漢字 😀\n" * 20},
            {"role": "user", "content": [{"type": "text", "text": "one"}, {"type": "text", "text": "two"}]}]
TEXT = "Once upon a time\n" + "there was a prompt. " * 30


@pytest.fixture(scope="module")
def service(module_lab):
    socket = module_lab.directory / "run" / "tokens.socket"
    it = module_lab._add(TokenizerService(module_lab._log("tokenizer"), {NAME: Model(NAME).folder}, socket=socket))
    it.socket = socket
    return it


def producer(parameters):
    return f"- {{type: token-producer, parameters: {{modelName: {NAME}, {parameters}}}}}"


WAYS = {
    "socket": lambda s: f"udsTokenizerConfig: {{socketFile: '{s.socket}'}}",
    "tcp": lambda s: f"udsTokenizerConfig: {{useTCP: true, socketFile: '127.0.0.1:{s.grpc_port}'}}",
    "http": lambda s: f"vllm: {{url: '{s.url}'}}",
}


@pytest.mark.parametrize("way", WAYS)
def test_requests_find_the_blocks_of_their_tokens(lab, tmp_path, service, way):
    model = Model(NAME)
    fleet = Fleet(lab, tmp_path, True, producer(WAYS[way](service)))
    merged = [MESSAGES[0], {"role": "user", "content": "one\ntwo"}]
    blocks = hold(fleet.publishers[0], model.ids(model.chat(merged)), 1000)
    blocks += hold(fleet.publishers[1], model.ids(TEXT, framed=True), 2000)
    fleet.wait_for_blocks(blocks)
    for pod, path, body in [(0, "/v1/chat/completions", {"messages": MESSAGES}), (1, "/v1/completions", {"prompt": TEXT}),
                            (1, "/v1/completions", {"prompt": [TEXT, TEXT + "!"]})]:
        before = fleet.hits()
        assert {served_by(fleet, path, body) for _ in range(3)} == {fleet.pods[pod]}
        assert fleet.hits() > before
    assert fleet.router.value("llmd_render_calls_total", result="answered") == 9
    assert fleet.router.value("llmd_degraded_decisions_total") == 0


def test_requests_go_on_without_the_service(lab, tmp_path):
    socket = tmp_path / "tokens.socket"
    fleet = Fleet(lab, tmp_path, True, producer(f"udsTokenizerConfig: {{socketFile: '{socket}'}}"))
    served_by(fleet, "/v1/completions", {"prompt": TEXT})
    assert fleet.router.value("llmd_render_calls_total", result="failed") == 1
    assert fleet.router.value("llmd_degraded_decisions_total") == 1

    service = lab._add(TokenizerService(lab._log("tokenizer"), {NAME: Model(NAME).folder}, socket=socket))
    fleet.wait_for_blocks(hold(fleet.publishers[1], Model(NAME).ids(TEXT, framed=True), 1000))
    eventually("the service is asked again", lambda: served_by(fleet, "/v1/completions", {"prompt": TEXT}) == fleet.pods[1] and
               fleet.router.value("llmd_render_calls_total", result="answered") >= 1)
    service.kill()
    answered = fleet.router.value("llmd_render_calls_total", result="answered")
    served_by(fleet, "/v1/completions", {"prompt": TEXT + "?"})
    assert fleet.router.value("llmd_render_calls_total", result="answered") == answered


def test_a_model_that_the_service_does_not_have_is_told(lab, tmp_path, service):
    socket = f"udsTokenizerConfig: {{socketFile: '{service.socket}', modelTokenizerMap: {{{NAME}: lama3_1}}}}"
    fleet = Fleet(lab, tmp_path, True, producer(socket))
    served_by(fleet, "/v1/completions", {"prompt": TEXT})
    assert fleet.router.value("llmd_render_calls_total", result="failed") == 1
    with pytest.raises(AssertionError, match="udsTokenizerConfig.modelTokenizerMap': has no 'llama3_1' .did you mean 'llama3'"):
        Fleet(lab, tmp_path, True, producer("udsTokenizerConfig: {modelTokenizerMap: {llama3: x}}"))
