#!/usr/bin/env python3
"""Ten times as many calls as a server can serve: what is refused, and what the others notice.

    build/resilience_python/bin/python tests/resilience/overload.py [--long [--seconds N]]

Measures how many large Sample calls a second the server completes, and small calls of one client
by itself. Then four other clients, each on an address of its own, begin ten times as many large
calls a second, at times fixed beforehand and whether or not earlier ones have ended, while the small
client goes on. Prints times, and what was refused and why.

Exits with status 1 if the server's chorale_requests_total or chorale_rejected_total differ from what
the clients counted, a refusal says no time after which to try again, a call ends in another way than
those two, a call of the small client fails, or the server does not come to rest afterwards; with
verdict.ONLY_LATE if the small client's 99th percentile is more than twice (in the short form five
times, because other programs run beside it) that without overload plus one tick. 15 s of overload;
10 minutes, or N seconds, with --long.
"""

from __future__ import annotations

import argparse
import collections
import concurrent.futures
import multiprocessing
import os
import pathlib
import sys
import threading
import time

import grpc
import verdict
from google.rpc import error_details_pb2, status_pb2
from service import ROOT, Server, pb, register_data, relay, rpc, table
from verdict import Late

FACTOR = 10
HOSTS = [f'127.0.0.{i}' for i in range(2, 6)]
LARGE = {'targets': 64, 'path_count': 512}
CONNECTIONS = 4  # of each client: a server takes 100 calls at a time on one
THREADS = 150  # of each client: more calls than the server lets wait
# Calls that the server lets wait, and for how long: as many as it serves in some seconds.
FLAGS = ['--max_queued=64', '--queue_wait=5s']
CAPACITY_CALLERS = 4
CAPACITY_SECONDS = 5
PAUSE_SECONDS = 0.02  # of the small client, between two calls

Key = tuple[str, str]  # status code, reason of a refusal


def large_request() -> object:
    return pb.SampleRequest(context='contexts/data', rows=table(LARGE['targets']),
                            path_count=LARGE['path_count'], seed=1, beyond_buffer=pb.BEYOND_BUFFER_WRAP)


def connect(port: int) -> object:
    return rpc.ChoraleStub(grpc.insecure_channel(
        f'127.0.0.1:{port}', options=[('grpc.use_local_subchannel_pool', 1)]))


def refusal(error: grpc.RpcError) -> tuple[str, float]:
    """Its reason, and the seconds after which to try again: '' and 0 where it does not say."""
    reason, delay = '', 0.0
    for key, value in error.trailing_metadata() or ():
        if key != 'grpc-status-details-bin':
            continue
        for detail in status_pb2.Status.FromString(value).details:
            info, retry = error_details_pb2.ErrorInfo(), error_details_pb2.RetryInfo()
            if detail.Unpack(info):
                reason = info.reason
            elif detail.Unpack(retry):
                delay = retry.retry_delay.ToTimedelta().total_seconds()
    return reason, delay


# ---- The clients that ask for too much ------------------------------------------------------


class Client:
    """Begins calls when they are due, however many are in flight."""

    def __init__(self, port: int, host: str):
        through = relay(port, host)
        self._stubs = [connect(through) for _ in range(CONNECTIONS)]
        self.counts: collections.Counter[Key] = collections.Counter()
        self.without_delay = 0
        self.refused_after: list[float] = []
        self._lock = threading.Lock()

    def call(self, number: int) -> None:
        began = time.monotonic()
        reason, delay, code = '', 0.0, 'OK'
        try:
            for _ in self._stubs[number % CONNECTIONS].Sample(large_request()):
                pass
        except grpc.RpcError as error:
            code = error.code().name
            reason, delay = refusal(error)
        with self._lock:
            self.counts[code, reason] += 1
            if code != 'OK':
                self.refused_after.append(time.monotonic() - began)
                self.without_delay += delay <= 0

    def run(self, calls_per_second: float, seconds: float) -> int:
        """Returns how many calls it could not begin when they were due: all threads were busy."""
        late = 0
        free = threading.Semaphore(THREADS)
        with concurrent.futures.ThreadPoolExecutor(THREADS) as threads:
            begin = time.monotonic()
            for number in range(int(calls_per_second * seconds)):
                time.sleep(max(0.0, begin + number / calls_per_second - time.monotonic()))
                late += not free.acquire(blocking=False) and free.acquire()
                threads.submit(self.call, number).add_done_callback(lambda _: free.release())
        return late


def overload(port: int, host: str, calls_per_second: float, seconds: float,
             results: multiprocessing.Queue) -> None:
    """In a process of its own, which leaves the processor to the server."""
    os.nice(10)
    client = Client(port, host)
    late = client.run(calls_per_second, seconds)
    results.put((client.counts, client.without_delay, sorted(client.refused_after), late))


def capacity(port: int) -> tuple[float, int]:
    """Large calls a second, and how many were made, by clients that always have one in flight."""
    end = time.monotonic() + CAPACITY_SECONDS

    def work() -> int:
        stub, done = connect(port), 0
        while time.monotonic() < end:
            for _ in stub.Sample(large_request()):
                pass
            done += 1
        return done

    with concurrent.futures.ThreadPoolExecutor(CAPACITY_CALLERS) as threads:
        begin = time.monotonic()
        calls = sum(future.result() for future in
                    [threads.submit(work) for _ in range(CAPACITY_CALLERS)])
        return calls / (time.monotonic() - begin), calls


# ---- The small client -----------------------------------------------------------------------


class SmallClient:

    def __init__(self, port: int):
        self._stub = connect(port)
        self.counts: collections.Counter[str] = collections.Counter()  # by method, of the good ones
        self.failures: list[str] = []

    def measure(self, going_on: threading.Event | None, seconds: float) -> dict[str, list[float]]:
        """The sorted times of its calls, in seconds."""
        times: dict[str, list[float]] = {'Sample': [], 'Predict': []}
        end = time.monotonic() + seconds
        while time.monotonic() < end and not (going_on and going_on.is_set()):
            for method, of_method in times.items():
                begin = time.monotonic()
                try:
                    if method == 'Sample':
                        list(self._stub.Sample(pb.SampleRequest(
                            context='contexts/data', rows=table(8), path_count=1, seed=7),
                                               timeout=60))
                    else:
                        self._stub.Predict(pb.PredictRequest(
                            context='contexts/data', rows=table(8)), timeout=60)
                    of_method.append(time.monotonic() - begin)
                    self.counts[method] += 1
                except grpc.RpcError as error:
                    self.failures.append(f'{method}: {error.code().name}: {error.details()}')
                time.sleep(PAUSE_SECONDS)
        return {method: sorted(of_method) for method, of_method in times.items()}


def at(fraction: float, times: list[float]) -> float:
    return times[min(len(times) - 1, int(fraction * len(times)))] if times else 0.0


def report(title: str, times: dict[str, list[float]]) -> None:
    for method, of_method in times.items():
        print(f'  {title:14} {method:8} {len(of_method):6} calls  p50 {at(0.5, of_method) * 1e3:7.1f}'
              f' ms  p99 {at(0.99, of_method) * 1e3:7.1f} ms  longest {at(1, of_method) * 1e3:7.1f} ms',
              flush=True)


# ---- Both -----------------------------------------------------------------------------------


def long_tick(server: Server, before: dict[float, float]) -> float:
    """A bound of the 99th percentile of the ticks since `before`, in seconds."""
    ticks = {limit: count - before[limit] for limit, count in tick_counts(server).items()}
    return min(limit for limit, count in ticks.items() if count >= 0.99 * max(ticks.values()))


def tick_counts(server: Server) -> dict[float, float]:
    return {float(labels['le']): count for labels, count in
            server.series('chorale_tick_seconds_bucket')}


def rejected(server: Server) -> dict[str, int]:
    return {labels['reason']: int(count) for labels, count in
            server.series('chorale_rejected_total') if count > 0}


def run(options: argparse.Namespace) -> list[str]:
    """What is wrong, in words."""
    seconds = options.seconds if options.long else 15.0
    with Server(options.server, FLAGS + options.server_flag) as server:
        with grpc.insecure_channel(f'127.0.0.1:{server.port}') as channel:
            register_data(rpc.ChoraleStub(channel))
        small = SmallClient(server.port)
        small.measure(None, 1)  # warms up
        alone = small.measure(None, 60 if options.long else 5)
        report('alone', alone)
        per_second, good = capacity(server.port)
        memory = server.resident_mib()
        values = per_second * LARGE['targets'] * LARGE['path_count']
        print(f'  capacity: {per_second:.1f} calls a second, {values:,.0f} values a second',
              flush=True)

        spawn = multiprocessing.get_context('spawn')
        results = spawn.Queue()
        others = [spawn.Process(target=overload, daemon=True, args=(
            server.port, host, FACTOR * per_second / len(HOSTS), seconds, results))
                  for host in HOSTS]
        for other in others:
            other.start()
        deadline = time.monotonic() + 60
        while server.metric('chorale_rejected_total') == 0:
            if time.monotonic() > deadline:
                return [Late('the overload did not begin')]
            time.sleep(0.05)
        ticks = tick_counts(server)
        over = threading.Event()
        outcomes: list[tuple] = []

        def collect() -> None:
            for _ in others:
                outcomes.append(results.get(timeout=seconds + 120))
                over.set()  # the load is no longer that of all

        collector = threading.Thread(target=collect)
        collector.start()
        loaded = small.measure(over, seconds)
        tick = long_tick(server, ticks)
        peak = server.resident_mib()
        collector.join()
        report('overload', loaded)
        wrong = [] if server.quiet() else ['calls are still in flight']
        report('afterwards', small.measure(None, 5))
        wrong += check(server, small, outcomes, good, per_second)
        print(f'  memory: {memory:.0f} MiB before, {peak:.0f} MiB under overload, '
              f'{server.resident_mib():.0f} MiB afterwards')
        status = server.stop()
        if status != 0:
            wrong.append(f'the server ended with {status}')
    for method, times in loaded.items():
        bound = (2 if options.long else 5) * at(0.99, alone[method]) + tick
        print(f'  {method}: p99 {at(0.99, times) * 1e3:.1f} ms, at most {bound * 1e3:.1f} ms '
              f'(a tick is {tick * 1e3:.0f} ms or less)')
        if at(0.99, times) > bound:
            wrong.append(Late(f'{method}: p99 of {at(0.99, times) * 1e3:.1f} ms under overload'))
    return wrong


def check(server: Server, small: SmallClient, outcomes: list[tuple], good: int,
          per_second: float) -> list[str]:
    """Compares what the clients counted with what the server did."""
    counts: collections.Counter[Key] = collections.Counter()
    for of_client, *_ in outcomes:
        counts += of_client
    calls = sum(counts.values())
    refused_after = sorted(after for _, _, times, _ in outcomes for after in times)
    late = sum(late for *_, late in outcomes)
    print(f'  {calls} calls offered, {FACTOR} times {per_second:.1f} a second; {late} begun late: '
          + ', '.join(f'{" ".join(filter(None, key))} {n}' for key, n in sorted(counts.items())))
    print(f'  refused after {at(0.5, refused_after) * 1e3:.0f} ms (p50), '
          f'{at(0.99, refused_after) * 1e3:.0f} ms (p99)')

    wrong = small.failures[:5]
    other = [f'{code} {reason}' for code, reason in counts
             if code not in ('OK', 'RESOURCE_EXHAUSTED')]
    if other:
        wrong.append(f'calls ended with {", ".join(other)}')
    without_delay = sum(count for _, count, *_ in outcomes)
    if without_delay:
        wrong.append(f'{without_delay} refusals do not say when to try again')
    by_clients: collections.Counter[str] = collections.Counter()
    for (code, _), count in counts.items():
        by_clients[code] += count
    by_clients['OK'] += good + small.counts['Sample']
    by_server = {labels['code']: int(count) for labels, count in
                 server.series('chorale_requests_total')
                 if labels['method'] == 'Sample' and count > 0}
    if by_server != dict(by_clients):
        wrong.append(f'Sample: {by_server} by the server, {dict(by_clients)} by the clients')
    refusals = by_clients['RESOURCE_EXHAUSTED']
    by_reason = rejected(server)
    print(f'  the server counts {by_server}, rejected {by_reason}')
    if sum(by_reason.values()) != refusals:
        wrong.append(f'{sum(by_reason.values())} rejected by the server, {refusals} by the clients')
    return wrong


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split('\n', maxsplit=1)[0])
    parser.add_argument('--server', type=pathlib.Path,
                        default=ROOT / 'build/release/server/chorale-server')
    parser.add_argument('--server_flag', action='append', default=[])
    parser.add_argument('--long', action='store_true')
    parser.add_argument('--seconds', type=float, default=600.0, help='of overload, with --long')
    options = parser.parse_args()
    return verdict.report(run(options))


if __name__ == '__main__':
    sys.exit(main())
