"""`llmd check` and start-up: a bad configuration is one helpful line and exit code 2."""

import re
import subprocess

import pytest

from process import BINARY

HEAD = "apiVersion: llm-d.ai/v1\nkind: EndpointPickerConfig\n"

BAD = {
    "type": (HEAD + "plugins:\n- type: queue-scorrer\n", ["queue-scorrer", "queue-scorer", ":4"]),
    "parameter": (HEAD + "plugins:\n- type: token-load-scorer\n  parameters:\n    queueTreshold: 1\n", ["queueTreshold", ":6"]),
    "parameter-type": (HEAD + "plugins:\n- type: approx-prefix-cache-producer\n  parameters: {autoTune: sometimes}\n", ["autoTune", "sometimes"]),
    "reference": (HEAD + "plugins:\n- type: queue-scorer\nschedulingProfiles:\n- name: default\n  plugins: [{pluginRef: queue-scoer}]\n",
                  ["queue-scoer", "queue-scorer"]),
    "two-pickers": (HEAD + "plugins: [{type: queue-scorer}, {type: max-score-picker}, {type: random-picker}]\nschedulingProfiles:\n- name: default\n"
                    "  plugins: [{pluginRef: queue-scorer}, {pluginRef: max-score-picker}, {pluginRef: random-picker}]\n", ["picker"]),
    "duplicate": (HEAD + "plugins:\n- {type: queue-scorer, name: a}\n- {type: queue-scorer, name: a}\n", ["a"]),
    "field": (HEAD + "plugns: []\n", ["plugns", "plugins"]),
    "kind": ("apiVersion: llm-d.ai/v1\nkind: Config\n", ["Config", "EndpointPickerConfig"]),
    "not-yaml": (HEAD + "plugins: [\n", []),
}


@pytest.mark.parametrize("command", ["check", "router"])
@pytest.mark.parametrize("case", BAD)
def test_a_bad_configuration_is_one_line_and_exit_2(tmp_path, command, case):
    text, words = BAD[case]
    path = tmp_path / "bad.yaml"
    path.write_text(text)
    more = ["--port", "0", "--metrics-port", "0", "--endpoint", "http://127.0.0.1:1"] if command == "router" else []
    done = subprocess.run([BINARY, command, "--config-file", path, *more], capture_output=True, text=True, timeout=60)
    assert done.returncode == 2, done.stdout + done.stderr
    lines = done.stderr.strip().splitlines()
    assert len(lines) == 1, done.stderr
    assert "bad.yaml" in lines[0]
    for word in words:
        assert word in lines[0], lines[0]


def test_check_prints_the_resolved_graph(tmp_path):
    path = tmp_path / "good.yaml"
    path.write_text(HEAD + "plugins: [{type: prefix-cache-scorer}]\nschedulingProfiles: [{name: default, plugins: [{pluginRef: prefix-cache-scorer}]}]\n")
    done = subprocess.run([BINARY, "check", "--config-file", path], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    for name in ("prefix-cache-scorer", "max-score-picker", "single-profile-handler", "approx-prefix-cache-producer", "auto-created"):
        assert name in done.stdout, done.stdout


@pytest.mark.parametrize("arguments, word", [
    (["router", "--prot", "1"], "'--prot' (did you mean '--port'?)"),
    (["epp", "--grpc-prot", "1"], "(did you mean '--grpc-port'?)"),
    (["check", "--config-fil=x"], "(did you mean '--config-file'?)"),
    (["bench", "--rat", "1"], "(did you mean '--rate'?)"),
    (["demo", "--sed", "1"], "(did you mean '--seed'?)"),
    (["sim", "--modle", "m"], "(did you mean '--model'?)"),
    (["router", "--port", "x"], "port"),
    (["router", "--port", "70000"], "70000 not in range 0 to 65535"),
    (["router", "--endpoint", "http://a:1", "b"], "unexpected argument 'b'"),
    (["bench", "--url", "http://a:1", "--model", "m", "--header", "nonsense"], "'nonsense' is not 'NAME: VALUE'"),
    (["router", "--refresh-metrics-interval", "soon"], "soon"),
    (["sim", "--max-num-seqs", "-3", "--model", "m"], "max-num-seqs"),
    (["ruter"], "router"),
])
def test_bad_flags_are_named(arguments, word):
    done = subprocess.run([BINARY, *arguments], capture_output=True, text=True, timeout=60)
    assert done.returncode == 2
    assert word in done.stderr, done.stderr


@pytest.mark.parametrize("command", ["router", "sim", "check", "bench", "demo"])
def test_every_command_has_help(command):
    done = subprocess.run([BINARY, command, "--help"], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0
    assert "--" in done.stdout


def test_the_version():
    done = subprocess.run([BINARY, "--version"], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0 and re.fullmatch(r"llmd \d+\.\d+\.\d+ \(\w+\)\n", done.stdout)
