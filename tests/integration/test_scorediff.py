"""The recorded score cases over the wire: `llmd epp` reads a simulated fleet's metrics pages, hears its KV events, is asked over ext-proc,
and tells its scores as metadata. The same in process, and many more: tests/conformance/scores_test.cc."""

import pathlib
import sys

import pytest
from process import eventually

pytest.importorskip("grpc")
TESTS = pathlib.Path(__file__).parents[1]
sys.path.insert(0, str(TESTS / "conformance"))

from scorediff import Fleet, configuration, difference, key_of, read_cases, read_lines, run  # noqa: E402

RECORDED = TESTS / "data/conformance"
OBSERVED = {key_of(said): said for name in ("scores.observed.jsonl", "kv-probes.observed.jsonl.gz") for said in read_lines(RECORDED / name)}
# Of the cases with KV events those that need more than the events: sockets of the engines' own, replays, images, another engine.
CASES = read_cases(RECORDED / "scores.json.gz") + [case for case in read_cases(RECORDED / "kv-probes.json.gz") if case.get("wired")]


@pytest.fixture(scope="module")
def fleet():
    it = Fleet()
    yield it
    it.stop()


def why(said):
    """How it differs from what was recorded, or None; of some probes no answer was kept."""
    theirs = OBSERVED.get(key_of(said))
    return difference(theirs, said) if theirs else None


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["name"])
def test_scores_equal_the_references(lab, fleet, tmp_path, case):
    fleet.serve(case)
    epp = lab.epp(config_text=configuration(case, fleet, tmp_path), emit_endpoint_scores=True, allow_experimental_plugins=True,
                  metrics_staleness_threshold="60s")
    eventually("metrics are read", fleet.read)
    compared = 0
    for said in run(case, fleet, epp, settled=lambda said: not why(said)):
        assert why(said) is None, (OBSERVED[key_of(said)], said)
        compared += key_of(said) in OBSERVED
    assert compared == sum(name == case["name"] for name, _, _ in OBSERVED)
