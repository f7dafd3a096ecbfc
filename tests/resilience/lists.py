#!/usr/bin/env python3
"""Lists of many wide contexts do not delay another client's calls.

    build/resilience_python/bin/python tests/resilience/lists.py [--contexts 1000] [--seconds 8]

Eight processes list 1,000 contexts of 1,000 columns without a pause: first without columns, then
with them. Another client calls GetContext for a small context; the 99th percentile of its times is
at most five times that without the lists. The lists grow the server's memory by at most 64 MiB.

Then a context is replaced again and again, while four clients predict with it: no call fails, and
each response is that of one of its two contents, to the bit.

Exits with status 1 if a response or the memory is wrong, with verdict.ONLY_LATE if only a time is.
"""

from __future__ import annotations

import argparse
import pathlib
import subprocess
import sys
import threading
import time

import grpc
from service import ROOT, Server, pb, register_data, relay, rpc, table
from verdict import Late, report

LISTERS, COLUMNS, PREDICTORS = 8, 1000, 4
MOST_TIMES, MOST_MIB = 5, 64
VIEWS = {'without columns': pb.CONTEXT_VIEW_BASIC,
         'with columns': pb.CONTEXT_VIEW_FULL}


def connect(port: int) -> rpc.ChoraleStub:
    return rpc.ChoraleStub(grpc.insecure_channel(
        f'127.0.0.1:{port}', [('grpc.use_local_subchannel_pool', 1)]))


def create(stub: rpc.ChoraleStub, name: str, rows: pb.Table, replace: bool = False) -> pb.Context:
    spec = pb.ContextSpec(context_id=name, target_column='y', replace=replace)
    return stub.CreateContext(pb.CreateContextRequest(spec=spec, rows=rows), timeout=60).context


def wide_table() -> pb.Table:
    rows = pb.Table()
    for i in range(COLUMNS):
        rows.columns.add(name=f'a column with a name of some length, number {i}')
    rows.columns.add(name='y')
    for column in rows.columns:
        column.numeric.values.extend([0, 1])
    return rows


def list_for_ever(port: int, view: int) -> None:
    stub = connect(port)
    while True:
        token = ''
        while True:
            page = stub.ListContexts(pb.ListContextsRequest(
                page_size=1000, page_token=token, view=view), timeout=60)
            token = page.next_page_token
            if not token:
                break
        print('listed', flush=True)


def times_of_calls(stub: rpc.ChoraleStub, seconds: float) -> list[float]:
    """Sorted, in milliseconds."""
    times = []
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        began = time.monotonic()
        stub.GetContext(pb.GetContextRequest(name='contexts/data'), timeout=60)
        times.append(1000 * (time.monotonic() - began))
        time.sleep(0.01)
    return sorted(times)


def p99(times: list[float]) -> float:
    return times[len(times) * 99 // 100]


def summary(times: list[float]) -> str:
    return f'p50 {times[len(times) // 2]:.2f}, p99 {p99(times):.2f}, max {times[-1]:.2f} ms'


def listing(server: Server, arguments: argparse.Namespace) -> list[str]:
    wrong = []
    stub = connect(server.port)
    rows = wide_table()
    for i in range(arguments.contexts):
        create(stub, f'wide-{i}', rows)
    other = connect(relay(server.port, '127.0.0.2'))
    alone = times_of_calls(other, arguments.seconds)
    before = server.resident_mib()
    print('GetContext alone:', summary(alone))
    for what, view in VIEWS.items():
        command = [sys.executable, __file__, '--lister', str(server.port), str(view)]
        listers = [subprocess.Popen(command, stdout=subprocess.PIPE) for _ in range(LISTERS)]
        try:
            for lister in listers:
                lister.stdout.readline()
            times = times_of_calls(other, arguments.seconds)
            grown = server.resident_mib() - before
        finally:
            for lister in listers:
                lister.kill()
            lists = sum(len(lister.communicate()[0].splitlines()) for lister in listers)
        print(f'beside {LISTERS} listers {what}: {summary(times)}; {lists} lists; '
              f'memory {before:.0f} MiB and {grown:+.0f}')
        if p99(times) > MOST_TIMES * p99(alone):
            wrong.append(Late(f'GetContext beside lists {what}: p99 {p99(times):.1f} ms, '
                              f'alone {p99(alone):.1f}'))
        if grown > MOST_MIB:
            wrong.append(f'lists {what} grow the memory by {grown:.0f} MiB')
    return wrong


def replacing(server: Server, seconds: float) -> list[str]:
    """Replaces a context by two contents in turns while clients predict with it."""
    stub = connect(server.port)
    contents = []
    for factor in (1, -3):
        rows = table(40)
        rows.columns.add(name='y').numeric.values.extend(factor * (i % 5) for i in range(40))
        contents.append(rows)
    request = pb.PredictRequest(context='contexts/changing', rows=table(4))

    def answer(client: rpc.ChoraleStub) -> tuple[str, bytes]:
        response = client.Predict(request, timeout=60)
        return response.source.context_digest, bytes(str(list(response.means)), 'ascii')

    expected = {}
    for rows in contents:
        create(stub, 'changing', rows, replace=True)
        digest, means = answer(stub)
        expected[digest] = means
    wrong, counts, done = [], dict.fromkeys(expected, 0), threading.Event()
    lock = threading.Lock()

    def predict() -> None:
        client = connect(server.port)
        while not done.is_set():
            try:
                digest, means = answer(client)
            except grpc.RpcError as error:
                wrong.append(f'a call during replacements: {error.code()}: {error.details()}')
                return
            if expected.get(digest) != means:
                wrong.append(f'a response with the digest {digest} has other values')
                return
            with lock:
                counts[digest] += 1

    predictors = [threading.Thread(target=predict) for _ in range(PREDICTORS)]
    for predictor in predictors:
        predictor.start()
    replacements, end = 0, time.monotonic() + seconds
    while time.monotonic() < end:
        create(stub, 'changing', contents[replacements % 2], replace=True)
        replacements += 1
    done.set()
    for predictor in predictors:
        predictor.join()
    print(f'{replacements} replacements, {sum(counts.values())} predictions: '
          f'{" and ".join(map(str, counts.values()))} with each content, {len(wrong)} wrong')
    if min(counts.values()) == 0:
        wrong.append('the predictions have seen only one content')
    return wrong


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split('\n', 1)[0])
    parser.add_argument('--contexts', type=int, default=1000)
    parser.add_argument('--seconds', type=float, default=8)
    parser.add_argument('--server', type=pathlib.Path,
                        default=ROOT / 'build/release/server/chorale-server')
    parser.add_argument('--lister', type=int, nargs=2, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.lister:
        list_for_ever(*arguments.lister)
    with Server(arguments.server, ['--context_pool_mib=256']) as server:
        register_data(connect(server.port))
        return report(listing(server, arguments) + replacing(server, arguments.seconds))


if __name__ == '__main__':
    sys.exit(main())
