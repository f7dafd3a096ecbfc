#!/usr/bin/env python3
"""Large calls against the small calls of another client, or of the same one.

    build/resilience_python/bin/python tests/resilience/fairness.py [--same_client] [--long]

Starts a server on the loopback interface and times small Sample and Predict calls: first alone,
then while another client (all that comes from 127.0.0.2) keeps 120 Samples of 16384 paths and 64
targets in flight and holds 100 streams that it never reads. With --same_client these calls come
from the address of the small ones, so that the server takes all for one client's. Prints the
times, and exits with status 1 if a small call fails or load changes one of its answers, with
verdict.ONLY_LATE if their 99th percentile is more than twice (in the short form five times, because
other programs run beside it) what it is alone plus one tick (the 95th percentile of those that have
only the large calls' work).

The short form measures for 10 s, --long for 60 s. It needs a machine with nothing else to do.
"""

import argparse
import contextlib
import hashlib
import multiprocessing
import os
import pathlib
import random
import re
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request

import grpc
import verdict
from grpc_tools import protoc

ROOT = pathlib.Path(__file__).resolve().parents[2]
OTHER_HOST = '127.0.0.2'
CALLERS = 120
UNREAD = 100
LARGE = (16384, 64)  # paths, targets
SMALL = (1, 8)
CONTEXT_ROWS = 200
STREAMS_PER_CONNECTION = 80  # less than the server's --max_concurrent_streams
RETRY_SECONDS = 1    # what the server asks for with a refusal
QUIET_SECONDS = 5


def load_api():
    """The modules that are made from the proto."""
    folder = tempfile.mkdtemp()
    include = pathlib.Path(protoc.__file__).with_name('_proto')
    if protoc.main(['', f'-I{ROOT}/proto', f'-I{include}', f'--python_out={folder}',
                    f'--grpc_python_out={folder}', 'chorale/v1/chorale.proto']) != 0:
        sys.exit('the proto cannot be compiled')
    sys.path.insert(0, folder)
    # pylint: disable=import-outside-toplevel
    from chorale.v1 import chorale_pb2, chorale_pb2_grpc
    return chorale_pb2, chorale_pb2_grpc


API, STUBS = load_api()


def table(rows, with_target):
    rng = random.Random(rows)
    columns = {name: [rng.gauss(0, 1) for _ in range(rows)] for name in ('a', 'b', 'c')}
    if with_target:
        columns['y'] = [sum(cells) + rng.gauss(0, 0.1) for cells in zip(*columns.values())]
    return API.Table(columns=[
        API.Column(name=name, numeric=API.NumericValues(values=values))
        for name, values in columns.items()])


def sample_request(shape):
    return API.SampleRequest(context='contexts/c', rows=table(shape[1], False),
                             path_count=shape[0], seed=7)


PREDICT = API.PredictRequest(context='contexts/c', rows=table(SMALL[1], False),
                             quantiles=[0.1, 0.5, 0.9])


def stub_of(address):
    # A connection of its own.
    return STUBS.ChoraleStub(
        grpc.insecure_channel(address, options=[('grpc.use_local_subchannel_pool', 1)]))


# ---- The large calls ----------------------------------------------------------------------


def copy(source, target):
    with contextlib.suppress(OSError):
        while data := source.recv(1 << 16):
            target.sendall(data)
    with contextlib.suppress(OSError):
        target.shutdown(socket.SHUT_WR)


def relay(port):
    """The port of a relay to the server, which sees OTHER_HOST: gRPC cannot choose its address."""
    listener = socket.create_server(('127.0.0.1', 0))

    def accept():
        while True:
            near, _ = listener.accept()
            far = socket.create_connection(('127.0.0.1', port), source_address=(OTHER_HOST, 0))
            for ends in ((near, far), (far, near)):
                threading.Thread(target=copy, args=ends, daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()
    return listener.getsockname()[1]


class Counts:
    """How the large calls ended."""

    def __init__(self):
        self._lock = threading.Lock()
        self.by_code = {}

    def add(self, code):
        with self._lock:
            self.by_code[code] = self.by_code.get(code, 0) + 1


def call_again_and_again(stub, counts):
    while True:
        try:
            for _ in stub.Sample(sample_request(LARGE)):
                pass
            counts.add('OK')
        except grpc.RpcError as error:
            counts.add(error.code().name)
            time.sleep(RETRY_SECONDS)


def hold_unread(stub, counts):
    while True:
        stream = stub.Sample(sample_request(LARGE))
        ended = threading.Event()
        stream.add_callback(ended.set)
        ended.wait()
        counts.add(f'unread {stream.code().name}')
        time.sleep(RETRY_SECONDS)


def attack(port, same_client, begun, results):
    os.nice(10)  # the clients' own work is not what is measured
    through = port if same_client else relay(port)
    counts = Counts()
    for kind, count in ((hold_unread, UNREAD), (call_again_and_again, CALLERS)):
        stub = None
        for i in range(count):
            if i % STREAMS_PER_CONNECTION == 0:
                stub = stub_of(f'127.0.0.1:{through}')
            threading.Thread(target=kind, args=(stub, counts), daemon=True).start()
    begun.wait()
    results.put(counts.by_code)


# ---- The server ----------------------------------------------------------------------------


@contextlib.contextmanager
def serving(server, folder):
    """The ports of a server: gRPC, metrics."""
    log, port_file = folder / 'log', folder / 'port'
    with open(log, 'wb') as log_file, subprocess.Popen(
            [server, f'--models={ROOT}/models/default', f'--data_dir={folder}/data',
             '--listen_address=127.0.0.1:0', '--metrics_address=127.0.0.1:0', '--backend=cpu',
             f'--port_file={port_file}', '--lame_duck=0s', '--drain_timeout=1s'],
            stdout=log_file, stderr=log_file) as process:
        try:
            deadline = time.monotonic() + 60
            while ' serving ' not in log.read_text(encoding='utf-8'):
                if process.poll() is not None or time.monotonic() > deadline:
                    sys.exit(log.read_text(encoding='utf-8'))
                time.sleep(0.05)
            metrics = re.search(r'metrics_port=(\d+)', log.read_text(encoding='utf-8'))
            yield int(port_file.read_text(encoding='utf-8')), int(metrics.group(1))
        finally:
            process.kill()


def metric(port, name):
    page = urllib.request.urlopen(f'http://127.0.0.1:{port}/metrics', timeout=10).read().decode()
    return sum(float(value) for value in
               re.findall(rf'^{re.escape(name)} (\S+)$', page, re.MULTILINE))


def ticks_by_length(port):
    """The number of ticks so far that took at most so many seconds."""
    page = urllib.request.urlopen(f'http://127.0.0.1:{port}/metrics', timeout=10).read().decode()
    return {float(limit): float(count) for limit, count in re.findall(
        r'^chorale_tick_seconds_bucket\{le="([^"]+)"\} (\S+)$', page, re.MULTILINE)}


def long_tick(port, seconds):
    """The 95th percentile of the ticks in the next `seconds`, between the histogram's bounds."""
    before = ticks_by_length(port)
    time.sleep(seconds)
    ticks = {limit: count - before[limit] for limit, count in ticks_by_length(port).items()}
    wanted = 0.95 * max(ticks.values())
    low, count_at_low = 0.0, 0.0
    for limit, count in sorted(ticks.items()):
        if count >= wanted:
            return low + (limit - low) * (wanted - count_at_low) / max(1, count - count_at_low)
        low, count_at_low = limit, count
    return low


# ---- The small client ----------------------------------------------------------------------


class SmallClient:
    """Times calls, and remembers their answers."""

    def __init__(self, port):
        self._stub = stub_of(f'127.0.0.1:{port}')
        self.answers = set()
        self.failures = []

    def register(self):
        spec = API.ContextSpec(context_id='c', target_column='y')
        self._stub.RegisterContext(iter([
            API.RegisterContextRequest(spec=spec),
            API.RegisterContextRequest(rows=table(CONTEXT_ROWS, True))]))
        self._stub.WarmContext(API.WarmContextRequest(name='contexts/c'))

    def _values(self, kind):
        if kind == 'Predict':
            answer = self._stub.Predict(PREDICT, timeout=60)
            return [list(answer.means), list(answer.stds), list(answer.quantiles)]
        return sorted(
            (block.first_path, block.first_step, tuple(block.values))
            for message in self._stub.Sample(sample_request(SMALL), timeout=60)
            for block in message.blocks.blocks)

    def measure(self, seconds):
        """The sorted times of each kind of call, in seconds."""
        times = {'Sample': [], 'Predict': []}
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            for kind, of_kind in times.items():
                begin = time.monotonic()
                try:
                    values = self._values(kind)
                except grpc.RpcError as error:
                    self.failures.append(f'{kind}: {error.code().name}: {error.details()}')
                    continue
                of_kind.append(time.monotonic() - begin)
                if kind == 'Sample':  # steps arrive in other blocks
                    steps = {}
                    for path, step, drawn in values:
                        for i, value in enumerate(drawn):
                            steps[path, step + i] = value
                    values = sorted(steps.items())
                self.answers.add((kind, hashlib.sha256(repr(values).encode()).hexdigest()))
        return {kind: sorted(of_kind) for kind, of_kind in times.items()}


def at(fraction, times):
    return times[min(len(times) - 1, int(fraction * len(times)))] if times else float('inf')


def report(title, times):
    for kind, of_kind in times.items():
        print(f'{title:12} {kind:8} {len(of_kind):6} calls  '
              f'p50 {at(0.5, of_kind) * 1e3:8.1f} ms  p99 {at(0.99, of_kind) * 1e3:8.1f} ms  '
              f'longest {at(1, of_kind) * 1e3:8.1f} ms', flush=True)


def run(options, folder):
    """What is wrong, in words."""
    with serving(options.server, folder) as (port, metrics_port):
        small = SmallClient(port)
        small.register()
        small.measure(1)  # warms up
        alone = small.measure(QUIET_SECONDS)
        report('alone', alone)

        spawn = multiprocessing.get_context('spawn')
        end, results = spawn.Event(), spawn.Queue()
        other = spawn.Process(target=attack, args=(port, options.same_client, end, results),
                              daemon=True)
        other.start()
        deadline = time.monotonic() + 60
        while metric(metrics_port, 'chorale_sessions{state="queued"}') < 100:
            if time.monotonic() > deadline:
                return [verdict.Late('the load did not begin')]
            time.sleep(0.1)
        tick = long_tick(metrics_port, QUIET_SECONDS)
        loaded = small.measure(60 if options.long else 10)
        report('under load', loaded)
        print(f'a long tick (p95) of the large calls alone takes {tick * 1e3:.1f} ms; they have '
              f'{metric(metrics_port, "chorale_largest_client_share") * 100:.0f} % of the buffers')
        end.set()
        print('the large calls:', results.get(timeout=10))
        other.terminate()

    wrong = small.failures[:5]
    for kind, of_kind in loaded.items():
        bound = (2 if options.long else 5) * at(0.99, alone[kind]) + tick
        if at(0.99, of_kind) > bound:
            wrong.append(verdict.Late(f'{kind}: p99 of {at(0.99, of_kind) * 1e3:.1f} ms under load, '
                                      f'more than {bound * 1e3:.1f} ms'))
    if len(small.answers) != 2:
        wrong.append('answers differ under load')
    return wrong


def main():
    parser = argparse.ArgumentParser(description=__doc__.split('\n', maxsplit=1)[0])
    parser.add_argument('--server', default=ROOT / 'build/release/server/chorale-server')
    parser.add_argument('--same_client', action='store_true',
                        help='large and small calls are those of one client')
    parser.add_argument('--long', action='store_true', help='60 s instead of 10')
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        wrong = run(options, pathlib.Path(folder))
    sys.exit(verdict.report(wrong))


if __name__ == '__main__':
    main()
