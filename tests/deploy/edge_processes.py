"""What edge_test.py runs: chorale servers, fake ones, Envoy, and callers that never stop."""

import concurrent.futures
import dataclasses
import json
import os
import pathlib
import random
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator, Sequence

import grpc
from google.protobuf import empty_pb2
from grpc_tools import protoc

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = ROOT / 'build' / 'release'
SERVER = os.environ.get('CHORALE_TEST_SERVER', os.fspath(BUILD / 'server' / 'chorale-server'))
CLIENT = os.environ.get('CHORALE_TEST_CLIENT', os.fspath(BUILD / 'client' / 'cli' / 'chorale'))
ENVOY = os.fspath(pathlib.Path(sys.executable).with_name('envoy'))
ENVOY_FILES = ROOT / 'deploy' / 'envoy'
PATIENCE = 60.0

_generated = tempfile.TemporaryDirectory()
if protoc.main(['', f'-I{ROOT}/proto', '-I' + os.fspath(
        pathlib.Path(protoc.__file__).with_name('_proto')), f'--python_out={_generated.name}',
                f'--grpc_python_out={_generated.name}', 'chorale/v1/chorale.proto',
                'google/rpc/error_details.proto', 'google/rpc/status.proto']) != 0:
    raise RuntimeError('the stubs cannot be generated')
sys.path.insert(0, _generated.name)

# pylint: disable=wrong-import-position
from chorale.v1 import chorale_pb2 as pb  # noqa: E402
from chorale.v1 import chorale_pb2_grpc as pb_grpc  # noqa: E402
from google.rpc import error_details_pb2, status_pb2  # noqa: E402,F401

RETRY = ('chorale-retry', 'unavailable')
# HealthCheckResponse{status: SERVING}, serialized.
SERVING = b'\x08\x01'


def about(context_id: str, *more: tuple[str, str]) -> tuple[tuple[str, str], ...]:
    """The metadata of a call about a context."""
    return (('chorale-context', context_id), *more)


def wait_until(what: str, condition: Callable[[], object], patience: float = PATIENCE) -> None:
    end = time.monotonic() + patience
    while not condition():
        if time.monotonic() > end:
            raise TimeoutError(what)
        time.sleep(0.02)


def free_ports(count: int) -> list[int]:
    sockets = [socket.socket() for _ in range(count)]
    for one in sockets:
        one.bind(('127.0.0.1', 0))
    ports = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return ports


def stop(process: subprocess.Popen[bytes] | None, patience: float = 10.0) -> None:
    if process is None or process.poll() is not None:
        return
    process.terminate()
    try:
        process.wait(patience)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


# ---- Servers --------------------------------------------------------------------------------


class Server:
    """A chorale server with a data folder of its own, always on the same port."""

    def __init__(self, folder: pathlib.Path, name: str, port: int) -> None:
        self.name = name
        self.port = port
        self.data = folder / name
        self._log = open(folder / f'{name}.log', 'ab')
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> float:
        """Returns the seconds until it was ready."""
        started = time.monotonic()
        self.process = subprocess.Popen(
            [SERVER, f'--models={ROOT}/models/default', f'--data_dir={self.data}',
             f'--listen_address=127.0.0.1:{self.port}', '--metrics_address=127.0.0.1:0',
             '--backend=cpu', '--threads=1', '--context_pool_mib=256', '--buffer_pool_mib=64',
             *lame_duck_flags()],
            stdout=self._log, stderr=self._log)
        wait_until(f'{self.name} is ready', self._is_ready)
        return time.monotonic() - started

    def _is_ready(self) -> bool:
        if self.process.poll() is not None:
            raise RuntimeError(f'{self.name} has ended: see its log')
        with grpc.insecure_channel(f'127.0.0.1:{self.port}') as channel:
            try:
                return channel.unary_unary('/grpc.health.v1.Health/Check')(b'', timeout=2) == SERVING
            except grpc.RpcError:
                return False

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def terminate(self) -> int:
        self.process.terminate()
        return self.process.wait(PATIENCE)

    def contexts(self) -> dict[str, pb.Context]:
        """What it holds, asked directly."""
        with grpc.insecure_channel(f'127.0.0.1:{self.port}') as channel:
            page = pb_grpc.ChoraleStub(channel).ListContexts(
                pb.ListContextsRequest(page_size=1000), timeout=PATIENCE)
        return {context.name.removeprefix('contexts/'): context for context in page.contexts}

    def close(self) -> None:
        stop(self.process)
        self._log.close()


def lame_duck_flags() -> list[str]:
    """Of servers that know it: still serving for this long after SIGTERM, but not ready."""
    help_text = subprocess.run([SERVER, '--help'], capture_output=True, text=True, check=False)
    return ['--lame_duck=3s'] if '--lame_duck' in help_text.stdout else []


class FakeServer(pb_grpc.ChoraleServicer):
    """Records the metadata of calls, and fails as it is told to. Answers with its name."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.lock = threading.Lock()
        self.metadata: list[dict[str, str]] = []
        self.failures = 0
        self._server = grpc.server(concurrent.futures.ThreadPoolExecutor(16))
        pb_grpc.add_ChoraleServicer_to_server(self, self._server)
        self._server.add_generic_rpc_handlers([grpc.method_handlers_generic_handler(
            'grpc.health.v1.Health',
            {'Check': grpc.unary_unary_rpc_method_handler(lambda *_: SERVING)})])
        self.port = self._server.add_insecure_port('127.0.0.1:0')
        self._server.start()

    def begin(self, context: grpc.ServicerContext) -> None:
        with self.lock:
            self.metadata.append({key: str(value) for key, value in context.invocation_metadata()})
            fails = self.failures > 0
            self.failures -= fails
        if fails:
            context.abort(grpc.StatusCode.UNAVAILABLE, 'draining')

    def take_metadata(self) -> list[dict[str, str]]:
        with self.lock:
            taken, self.metadata = self.metadata, []
        return taken

    # pylint: disable=invalid-name,unused-argument
    def GetContext(self, request, context):
        self.begin(context)
        return pb.Context(name=self.name)

    def DeleteContext(self, request, context):
        self.begin(context)
        return empty_pb2.Empty()

    def ListModels(self, request, context):
        self.begin(context)
        return pb.ListModelsResponse(models=[pb.Model(name=self.name)])

    def RegisterContext(self, request_iterator, context):
        size = sum(message.ByteSize() for message in request_iterator)
        self.begin(context)
        return pb.RegisterContextResponse(context=pb.Context(name=self.name, dataset_bytes=size))

    def Sample(self, request, context):
        """path_count messages, one each 0.1 s."""
        self.begin(context)
        for path in range(request.path_count):
            time.sleep(0.1)
            yield pb.SampleResponse(blocks=pb.SampleBlocks(blocks=[pb.SampleBlock(first_path=path)]))

    def close(self) -> None:
        self._server.stop(None).wait()


# ---- Envoy ----------------------------------------------------------------------------------


class Edge:
    """Envoy with the files of deploy/envoy, on ports of its own, in front of several servers or of
    one, given by its port; `changes` replace texts in envoy.yaml, for one server in
    one_server.yaml."""

    def __init__(self, folder: pathlib.Path, servers: Sequence[tuple[str, int]] | int,
                 changes: dict[str, str] | None = None) -> None:
        self.folder = folder
        self.port, self.admin_port = free_ports(2)
        shutil.copytree(ENVOY_FILES, folder, ignore=shutil.ignore_patterns('tls'))
        ports = {'0.0.0.0, port_value: 8443': f'127.0.0.1, port_value: {self.port}',
                 'port_value: 9901': f'port_value: {self.admin_port}'}
        if isinstance(servers, int):
            file = 'one_server.yaml'
            self._change('envoy.yaml', ports)
            self._change(file, {'port_value: 50051': f'port_value: {servers}',
                                **(changes or {})})
        else:
            file = 'servers.yaml'
            self._change('envoy.yaml', {**ports, **(changes or {})})
            self.write_servers(servers)
        self.log_path = folder / 'envoy.log'
        with open(self.log_path, 'wb') as log:
            self.process = subprocess.Popen(
                [folder / 'run.sh', '--servers', file, '--self-signed', '--drain', '20', '--',
                 '--concurrency', '2', '--log-level', 'warning'],
                env={**os.environ, 'ENVOY': ENVOY}, stdout=log, stderr=subprocess.STDOUT)
        try:
            wait_until('Envoy is ready', self._is_ready, 20)
        except TimeoutError:
            print(self.log_path.read_text()[-4000:])
            self.close()
            raise

    def _change(self, file: str, changes: dict[str, str]) -> None:
        text = (self.folder / file).read_text()
        for old, new in changes.items():
            if old not in text:
                raise ValueError(f'{file} has no {old}')
            text = text.replace(old, new)
        (self.folder / file).write_text(text)

    def _is_ready(self) -> bool:
        try:
            return (self.admin('/ready').strip() == 'LIVE' and
                    self.stat('cluster.contexts.membership_total') > 0)
        except (OSError, ValueError):
            return False

    def admin(self, path: str) -> str:
        with urllib.request.urlopen(f'http://127.0.0.1:{self.admin_port}{path}', timeout=5) as page:
            return page.read().decode()

    def stat(self, name: str) -> int:
        return int(self.admin(f'/stats?filter=^{name}$').rpartition(':')[2])

    def write_servers(self, servers: Sequence[tuple[str, int]], ring_size: int | None = None,
                      policy: str = 'RING_HASH') -> None:
        """servers.yaml as it is shipped, with other endpoints, moved over the one in use."""
        lines = (ENVOY_FILES / 'servers.yaml').read_text().splitlines()
        first = next(i for i, line in enumerate(lines) if 'hash_key: ' in line)
        last = max(i for i, line in enumerate(lines) if 'port_value' in line)
        endpoints = [f'      - metadata: {{filter_metadata: {{envoy.lb: {{hash_key: {name}}}}}}}\n'
                     f'        endpoint:\n          hostname: {name}\n          address: '
                     f'{{socket_address: {{address: 127.0.0.1, port_value: {port}}}}}'
                     for name, port in servers]
        text = '\n'.join([*lines[:first], *endpoints, *lines[last + 1:], ''])
        text = text.replace('minimum_ring_size: 3072',
                            f'minimum_ring_size: {ring_size or 1024 * len(servers)}')
        if policy != 'RING_HASH':
            ring = next(line for line in text.splitlines() if 'ring_hash_lb_config' in line)
            text = text.replace('RING_HASH', policy).replace(ring, '  maglev_lb_config: {}')
        new = self.folder / 'servers.yaml.new'
        new.write_text(text)
        new.rename(self.folder / 'servers.yaml')

    def change_servers(self, servers: Sequence[tuple[str, int]], ring_size: int | None = None,
                       policy: str = 'RING_HASH') -> None:
        """Returns when Envoy uses them."""
        before = self.stat('cluster_manager.cds.update_success')
        self.write_servers(servers, ring_size, policy)
        wait_until('the servers have changed',
                   lambda: self.stat('cluster_manager.cds.update_success') > before and
                   self.stat('cluster_manager.warming_clusters') == 0 and
                   self.stat('cluster.contexts.membership_total') == len(servers))

    def channel(self) -> grpc.Channel:
        """A connection of its own, without retries."""
        return grpc.secure_channel(
            f'localhost:{self.port}',
            grpc.ssl_channel_credentials((self.folder / 'tls' / 'tls.crt').read_bytes()),
            [('grpc.enable_retries', 0), ('grpc.use_local_subchannel_pool', 1),
             ('grpc.max_metadata_size', 1 << 17)])

    def access_log(self) -> list[dict[str, object]]:
        return [json.loads(line) for line in self.log_path.read_text().splitlines()
                if line.startswith('{') and '"request_id"' in line]

    def close(self) -> None:
        stop(self.process, 30)


# ---- Tables and calls -----------------------------------------------------------------------


def column(name: str, values: Sequence[float]) -> pb.Column:
    return pb.Column(name=name, numeric=pb.NumericValues(values=values))


def category_column(name: str, codes: Sequence[int]) -> pb.Column:
    return pb.Column(name=name, categorical=pb.CategoricalValues(
        categories=['red', 'green', 'blue'], codes=codes))


def table(context_id: str) -> pb.Table:
    """20 to 40 rows of three columns, other ones for each context."""
    chance = random.Random(context_id)
    rows = chance.randint(20, 40)
    x = [chance.gauss(0, 1) for _ in range(rows)]
    codes = [chance.randrange(3) for _ in range(rows)]
    y = [2 * a + code + chance.gauss(0, 0.1) for a, code in zip(x, codes)]
    return pb.Table(columns=[column('x', x), category_column('c', codes), column('y', y)])


TARGETS = pb.Table(columns=[column('x', [-1.0, 0.5, 2.0]), category_column('c', [0, 1, 2])])


def registration(context_id: str) -> Iterator[pb.RegisterContextRequest]:
    yield pb.RegisterContextRequest(spec=pb.ContextSpec(
        context_id=context_id, target_column='y'))
    yield pb.RegisterContextRequest(rows=table(context_id))


def predict_request(context_id: str) -> pb.PredictRequest:
    return pb.PredictRequest(context=f'contexts/{context_id}', rows=TARGETS, quantiles=[0.1, 0.9])


def sample_request(context_id: str, paths: int = 4) -> pb.SampleRequest:
    return pb.SampleRequest(context=f'contexts/{context_id}', rows=TARGETS, path_count=paths,
                            seed=7)


def predict(stub: pb_grpc.ChoraleStub, context_id: str, *metadata: tuple[str, str],
            timeout: float = PATIENCE) -> tuple[float, ...]:
    answer = stub.Predict(predict_request(context_id), timeout=timeout,
                          metadata=about(context_id, *metadata))
    return (*answer.means, *answer.stds, *answer.quantiles)


def sample(stub: pb_grpc.ChoraleStub, context_id: str, *metadata: tuple[str, str],
           timeout: float = PATIENCE) -> tuple[tuple[int, int, float], ...]:
    values = []
    for message in stub.Sample(sample_request(context_id), timeout=timeout,
                               metadata=about(context_id, *metadata)):
        for block in message.blocks.blocks:
            places = ((path, step) for path in range(block.path_count)
                      for step in range(block.step_count))
            values += [(block.first_path + path, block.first_step + step, value)
                       for (path, step), value in zip(places, block.values)]
    return tuple(sorted(values))


@dataclasses.dataclass
class Outcome:
    """One call. `code` is OK, a gRPC code, or WRONG for an answer that is not the expected one."""
    group: str
    retries: bool
    method: str
    context_id: str
    start: float
    end: float
    code: str


class Load:
    """Callers that call without a pause until they are told to stop: for each group of contexts one
    that allows retries and one that does not."""

    def __init__(self, edge: Edge, groups: dict[str, list[str]],
                 expected: dict[str, tuple[float, ...]]) -> None:
        self.outcomes: list[Outcome] = []
        self._expected = expected
        self._samples: dict[str, tuple[tuple[int, int, float], ...]] = {}
        self._stopping = threading.Event()
        self._threads = [threading.Thread(target=self._run, args=(edge, group, ids, retries))
                         for group, ids in groups.items() for retries in (False, True)]
        for thread in self._threads:
            thread.start()

    def _run(self, edge: Edge, group: str, ids: list[str], retries: bool) -> None:
        order = random.Random(f'{group}{retries}')
        metadata = [RETRY] if retries else []
        with edge.channel() as channel:
            stub = pb_grpc.ChoraleStub(channel)
            while not self._stopping.is_set():
                context_id = order.choice(ids)
                method = order.choice(('Predict', 'Predict', 'Sample'))
                start = time.monotonic()
                try:
                    if method == 'Predict':
                        right = predict(stub, context_id, *metadata) == self._expected[context_id]
                    else:
                        drawn = sample(stub, context_id, *metadata)
                        right = drawn == self._samples.setdefault(context_id, drawn)
                    code = 'OK' if right else 'WRONG'
                except grpc.RpcError as error:
                    code = error.code().name
                    time.sleep(0.005)
                self.outcomes.append(Outcome(group, retries, method, context_id, start,
                                             time.monotonic(), code))
                time.sleep(0.01)  # leaves the processors to the servers

    def stop(self) -> list[Outcome]:
        self._stopping.set()
        for thread in self._threads:
            thread.join()
        return self.outcomes

