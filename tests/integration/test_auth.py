"""API keys: of clients at the router, and of the router at its model servers. No key shows anywhere else."""

import hashlib
import json
import os
import pathlib
import signal

import httpx
import openai
import pytest

from process import BINARY, eventually
from test_reload import write
from wire import chat_body, once, request

PLAIN, HASHED, UPSTREAM = "sk-plain-4b1d2c", "sk-hashed-77aa01", "up-secret-90ff13"


def keys_file(tmp_path):
    path = tmp_path / "keys"
    digest = hashlib.sha256(HASHED.encode()).hexdigest()
    path.write_text(f"# tenants\n{PLAIN} fairness-id=blue\nsha256:{digest} fairness-id=green objective=batch\n")
    return path


def status(router, key):
    return once(router.port, request(chat_body(), *([f"Authorization: Bearer {key}"] if key else []))).status


def test_openai_and_anthropic_clients(lab, tmp_path):
    upstream = lab.upstream()
    router = lab.router(endpoint=[upstream.url], client_api_keys_file=keys_file(tmp_path))

    def ask(key):
        client = openai.OpenAI(base_url=router.url + "/v1", api_key=key, max_retries=0, timeout=30)
        return client.chat.completions.with_raw_response.create(model="m", messages=[{"role": "user", "content": "hi"}])

    with pytest.raises(openai.AuthenticationError) as refused:
        ask("sk-nobodys-key")
    assert refused.value.code == "invalid_api_key"
    assert refused.value.response.headers["www-authenticate"] == "Bearer"
    assert status(router, None) == 401
    assert upstream.requests == []
    for key in (PLAIN, HASHED):
        assert ask(key).http_response.status_code == 200
    assert once(router.port, request(chat_body(), f"x-api-key: {HASHED}")).status == 200
    assert once(router.port, request(chat_body(), "x-api-key: sk-nobodys-key")).status == 401
    for received in upstream.requests:
        assert received.get("authorization") is None and received.get("x-api-key") is None
    page = router.metrics()
    assert page.value("llmd_client_auth_refusals_total", reason="unknown") == 2
    assert page.value("llmd_client_auth_refusals_total", reason="missing") == 1
    assert {labels["fairness_id"] for name, labels, _ in page.samples if name == "llm_d_epp_request_total"} == {"blue", "green"}
    router.stop()
    lines = [line for line in map(json.loads, router.log().splitlines()) if line["msg"] == "request refused"]
    assert [line["status"] for line in lines] == [401, 401, 401]
    assert lines[0]["x-request-id"] == refused.value.response.headers["x-request-id"]


def test_keys_change_without_a_restart(lab, tmp_path):
    path = keys_file(tmp_path)
    router = lab.router(endpoint=[lab.upstream().url], client_api_keys_file=path)
    assert status(router, PLAIN) == 200
    write(path, "sk-second-key-1\n")
    eventually("the new key is known", lambda: status(router, "sk-second-key-1") == 200)
    assert status(router, PLAIN) == 401
    write(path, "bad\n")
    os.kill(router.pid, signal.SIGHUP)
    eventually("the bad file is counted", lambda: router.value("llmd_credential_reloads_total", file="client_api_keys", result="failure") >= 1)
    assert status(router, "sk-second-key-1") == 200
    write(path, "sk-third-key-01\n")
    os.kill(router.pid, signal.SIGHUP)
    eventually("the third key is known", lambda: status(router, "sk-third-key-01") == 200)


def test_the_routers_own_key(lab, tmp_path):
    upstream = lab.upstream()
    path = tmp_path / "upstream-key"
    path.write_text(UPSTREAM + "\n")
    router = lab.router(endpoint=[upstream.url], upstream_api_key_file=path)
    assert status(router, "of-the-client") == 200
    assert once(router.port, request(chat_body(), "x-api-key: of-the-client")).status == 200
    for received in upstream.requests:
        assert [value for name, value in received.headers if name == "authorization"] == [f"Bearer {UPSTREAM}"]
        assert b"of-the-client" not in received.head
    eventually("it is scraped", lambda: upstream.scrape)
    assert upstream.scrape.get("authorization") == f"Bearer {UPSTREAM}"
    write(path, "up-second-key-2\n")
    eventually("scrapes use the new key", lambda: upstream.scrape.get("authorization") == "Bearer up-second-key-2")
    assert status(router, None) == 200
    assert upstream.requests[-1].get("authorization") == "Bearer up-second-key-2"


def test_keys_show_nowhere(lab, tmp_path):
    upstream_key = tmp_path / "upstream-key"
    upstream_key.write_text(UPSTREAM)
    token = tmp_path / "token"
    token.write_text("admin-token-55e0\n")
    keys = keys_file(tmp_path)
    upstream = lab.upstream()
    router = lab.router(endpoint=[upstream.url, "http://127.0.0.1:1"], client_api_keys_file=keys, upstream_api_key_file=upstream_key,
                        admin_token_file=token, v=5)
    wrong = "sk-of-nobody-321"
    seen = []
    for line in (f"Authorization: Bearer {PLAIN}", f"x-api-key: {HASHED}", f"Authorization: Bearer {wrong}", f"x-api-key: {wrong}",
                 f"Authorization: Basic {wrong}", f"Authorization: Bearer {wrong}\r\nBad Header: x"):
        for body in (chat_body(), b"no json"):
            response = once(router.port, request(body, line))
            seen.append(repr(response.headers) + response.body.decode())
    write(keys, f"{wrong} nonsense\n")
    write(upstream_key, f"{wrong} {wrong}\n")
    os.kill(router.pid, signal.SIGHUP)
    eventually("both files are refused", lambda: all(
        router.value("llmd_credential_reloads_total", file=f, result="failure") >= 1 for f in ("client_api_keys", "upstream_api_key")))
    bearer = {"Authorization": "Bearer admin-token-55e0"}
    for path in ("/metrics", "/debug/endpoints", "/debug/plugins/state"):
        answer = httpx.get(router.admin + path, headers=bearer, timeout=10)
        assert answer.status_code == 200
        seen.append(answer.text)
        seen.append(httpx.get(router.admin + path, headers={"Authorization": f"Bearer {wrong}"}, timeout=10).text)
    proc = pathlib.Path(f"/proc/{router.pid}")
    seen.append((proc / "cmdline").read_text() + (proc / "environ").read_text())
    router.stop()
    seen.append(router.log())
    everything = "\n".join(seen)
    digest = hashlib.sha256(PLAIN.encode()).hexdigest()
    for secret in (PLAIN, HASHED, UPSTREAM, wrong, "admin-token-55e0", digest):
        assert secret not in everything
    for received in upstream.requests:
        assert PLAIN.encode() not in received.head and HASHED.encode() not in received.head


@pytest.mark.parametrize("flag", ["--client-api-keys-file", "--upstream-api-key-file"])
def test_a_bad_file_at_start_is_one_line_without_its_content(tmp_path, flag):
    import subprocess
    path = tmp_path / "keys"
    path.write_text("hush\n")
    for file in (path, tmp_path / "missing"):
        run = subprocess.run([BINARY, "router", "--port", "0", "--metrics-port", "0", "--endpoint", "http://127.0.0.1:1", flag, str(file)],
                             capture_output=True, text=True, timeout=60)
        lines = [line for line in run.stderr.splitlines() if not line.startswith("{")]
        assert run.returncode == 2 and len(lines) == 1 and str(file) in lines[0], run.stderr
        assert "hush" not in run.stderr
