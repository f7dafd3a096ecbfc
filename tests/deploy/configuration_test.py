"""Tests of the configuration files of the Debian package and of the image: the server starts with
each, and sheds load before it is ended for its memory. Tests of constants in deploy/ that must be
those of the sources."""

from __future__ import annotations

import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time
import unittest

from manifests.objects import ROOT, load_yaml
from manifests.sources import server_program

START_SECONDS = 60
EDGE = ROOT / 'deploy/envoy'
ENVOY = pathlib.Path(sys.executable).with_name('envoy')
DEBIAN = ROOT / 'deploy/debian/server.yaml'
IMAGE = ROOT / 'deploy/image/config.yaml'


def start_and_stop(*flags: str) -> subprocess.CompletedProcess[str]:
    """Runs the server on the CPU, with places of its own, until it is ready."""
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        with subprocess.Popen(
                [server_program(), *flags, '--backend=cpu', '--listen_address=127.0.0.1:0',
                 '--metrics_address=127.0.0.1:0', f'--port_file={folder}/port',
                 f'--models={ROOT}/models/default', f'--data_dir={folder}/data', '--lame_duck=0s'],
                env={}, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as server:
            deadline = time.monotonic() + START_SECONDS
            while (not (folder / 'port').exists() and server.poll() is None
                   and time.monotonic() < deadline):
                time.sleep(0.05)
            server.terminate()
            output, _ = server.communicate(timeout=START_SECONDS)
            return subprocess.CompletedProcess(server.args, server.returncode, output)


@unittest.skipUnless(server_program().is_file(), 'the server is not built')
class ConfigurationTest(unittest.TestCase):

    def test_the_server_starts_with_each(self) -> None:
        for file in (DEBIAN, IMAGE):
            with self.subTest(file=file.name):
                run = start_and_stop(f'--config={file}')
                self.assertEqual(run.returncode, 0, run.stdout)

    def test_the_images_limit_of_memory_counts(self) -> None:
        """The pools must fit below it, which the server checks, unless the machine has less."""
        limit = load_yaml(IMAGE.read_text(encoding='utf-8'))['memory_limit_mib']
        run = start_and_stop(f'--config={IMAGE}', f'--context_pool_mib={limit}')
        if os.sysconf('SC_PHYS_PAGES') * os.sysconf('SC_PAGE_SIZE') < limit << 20:
            self.assertIn('memory_limit_ignored', run.stdout)
        else:
            self.assertNotEqual(run.returncode, 0)
            self.assertIn(f'--memory_limit_mib={limit} is too low', run.stdout)

    def test_the_limit_of_the_package_is_that_of_the_unit(self) -> None:
        """Which the server finds by itself; another number in the file would hide it."""
        unit = (ROOT / 'deploy/debian/chorale.service').read_text(encoding='utf-8')
        [gibibytes] = re.findall(r'^MemoryMax=(\d+)G$', unit, re.MULTILINE)
        text = DEBIAN.read_text(encoding='utf-8')
        self.assertNotIn('memory_limit_mib', load_yaml(text))
        [example] = re.findall(r'^# memory_limit_mib: (\d+)$', text, re.MULTILINE)
        self.assertLess(int(example), int(gibibytes) * 1024)


@unittest.skipUnless(ENVOY.is_file(), 'there is no Envoy')
class ServersFileTest(unittest.TestCase):
    """run.sh --check-servers: what Envoy would take and send calls to the wrong server for, and what
    it would refuse."""

    def check(self, text: str) -> str:
        with tempfile.TemporaryDirectory() as name:
            file = pathlib.Path(name) / 'servers.yaml.new'
            file.write_text(text, encoding='utf-8')
            run = subprocess.run([EDGE / 'run.sh', '--check-servers', file], capture_output=True,
                                 env={**os.environ, 'ENVOY': os.fspath(ENVOY)}, text=True,
                                 timeout=START_SECONDS, check=False)
        self.assertEqual(run.returncode, 2 if run.stdout else 0, run.stderr)
        return run.stdout

    def test_what_is_shipped_is_right(self) -> None:
        for file in ('servers.yaml', 'one_server.yaml'):
            self.assertEqual(self.check((EDGE / file).read_text(encoding='utf-8')), '')

    def test_mistakes_are_named(self) -> None:
        servers = (EDGE / 'servers.yaml').read_text(encoding='utf-8')
        for old, new, message in (
                ('minimum_ring_size: 3072', 'minimum_ring_sise: 3072', 'minimum_ring_size is not'),
                ('minimum_ring_size: 3072', 'minimum_ring_size: 4096', 'it must be 3072'),
                ('lb_policy: RING_HASH', 'lb_policy: RING_HUSH', 'lb_policy: RING_HASH'),
                ('hash_key: server-1', 'hashkey: server-1', '3 servers have 2 distinct values'),
                ('hash_key: server-1', 'hash_key: server-0', '3 servers have 2 distinct values'),
                ('name: any_server', 'name: any_sever', 'the cluster any_server is missing'),
                ('timeout: 2s', 'timeuot: 2s', "Envoy rejects the file: .*'timeuot'"),
                ('port_value: 50052', 'port_value: 50051', 'several servers have the same address: '
                 'address:127.0.0.1,port_value:50051'),
                ('port_value: 50052', 'port_value: x', 'Envoy rejects the file: '),
                ('resources:', 'resources: [', 'Envoy rejects the file: ')):
            with self.subTest(new):
                self.assertIn(old, servers)
                self.assertRegex(self.check(servers.replace(old, new, 1)), message)

    def test_what_it_lacks_is_named(self) -> None:
        for arguments, envoy, status, message in (
                (['--check-servers'], ENVOY, 2, '--check-servers requires a value'),
                (['--check-servers', '/no/such/servers.yaml'], ENVOY, 2, 'yaml: no such file'),
                (['--check-servers', EDGE / 'servers.yaml'], 'no-such-envoy', 2,
                 'there is no program no-such-envoy in PATH')):
            with self.subTest(message):
                run = subprocess.run([EDGE / 'run.sh', *arguments], capture_output=True, text=True,
                                     env={**os.environ, 'ENVOY': os.fspath(envoy)},
                                     timeout=START_SECONDS, check=False)
                self.assertEqual(run.returncode, status, run.stderr)
                self.assertIn(message, run.stdout + run.stderr)


class MoveContextsTest(unittest.TestCase):

    def test_the_version_of_the_database_is_that_of_the_server(self) -> None:
        """Otherwise move_contexts.py rejects the database of each server."""
        versions = [
            re.findall(pattern, (ROOT / file).read_text(encoding='utf-8'), re.MULTILINE)
            for file, pattern in (('deploy/move_contexts.py', r'^SCHEMA_VERSION = (\d+)$'),
                                  ('engine/store/context_table.h', r' kSchemaVersion = (\d+);'))]
        self.assertEqual([len(found) for found in versions], [1, 1])
        self.assertEqual(*versions)


class DockerfileTest(unittest.TestCase):

    def test_only_the_image_for_gpus_has_cublas(self) -> None:
        """Half a gigabyte that a CPU has no use for. The bundle has none."""
        text = (ROOT / 'Dockerfile').read_text(encoding='utf-8')
        commands = re.sub(r'^#.*\n', '', text, flags=re.MULTILINE)
        _, *stages = re.split(r'^FROM ', commands, flags=re.MULTILINE)
        with_cublas = [stage.splitlines()[0] for stage in stages if 'cublas' in stage.lower()]
        self.assertEqual(with_cublas, ['${CUDA_RUNTIME} AS cuda'])


if __name__ == '__main__':
    unittest.main()
