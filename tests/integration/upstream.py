"""A model server whose every byte a test controls: it records what arrives and answers by script."""

import socket
import threading

METRICS = (b"# TYPE vllm:num_requests_running gauge\nvllm:num_requests_running 0\n"
           b"# TYPE vllm:num_requests_waiting gauge\nvllm:num_requests_waiting 0\n"
           b"# TYPE vllm:kv_cache_usage_perc gauge\nvllm:kv_cache_usage_perc 0\n")
BUSY = METRICS.replace(b"waiting 0", b"waiting 50").replace(b"kv_cache_usage_perc 0", b"kv_cache_usage_perc 0.95")


def answer(body=b'{"id":"x","object":"chat.completion","choices":[]}', status="200 OK", headers=()):
    head = [f"HTTP/1.1 {status}", "Content-Type: application/json", f"Content-Length: {len(body)}", *headers]
    return "\r\n".join(head).encode() + b"\r\n\r\n" + body


class Received:
    """One request as it came over the wire."""

    def __init__(self, head, body):
        self.head = head
        self.body = body
        lines = head.decode("latin-1").split("\r\n")
        self.line = lines[0]
        self.headers = [(k.strip().lower(), v.strip()) for k, v in (l.split(":", 1) for l in lines[1:] if l)]

    def get(self, name):
        return next((v for k, v in self.headers if k == name), None)


class Connection:
    """A client's connection with buffered reads."""

    def __init__(self, sock):
        self.sock = sock
        self.buffer = b""

    def more(self):
        data = self.sock.recv(65536)
        if not data:
            raise ConnectionError("closed")
        self.buffer += data

    def until(self, mark):
        while mark not in self.buffer:
            self.more()
        part, self.buffer = self.buffer.split(mark, 1)
        return part

    def exactly(self, n):
        while len(self.buffer) < n:
            self.more()
        part, self.buffer = self.buffer[:n], self.buffer[n:]
        return part

    def body(self, head):
        received = Received(head, b"")
        if (received.get("transfer-encoding") or "").lower() == "chunked":
            out = b""
            while size := int(self.until(b"\r\n").split(b";")[0], 16):
                out += self.exactly(size)
                self.until(b"\r\n")
            self.until(b"\r\n")
            return out
        return self.exactly(int(received.get("content-length") or 0))


class Upstream:
    """`script(connection, received)` runs per inference request on the connection's own thread and writes the answer; it
    returns False to close the connection. `before_body(connection, head)` may answer early: a true result skips the body.
    `tls` is an SSLContext to serve with, `page` its metrics."""

    def __init__(self, script=None, before_body=None, tls=None, page=METRICS):
        self.tls = tls
        self.page = page
        self.pages = 0  # of metrics
        self.requests = []
        self.connections = 0
        self.scrape = None  # head of the last one
        self.script = script or (lambda connection, received: connection.sock.sendall(answer()))
        self.before_body = before_body
        self._sockets = []
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=128)
        self.port = self._listener.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        while True:
            try:
                sock, _ = self._listener.accept()
            except OSError:
                return
            self._sockets.append(sock)
            threading.Thread(target=self._serve, args=(sock,), daemon=True).start()

    def _serve(self, sock):
        counted = False
        try:
            if self.tls:
                sock = self.tls.wrap_socket(sock, server_side=True)
            connection = Connection(sock)
            while True:
                head = connection.until(b"\r\n\r\n")
                if head.startswith(b"GET /metrics"):
                    self.scrape = Received(head, b"")
                    self.pages += 1
                    sock.sendall(answer(self.page))
                    continue
                if not counted:
                    self.connections += 1
                    counted = True
                if self.before_body and self.before_body(connection, head):
                    continue
                received = Received(head, connection.body(head))
                self.requests.append(received)
                if self.script(connection, received) is False:
                    break
        except (OSError, ConnectionError):
            pass
        finally:
            sock.close()

    def stop(self):
        # Closing alone leaves accept() asleep on the number of the descriptor, which the next server's listener may get.
        for sock in (self._listener, *self._sockets):
            try:
                sock.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
        self._listener.close()
