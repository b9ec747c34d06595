"""Configuration reload under load: SIGHUP and file change swap the pipeline, a bad file keeps the old one, counted."""

import os
import signal

import pytest

from load import Load
from process import eventually

GOOD = """
apiVersion: llm-d.ai/v1
kind: EndpointPickerConfig
plugins: [{{type: queue-scorer}}, {{type: {picker}}}]
schedulingProfiles: [{{name: default, plugins: [{{pluginRef: queue-scorer, weight: {weight}}}, {{pluginRef: {picker}}}]}}]
"""


def write(path, text):
    beside = path.with_suffix(".new")
    beside.write_text(text)
    os.rename(beside, path)


def reloads(router, result):
    return router.value("llmd_config_reloads_total", result=result)


@pytest.fixture
def setting(lab, tmp_path):
    sim = lab.sim(replicas=2, time_to_first_token="5ms")
    path = tmp_path / "config.yaml"
    path.write_text(GOOD.format(picker="max-score-picker", weight=1))
    return lab.router(endpoint=sim.urls, config_file=path), path


def picker_is_used(router, picker):
    before = router.value("llm_d_epp_plugin_duration_seconds_count", plugin_type=picker, extension_point="Picker")
    with Load(router, workers=1):
        eventually(f"{picker} decides", lambda: router.value(
            "llm_d_epp_plugin_duration_seconds_count", plugin_type=picker, extension_point="Picker") > before)


def test_a_changed_file_is_loaded_without_losing_a_request(setting):
    router, path = setting
    with Load(router) as load:
        for i in range(6):
            before = reloads(router, "success")
            picker = ("random-picker", "max-score-picker")[i % 2]
            write(path, GOOD.format(picker=picker, weight=i + 1))
            eventually("reloaded", lambda b=before: reloads(router, "success") > b)
    assert load.count("ok") == len(load.results) > 0
    picker_is_used(router, "max-score-picker")


def test_sighup_reloads(setting):
    router, path = setting
    before = reloads(router, "success")
    with Load(router) as load:
        for _ in range(3):
            os.kill(router.pid, signal.SIGHUP)
            now = before + 1
            eventually("reloaded", lambda: reloads(router, "success") >= now)
            before = reloads(router, "success")
    assert load.count("ok") == len(load.results) > 0


def test_a_bad_file_keeps_the_old_configuration_and_is_counted(setting):
    router, path = setting
    write(path, GOOD.format(picker="random-picker", weight=1))
    eventually("reloaded", lambda: reloads(router, "success") >= 1)
    good = reloads(router, "success")
    with Load(router) as load:
        write(path, GOOD.format(picker="randum-picker", weight=1))
        eventually("the bad one is counted", lambda: reloads(router, "failure") >= 1)
        eventually("the fault is logged", lambda: "randum-picker" in router.log())
        assert "did you mean 'random-picker'" in router.log()
    assert load.count("ok") == len(load.results) > 0
    assert reloads(router, "success") == good
    picker_is_used(router, "random-picker")


def test_prefixes_are_remembered_across_a_reload(lab, tmp_path):
    from wire import chat_body, once, request
    served = "x-llm-d-served-endpoint"
    config = """
apiVersion: llm-d.ai/v1
kind: EndpointPickerConfig
plugins:
- {{type: approx-prefix-cache-producer, parameters: {{autoTune: false, blockSizeTokens: 16}}}}
- type: prefix-cache-scorer
schedulingProfiles: [{{name: default, plugins: [{{pluginRef: prefix-cache-scorer, weight: {weight}}}]}}]
"""
    path = tmp_path / "config.yaml"
    path.write_text(config.format(weight=1))
    router = lab.router(endpoint=[lab.upstream().url, lab.upstream().url], config_file=path)
    prompts = [f"{i} " + f"once upon a time {i} " * 40 for i in range(12)]
    homes = [once(router.port, request(chat_body(p))).headers[served] for p in prompts]
    before = reloads(router, "success")
    write(path, config.format(weight=2))
    eventually("reloaded", lambda: reloads(router, "success") > before)
    assert [once(router.port, request(chat_body(p))).headers[served] for p in prompts] == homes
