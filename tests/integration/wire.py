"""Raw HTTP over a socket, for framing that client libraries do not produce."""

import json
import socket

from process import MODEL


def chat_body(content="Hello", model=MODEL, **fields):
    return json.dumps({"model": model, "messages": [{"role": "user", "content": content}], "max_tokens": 4, **fields}).encode()


def request(body, *headers, path="/v1/chat/completions", version="HTTP/1.1", length=True):
    lines = [f"POST {path} {version}", "Host: test", "Content-Type: application/json", *headers]
    if length:
        lines.append(f"Content-Length: {len(body)}")
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


def listens(port):
    try:
        socket.create_connection(("127.0.0.1", port), timeout=1).close()
        return True
    except OSError:
        return False


class Response:
    def __init__(self, status, headers, body, complete=True):
        self.status = status
        self.headers = headers
        self.body = body
        self.complete = complete  # False: the connection ended before the body did

    def json(self):
        return json.loads(self.body)


class Wire:
    """A client connection. read() returns one response at a time, so keep-alive can be seen."""

    def __init__(self, port, timeout=30):
        self.sock = socket.create_connection(("127.0.0.1", port), timeout=timeout)
        self.buffer = b""

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.sock.close()

    def send(self, data):
        self.sock.sendall(data)

    def _more(self):
        data = self.sock.recv(65536)
        self.buffer += data
        return bool(data)

    def _until(self, mark):
        while mark not in self.buffer:
            if not self._more():
                return None
        part, self.buffer = self.buffer.split(mark, 1)
        return part

    def _exactly(self, n):
        while len(self.buffer) < n:
            if not self._more():
                part, self.buffer = self.buffer, b""
                return part, False
        part, self.buffer = self.buffer[:n], self.buffer[n:]
        return part, True

    def _chunked(self):
        body = b""
        while True:
            size = self._until(b"\r\n")
            if size is None:
                return body, False
            size = int(size.split(b";")[0], 16)
            if size == 0:
                while (line := self._until(b"\r\n")) != b"":
                    if line is None:
                        return body, False
                return body, True
            part, ok = self._exactly(size)
            body += part
            if not ok or self._until(b"\r\n") is None:
                return body, False

    def read(self):
        head = self._until(b"\r\n\r\n")
        if head is None:
            return None
        lines = head.decode("latin-1").split("\r\n")
        status = int(lines[0].split(" ")[1])
        headers = {k.strip().lower(): v.strip() for k, v in (l.split(":", 1) for l in lines[1:])}
        if status in (100, 204, 304):
            return Response(status, headers, b"")
        if headers.get("transfer-encoding", "").lower() == "chunked":
            body, complete = self._chunked()
        elif "content-length" in headers:
            body, complete = self._exactly(int(headers["content-length"]))
        else:
            while self._more():
                pass
            body, complete, self.buffer = self.buffer, True, b""
        return Response(status, headers, body, complete)

    def closed(self):
        """True when the peer has closed and nothing is left to read."""
        return not self.buffer and not self._more()


def once(port, data, timeout=30):
    with Wire(port, timeout) as wire:
        wire.send(data)
        return wire.read()
