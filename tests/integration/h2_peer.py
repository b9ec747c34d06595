"""A client that speaks HTTP/2 frame by frame, with python-h2."""

import socket
import struct

import h2.config
import h2.connection
import h2.errors
import h2.events
import h2.exceptions

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"


def frame(kind, flags=0, stream=0, payload=b""):
    return struct.pack(">I", len(payload))[1:] + bytes([kind, flags]) + struct.pack(">I", stream) + payload


class Peer:
    """`take_windows`: give back what is received, so that answers may be of any size."""

    def __init__(self, port, take_windows=False, sock=None):
        self.sock = sock or socket.create_connection(("127.0.0.1", port), timeout=20)
        config = h2.config.H2Configuration(client_side=True, header_encoding="utf-8", validate_outbound_headers=False,
                                           normalize_outbound_headers=False, validate_inbound_headers=False)
        self.h2 = h2.connection.H2Connection(config)
        self.h2.initiate_connection()
        self.take_windows = take_windows
        self.events = []
        self.flush()

    def flush(self):
        self.sock.sendall(self.h2.data_to_send())

    def raw(self, data):
        """False when the server has gone."""
        try:
            self.flush()
            self.sock.sendall(data)
            return True
        except OSError:
            return False

    def read(self):
        """Takes what comes; False at the end of the connection."""
        try:
            data = self.sock.recv(65536)
        except (ConnectionResetError, BrokenPipeError):
            return False
        if not data:
            return False
        news = self.h2.receive_data(data)
        if self.take_windows:
            for event in news:
                if isinstance(event, h2.events.DataReceived) and event.flow_controlled_length:
                    self.h2.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
        self.events += news
        try:
            self.flush()
        except OSError:
            pass
        return True

    def until(self, kind, stream=None):
        """Reads up to an event of `kind` (on `stream`) and returns it."""
        def found():
            return next((e for e in self.events if isinstance(e, kind) and stream in (None, getattr(e, "stream_id", None))), None)
        while not found():
            assert self.read(), f"closed before {kind.__name__}"
        return found()

    def ends_with(self):
        """Reads to the end of the connection; the GOAWAY's code, or None."""
        while self.read():
            pass
        self.sock.close()
        return next((e.error_code for e in self.events if isinstance(e, h2.events.ConnectionTerminated)), None)

    def open(self, head, end=False):
        stream = self.h2.get_next_available_stream_id()
        self.h2.send_headers(stream, head, end_stream=end)
        self.flush()
        return stream

    def send(self, stream, data, end=False):
        """Sends a body as the server's windows let it; StreamClosedError when the server has reset the stream."""
        while data:
            if any(isinstance(e, h2.events.StreamReset) and e.stream_id == stream for e in self.events):
                raise h2.exceptions.StreamClosedError(stream)
            room = min(self.h2.local_flow_control_window(stream), self.h2.max_outbound_frame_size, len(data))
            if room == 0:
                assert self.read(), "closed before the body was sent"
                continue
            self.h2.send_data(stream, data[:room], end_stream=end and room == len(data))
            self.flush()
            data = data[room:]

    def answer(self, stream):
        """The answer on `stream` to its end: (headers as a dict, body)."""
        self.until(h2.events.StreamEnded, stream)
        headers = dict(next(e for e in self.events if isinstance(e, h2.events.ResponseReceived) and e.stream_id == stream).headers)
        return headers, b"".join(e.data for e in self.events if isinstance(e, h2.events.DataReceived) and e.stream_id == stream)

    def outcome(self, stream):
        """How `stream` was answered: a status, or the error code of its reset."""
        while True:
            for e in self.events:
                if getattr(e, "stream_id", None) != stream:
                    continue
                if isinstance(e, h2.events.StreamReset):
                    return h2.errors.ErrorCodes(e.error_code).name
                if isinstance(e, h2.events.ResponseReceived):
                    return int(dict(e.headers)[":status"])
            assert self.read(), "closed before an answer"
