"""Envoy with the files of deploy/envoy, in front of one server."""

from __future__ import annotations

import os
import pathlib
import shutil
import socket
import subprocess
import tempfile
import time
import urllib.request

from service import ROOT, resident_mib

START_SECONDS = 30


def _replace(file: pathlib.Path, changes: dict[str, str]) -> None:
    text = file.read_text(encoding='utf-8')
    for old, new in changes.items():
        if old not in text:
            raise ValueError(f'{file.name} has no {old}')
        text = text.replace(old, new)
    file.write_text(text, encoding='utf-8')


def _free_ports(count: int) -> list[int]:
    sockets = [socket.create_server(('127.0.0.1', 0)) for _ in range(count)]
    ports = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return ports


class Envoy:
    """Runs deploy/envoy/run.sh, with ports, server and certificate of its own, until the block
    ends."""

    def __init__(self, program: pathlib.Path, server_port: int):
        self._folder = tempfile.TemporaryDirectory()
        folder = pathlib.Path(self._folder.name) / 'envoy'
        shutil.copytree(ROOT / 'deploy/envoy', folder, ignore=shutil.ignore_patterns('tls'))
        self.port, self._admin_port = _free_ports(2)
        _replace(folder / 'envoy.yaml', {
            '0.0.0.0, port_value: 8443': f'127.0.0.1, port_value: {self.port}',
            'port_value: 9901': f'port_value: {self._admin_port}'})
        _replace(folder / 'one_server.yaml', {'port_value: 50051': f'port_value: {server_port}'})
        self._log = open(folder / 'log', 'w+', encoding='utf-8')
        self._script = subprocess.Popen(
            [folder / 'run.sh', '--servers', 'one_server.yaml', '--self-signed', '--drain', '1',
             '--', '--log-level', 'warning'],
            env={**os.environ, 'ENVOY': os.fspath(program.resolve())},
            stdout=self._log, stderr=self._log)
        deadline = time.monotonic() + START_SECONDS
        while not self._is_ready():
            if self._script.poll() is not None or time.monotonic() > deadline:
                self._log.seek(0)
                said = self._log.read()
                self.__exit__()
                raise RuntimeError(f'Envoy did not start:\n{said}')
            time.sleep(0.05)
        self.certificate = (folder / 'tls/tls.crt').read_bytes()
        children = pathlib.Path(f'/proc/{self._script.pid}/task/{self._script.pid}/children')
        self._pid = int(children.read_text(encoding='utf-8').split()[0])

    def __enter__(self) -> Envoy:
        return self

    def __exit__(self, *_: object) -> None:
        self._script.terminate()
        try:
            self._script.wait(30)
        except subprocess.TimeoutExpired:
            self._script.kill()
            self._script.wait()
        self._log.close()
        self._folder.cleanup()

    def _is_ready(self) -> bool:
        try:
            return self.stat('cluster.contexts.membership_total') == 1
        except (OSError, ValueError):
            return False

    def stat(self, name: str) -> int:
        url = f'http://127.0.0.1:{self._admin_port}/stats?filter=^{name}$'
        with urllib.request.urlopen(url, timeout=5) as page:
            return int(page.read().decode().rpartition(':')[2])

    def resident_mib(self) -> float:
        """0 once the process has ended."""
        return resident_mib(self._pid)

    def has_ended(self) -> bool:
        return self._script.poll() is not None
