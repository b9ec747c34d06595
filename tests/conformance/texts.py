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


IMAGE = re.compile(r"https://example\.com/(\w+)-(\d+)\.png")  # its hash and its number of tokens


def tokens_of(text):
    return [ord(c) for c in text]


def rendered(body):
    """What a server's render endpoint answers: a token is a code point; a chat is its contents joined by newlines, its images so many
    tokens 7."""
    if "messages" not in body:
        prompts = body["prompt"] if isinstance(body["prompt"], list) else [body["prompt"]]
        return [{"token_ids": tokens_of(prompt)} for prompt in prompts]
    tokens, hashes, places = [], [], []
    for i, message in enumerate(body["messages"]):
        content = message["content"]
        tokens += tokens_of("\n" if i else "")
        for part in [{"text": content}] if isinstance(content, str) else content:
            if "text" in part:
                tokens += tokens_of(part["text"])
                continue
            image = IMAGE.fullmatch(part["image_url"]["url"])
            if not image:
                continue
            hashes.append(image[1])
            places.append({"offset": len(tokens), "length": int(image[2])})
            tokens += [7] * int(image[2])
    features = {"features": {"mm_hashes": {"image": hashes}, "mm_placeholders": {"image": places}}} if hashes else {}
    return {"token_ids": tokens, **features}
