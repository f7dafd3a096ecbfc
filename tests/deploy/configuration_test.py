"""Tests of the configuration files of the Debian package and of the image: the server starts with
each, and sheds load before it is ended for its memory."""

from __future__ import annotations

import pathlib
import re
import subprocess
import tempfile
import time
import unittest

from manifests.objects import ROOT, load_yaml
from manifests.sources import server_program

START_SECONDS = 60
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

    def test_each_has_a_limit_of_memory_that_counts(self) -> None:
        """The pools must fit below it, which the server checks."""
        for file in (DEBIAN, IMAGE):
            with self.subTest(file=file.name):
                limit = load_yaml(file.read_text(encoding='utf-8')).get('memory_limit_mib', 0)
                self.assertGreater(limit, 0)
                run = start_and_stop(f'--config={file}', f'--context_pool_mib={limit}')
                self.assertNotEqual(run.returncode, 0)
                self.assertIn(f'--memory_limit_mib={limit} is too small', run.stdout)

    def test_the_limit_lies_below_that_of_the_unit(self) -> None:
        unit = (ROOT / 'deploy/debian/chorale.service').read_text(encoding='utf-8')
        [gibibytes] = re.findall(r'^MemoryMax=(\d+)G$', unit, re.MULTILINE)
        limit = load_yaml(DEBIAN.read_text(encoding='utf-8'))['memory_limit_mib']
        self.assertLess(limit, int(gibibytes) * 1024)


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
