#!/usr/bin/env python3
"""Kills a server with SIGKILL again and again, and holds it to what it has acknowledged.

    build/resilience_python/bin/python tests/resilience/kill9.py [--long]

Callers register, replace and delete contexts, some with shared contents, until the server is
killed; a part of the kills hits a server that starts. After each restart every context must be
listed with the digest of what was acknowledged, or, if a call about it was in flight, be as before
that call or after it; nothing else may be there, and a prediction must read each dataset.

After some kills the log of the database is damaged. The server may then refuse to start, or start
without the end of the log; it must never serve a context with other content than its own. The
damage is undone after that.

As root, the data lie on a small disk of their own, which a noisy neighbour fills and frees; full or
not, what is refused must not happen.

Prints figures, and ends with status 1 if anything was lost, torn or foreign.
"""

import argparse
import collections
import contextlib
import importlib
import os
import pathlib
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
MODEL = ROOT / 'tests/golden/golden_tiny'
CALLERS = 4
NAMES = 6  # of each caller
CONTENTS = 5  # of any name; callers share them
START_SECONDS = 60
CALL_SECONDS = 20
DISK = '12m'  # some hundred datasets, the database and its log
IN_NAMESPACE = '--in-namespace'


def make_stubs(folder):
    """The API's messages and stubs, generated into `folder`."""
    from grpc_tools import protoc
    protos = [str(path.relative_to(ROOT / 'proto')) for path in (ROOT / 'proto').rglob('*.proto')]
    include = pathlib.Path(protoc.__file__).parent / '_proto'
    arguments = ['protoc', f'-I{ROOT / "proto"}', f'-I{include}', f'--python_out={folder}',
                 f'--grpc_python_out={folder}']
    if protoc.main([*arguments, *protos]) != 0:
        sys.exit('the stubs cannot be generated')
    sys.path.insert(0, str(folder))
    return (importlib.import_module('chorale.v1.chorale_pb2'),
            importlib.import_module('chorale.v1.chorale_pb2_grpc'))


class Server:
    """One server process on a data folder."""

    def __init__(self, program, data, log):
        self.port_file = data.parent / 'port'
        self.port_file.unlink(missing_ok=True)
        self.log = log
        self.process = subprocess.Popen(
            [program, f'--models={MODEL}', f'--data_dir={data}', '--listen_address=127.0.0.1:0',
             '--metrics_address=', f'--port_file={self.port_file}', '--threads=1',
             '--backend=cpu', '--context_pool_mib=16', '--buffer_pool_mib=16'],
            stdout=subprocess.DEVNULL, stderr=log)

    def wait_until_ready(self):
        """The address; None if the process ends before."""
        end = time.monotonic() + START_SECONDS
        while time.monotonic() < end:
            if self.port_file.exists():
                return f'127.0.0.1:{self.port_file.read_text().strip()}'
            if self.process.poll() is not None:
                return None
            time.sleep(0.002)
        raise TimeoutError('the server does not start')

    def kill(self):
        self.process.kill()
        self.process.wait()


class Api:
    """The calls that the callers make."""

    def __init__(self, address):
        self.channel = grpc.insecure_channel(address, options=[('grpc.enable_retries', 0)])
        self.stub = api.ChoraleStub(self.channel)

    def register(self, name, content):
        def messages():
            yield pb.RegisterContextRequest(
                spec=pb.ContextSpec(context_id=name, target_column='y'))
            yield pb.RegisterContextRequest(rows=table(content))
        return self.stub.RegisterContext(messages(), timeout=CALL_SECONDS).context.digest

    def delete(self, name):
        self.stub.DeleteContext(pb.DeleteContextRequest(name=f'contexts/{name}'),
                                timeout=CALL_SECONDS)

    def digests(self):
        found, token = {}, ''
        while True:
            page = self.stub.ListContexts(pb.ListContextsRequest(page_size=100, page_token=token),
                                          timeout=CALL_SECONDS)
            found.update({each.name.removeprefix('contexts/'): each.digest
                          for each in page.contexts})
            token = page.next_page_token
            if not token:
                return found

    def predict(self, name):
        self.stub.Predict(pb.PredictRequest(context=f'contexts/{name}', rows=pb.Table(
            columns=[pb.Column(name='x', numeric=pb.NumericValues(values=[0.5]))])),
                          timeout=CALL_SECONDS)

    def close(self):
        self.channel.close()


def table(content):
    """20 to 4,000 rows, which follow from the number."""
    rng = random.Random(content)
    rows = rng.choice([20, 300, 4000])
    columns = {name: [rng.gauss(content, 1) for _ in range(rows)] for name in ('x', 'y')}
    return pb.Table(columns=[pb.Column(name=name, numeric=pb.NumericValues(values=values))
                             for name, values in columns.items()])


class Ledger:
    """What each name may hold: the content that was acknowledged last, None for none, and what a
    call in flight would leave. Each caller has names of its own, so it needs no lock."""

    def __init__(self):
        self.acknowledged = {}
        self.in_flight = {}

    def allowed(self, name):
        allowed = {self.acknowledged.get(name)}
        if name in self.in_flight:
            allowed.add(self.in_flight[name])
        return allowed

    def settle(self, name, content):
        self.in_flight.pop(name, None)
        self.acknowledged[name] = content


def call_until_killed(address, caller, ledger, rng, counts):
    """Registers and deletes until the server is gone."""
    client = Api(address)
    with contextlib.closing(client):
        while True:
            name = f'c{caller}-{rng.randrange(NAMES)}'
            before = ledger.acknowledged.get(name)
            content = None if before is not None else rng.randrange(CONTENTS)
            ledger.in_flight[name] = content
            try:
                if content is None:
                    client.delete(name)
                else:
                    client.register(name, content)
            except grpc.RpcError as error:
                if error.code() != grpc.StatusCode.RESOURCE_EXHAUSTED:
                    counts[f'ended by {error.code().name}'] += 1
                    return
                counts['refused, disk full'] += 1
                if content is None:
                    counts['deletions refused'] += 1
                ledger.settle(name, before)
                time.sleep(0.002)
                continue
            counts['acknowledged'] += 1
            ledger.settle(name, content)


def check(address, data, ledger, expected, rng, faults):
    """Holds what the server lists to the ledger, and settles what was in flight."""
    client = Api(address)
    with contextlib.closing(client):
        listed = client.digests()
        content_of = {digest: content for content, digest in expected.items()}
        names = {f'c{caller}-{number}' for caller in range(CALLERS) for number in range(NAMES)}
        for name in sorted(listed.keys() - names):
            faults.append(f'foreign: {name}')
        for name in sorted(names):
            held = content_of.get(listed[name], 'torn') if name in listed else None
            if held not in ledger.allowed(name):
                faults.append(f'{name} holds {held}, allowed are {ledger.allowed(name)}')
            ledger.settle(name, held)
        for name in rng.sample(sorted(listed), min(3, len(listed))):
            client.predict(name)
        files = {path.stem for path in (data / 'datasets').rglob('*.dataset')}
        if len(files) != len(set(listed.values())):
            faults.append(f'{len(files)} dataset files for {len(set(listed.values()))} contents')
    return len(listed)


def damage_log(data, rng):
    """Changes bytes of the log of the database, or cuts it."""
    log = data / 'contexts.db-wal'
    content = bytearray(log.read_bytes()) if log.exists() else bytearray()
    if not content:
        return False
    if rng.random() < 0.3:
        del content[rng.randrange(len(content)):]
    else:
        for _ in range(rng.randrange(1, 40)):
            content[rng.randrange(len(content))] ^= 1 << rng.randrange(8)
    log.write_bytes(content)
    return True


def try_with_damage(program, data, log, expected, rng, counts, faults):
    """Starts on a damaged copy; the data stay as they are."""
    copy = data.parent / 'undamaged'
    shutil.rmtree(copy, ignore_errors=True)
    try:
        shutil.copytree(data, copy)
    except shutil.Error:  # no room
        shutil.rmtree(copy, ignore_errors=True)
        return
    if damage_log(data, rng):
        server = Server(program, data, log)
        address = server.wait_until_ready()
        counts['damaged logs: refused' if address is None else 'damaged logs: started'] += 1
        if address is not None:
            client = Api(address)
            with contextlib.closing(client):
                for name, digest in client.digests().items():
                    if digest not in expected.values():
                        faults.append(f'{name} has a digest of nothing after damage')
        server.kill()
    shutil.rmtree(data)
    copy.rename(data)


@contextlib.contextmanager
def noisy_neighbour(folder, rng):
    """Fills the disk and frees it, until the end."""
    stop = threading.Event()
    filler = folder / 'neighbour'

    def run():
        while not stop.wait(rng.uniform(0.01, 0.15)):
            with contextlib.suppress(OSError), open(filler, 'wb', buffering=0) as file:
                while not stop.is_set():
                    file.write(bytes(1 << 16))
            stop.wait(rng.uniform(0, 0.1))
            filler.unlink(missing_ok=True)
        filler.unlink(missing_ok=True)

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


def expected_digests(program, folder, log):
    """Of all contents, from a server that is never killed."""
    data = folder / 'witness'
    server = Server(program, data, log)
    client = Api(server.wait_until_ready())
    digests = {content: client.register(f'content-{content}', content)
               for content in range(CONTENTS)}
    client.close()
    server.kill()
    shutil.rmtree(data)
    return digests


def kill_while_starting(program, data, log, rng, counts):
    server = Server(program, data, log)
    time.sleep(rng.uniform(0, 0.25))
    server.kill()
    counts['kills while starting'] += 1


def run(arguments, folder, log):
    rng = random.Random(arguments.seed)
    counts, faults, starts = collections.Counter(), [], []
    expected = expected_digests(arguments.server, folder, log)
    data, ledger = folder / 'data', Ledger()
    for _ in range(arguments.kills):
        begin = time.monotonic()
        server = Server(arguments.server, data, log)
        address = server.wait_until_ready()
        if address is None:
            faults.append('the server does not start')
            break
        starts.append(time.monotonic() - begin)
        counts['contexts checked'] += check(address, data, ledger, expected, rng, faults)
        callers = [threading.Thread(target=call_until_killed,
                                    args=(address, caller, ledger, random.Random(rng.random()),
                                          counts))
                   for caller in range(CALLERS)]
        with (noisy_neighbour(folder, rng) if arguments.in_namespace
              else contextlib.nullcontext()):
            for caller in callers:
                caller.start()
            time.sleep(rng.uniform(0.05, 0.7))
            server.kill()
            for caller in callers:
                caller.join()
        counts['kills under load'] += 1
        counts['in flight'] += len(ledger.in_flight)
        if rng.random() < 0.3:
            kill_while_starting(arguments.server, data, log, rng, counts)
        if rng.random() < 0.2:
            try_with_damage(arguments.server, data, log, expected, rng, counts, faults)
        if faults:
            break
    return counts, faults, starts


def report(counts, faults, starts):
    for what, count in sorted(counts.items()):
        print(f'  {count:7d} {what}')
    if starts:
        starts.sort()
        print(f'  starts: median {starts[len(starts) // 2]:.2f} s, longest {starts[-1]:.2f} s')
    for fault in faults:
        print(f'FAULT {fault}')
    print(f'{len(faults)} lost, torn or foreign')


def in_namespace(arguments):
    """Runs this program again with file systems of its own, where that is permitted."""
    if os.geteuid() != 0 or shutil.which('unshare') is None:
        return None
    command = ['unshare', '--mount', sys.executable, *sys.argv, IN_NAMESPACE]
    if subprocess.run(['unshare', '--mount', 'true'], check=False).returncode != 0:
        return None
    return subprocess.run(command, check=False).returncode


def main():
    parser = argparse.ArgumentParser(description=__doc__.split('\n', maxsplit=1)[0])
    parser.add_argument('--server', type=pathlib.Path,
                        default=ROOT / 'build/release/server/chorale-server')
    parser.add_argument('--long', action='store_true', help='1000 kills under load, not 50')
    parser.add_argument('--kills', type=int, help='another number')
    parser.add_argument('--seed', type=int, default=1)
    parser.add_argument('--no-small-disk', action='store_true', help='also as root')
    parser.add_argument(IN_NAMESPACE, action='store_true', help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    arguments.kills = arguments.kills or (1000 if arguments.long else 50)
    if not arguments.in_namespace and not arguments.no_small_disk:
        status = in_namespace(arguments)
        if status is not None:
            return status
    global grpc, pb, api
    grpc = importlib.import_module('grpc')
    with tempfile.TemporaryDirectory() as work, contextlib.ExitStack() as stack:
        stubs = pathlib.Path(work) / 'stubs'
        stubs.mkdir()
        pb, api = make_stubs(stubs)
        folder = pathlib.Path(work) / 'disk'
        folder.mkdir()
        if arguments.in_namespace:
            subprocess.run(['mount', '-t', 'tmpfs', '-o', f'size={DISK}', 'tmpfs', folder],
                           check=True)
            stack.callback(subprocess.run, ['umount', folder], check=False)
        log_file = stack.enter_context(open(pathlib.Path(work) / 'log', 'w+b'))
        counts, faults, starts = run(arguments, folder, log_file)
        report(counts, faults, starts)
        if faults:
            log_file.seek(0)
            sys.stdout.write(log_file.read()[-8000:].decode(errors='replace'))
    return 1 if faults else 0


if __name__ == '__main__':
    sys.exit(main())
