"""The page on the admin port, in a headless Chromium."""

import os
import pathlib

import httpx
import pytest

import browser
from process import BINARY, MODEL, eventually
from wire import Wire, chat_body, once, request

EVIL = "<img/src=x/onerror=window.hacked=1>"
RESULTS = pathlib.Path(BINARY).resolve().parents[2] / "results"

pytestmark = pytest.mark.skipif(browser.PROGRAM is None, reason="no chromium-headless-shell: scripts/setup.sh test installs it")


@pytest.fixture(params=["light", "dark"])
def tab(request, lab, tmp_path):
    it = browser.Browser(tmp_path, dark=request.param == "dark")
    it.look = request.param
    it.size(1280, 900)
    yield lab._add(it)
    assert it.problems == []


def keep(tab, name):
    """Screenshots stay beside the other results of a run."""
    RESULTS.mkdir(exist_ok=True)
    tab.screenshot(RESULTS / f"{name}-{tab.look}.png")


def ask(router, request_id, **fields):
    return once(router.port, request(chat_body(**fields), f"X-Request-Id: {request_id}"))


def test_the_page_shows_what_waits(lab, tab):
    text = ("apiVersion: llm-d.ai/v1\nkind: EndpointPickerConfig\nfeatureGates: [flowControl]\n"
            "plugins: [{type: concurrency-detector, parameters: {maxConcurrency: 1}}]\n"
            "flowControl: {saturationDetector: {pluginRef: concurrency-detector}}\n")
    sim = lab.sim(inter_token_latency="30s")
    router = lab.router(endpoint=sim.urls, config_text=text)
    tab.open(router.admin + "/")
    tab.wait_for("the band", "document.querySelectorAll('#queues tbody tr').length === 1")
    assert "open" in tab.text("#queues")
    held = [Wire(router.port) for _ in range(2)]
    for n, one in enumerate(held, 1):
        one.send(request(chat_body(max_tokens=8, ignore_eos=True), f"x-llm-d-inference-fairness-id: {EVIL}"))
        if n == 1:
            tab.wait_for("the first", "document.querySelectorAll('#decisions tbody tr td').length > 1")
    tab.wait_for("the request", "document.querySelector('#queues tbody').textContent.includes('onerror')")
    assert EVIL in tab.text("#queues") and "pool is full for it" in tab.text("#queues")
    keep(tab, "queues")
    held[1].sock.close()
    tab.wait_for("the decisions", "document.querySelectorAll('#decisions tbody tr').length === 2")
    tab.click("#decisions tbody tr:nth-child(1)")  # the one that left while it waited
    tab.wait_for("its wait", "document.querySelector('#detail-body').textContent.includes('Ahead of it')")
    assert "the pool was as full as its band may make it" in tab.text("#detail-body")
    assert "0 in its flow, 0 in its band" in tab.text("#detail-body")
    keep(tab, "waited")


def test_the_page_shows_fleet_decisions_and_plugins(lab, tab):
    sim = lab.sim(3, enable_kvcache=True)
    router = lab.router(endpoint=[f"{url};llm-d.ai/role=decode" for url in sim.urls])
    tab.open(router.admin + "/")
    tab.wait_for("three endpoints", "document.querySelectorAll('#fleet tbody tr').length === 3")
    assert all(f"127.0.0.1:{port}" in tab.text("#fleet") for port in sim.ports)
    assert "llm-d.ai/role=decode" in tab.text("#fleet") and tab.text("#totals").split()[:4] == ["Healthy", "3", "of", "3"]
    assert "No request has come yet" in tab.text("#decisions tbody")
    for step in ("queue-scorer", "prefix-cache-scorer", "max-score-picker", "approx-prefix-cache-producer", "Profile default"):
        assert step in tab.text("#graph"), step

    for i in range(8):
        assert ask(router, f"page-{i}", content="A long context that is shared. " * 40 + f"Question {i}").status == 200
    tab.wait_for("the decisions", "document.querySelectorAll('#decisions tbody tr').length === 8")
    assert "page-7" in tab.text("#decisions tbody tr") and MODEL in tab.text("#decisions tbody tr")
    keep(tab, "page")
    tab.click("#decisions tbody tr:nth-child(1)")
    tab.wait_for("the detail", "document.querySelector('#detail').open")
    detail = tab.text("#detail")
    assert "page-7" in detail and "Went to" in detail and "prefix-cache-scorer × 3" in detail and "highest total" in detail
    assert tab.run("document.querySelectorAll('#detail tr.picked').length") == 1
    keep(tab, "detail")


def test_the_search_explains_and_says_when_nothing_is_kept(lab, tab):
    router = lab.router(endpoint=[lab.upstream().url])
    tab.open(router.admin + "/")
    assert ask(router, "find-me").status == 200
    tab.wait_for("the page", "document.querySelector('#state').innerText === 'Live'")

    def search(request_id):
        tab.run(f"document.querySelector('#search-text').value = '{request_id}'")
        tab.click("#search button")
        return lambda: tab.text("#detail-body")
    eventually("the decision", lambda: "Went to" in search("find-me")())
    tab.expected = "404"  # the answer is the page's business, and the console's line about it is no problem of the page
    eventually("nothing", lambda: "no decision is kept of request 'never'" in search("never")())


def test_what_comes_from_outside_stays_text(lab, tab, tmp_path):
    upstream = lab.upstream()
    endpoints = tmp_path / "endpoints.yaml"
    endpoints.write_text(f"endpoints:\n- {{name: '{EVIL}', address: 127.0.0.1, port: '{upstream.port}', labels: {{role: '{EVIL}'}}}}\n")
    router = lab.router(endpoints_file=endpoints)
    assert ask(router, EVIL, model=EVIL).status == 200
    assert once(router.port, request(b"{}", f"X-Request-Id: {EVIL}2", path=f"/{EVIL}/v1/completions")).status == 400
    tab.open(router.admin + "/")
    tab.wait_for("the decisions", "document.querySelectorAll('#decisions tbody tr').length === 2")
    assert EVIL in tab.text("#fleet") and EVIL in tab.text("#decisions")
    for row in (1, 2):
        tab.click(f"#decisions tbody tr:nth-child({row})")
        tab.wait_for("the detail", f"document.querySelector('#detail-body article') && document.querySelector('#detail-title').innerText.includes({EVIL!r})")
        tab.click("#detail form button")
    assert tab.run("window.hacked === undefined && document.querySelectorAll('main img, dialog img').length === 0")


def test_a_token_is_asked_for(lab, tab, tmp_path):
    token = tmp_path / "token"
    token.write_text("page-token-77\n")
    router = lab.router(endpoint=[lab.upstream().url], admin_token_file=token)
    tab.open(router.admin + "/")
    tab.wait_for("the form", "!document.querySelector('#token').hidden")
    assert tab.text("#fleet tbody") == ""
    tab.run("document.querySelector('#token-text').value = 'page-token-77'")
    tab.click("#token button")
    tab.wait_for("the fleet", "document.querySelectorAll('#fleet tbody tr').length === 1")
    tab.problems[:] = [p for p in tab.problems if "401" not in str(p)]
    assert httpx.get(router.admin + "/debug/endpoints", timeout=10).status_code == 401


def test_the_policy_lets_nothing_else_run(lab, tab):
    router = lab.router(endpoint=[lab.upstream().url])
    tab.open(router.admin + "/")
    tab.wait_for("the page", "document.querySelector('#state').innerText === 'Live'")
    tab.run("""(() => { const s = document.createElement('script'); s.textContent = 'window.hacked = 1'; document.body.append(s); })()""")
    assert tab.run("window.hacked === undefined")
    assert any("Content Security Policy" in str(p) for p in tab.problems)
    tab.problems.clear()
