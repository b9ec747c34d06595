"""Request ids and the served-endpoint header."""

import re

from wire import Wire, chat_body, once, request

SERVED = "x-llm-d-served-endpoint"
UUID = re.compile(r"^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$")


def test_a_request_id_is_kept_and_returned(lab):
    upstream = lab.upstream()
    router = lab.router(endpoint=[upstream.url])
    response = once(router.port, request(chat_body(), "X-Request-Id: my-id-7"))
    assert response.headers["x-request-id"] == "my-id-7"
    assert upstream.requests[0].get("x-request-id") == "my-id-7"


def test_a_missing_request_id_is_made_once_per_request(lab):
    upstream = lab.upstream()
    router = lab.router(endpoint=[upstream.url])
    with Wire(router.port) as wire:
        made = []
        for _ in range(3):
            wire.send(request(chat_body()))
            made.append(wire.read().headers["x-request-id"])
    assert all(UUID.match(i) for i in made), made
    assert len(set(made)) == 3
    assert [r.get("x-request-id") for r in upstream.requests] == made


def test_refusals_carry_the_request_id_too(lab):
    router = lab.router(endpoint=[lab.upstream().url])
    response = once(router.port, request(b"no json", "X-Request-Id: bad-1"))
    assert response.status == 400
    assert response.headers["x-request-id"] == "bad-1"


def test_the_serving_endpoint_is_shown(lab):
    a, b = lab.upstream(), lab.upstream()
    router = lab.router(endpoint=[a.url, b.url])
    for _ in range(10):
        before = len(a.requests)
        served = once(router.port, request(chat_body())).headers[SERVED]
        assert served == f"127.0.0.1:{(a if len(a.requests) > before else b).port}"


def test_the_serving_endpoint_can_be_hidden(lab):
    router = lab.router(endpoint=[lab.upstream().url], hide_served_endpoint=True)
    assert SERVED not in once(router.port, request(chat_body())).headers
