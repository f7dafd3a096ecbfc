#!/usr/bin/env python3
"""Calls of all kinds for a long time: nothing grows, and the server counts what its clients count.

    build/resilience_python/bin/python tests/resilience/soak.py [--long]

Callers register, replace and delete contexts, draw, predict, cancel, let deadlines pass, disconnect
and send bad requests. Memory, descriptors and threads are read every quarter of a second; their
medians in the second and in the last quarter of the time are compared. Then the server's
chorale_requests_total is compared with what the callers counted, and the server must end with 0.

First come two servers that lose memory and descriptors on purpose (leak.c), and both must be caught.
Needs a C compiler for that. Exits with status 1 if something grows, counts differ, or a control is
not caught. 40 s for the server and each control; an hour for the server with --long.
"""

from __future__ import annotations

import argparse
import collections
import dataclasses
import os
import pathlib
import random
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable

import grpc
from service import ROOT, Server, pb, register_data, rpc, table

SHORT_SECONDS, LONG_SECONDS = 40, 3600
SAMPLE_SECONDS = 0.25
# What may be more at the end: allocators and gRPC keep some of what a peak needed.
MORE_MIB = 6.0
MORE_FILES = 4
MORE_THREADS = 4
# A deadline or a cancellation that meets the end of a call may be one code here and another there.
RACING = {'OK', 'CANCELLED', 'DEADLINE_EXCEEDED'}

Counts = collections.Counter[tuple[str, str]]  # of calls, by method and code


def connect(port: int) -> grpc.Channel:
    """A connection of its own."""
    return grpc.insecure_channel(f'127.0.0.1:{port}',
                                 options=[('grpc.use_local_subchannel_pool', 1)])


def next_message(stream: grpc.Call) -> bool:
    """Waits for one; false once the stream has ended, in whatever way."""
    try:
        return next(stream, None) is not None
    except grpc.RpcError:
        return False


class Caller:
    """Calls at random on a thread of its own, each kind as often as its weight says."""

    def __init__(self, port: int, seed: int, stopping: threading.Event):
        self._port = port
        self._random = random.Random(seed)
        self._stopping = stopping
        self._own = [f'soak-{seed}-{i}' for i in range(4)]
        self._stub: rpc.ChoraleStub
        self.counts: Counts = collections.Counter()
        # Calls that the client ended before it had an answer: some of them never reach the server.
        self.unanswered: collections.Counter[str] = collections.Counter()
        self.thread = threading.Thread(target=self._run)
        self.thread.start()

    def _run(self) -> None:
        kinds = [(self._predict, 30), (self._sample, 20), (self._density, 10), (self._cancel, 10),
                 (self._deadline, 8), (self._disconnect, 2), (self._register, 8),
                 (self._delete, 4), (self._bad, 6), (self._look, 10)]
        names, weights = zip(*kinds)
        while not self._stopping.is_set():
            with connect(self._port) as channel:
                self._stub = rpc.ChoraleStub(channel)
                for _ in range(50):  # then another connection
                    self._random.choices(names, weights)[0]()
                    if self._stopping.is_set():
                        break

    def _count(self, method: str, call: Callable[[], object]) -> None:
        try:
            call()
            self.counts[method, 'OK'] += 1
        except grpc.RpcError as error:
            self.counts[method, error.code().name] += 1

    def _count_stream(self, stream: grpc.Call, answered: bool) -> None:
        """`answered`: the server has sent something before the client ended the stream."""
        code = stream.code().name  # waits for the end
        self.counts['Sample', code] += 1
        if not answered and code in RACING:
            self.unanswered['Sample'] += 1

    def _context(self) -> str:
        return f'contexts/{self._random.choice([*self._own, "data"])}'

    def _predict(self) -> None:
        request = pb.PredictRequest(context=self._context(), rows=table(4))
        self._count('Predict', lambda: self._stub.Predict(request, timeout=30))

    def _sample(self) -> None:
        request = pb.SampleRequest(context=self._context(), rows=table(4),
                                   path_count=self._random.choice([1, 33]))
        self._count('Sample', lambda: list(self._stub.Sample(request, timeout=30)))

    def _density(self) -> None:
        request = pb.LogDensityRequest(context=self._context(), rows=table(3), values=[1, 2, 3])
        self._count('LogDensity', lambda: self._stub.LogDensity(request, timeout=30))

    # What the client ends asks for "data", which is always there: it cannot fail otherwise.

    def _cancel(self) -> None:
        stream = self._stub.Sample(pb.SampleRequest(
            context='contexts/data', rows=table(8), path_count=2000), timeout=30)
        answered = self._random.random() < 0.7 and next_message(stream)
        stream.cancel()
        self._count_stream(stream, answered)

    def _disconnect(self) -> None:
        channel = connect(self._port)
        stream = rpc.ChoraleStub(channel).Sample(pb.SampleRequest(
            context='contexts/data', rows=table(8), path_count=2000), timeout=30)
        answered = next_message(stream)
        channel.close()
        self._count_stream(stream, answered)

    def _deadline(self) -> None:
        stream = self._stub.Sample(pb.SampleRequest(
            context='contexts/data', rows=table(8), path_count=4000), timeout=0.02)
        answered = next_message(stream)
        while next_message(stream):
            pass
        self._count_stream(stream, answered)

    def _register(self) -> None:
        rows = table(self._random.choice([10, 60]))
        rows.columns.add(name='y').numeric.values.extend(
            self._random.random() for _ in rows.columns[0].numeric.values)
        spec = pb.ContextSpec(context_id=self._random.choice(self._own),
                                          target_column='y')
        messages = [pb.RegisterContextRequest(spec=spec), pb.RegisterContextRequest(rows=rows)]
        self._count('RegisterContext',
                    lambda: self._stub.RegisterContext(iter(messages), timeout=30))

    def _delete(self) -> None:
        request = pb.DeleteContextRequest(name=f'contexts/{self._random.choice(self._own)}')
        self._count('DeleteContext', lambda: self._stub.DeleteContext(request, timeout=30))

    def _bad(self) -> None:
        request = pb.PredictRequest(context='contexts/data')
        self._count('Predict', lambda: self._stub.Predict(request, timeout=30))

    def _look(self) -> None:
        self._count('ListContexts', lambda: self._stub.ListContexts(
            pb.ListContextsRequest(), timeout=30))
        self._count('GetContext', lambda: self._stub.GetContext(
            pb.GetContextRequest(name=self._context()), timeout=30))
        self._count('ListModels', lambda: self._stub.ListModels(
            pb.ListModelsRequest(), timeout=30))


@dataclasses.dataclass
class Usage:
    mib: float
    files: int
    threads: int


def served(server: Server) -> Counts:
    """chorale_requests_total."""
    counts: Counts = collections.Counter()
    for labels, value in server.series('chorale_requests_total'):
        counts[labels['method'], labels['code']] += int(value)
    return counts


def differences(by_server: Counts, by_clients: Counts,
                unanswered: collections.Counter[str]) -> list[str]:
    """What the server has counted otherwise than its clients."""
    found = []
    for method in sorted({method for method, _ in [*by_server, *by_clients]}):
        codes = {code for name, code in [*by_server, *by_clients] if name == method}
        for code in sorted(codes - RACING):
            if by_server[method, code] != by_clients[method, code]:
                found.append(f'{method} {code}: {by_server[method, code]} by the server, '
                             f'{by_clients[method, code]} by the clients')
        there, here = (sum(counts[method, code] for code in RACING)
                       for counts in (by_server, by_clients))
        if not here - unanswered[method] <= there <= here:
            found.append(f'{method} {", ".join(sorted(RACING))}: {there} by the server, {here} by '
                         f'the clients, who ended {unanswered[method]} before an answer')
    return found


def soak(options: argparse.Namespace, seconds: float, environment: dict[str, str]) -> list[str]:
    """What grew or differed."""
    with Server(options.server, options.server_flag, environment) as server:
        with connect(server.port) as channel:
            register_data(rpc.ChoraleStub(channel))
        counted: Counts = collections.Counter({('RegisterContext', 'OK'): 1})
        stopping = threading.Event()
        callers = [Caller(server.port, seed, stopping) for seed in range(1, options.callers + 1)]
        usages: list[Usage] = []
        end = time.monotonic() + seconds
        while time.monotonic() < end and server.exit_status() is None:
            usages.append(Usage(server.resident_mib(), server.open_files(), server.threads()))
            time.sleep(SAMPLE_SECONDS)
        stopping.set()
        for caller in callers:
            caller.thread.join()
            counted += caller.counts
        if server.exit_status() is not None:
            return [f'the server ended with {server.exit_status()}:\n{server.log()[-3000:]}']
        found = [] if server.quiet() else ['calls are still live']
        found += differences(served(server), counted, sum(
            (caller.unanswered for caller in callers), collections.Counter()))
        quarter = len(usages) // 4
        for what, most in (('mib', MORE_MIB), ('files', MORE_FILES), ('threads', MORE_THREADS)):
            early, late = (statistics.median(getattr(one, what) for one in part)
                           for part in (usages[quarter:2 * quarter], usages[-quarter:]))
            print(f'  {what}: {early:.1f} in the second quarter, {late:.1f} in the last', flush=True)
            if late > early + most:
                found.append(f'{what} grew from {early:.1f} to {late:.1f}')
        print(f'  {sum(counted.values())} calls in {seconds:.0f} s: ' + ', '.join(
            f'{code} {sum(n for (_, one), n in counted.items() if one == code)}'
            for code in sorted({code for _, code in counted})), flush=True)
        status = server.stop()
        return found + ([f'the server ended with {status}'] if status != 0 else [])


def control(options: argparse.Namespace, name: str, settings: dict[str, str]) -> bool:
    """Whether a server that leaks on purpose is caught."""
    with tempfile.TemporaryDirectory() as folder:
        library = pathlib.Path(folder, 'leak.so')
        subprocess.run(['cc', '-O1', '-shared', '-fPIC', '-o', library,
                        ROOT / 'tests/resilience/leak.c'], check=True)
        print(f'control: {name}', flush=True)
        found = soak(options, SHORT_SECONDS,
                     {'LD_PRELOAD': os.fspath(library), **settings})
    caught = any('grew' in line for line in found)
    print(f'  {"caught" if caught else "NOT CAUGHT"}: {"; ".join(found)}', flush=True)
    return caught


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split('\n', maxsplit=1)[0])
    parser.add_argument('--server', type=pathlib.Path,
                        default=ROOT / 'build/release/server/chorale-server')
    parser.add_argument('--server_flag', action='append', default=[])
    parser.add_argument('--callers', type=int, default=4)
    parser.add_argument('--long', action='store_true')
    options = parser.parse_args()
    caught = all([
        control(options, 'memory', {'CHORALE_LEAK_BYTES': '2000'}),
        control(options, 'descriptors', {'CHORALE_LEAK_FILES_OF': '100'})])
    print('the server', flush=True)
    found = soak(options, LONG_SECONDS if options.long else SHORT_SECONDS, {})
    for line in found:
        print(f'  {line}')
    return 0 if caught and not found else 1


if __name__ == '__main__':
    sys.exit(main())
