"""File discovery: atomic replacement, partial writes, bad entries, deletion; addresses that return."""

import os
import uuid

import pytest

from process import eventually
from wire import chat_body, once, request

SERVED = "x-llm-d-served-endpoint"


def entry(name, port, **labels):
    text = f"- name: {name}\n  address: 127.0.0.1\n  port: \"{port}\"\n"
    if labels:
        text += "  labels: {" + ", ".join(f"{k}: {v}" for k, v in labels.items()) + "}\n"
    return text


def write(path, *entries):
    """Replaces the file whole, as deployment tools do."""
    beside = path.with_suffix(".new")
    beside.write_text("endpoints:\n" + "".join(entries) if entries else "endpoints: []\n")
    os.rename(beside, path)


def ready(router, count):
    eventually(f"{count} ready endpoints", lambda: router.value("llm_d_epp_ready_endpoints") == count)


def targets(router, n=12):
    """The endpoints that answer the next n requests, none of which was seen before."""
    return {once(router.port, request(chat_body(str(uuid.uuid4())))).headers.get(SERVED) for _ in range(n)}


def name_of(upstream):
    return f"127.0.0.1:{upstream.port}"


@pytest.fixture
def setting(lab, tmp_path):
    a, b = lab.upstream(), lab.upstream()
    path = tmp_path / "endpoints.yaml"
    write(path, entry("a", a.port), entry("b", b.port))
    router = lab.router(endpoints_file=path, refresh_prometheus_metrics_interval="200ms")
    ready(router, 2)
    return router, path, a, b


def test_a_replaced_file_takes_effect(setting, lab):
    router, path, a, b = setting
    assert targets(router) == {name_of(a), name_of(b)}
    c = lab.upstream()
    write(path, entry("b", b.port), entry("c", c.port))
    eventually("a is gone and c is there", lambda: targets(router) == {name_of(b), name_of(c)})


def test_a_file_written_in_place_takes_effect(setting):
    router, path, a, b = setting
    path.write_text("endpoints:\n" + entry("a", a.port))
    eventually("b is gone", lambda: targets(router) == {name_of(a)})


def test_json_is_accepted(setting):
    router, path, a, b = setting
    path.write_text('{"endpoints": [{"name": "b", "address": "127.0.0.1", "port": "%d"}]}' % b.port)
    eventually("only b", lambda: targets(router) == {name_of(b)})


def test_a_partial_write_keeps_the_old_set_until_it_is_whole(setting):
    router, path, a, b = setting
    whole = "endpoints:\n" + entry("a", a.port) + "- name: broken\n  address: [1"
    path.write_text(whole)
    eventually("the fault is logged", lambda: "endpoints.yaml" in router.log() and "error" in router.log())
    assert targets(router) == {name_of(a), name_of(b)}
    path.write_text("endpoints:\n" + entry("a", a.port))
    eventually("the whole file counts", lambda: targets(router) == {name_of(a)})


def test_deletion_keeps_the_old_set_and_a_new_file_is_seen(setting):
    router, path, a, b = setting
    path.unlink()
    assert targets(router) == {name_of(a), name_of(b)}
    write(path, entry("b", b.port))
    eventually("only b", lambda: targets(router) == {name_of(b)})


def test_a_bad_entry_does_not_take_the_good_ones_along(setting, lab):
    router, path, a, b = setting
    c = lab.upstream()
    write(path, entry("a", "eighty"), entry("b", b.port), entry("c", c.port))
    # The bad entry keeps its previous version.
    eventually("c joined", lambda: targets(router) == {name_of(a), name_of(b), name_of(c)})


def test_the_last_of_duplicate_entries_wins(setting):
    router, path, a, b = setting
    write(path, entry("x", a.port), entry("x", b.port))
    eventually("only b", lambda: targets(router) == {name_of(b)})


def test_an_emptied_file_empties_the_fleet(setting):
    router, path, a, b = setting
    write(path)
    eventually("nobody", lambda: once(router.port, request(chat_body())).status == 503)
    write(path, entry("a", a.port))
    eventually("a serves", lambda: once(router.port, request(chat_body())).status == 200)


def test_changed_labels_matter_at_once(lab, tmp_path):
    a, b = lab.upstream(), lab.upstream()
    path = tmp_path / "endpoints.yaml"
    write(path, entry("a", a.port), entry("b", b.port))
    router = lab.router(endpoints_file=path, config_text="""
apiVersion: llm-d.ai/v1
kind: EndpointPickerConfig
plugins: [{type: decode-filter}, {type: queue-scorer}]
schedulingProfiles: [{name: default, plugins: [{pluginRef: decode-filter}, {pluginRef: queue-scorer}]}]
""")
    write(path, entry("a", a.port, **{"llm-d.ai/role": "prefill"}), entry("b", b.port))
    eventually("only b decodes", lambda: targets(router) == {name_of(b)})


def test_a_missing_file_at_start_ends_the_process_with_a_message(lab, tmp_path):
    import subprocess
    from process import BINARY
    done = subprocess.run([BINARY, "router", "--port", "0", "--metrics-port", "0", "--endpoints-file", tmp_path / "none.yaml"],
                          capture_output=True, text=True, timeout=60)
    assert done.returncode in (1, 2)
    assert "none.yaml" in done.stderr


def test_an_address_that_returns_has_lost_its_prefixes(lab, tmp_path):
    """A server that went away and came back has an empty cache, so nothing the router knew of it may count."""
    a, b = lab.upstream(), lab.upstream()
    path = tmp_path / "endpoints.yaml"
    write(path, entry("a", a.port), entry("b", b.port))
    router = lab.router(endpoints_file=path, refresh_prometheus_metrics_interval="200ms", config_text="""
apiVersion: llm-d.ai/v1
kind: EndpointPickerConfig
plugins:
- {type: approx-prefix-cache-producer, parameters: {autoTune: false, blockSizeTokens: 16}}
- type: prefix-cache-scorer
schedulingProfiles: [{name: default, plugins: [{pluginRef: prefix-cache-scorer}]}]
""")
    ready(router, 2)

    def ask(content):
        return once(router.port, request(chat_body(content))).headers[SERVED]

    prompts = [f"{i} " + f"a long story number {i} " * 40 for i in range(8)]
    homes = {p: ask(p) for p in prompts}
    assert all(ask(p) == homes[p] for p in prompts)
    write(path, entry("b", b.port))
    ready(router, 1)
    write(path, entry("a", a.port), entry("b", b.port))
    ready(router, 2)
    forgotten = [p for p in prompts if homes[p] == name_of(a)]
    assert forgotten
    # Without memory of `a`, equal servers take turns; with memory all of these would go back to it.
    assert {ask(p) for p in forgotten for _ in range(1)} != {name_of(a)} or len(forgotten) == 1
