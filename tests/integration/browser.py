"""A headless Chromium (Debian's chromium-headless-shell), driven over its debugging pipe: JSON messages that end with a zero byte."""

import base64
import fcntl
import json
import os
import shutil
import subprocess
import threading

from process import eventually

PROGRAM = shutil.which("chromium-headless-shell") or shutil.which("chromium")


def high_pipe():
    """A pipe whose descriptors are neither 3 nor 4."""
    low = os.pipe()
    high = tuple(fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 10) for fd in low)
    for fd in low:
        os.close(fd)
    return high


class Browser:
    """One tab. `problems` collects what the console calls an error, uncaught exceptions and refused loads, but for lines that contain
    `expected`."""

    expected = None

    def __init__(self, directory, dark=False):
        (to_browser, ours_out), (ours_in, from_browser) = high_pipe(), high_pipe()
        self._log = open(os.path.join(directory, "browser.log"), "ab")
        # The browser expects its ends of the pipe as descriptors 3 and 4.
        self.popen = subprocess.Popen(
            ["bash", "-c", f'exec "$@" 3<&{to_browser} 4>&{from_browser}', "bash", PROGRAM, "--headless", "--no-sandbox", "--disable-gpu",
             "--disable-dev-shm-usage", "--hide-scrollbars", "--remote-debugging-pipe", f"--user-data-dir={directory}/profile",
             f"--blink-settings=preferredColorScheme={0 if dark else 1}", "about:blank"],
            pass_fds=(to_browser, from_browser), stdin=subprocess.DEVNULL, stdout=self._log, stderr=self._log, start_new_session=True)
        os.close(to_browser)
        os.close(from_browser)
        self._out = os.fdopen(ours_out, "wb", buffering=0)
        self._in = os.fdopen(ours_in, "rb")
        self._answers = {}
        self._arrived = threading.Condition()
        self._sent = 0
        self.problems = []
        threading.Thread(target=self._read, daemon=True).start()
        target = self._call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self._call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self._call(f"{domain}.enable")

    _session = None

    def _read(self):
        buffer = b""
        while data := self._in.read1(65536):
            *messages, buffer = (buffer + data).split(b"\0")
            for message in map(json.loads, messages):
                self._note(message)
                with self._arrived:
                    if "id" in message:
                        self._answers[message["id"]] = message
                    self._arrived.notify_all()

    def _note(self, message):
        method, params = message.get("method"), message.get("params", {})
        if self.expected and self.expected in str(params):
            return
        if method == "Runtime.exceptionThrown":
            self.problems.append(params["exceptionDetails"])
        elif method == "Runtime.consoleAPICalled" and params["type"] in ("error", "warning", "assert"):
            self.problems.append(params["args"])
        elif method == "Log.entryAdded" and params["entry"]["level"] in ("error", "warning"):
            self.problems.append(params["entry"])

    def _call(self, method, **params):
        self._sent += 1
        message = {"id": self._sent, "method": method, "params": params}
        if self._session:
            message["sessionId"] = self._session
        self._out.write(json.dumps(message).encode() + b"\0")
        with self._arrived:
            assert self._arrived.wait_for(lambda: message["id"] in self._answers, 30), f"no answer to {method}"
            answer = self._answers.pop(message["id"])
        assert "error" not in answer, answer
        return answer["result"]

    def size(self, width, height):
        self._call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)

    def open(self, url):
        self._call("Page.navigate", url=url)
        self.wait_for("the page is loaded", f"location.href === {json.dumps(url)} && document.readyState === 'complete'")

    def run(self, script):
        """The value of a JavaScript expression."""
        result = self._call("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in result, result["exceptionDetails"]
        return result["result"].get("value")

    def wait_for(self, what, script, seconds=20):
        return eventually(what, lambda: self.run(script), seconds)

    def text(self, selector):
        return self.run(f"document.querySelector({json.dumps(selector)})?.innerText ?? ''")

    def click(self, selector):
        self.run(f"document.querySelector({json.dumps(selector)}).click()")

    def screenshot(self, path):
        path.write_bytes(base64.b64decode(self._call("Page.captureScreenshot", format="png")["data"]))

    def stop(self):
        self.popen.kill()
        self.popen.wait()
        self._out.close()
        self._log.close()
