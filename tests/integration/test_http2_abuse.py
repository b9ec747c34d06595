"""What a hostile or broken HTTP/2 peer may try on the ext-proc port, with python-h2 as the peer. After each the picker serves on."""

import gzip
import socket
import struct

import h2.errors
import h2.events
import h2_peer
import pytest
from ext_proc import METHOD, Request, Stream, header_map
from h2_peer import PREFACE, frame
from process import eventually

CALL = [(":method", "POST"), (":scheme", "http"), (":path", METHOD), (":authority", "x"), ("te", "trailers"),
        ("content-type", "application/grpc")]


@pytest.fixture(scope="module")
def epp(module_lab):
    return module_lab.epp([9100], max_header_list=16384, grpc_max_recv_msg_size="64Ki", max_streams=10)


@pytest.fixture(autouse=True)
def serves_on(epp):
    yield
    with epp.channel() as channel:
        stream = Stream(channel)
        stream.post(b'{"model":"m","prompt":"Hi"}')
        assert "x-gateway-destination-endpoint" in stream.headers()[0]
    eventually("connections are gone", lambda: epp.value("llmd_grpc_connections") == 0)


class Peer(h2_peer.Peer):
    def call(self, extra=()):
        return self.open(CALL + list(extra))


@pytest.fixture
def peer(epp):
    peer = Peer(epp.grpc_port)
    yield peer
    peer.sock.close()


def limit(epp, name):
    return epp.value("llmd_grpc_limits_total", limit=name)


def test_the_settings_announce_the_limits(peer):
    settings = peer.until(h2.events.RemoteSettingsChanged).changed_settings
    assert {int(k): v.new_value for k, v in settings.items()} == {3: 10, 4: 128 * 1024, 6: 16384}


def test_rapid_reset(epp, peer):
    before = limit(epp, "resets")
    try:
        for _ in range(3000):
            peer.h2.reset_stream(peer.call(), h2.errors.ErrorCodes.CANCEL)
            peer.flush()
    except OSError:
        pass
    assert peer.ends_with() in (h2.errors.ErrorCodes.ENHANCE_YOUR_CALM, None)  # None: a reset has overtaken it
    assert limit(epp, "resets") == before + 1


@pytest.mark.parametrize("flood", [
    frame(6, payload=b"8 bytes!"), frame(4), frame(2, stream=1, payload=b"\0\0\0\0\x10"), frame(4, payload=b"\0\3\0\0\0\1")],
    ids=["ping", "settings", "priority", "settings-change"])
def test_floods_of_control_frames(epp, peer, flood):
    before = limit(epp, "control-frames")
    for _ in range(100):
        if not peer.raw(flood * 100):
            break
    assert peer.ends_with() in (h2.errors.ErrorCodes.ENHANCE_YOUR_CALM, None)
    assert limit(epp, "control-frames") == before + 1


def test_floods_of_empty_data(epp, peer):
    stream = peer.call()
    before = limit(epp, "control-frames")
    for _ in range(100):
        if not peer.raw(frame(0, stream=stream) * 100):
            break
    assert peer.ends_with() in (h2.errors.ErrorCodes.ENHANCE_YOUR_CALM, None)
    assert limit(epp, "control-frames") == before + 1


def test_header_bombs(epp, peer):
    before = limit(epp, "header-list")
    bomb = peer.call([("x-long", "v" * 4000)])  # enters the table
    peer.until(h2.events.RemoteSettingsChanged)
    again = peer.call([("x-long", "v" * 4000)] * 20)  # a few bytes on the wire, 80 kB unpacked
    while not any(isinstance(e, h2.events.StreamReset) and e.stream_id == again for e in peer.events):
        assert peer.read()
    assert not any(isinstance(e, h2.events.StreamReset) and e.stream_id == bomb for e in peer.events)
    assert limit(epp, "header-list") == before + 1


def test_endless_header_blocks(peer):
    peer.flush()
    peer.h2.send_headers(1, CALL)
    peer.h2.data_to_send()  # dropped: the library only has to know the stream, or it would not take that it is reset
    assert peer.raw(frame(1, stream=1, payload=b"\x82"))
    for _ in range(10_000):
        if not peer.raw(frame(9, stream=1, payload=b"\x82" * 100)):
            break
    peer.ends_with()


@pytest.mark.parametrize("option, label", [("max_connections_per_peer", "connections-per-peer"), ("max_connections", "connections")])
def test_connections(lab, option, label):
    epp = lab.epp([9100], loops=1, **{option: 2})
    peers = []
    for _ in range(3):
        try:
            peers.append(Peer(epp.grpc_port))
        except OSError:
            pass
    eventually("the third is refused", lambda: epp.value("llmd_grpc_limits_total", limit=label) == 1)
    for peer in peers:
        peer.sock.close()
    eventually("their places are free", lambda: epp.value("llmd_grpc_connections") == 0)
    with epp.channel() as channel:
        stream = Stream(channel)
        stream.post(b'{"model":"m","prompt":"Hi"}')
        assert "x-gateway-destination-endpoint" in stream.headers()[0]


def test_more_streams_than_announced(epp, peer):
    peer.flush()
    encoder = peer.h2.encoder
    for i in range(11):
        assert peer.raw(frame(1, flags=4, stream=1 + 2 * i, payload=encoder.encode(CALL)))
        peer.h2.streams  # the library would not send the eleventh
    while b"\x00\x00\x04\x03\x00\x00\x00\x00\x15" not in (data := peer.sock.recv(65536)):
        assert data
    assert epp.value("llmd_grpc_limits_total", limit="streams") == 1


@pytest.mark.parametrize("bytes_, code", [
    (b"\0\0\x01\0\x01", 8),  # promises 65 537 bytes
    (b"\1\0\0\0\1x", 13),    # compressed, and nobody said how
    (b"\0\0\0\0\2\xff\xff", 13),  # no protobuf
])
def test_broken_messages(peer, bytes_, code):
    stream = peer.call()
    peer.h2.send_data(stream, bytes_)
    peer.flush()
    headers = dict(peer.until(h2.events.ResponseReceived).headers)
    assert headers["grpc-status"] == str(code)


@pytest.mark.parametrize("content, code", [
    (gzip.compress(b"\0" * 70_000), 8),  # grows beyond the limit
    (gzip.compress(b"\0" * 64_000_000), 8),
    (b"no gzip", 13),
    (gzip.compress(b"x")[:-1], 13)], ids=["too-large", "bomb", "no-gzip", "cut-off"])
def test_compressed_messages(epp, peer, content, code):
    stream = peer.call([("grpc-encoding", "gzip")])
    message = b"\1" + struct.pack("!I", len(content)) + content
    for at in range(0, len(message), 16000):
        peer.h2.send_data(stream, message[at:at + 16000])
    peer.flush()
    assert dict(peer.until(h2.events.ResponseReceived).headers)["grpc-status"] == str(code)
    with open(f"/proc/{epp.pid}/status") as status:
        peak = next(int(line.split()[1]) for line in status if line.startswith("VmHWM"))
    assert peak < 1 << 20, "kB"


def test_unknown_encodings_are_named(peer):
    peer.call([("grpc-encoding", "snappy")])
    headers = dict(peer.until(h2.events.ResponseReceived).headers)
    assert headers["grpc-status"] == "12" and headers["grpc-accept-encoding"] == "gzip"


@pytest.mark.parametrize("head, expected", [
    ([(":method", "GET"), *CALL[1:]], {":status": "405"}),
    ([*CALL[:-1], ("content-type", "text/plain")], {":status": "415"}),
    ([*CALL[:2], (":path", "/x.Y/Z"), *CALL[3:]], {":status": "200", "grpc-status": "12"})])
def test_what_is_no_call(peer, head, expected):
    peer.h2.send_headers(peer.h2.get_next_available_stream_id(), head)
    peer.flush()
    got = dict(peer.until(h2.events.ResponseReceived).headers)
    assert {k: got.get(k) for k in expected} == expected


@pytest.mark.parametrize("head", [
    [*CALL, ("Upper", "x")], [*CALL, ("connection", "close")], [*CALL, (":path", "/again")], CALL[:1] + CALL[3:]],
    ids=["upper-case", "connection", "two-paths", "no-path"])
def test_malformed_heads_reset_their_stream(peer, head):
    peer.flush()
    assert peer.raw(frame(1, flags=4, stream=1, payload=peer.h2.encoder.encode(head)))
    data = b""
    while b"\x00\x00\x04\x03\x00\x00\x00\x00\x01" not in data:
        part = peer.sock.recv(65536)
        assert part
        data += part


@pytest.mark.parametrize("data", [
    frame(0, stream=1, payload=b"x"), frame(8, payload=b"\0\0\0\0"), frame(5, stream=1, payload=b"\0\0\0\2"),
    frame(6, payload=b"short"), frame(4, stream=3), frame(1, flags=4, stream=2, payload=b"\x82"),
    frame(1, flags=4, stream=1, payload=b"\xff" * 20), b"\xff" * 100], ids=str)
def test_broken_frames_end_the_connection(peer, data):
    assert peer.raw(data)
    assert peer.ends_with() not in (h2.errors.ErrorCodes.NO_ERROR,)


@pytest.mark.parametrize("sent", [b"", PREFACE[:10], b"GET / HTTP/1.1\r\n\r\n", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc"])
def test_peers_that_are_no_http2(epp, sent):
    sock = socket.create_connection(("127.0.0.1", epp.grpc_port), timeout=20)
    sock.sendall(sent)
    if len(sent) > 10:
        sock.settimeout(5)
        try:
            while sock.recv(4096):
                pass
        except ConnectionResetError:
            pass
    sock.close()


def test_a_stalled_reader_holds_little(lab):
    """A peer that never reads: its streams are throttled, the others and the process are not."""
    epp = lab.epp([9100])
    peer = Peer(epp.grpc_port)
    message = Request(request_headers={"headers": header_map([(":method", "POST"), (":path", "/v1/completions")])})
    text = message.SerializeToString()
    stream = peer.call()
    peer.h2.send_data(stream, b"\0" + struct.pack(">I", len(text)) + text)
    body = Request(request_body={"body": b'{"model":"m","prompt":"' + b"x" * 50_000 + b'"}', "end_of_stream": True})
    text = body.SerializeToString()
    data = b"\0" + struct.pack(">I", len(text)) + text
    for i in range(0, len(data), 16_000):
        peer.h2.send_data(stream, data[i:i + 16_000])
        peer.flush()
    with epp.channel() as channel:
        other = Stream(channel)
        other.post(b'{"model":"m","prompt":"Hi"}')
        assert "x-gateway-destination-endpoint" in other.headers()[0]
    peer.sock.close()
