"""A client that asks and never reads the answer. HTTP/2 by hand, because gRPC's libraries read ahead."""

from __future__ import annotations

import socket
import struct

_DATA, _HEADERS, _SETTINGS = 0, 1, 4
_END_STREAM, _END_HEADERS = 1, 4
_INITIAL_WINDOW_SIZE = 4


def _frame(kind: int, flags: int, stream: int, payload: bytes) -> bytes:
    return struct.pack('>I', len(payload))[1:] + bytes([kind, flags]) + struct.pack(
        '>I', stream) + payload


def _header(name: str, value: str) -> bytes:
    """A literal without indexing and without Huffman code; both texts are shorter than 127."""
    return b'\0' + bytes([len(name)]) + name.encode() + bytes([len(value)]) + value.encode()


class StalledClient:
    """Calls ListModels and grants the server no byte of the answer."""

    def __init__(self, port: int) -> None:
        headers = {':method': 'POST', ':scheme': 'http', ':path': '/chorale.v1.Chorale/ListModels',
                   ':authority': f'127.0.0.1:{port}', 'te': 'trailers',
                   'content-type': 'application/grpc'}
        self._socket = socket.create_connection(('127.0.0.1', port), timeout=10)
        self._socket.sendall(
            b'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n' +
            _frame(_SETTINGS, 0, 0, struct.pack('>HI', _INITIAL_WINDOW_SIZE, 0)) +
            _frame(_HEADERS, _END_HEADERS, 1,
                   b''.join(_header(*header) for header in headers.items())) +
            # An empty message: not compressed, of 0 bytes.
            _frame(_DATA, _END_STREAM, 1, bytes(5)))

    def close(self) -> None:
        self._socket.close()
