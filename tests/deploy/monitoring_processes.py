"""What monitoring_test.py runs: Prometheus, Alertmanager, a receiver of alerts, and servers."""

from __future__ import annotations

import dataclasses
import http.server
import json
import os
import pathlib
import re
import signal
import socket
import subprocess
import threading
import time
import urllib.request
from collections.abc import Callable, Sequence

ROOT = pathlib.Path(__file__).resolve().parents[2]
RULES = ROOT / 'deploy/prometheus/rules.yml'
PROGRAMS = pathlib.Path(os.environ.get('CHORALE_MONITORING_PROGRAMS', ROOT / 'build/monitoring'))
BUILD = ROOT / 'build' / 'release'
SERVER = os.environ.get('CHORALE_TEST_SERVER', os.fspath(BUILD / 'server/chorale-server'))
CLIENT = os.environ.get('CHORALE_TEST_CLIENT', os.fspath(BUILD / 'client/cli/chorale'))
MODEL = ROOT / 'models/default'
# All times of the rules are divided by this: what takes an hour takes two minutes. No time becomes
# shorter than five scrapes, so that a rate has samples.
FACTOR = 30
SHORTEST = 5.0

# Alertmanager reads it from there even if it is not installed: then it sees a /usr/share of its own.
TEMPLATE = pathlib.Path('/usr/share/prometheus/alertmanager/default.tmpl')
_WITH_SHARE = ['unshare', '--mount', *([] if os.geteuid() == 0 else ['--map-root-user']), 'sh', '-c',
               'mount --bind "$0" /usr/share && exec "$@"', os.fspath(PROGRAMS / 'share')]

_UNITS = {'s': 1, 'm': 60, 'h': 3600, 'd': 86400}


def _divided(text: str) -> str:
    seconds = float(text[:-1]) * _UNITS[text[-1]] / FACTOR
    return f'{round(max(seconds, SHORTEST))}s'


def shortened(rules: str) -> str:
    """The rules with the durations of `for`, of ranges and of offsets divided by FACTOR. All else is
    as in the file: expressions, thresholds, labels."""
    rules = re.sub(r'^(\s+for: )(\d+[smhd])$', lambda m: m[1] + _divided(m[2]), rules,
                   flags=re.MULTILINE)
    rules = re.sub(r'\[(\d+[smhd])\]', lambda m: f'[{_divided(m[1])}]', rules)
    return re.sub(r'offset (\d+[smhd])', lambda m: f'offset {_divided(m[1])}', rules)


def free_ports(count: int) -> list[int]:
    sockets = [socket.socket() for _ in range(count)]
    for one in sockets:
        one.bind(('127.0.0.1', 0))
    ports = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return ports


def wait_until(what: str, condition: Callable[[], object], patience: float = 60) -> None:
    end = time.monotonic() + patience
    while not condition():
        if time.monotonic() > end:
            raise TimeoutError(what)
        time.sleep(0.1)


def answers(address: str) -> bool:
    try:
        with urllib.request.urlopen(address, timeout=2) as answer:
            return answer.status == 200
    except OSError:
        return False


def stop(process: subprocess.Popen[bytes] | None, patience: float = 15) -> None:
    if process is None or process.poll() is not None:
        return
    process.send_signal(signal.SIGCONT)
    process.terminate()
    try:
        process.wait(patience)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


@dataclasses.dataclass(frozen=True)
class Notice:
    """An alert as the receiver got it."""
    at: float
    status: str  # firing or resolved
    receiver: str  # page or ticket
    name: str
    labels: dict[str, str]
    annotations: dict[str, str]


class Receiver:
    """Keeps what Alertmanager sends."""

    def __init__(self) -> None:
        notices: list[Notice] = []

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self) -> None:  # pylint: disable=invalid-name
                body = json.loads(self.rfile.read(int(self.headers['Content-Length'])))
                notices.extend(
                    Notice(time.time(), alert['status'], self.path.strip('/'),
                           alert['labels']['alertname'], alert['labels'], alert['annotations'])
                    for alert in body['alerts'])
                self.send_response(200)
                self.end_headers()

            def log_message(self, *_: object) -> None:
                pass

        self.notices = notices
        self._server = http.server.ThreadingHTTPServer(('127.0.0.1', 0), Handler)
        self.port = self._server.server_address[1]
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def firing_since(self, start: float) -> list[Notice]:
        return [one for one in self.notices if one.at >= start and one.status == 'firing']

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


class Monitoring:
    """Prometheus, which scrapes the servers `targets` and the proxies `edges` each second,
    Alertmanager and a receiver, with the files of deploy/prometheus and these changes: addresses,
    times (FACTOR), and no wait for groups."""

    def __init__(self, folder: pathlib.Path, targets: Sequence[str],
                 edges: Sequence[str] = ()) -> None:
        self._folder = folder
        self._processes: list[subprocess.Popen[bytes]] = []
        self.receiver = Receiver()
        self.port, self.alertmanager_port = free_ports(2)
        self.address = f'http://127.0.0.1:{self.port}'
        folder.mkdir(parents=True, exist_ok=True)
        (folder / 'rules.yml').write_text(shortened(RULES.read_text(encoding='utf-8')))
        self._write('prometheus.yml', {
            'scrape_interval: 15s': 'scrape_interval: 1s',
            'evaluation_interval: 15s': 'evaluation_interval: 1s',
            '127.0.0.1:9093': f'127.0.0.1:{self.alertmanager_port}',
            "['127.0.0.1:9464']": json.dumps(list(targets)),
            "targets: []  # ['127.0.0.1:9901']": f'targets: {json.dumps(list(edges))}'})
        self._write('alertmanager.yml', {
            'group_wait: 30s': 'group_wait: 0s', 'group_interval: 5m': 'group_interval: 1s',
            'group_by: [alertname, job, namespace]': "group_by: ['...']",
            '127.0.0.1:9099': f'127.0.0.1:{self.receiver.port}'})
        try:
            self._start_all()
        except TimeoutError:
            self.close()
            raise

    def _start_all(self) -> None:
        self._start('prometheus-alertmanager', '--config.file=alertmanager.yml',
                    '--storage.path=alertmanager', '--cluster.listen-address=',
                    f'--web.listen-address=127.0.0.1:{self.alertmanager_port}')
        self._start('prometheus', '--config.file=prometheus.yml', '--storage.tsdb.path=data',
                    f'--web.listen-address=127.0.0.1:{self.port}')
        wait_until('Prometheus is ready', lambda: answers(f'{self.address}/-/ready'))
        wait_until('Alertmanager is ready', lambda: answers(
            f'http://127.0.0.1:{self.alertmanager_port}/-/ready'))

    def _write(self, name: str, changes: dict[str, str]) -> None:
        text = (ROOT / 'deploy/prometheus' / name).read_text(encoding='utf-8')
        for old, new in changes.items():
            if old not in text:
                raise ValueError(f'{name} has no {old}')
            text = text.replace(old, new)
        (self._folder / name).write_text(text, encoding='utf-8')

    def _start(self, program: str, *arguments: str) -> None:
        command = [os.fspath(PROGRAMS / program), *arguments]
        if not TEMPLATE.exists():
            command = [*_WITH_SHARE, *command]
        with open(self._folder / f'{program}.log', 'wb') as log:
            self._processes.append(subprocess.Popen(command, cwd=self._folder, stdout=log,
                                                    stderr=log))

    def close(self) -> None:
        for process in self._processes:
            stop(process)
        self.receiver.close()


class Server:
    """A chorale server on ports of its own."""

    def __init__(self, folder: pathlib.Path, name: str, *flags: str) -> None:
        self.name = name
        self.port, self.metrics_port = free_ports(2)
        self.data = folder / f'{name}-data'
        self.instance = f'127.0.0.1:{self.metrics_port}'
        self._log_path = folder / f'{name}.log'
        self._flags = flags
        self.process: subprocess.Popen[bytes] | None = None

    def start(self, *more: str) -> None:
        with open(self._log_path, 'ab') as log:
            self.process = subprocess.Popen(
                [SERVER, f'--models={MODEL}', f'--data_dir={self.data}', '--backend=cpu',
                 f'--listen_address=127.0.0.1:{self.port}', f'--metrics_address={self.instance}',
                 *self._flags, *more], stdout=log, stderr=log)
        wait_until(f'{self.name} serves', lambda: self.client('ls').returncode == 0)

    def command(self, *arguments: object) -> list[str]:
        return [CLIENT, '--server', f'127.0.0.1:{self.port}', '--quiet', '--retries', '0',
                *map(str, arguments)]

    def client(self, *arguments: object) -> subprocess.CompletedProcess[str]:
        return subprocess.run(self.command(*arguments), capture_output=True, text=True, timeout=120,
                              check=False)

    def use_passing_contexts(self, table: pathlib.Path) -> None:
        """A context with appended rows, and one with a memory set. Both are removed."""
        spec = ['--target', 'body_mass_g', '--name', 'passing']
        self.client('register', table, *spec)
        self.client('warm', 'passing')  # if it is removed before, it is never encoded
        self.client('append', 'passing', table)
        self.client('warm', 'passing', '--encode-anew')
        self.client('rm', 'passing')
        self.client('register', table, *spec, '--memory-rows', '64')
        self.client('warm', 'passing')
        self.client('rm', 'passing')

    def client_in_background(self, *arguments: object) -> subprocess.Popen[bytes]:
        return subprocess.Popen(self.command(*arguments), stdout=subprocess.DEVNULL,
                                stderr=subprocess.DEVNULL)

    def metrics(self) -> str:
        with urllib.request.urlopen(f'http://{self.instance}/metrics', timeout=5) as answer:
            return answer.read().decode()

    def metric(self, name: str) -> float:
        """The sum of a metric's series."""
        return sum(float(value) for value in
                   re.findall(rf'^{re.escape(name)}(?:{{.*}})? (\S+)$', self.metrics(), re.MULTILINE))

    def log(self) -> str:
        return self._log_path.read_text(encoding='utf-8', errors='replace')

    def close(self) -> None:
        stop(self.process)
