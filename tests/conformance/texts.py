"""Prompts of test cases, written short: `@{SEED:LENGTH}` is a text, `@[SEED:LENGTH]` the same as token ids. A shorter text of a seed
is the beginning of a longer one. score_case.cc writes out the same."""

import re

WORDS = ("alpha beta gamma delta epsilon zeta eta theta iota kappa lambda mu nu xi omicron pi rho sigma tau upsilon phi chi psi "
         "omega north south east west red green blue fast slow long short").split()
MARK = re.compile(r"@([{\[])(\d+):(\d+)[}\]]")


def text_of(seed, length):
    """Words drawn by a linear congruential generator; tests/conformance/score_case.cc draws the same."""
    state, out, size = seed, [], 0
    while size < length:
        state = (state * 6364136223846793005 + 1442695040888963407) % 2**64
        out.append(WORDS[(state >> 33) % len(WORDS)] + " ")
        size += len(out[-1])
    return "".join(out)[:length]


def expand(body):
    def replacement(mark):
        text = text_of(int(mark[2]), int(mark[3]))
        return text if mark[1] == "{" else ",".join(str(ord(c)) for c in text)
    return MARK.sub(replacement, body)
