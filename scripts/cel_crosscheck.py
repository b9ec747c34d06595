#!/usr/bin/env python3
"""Asks two other implementations of CEL (pip install cel-python common-expression-language) for every expression of
tests/data/cel/vectors.txt, whose answers our own gives in `codec_test`, and prints those that neither agrees with. Where the two
disagree with each other, one is with us. Exit code 1: neither is, and no reason is known."""

import pathlib
import sys

import cel
import celpy
from celpy import celtypes

# What both of them depart from the language's definition in.
KNOWN = {
    "9007199254740993 > 9007199254740992.0": "numbers of different types compare by their exact values",
    "string(true)": "one spells it as Python does, the other has no such function",
}
USAGE = {"prompt_tokens": 7.0, "completion_tokens": 10.0, "total_tokens": 17.0, "prompt_tokens_details": {"cached_tokens": 5.0}, "name": "é"}


def number(value):
    value = float(value)
    return str(int(value)) if value == int(value) else repr(value)


def described(value):
    if value is None:
        return "null"
    for kind, name, text in [(celtypes.BoolType, "bool", lambda v: "true" if v else "false"), (bool, "bool", lambda v: "true" if v else "false"),
                             (celtypes.UintType, "uint", lambda v: str(int(v))), (int, "int", lambda v: str(int(v))),
                             (float, "double", number), (str, "string", str)]:
        if isinstance(value, kind):
            return f"{name} {text(value)}"
    return f"{type(value).__name__} {value}"


def by_celpy(text):
    environment = celpy.Environment()
    try:
        program = environment.program(environment.compile(text))
    except Exception:  # of many kinds
        return "refused"
    try:
        return described(program.evaluate({"usage": celpy.json_to_cel(USAGE)}))
    except Exception:
        return "error"


def by_cel(text):
    try:
        return described(cel.evaluate(text, {"usage": USAGE}))
    except Exception:
        return "error"


def alike(ours, theirs):
    """What is refused by one may be found out by the other only when it is evaluated."""
    return ours == theirs or {ours, theirs} <= {"refused", "error"}


def main():
    unknown = total = 0
    for line in (pathlib.Path(__file__).parents[1] / "tests/data/cel/vectors.txt").read_text().splitlines():
        if not line or line.startswith("#"):
            continue
        text, ours = line.rsplit(" => ", 1)
        theirs = [by_celpy(text), by_cel(text)]
        total += 1
        if any(alike(ours, answer) for answer in theirs):
            continue
        why = KNOWN.get(text)
        unknown += why is None
        print(f"{text}: {ours}, elsewhere {' and '.join(theirs)}" + (f" ({why})" if why else ""))
    print(f"{total} expressions, {unknown} unexplained differences")
    return 1 if unknown else 0


if __name__ == "__main__":
    sys.exit(main())
