#!/usr/bin/env python3
"""What requests that are dear to decode do to other clients.

    build/resilience_python/bin/python tests/resilience/large_requests.py [--long] [--callers 12]

Callers, each a process with a connection, send Predict requests as long as the server takes, of
columns without content: two bytes each on the wire, some sixty when parsed. Another client calls
Predict with four rows. Prints its times before and meanwhile, and the peak of the server's
resident memory. Exits with status 1 if a large request was not refused as it should be, or one of
the other client's calls failed; with verdict.ONLY_LATE if its p99 is longer than --most_seconds.
"""

from __future__ import annotations

import argparse
import collections
import multiprocessing
import pathlib
import statistics
import sys
import time

import grpc
import verdict
from service import ROOT, Caller, Server, relay

MESSAGE_BYTES = (4 << 20) - 64
OTHER_HOST = '127.0.0.2'  # so that it is another client to the server
EMPTY_COLUMN = b'\x0a\x00'


def varint(value: int) -> bytes:
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    return bytes(out) + bytes([value])


def request() -> bytes:
    columns = EMPTY_COLUMN * (MESSAGE_BYTES // len(EMPTY_COLUMN))
    return b'\x0a\x0dcontexts/data' + b'\x12' + varint(len(columns)) + columns


def send(port: int, seconds: float, outcomes: multiprocessing.Queue) -> None:
    counts: collections.Counter[str] = collections.Counter()
    end = time.monotonic() + seconds
    message = request()
    with grpc.insecure_channel(f'127.0.0.1:{port}') as channel:
        call = channel.unary_unary('/chorale.v1.Chorale/Predict')  # bytes as they are
        while time.monotonic() < end:
            try:
                call(message, timeout=60)
                counts['OK'] += 1
            except grpc.RpcError as error:
                counts[error.code().name] += 1
    outcomes.put(counts)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split('\n', maxsplit=1)[0])
    parser.add_argument('--server', type=pathlib.Path,
                        default=ROOT / 'build/release/server/chorale-server')
    parser.add_argument('--server_flag', action='append', default=[])
    parser.add_argument('--long', action='store_true', help='60 s instead of 8')
    parser.add_argument('--callers', type=int, default=12)
    parser.add_argument('--most_seconds', type=float, default=0.5)
    options = parser.parse_args()
    seconds = 60.0 if options.long else 8.0
    with Server(options.server, options.server_flag) as server:
        other = Caller(relay(server.port, OTHER_HOST))
        time.sleep(2)
        alone = statistics.median(call.seconds for call in other.calls)
        processes = multiprocessing.get_context('spawn')  # gRPC does not fork
        outcomes = processes.Queue()
        begin = time.monotonic()
        senders = [processes.Process(target=send, args=(server.port, seconds, outcomes))
                   for _ in range(options.callers)]
        for sender in senders:
            sender.start()
        peak = 0.0
        while any(sender.is_alive() for sender in senders):
            peak = max(peak, server.resident_mib())
            time.sleep(0.02)
        end = time.monotonic()
        other.stop()
        counts = sum((outcomes.get(timeout=60) for _ in senders), collections.Counter())
        during = [call for call in other.calls if begin < call.began < end]
        times = sorted(call.seconds for call in during)
        p99 = times[len(times) * 99 // 100]
        failed = sum(not call.ok for call in during)
        print(f'{options.callers} callers of large requests: {dict(counts)}; Predict of another '
              f'client: median {alone * 1e3:.1f} ms alone; meanwhile {len(times)} calls, {failed} '
              f'failed, median {statistics.median(times) * 1e3:.1f} ms, p99 {p99 * 1e3:.0f} ms, '
              f'longest {times[-1] * 1e3:.0f} ms; peak memory {peak:.0f} MiB')
        status = server.stop()
    wrong: list[str] = []
    if set(counts) != {'INVALID_ARGUMENT'}:
        wrong.append('columns without a name are to be refused with INVALID_ARGUMENT')
    if failed:
        wrong.append('calls of another client failed')
    if status != 0:
        wrong.append(f'the server ended with {status}')
    if p99 > options.most_seconds:
        wrong.append(verdict.Late('calls of another client took too long'))
    return verdict.report(wrong)


if __name__ == '__main__':
    sys.exit(main())
