"""HTTP/2 frames as bytes (RFC 9113), for clients that do not keep to the rules.

No checks: what is sent is what the caller asks for. FlowControl is for clients that do keep to this
rule, because they would not get far otherwise.
"""

from __future__ import annotations

import struct

PREFACE = b'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n'

# Types of frames.
DATA, HEADERS, PRIORITY, RST_STREAM, SETTINGS, PUSH_PROMISE, PING, GOAWAY, WINDOW_UPDATE, \
    CONTINUATION = range(10)

# Flags.
ACK = 0x1  # of SETTINGS and PING
END_STREAM = 0x1
END_HEADERS = 0x4

CANCEL = 8  # an error code
INITIAL_WINDOW_SIZE = 4  # a setting
LARGEST_WINDOW = 2**31 - 1


def frame(kind: int, flags: int, stream: int, payload: bytes = b'') -> bytes:
    return struct.pack('>I', len(payload))[1:] + struct.pack('>BBI', kind, flags, stream) + payload


def settings(**values: int) -> bytes:
    """Settings by their numbers: settings(_4=1000) sets the initial window."""
    return frame(SETTINGS, 0, 0, b''.join(
        struct.pack('>HI', int(name[1:]), value) for name, value in values.items()))


def _length(count: int) -> bytes:
    """An integer with a prefix of 7 bits (RFC 7541, 5.1), the first of them 0."""
    if count < 127:
        return bytes([count])
    rest, result = count - 127, bytearray([127])
    while rest >= 128:
        result.append(rest % 128 + 128)
        rest //= 128
    return bytes(result + bytes([rest]))


def header(name: str, value: str) -> bytes:
    """A field that neither side remembers, without Huffman's code."""
    return (b'\x00' + _length(len(name)) + name.encode() + _length(len(value)) + value.encode())


def request_headers(path: str, *more: tuple[str, str]) -> bytes:
    """The header block of a gRPC call."""
    return b''.join(header(name, value) for name, value in (
        (':method', 'POST'), (':scheme', 'http'), (':path', path), (':authority', 'flood'),
        ('content-type', 'application/grpc'), ('te', 'trailers'), *more))


def reset(stream: int) -> bytes:
    return frame(RST_STREAM, 0, stream, struct.pack('>I', CANCEL))


def window_update(stream: int, increment: int) -> bytes:
    return frame(WINDOW_UPDATE, 0, stream, struct.pack('>I', increment))


def message(body: bytes) -> bytes:
    """A message of gRPC, not compressed."""
    return b'\x00' + struct.pack('>I', len(body)) + body


def message_start(size: int) -> bytes:
    """The beginning of a message of `size` bytes."""
    return b'\x00' + struct.pack('>I', size)


class FlowControl:
    """How much of a message the server is ready to take, from the frames that it sends."""

    def __init__(self) -> None:
        self.connection = 65_535
        self._initial = 65_535  # of a stream
        self._streams: dict[int, int] = {}  # what differs from it
        self._received = bytearray()

    def stream(self, number: int) -> int:
        return self._initial + self._streams.get(number, 0)

    def sent(self, number: int, size: int) -> None:
        self.connection -= size
        self._streams[number] = self._streams.get(number, 0) - size

    def receive(self, data: bytes) -> None:
        self._received += data
        while len(self._received) >= 9:
            length = int.from_bytes(self._received[:3], 'big')
            if len(self._received) < 9 + length:
                return
            kind, flags, number = struct.unpack('>BBI', self._received[3:9])
            self._read(kind, flags, number, bytes(self._received[9:9 + length]))
            del self._received[:9 + length]

    def _read(self, kind: int, flags: int, number: int, payload: bytes) -> None:
        if kind == WINDOW_UPDATE and number == 0:
            self.connection += int.from_bytes(payload, 'big')
        elif kind == WINDOW_UPDATE:
            self._streams[number] = (self._streams.get(number, 0) +
                                     int.from_bytes(payload, 'big'))
        elif kind == SETTINGS and not flags & ACK:
            for setting, value in struct.iter_unpack('>HI', payload):
                if setting == INITIAL_WINDOW_SIZE:
                    self._initial = value
