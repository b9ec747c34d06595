"""Load in the background of a test: workers that ask one request after the other and note how each ended."""

import collections
import json
import threading

import httpx

from process import MODEL


class Load:
    """`with Load(router, workers=8) as load:` keeps requests going; afterwards load.results has one entry per request:
    ("ok" | "refused" | "broken", detail). A request that got an answer twice or none in time fails the test."""

    def __init__(self, router, workers=8, stream=False, max_tokens=4, timeout=30, keeps_ids=True):
        self.url = router.url + "/v1/chat/completions"
        self.results = []
        self.stream = stream
        self.max_tokens = max_tokens
        self.timeout = timeout
        self.keeps_ids = keeps_ids  # answers carry the id of their request, which Envoy replaces
        self._stop = threading.Event()
        self._threads = [threading.Thread(target=self._work, args=(i,), daemon=True) for i in range(workers)]

    def __enter__(self):
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, kind, *_):
        self._stop.set()
        for thread in self._threads:
            thread.join(self.timeout + 30)
        if kind is None:
            assert not any(t.is_alive() for t in self._threads), "a request hangs"
            hung = [d for k, d in self.results if k == "hung"]
            assert not hung, f"{len(hung)} requests got no answer in time: {hung[:3]}"

    def count(self, kind):
        return collections.Counter(k for k, _ in self.results)[kind]

    def _work(self, worker):
        with httpx.Client(timeout=self.timeout) as client:
            n = 0
            while not self._stop.is_set():
                n += 1
                self.results.append(self._ask(client, f"{worker}-{n}"))

    def _ask(self, client, request_id):
        body = {"model": MODEL, "max_tokens": self.max_tokens, "stream": self.stream,
                "messages": [{"role": "user", "content": f"question {request_id}"}]}
        try:
            with client.stream("POST", self.url, json=body, headers={"x-request-id": request_id}) as response:
                text = response.read().decode()
        except httpx.TimeoutException as e:
            return "hung", f"{request_id}: {e!r}"
        except httpx.HTTPError as e:
            return "broken", f"{request_id}: {e!r}"
        assert response.headers["x-request-id"] == request_id or not self.keeps_ids
        if response.status_code != 200:
            json.loads(text)["error"]["message"]
            return "refused", f"{request_id}: {response.status_code} {text}"
        if self.stream:
            return ("ok", request_id) if text.count("data: [DONE]") == 1 else ("broken", f"{request_id}: no end")
        assert len(json.loads(text)["choices"]) == 1
        return "ok", request_id
