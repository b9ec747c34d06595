"""What the reference answered to scripted streams (tests/data/conformance/extproc.json), against `llmd epp`."""

import json
import pathlib

import pytest
from ext_proc import Stream, normalised, request_of

SCENARIOS = json.loads((pathlib.Path(__file__).parents[1] / "data/conformance/extproc.json").read_text())

# Compared as one: an answer that is no stream passes through piece by piece, where the reference holds it until its end.
# The bytes are the same, memory does not depend on the length, and the client has them earlier (spec 01 §13.7).


def cut(body):
    size = len(body.encode())
    return body if size <= 300 else f"{body[:60]}… ({size} bytes)"


def joined(messages):
    """Body messages of one direction up to their end as one."""
    out = []
    for message in messages:
        last = out[-1] if out else {}
        if message.get("t", "").endswith("_body") and last.get("t") == message["t"] and not last["eos"]:
            last["body"] += message["body"]
            last["eos"] = message["eos"]
        else:
            out.append(dict(message))
    return [m | {"body": cut(m["body"])} if m.get("t", "").endswith("_body") else m for m in out]


@pytest.fixture(scope="module")
def epp(module_lab):
    return module_lab.epp([9100 + i for i in range(8)])


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda s: s["name"])
def test_scenario(epp, scenario):
    with epp.channel() as channel:
        stream = Stream(channel)
        for step in scenario["steps"]:
            stream.send_message(request_of(step))
        expected = scenario["observed"]
        if expected[-1].get("end") == "EOF":
            stream.close()
        seen = []
        while hasattr(message := stream.next(), "WhichOneof"):
            seen.append(normalised(message))
    assert message.name == "OK", stream.details()
    assert joined(seen) == joined([m for m in expected if "end" not in m])
