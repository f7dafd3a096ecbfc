"""A server on the loopback interface, and a client that calls it all the time.

Needs grpcio and grpcio-tools.
"""

from __future__ import annotations

import contextlib
import dataclasses
import importlib
import os
import pathlib
import re
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request

import grpc
from grpc_tools import protoc

ROOT = pathlib.Path(__file__).resolve().parents[2]
START_SECONDS = 120
ABOUT_DATA = (('chorale-context', 'data'),)  # by which a proxy finds the server

_generated = tempfile.TemporaryDirectory()  # pylint: disable=consider-using-with
if protoc.main(['', f'-I{ROOT}/proto', '-I' + os.fspath(
        pathlib.Path(protoc.__file__).with_name('_proto')), f'--python_out={_generated.name}',
        f'--grpc_python_out={_generated.name}', 'chorale/v1/chorale.proto']) != 0:
    raise RuntimeError('protoc refused chorale.proto')
sys.path.insert(0, _generated.name)
pb = importlib.import_module('chorale.v1.chorale_pb2')
rpc = importlib.import_module('chorale.v1.chorale_pb2_grpc')


def resident_mib(process: int) -> float:
    """0 once the process has ended."""
    try:
        pages = pathlib.Path(f'/proc/{process}/statm').read_text(encoding='utf-8')
    except FileNotFoundError:
        return 0
    return int(pages.split()[1]) * os.sysconf('SC_PAGESIZE') / 2**20


class Server:
    """A server with the model golden_tiny, until the block ends."""

    def __init__(self, program: pathlib.Path, flags: list[str],
                 environment: dict[str, str] | None = None):
        self._folder = tempfile.TemporaryDirectory()
        folder = pathlib.Path(self._folder.name)
        port_file = folder / 'port'
        self._log = open(folder / 'log', 'w+', encoding='utf-8')
        self._process = subprocess.Popen(
            [program, '--backend=cpu', '--listen_address=127.0.0.1:0',
             '--metrics_address=127.0.0.1:0', f'--port_file={port_file}',
             f'--models={ROOT}/tests/golden/golden_tiny', f'--data_dir={folder}/data',
             '--context_pool_mib=64', '--buffer_pool_mib=64', '--lame_duck=0s', *flags],
            stdout=self._log, stderr=self._log, env={**os.environ, **(environment or {})})
        deadline = time.monotonic() + START_SECONDS
        while not port_file.exists():
            if self._process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError('the server did not start:\n' + self.log())
            time.sleep(0.02)
        self.port = int(port_file.read_text(encoding='utf-8'))
        while 'metrics_port=' not in self.log():  # its line may come a moment later
            if time.monotonic() > deadline:
                raise RuntimeError('the server does not say its ports:\n' + self.log())
            time.sleep(0.02)

    def __enter__(self) -> Server:
        return self

    def __exit__(self, *_: object) -> None:
        if self._process.poll() is None:
            self._process.kill()
        self._process.wait()
        self._log.close()
        self._folder.cleanup()

    def log(self) -> str:
        self._log.seek(0)
        return self._log.read()

    def resident_mib(self) -> float:
        """0 once the process has ended."""
        return resident_mib(self._process.pid)

    def open_files(self) -> int:
        return len(os.listdir(f'/proc/{self._process.pid}/fd'))

    def threads(self) -> int:
        return len(os.listdir(f'/proc/{self._process.pid}/task'))

    def metrics_port(self) -> int:
        [port] = set(re.findall(r'metrics_port=(\d+)', self.log()))
        return int(port)

    def series(self, name: str) -> list[tuple[dict[str, str], float]]:
        """The labels and values of a metric."""
        url = f'http://127.0.0.1:{self.metrics_port()}/metrics'
        with urllib.request.urlopen(url, timeout=30) as answer:
            page = answer.read().decode()
        return [(dict(re.findall(r'(\w+)="([^"]*)"', labels)), float(value)) for labels, value in
                re.findall(rf'^{re.escape(name)}(?:{{(.*)}})? (\S+)$', page, re.MULTILINE)]

    def metric(self, name: str) -> float:
        """The sum of a metric's series."""
        return sum(value for _, value in self.series(name))

    def quiet(self, seconds: float = 30) -> bool:
        """Waits until no call is in flight; false if one stays."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            if self.metric('chorale_inflight_requests') == 0:
                return True
            time.sleep(0.1)
        return False

    def exit_status(self) -> int | None:
        """None while it runs."""
        return self._process.poll()

    def stop(self) -> int:
        """SIGTERM; the exit status, or that of SIGKILL if it does not end within a minute."""
        self._process.send_signal(signal.SIGTERM)
        try:
            return self._process.wait(60)
        except subprocess.TimeoutExpired:
            self._process.kill()
            return self._process.wait()


def relay(port: int, host: str) -> int:
    """The port of a relay to the server, which sees `host`: gRPC cannot choose its address."""
    listener = socket.create_server(('127.0.0.1', 0))

    def copy(source: socket.socket, target: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(1 << 16):
                target.sendall(data)
        with contextlib.suppress(OSError):
            target.shutdown(socket.SHUT_WR)

    def accept() -> None:
        while True:
            near, _ = listener.accept()
            far = socket.create_connection(('127.0.0.1', port), source_address=(host, 0))
            for ends in ((near, far), (far, near)):
                threading.Thread(target=copy, args=ends, daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()
    return listener.getsockname()[1]


@dataclasses.dataclass
class Call:
    began: float  # on the monotonic clock
    seconds: float
    error: str = ''  # code and details of a call that failed

    @property
    def ok(self) -> bool:
        return not self.error


def table(rows: int) -> object:
    table = pb.Table()
    table.columns.add(name='x').numeric.values.extend(float(i % 7) for i in range(rows))
    return table


def register_data(stub: object) -> None:
    """Registers the context "data"."""
    context = table(100)
    context.columns.add(name='y').numeric.values.extend(float(i % 5) for i in range(100))
    first = pb.RegisterContextRequest(spec=pb.ContextSpec(
        context_id='data', target_column='y'))
    stub.RegisterContext(iter([first, pb.RegisterContextRequest(rows=context)]), timeout=60,
                         metadata=ABOUT_DATA)


class Caller:
    """Predicts, one call after the other on one channel, on a thread of its own."""

    TIMEOUT_SECONDS = 10

    def __init__(self, port: int, certificate: bytes | None = None):
        """With a certificate, calls by TLS a port that has it."""
        options = [('grpc.use_local_subchannel_pool', 1), ('grpc.max_reconnect_backoff_ms', 500),
                   ('grpc.initial_reconnect_backoff_ms', 100)]
        if certificate is None:
            self._channel = grpc.insecure_channel(f'127.0.0.1:{port}', options)
        else:
            self._channel = grpc.secure_channel(
                f'localhost:{port}', grpc.ssl_channel_credentials(certificate), options)
        self._stub = rpc.ChoraleStub(self._channel)
        register_data(self._stub)
        self.calls: list[Call] = []
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        request = pb.PredictRequest(context='contexts/data', rows=table(4))
        while not self._stopping.is_set():
            began = time.monotonic()
            try:
                self._stub.Predict(request, timeout=self.TIMEOUT_SECONDS, metadata=ABOUT_DATA)
                error = ''
            except grpc.RpcError as failure:
                error = f'{failure.code().name} {failure.details()}'
            self.calls.append(Call(began, time.monotonic() - began, error))
            self._stopping.wait(0.02)

    def stop(self) -> None:
        self._stopping.set()
        self._thread.join()
        self._channel.close()
