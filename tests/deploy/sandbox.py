"""Runs programs in a root file system as a container runtime does: by runc, without a daemon.

Needs root and Debian's packages runc and mmdebstrap.
"""

import contextlib
import dataclasses
import json
import os
import pathlib
import shutil
import signal
import subprocess
import tarfile
import tempfile
import time
from collections.abc import Iterator
from typing import Any, Protocol

ROOT = pathlib.Path(__file__).resolve().parents[2]
BASE_DAYS = 7  # after that the base is made anew, with the distribution's updates
START_SECONDS = 60
NODES = ('null', 'zero', 'random', 'urandom')


def run(*command: str | os.PathLike[str], **options: Any) -> subprocess.CompletedProcess[str]:
    """Runs a command and shows its output when it fails."""
    done = subprocess.run([os.fspath(part) for part in command], capture_output=True, text=True,
                          check=False, **options)
    if done.returncode != 0:
        raise AssertionError(f'{" ".join(map(str, command))}: exit status {done.returncode}\n'
                             f'{done.stdout[-8000:]}\n{done.stderr[-8000:]}')
    return done


def debian_base(work: pathlib.Path) -> pathlib.Path:
    """The tar archive of a small Debian, made once a week."""
    base = work / 'base-bookworm.tar'
    if not base.exists() or time.time() - base.stat().st_mtime > BASE_DAYS * 86400:
        work.mkdir(parents=True, exist_ok=True)
        run(ROOT / 'deploy/image/make_base.sh', base)
    return base


def unpack(base: pathlib.Path, root: pathlib.Path) -> None:
    shutil.rmtree(root, ignore_errors=True)
    root.mkdir(parents=True)
    with tarfile.open(base) as archive:
        # Device nodes are the runtime's business.
        archive.extractall(root, [member for member in archive if not member.isdev()],
                           numeric_owner=True)


@dataclasses.dataclass
class Sandbox:
    """What a container sees. Its network is a loopback interface of its own, unless host_network, or
    that of a process, network_of."""
    root: pathlib.Path
    user: int
    read_only: bool = True
    # Folder in the container: folder outside, which it may write.
    volumes: dict[str, pathlib.Path] = dataclasses.field(default_factory=dict)
    environment: dict[str, str] = dataclasses.field(default_factory=dict)
    host_network: bool = False
    network_of: int | None = None
    capabilities: tuple[str, ...] = ()
    system_calls: list[str] | None = None  # the only ones allowed; None: all
    tmp: bool = False  # a /tmp of its own

    def config(self, arguments: list[str]) -> dict[str, Any]:
        mounts = [{'destination': '/proc', 'type': 'proc', 'source': 'proc'},
                  {'destination': '/dev', 'type': 'tmpfs', 'source': 'tmpfs',
                   'options': ['nosuid', 'mode=755', 'size=64k']}]
        if self.tmp:
            mounts.append({'destination': '/tmp', 'type': 'tmpfs', 'source': 'tmpfs',
                           'options': ['nosuid', 'nodev', 'mode=1777']})
        mounts += [{'destination': inside, 'type': 'bind', 'source': str(outside),
                    'options': ['bind', 'rw']} for inside, outside in self.volumes.items()]
        linux: dict[str, Any] = {'namespaces': [
            {'type': kind} for kind in ('mount', 'pid', 'ipc', 'uts')]}
        if self.network_of is not None:
            linux['namespaces'].append({'type': 'network', 'path': f'/proc/{self.network_of}/ns/net'})
        elif not self.host_network:
            linux['namespaces'].append({'type': 'network'})
        if self.system_calls is not None:
            linux['seccomp'] = {
                'defaultAction': 'SCMP_ACT_ERRNO', 'architectures': ['SCMP_ARCH_X86_64'],
                'syscalls': [{'names': self.system_calls, 'action': 'SCMP_ACT_ALLOW'}]}
        sets = ('bounding', 'effective', 'permitted')
        return {
            'ociVersion': '1.0.2',
            'process': {
                'user': {'uid': self.user, 'gid': self.user}, 'args': arguments, 'cwd': '/',
                'env': [f'{key}={value}' for key, value in
                        {'PATH': '/usr/sbin:/usr/bin:/sbin:/bin', **self.environment}.items()],
                'capabilities': {name: list(self.capabilities) for name in sets},
                'noNewPrivileges': True},
            'root': {'path': str(self.root), 'readonly': self.read_only},
            'mounts': mounts, 'linux': linux}

    def write_bundle(self, folder: pathlib.Path, arguments: list[str]) -> None:
        (folder / 'config.json').write_text(json.dumps(self.config(arguments)), encoding='utf-8')

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Runs a program to its end; its status is the caller's to check."""
        with tempfile.TemporaryDirectory() as folder:
            self.write_bundle(pathlib.Path(folder), list(arguments))
            name = f'chorale-test-{os.getpid()}-{time.monotonic_ns()}'
            return subprocess.run(['runc', 'run', '--bundle', folder, name], text=True,
                                  stdin=subprocess.DEVNULL, capture_output=True, check=False,
                                  timeout=600)

    @contextlib.contextmanager
    def running(self, *arguments: str) -> Iterator['Container']:
        """A program that runs meanwhile, as process 1 of its container."""
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            self.write_bundle(folder, list(arguments))
            container = Container(f'chorale-test-{os.getpid()}-{time.monotonic_ns()}', folder)
            try:
                yield container
            finally:
                container.kill()


class Container:
    """A running container."""

    def __init__(self, name: str, bundle: pathlib.Path):
        self.name = name
        self.log = bundle / 'log'
        with open(self.log, 'wb') as log:
            self.process = subprocess.Popen(
                ['runc', 'run', '--bundle', str(bundle), name], stdin=subprocess.DEVNULL,
                stdout=log, stderr=log)

    def output(self) -> str:
        return self.log.read_text(encoding='utf-8', errors='replace')

    def wait_for(self, text: str) -> None:
        end = time.monotonic() + START_SECONDS
        while text not in self.output():
            if self.process.poll() is not None or time.monotonic() > end:
                raise AssertionError(f'no "{text}" in the log:\n{self.output()}')
            time.sleep(0.05)

    def execute(self, *arguments: str, user: int | None = None,
                standard_input: bytes = b'') -> subprocess.CompletedProcess[bytes]:
        """Runs a program of the container in it."""
        as_user = [] if user is None else ['--user', f'{user}:{user}']
        return subprocess.run(['runc', 'exec', *as_user, self.name, *arguments],
                              input=standard_input, capture_output=True, check=False, timeout=300)

    def pid(self) -> int:
        return json.loads(run('runc', 'state', self.name).stdout)['pid']

    def terminate(self) -> int:
        """Sends SIGTERM and returns the program's exit status."""
        os.kill(self.pid(), signal.SIGTERM)
        return self.process.wait(timeout=90)

    def kill(self) -> None:
        if self.process.poll() is None:
            subprocess.run(['runc', 'kill', self.name, 'KILL'], check=False, capture_output=True)
            try:
                self.process.wait(timeout=20)
            except subprocess.TimeoutExpired:
                self.process.kill()
        subprocess.run(['runc', 'delete', '--force', self.name], check=False,
                       capture_output=True)


def make_certificate(folder: pathlib.Path, user: int) -> None:
    """For 127.0.0.1: tls.crt for all to read, tls.key for the user."""
    run('openssl', 'req', '-x509', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-256', '-noenc',
        '-subj', '/CN=edge', '-addext', 'subjectAltName=IP:127.0.0.1', '-keyout',
        folder / 'tls.key', '-out', folder / 'tls.crt')
    os.chown(folder / 'tls.key', user, user)


class Client(Protocol):
    """Runs the command line, as Container.execute does."""

    def execute(self, *arguments: str,
                standard_input: bytes = b'') -> subprocess.CompletedProcess[bytes]:
        ...


def check_calls(client: Client, *flags: str) -> None:
    """Registers a table and samples from it, with the command line and these flags of it."""
    table = (ROOT / 'datasets/penguins.csv').read_bytes()
    rows = (ROOT / 'datasets/penguins_heldout.csv').read_bytes()
    registered = client.execute('/usr/bin/chorale', 'register', '-', '--target', 'body_mass_g',
                                '--name', 'penguins', *flags, standard_input=table)
    assert registered.returncode == 0, registered.stderr.decode()
    drawn = client.execute('/usr/bin/chorale', 'sample', 'penguins', '-', '--paths', '10',
                           '--seed', '1', '--quiet', '--format', 'csv', *flags,
                           standard_input=rows)
    assert drawn.returncode == 0, drawn.stderr.decode()
    lines = drawn.stdout.decode().splitlines()
    assert len(lines) == 1 + 10 * 24, f'{len(lines)} lines'
