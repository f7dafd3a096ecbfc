"""Tests of deploy/compose.yaml against what it names: the Dockerfile, the server's flags, the files that
it mounts, and the configurations that expect their neighbours on loopback."""

from __future__ import annotations

import pathlib
import re
import shutil
import subprocess
import tempfile
import unittest
from typing import Any

from manifests.objects import ROOT, load_yaml
from manifests.sources import read_sources, seconds

COMPOSE = ROOT / 'deploy/compose.yaml'
FOLDER = COMPOSE.parent
TLS = './envoy/tls'  # made by run.sh --make-certificate


def read(path: str) -> Any:
    return load_yaml((ROOT / path).read_text(encoding='utf-8'))


def flags_of(service: dict[str, Any]) -> dict[str, str]:
    return dict(argument.removeprefix('--').split('=', 1) for argument in service['command'])


def mounts_of(service: dict[str, Any]) -> dict[str, str]:
    """{place in the container: what is mounted there}"""
    return {mount.split(':')[1]: mount.split(':')[0] for mount in service.get('volumes', [])}


class ComposeTest(unittest.TestCase):

    def setUp(self) -> None:
        self.file = read('deploy/compose.yaml')
        self.services = self.file['services']

    def test_images_are_built_from_targets_that_exist(self) -> None:
        dockerfile = (ROOT / 'Dockerfile').read_text(encoding='utf-8')
        built = {name: service['build'] for name, service in self.services.items()
                 if 'build' in service}
        self.assertEqual(set(built), {'edge', 'server'})
        for name, build in built.items():
            with self.subTest(service=name):
                self.assertRegex(dockerfile, rf'(?m)^FROM \S+ AS {build["target"]}$')
                self.assertEqual((FOLDER / build['context']).resolve(), ROOT)
                for argument in build['args']:
                    self.assertRegex(dockerfile, rf'(?m)^ARG {argument}\b')

    def test_other_images_have_a_version(self) -> None:
        for name, service in self.services.items():
            if 'build' not in service:
                self.assertRegex(service['image'], r'^[\w/]+:v?\d+\.\d+\.\d+$', name)

    def test_what_is_mounted_exists(self) -> None:
        for name, service in self.services.items():
            for source in mounts_of(service).values():
                with self.subTest(service=name, source=source):
                    if source.startswith('.'):
                        self.assertTrue(source == TLS or (FOLDER / source).exists())
                    else:
                        self.assertIn(source, self.file['volumes'])

    def test_the_certificate_is_where_envoy_looks_for_it(self) -> None:
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            for file in ('run.sh', 'envoy.yaml'):
                shutil.copy(ROOT / 'deploy/envoy' / file, folder / file)
            for _ in range(2):  # a second time changes nothing
                subprocess.run([folder / 'run.sh', '--make-certificate'], check=True, timeout=60)
            self.assertEqual(sorted(path.name for path in (folder / 'tls').iterdir()),
                             ['tls.crt', 'tls.key'])
            for path in (folder / 'tls').iterdir():
                self.assertTrue(path.stat().st_mode & 0o004, 'the container has another user')
        self.assertEqual(mounts_of(self.services['edge'])['/etc/chorale/envoy/tls'], TLS)

    def test_the_server_gets_flags_that_it_knows(self) -> None:
        flags = flags_of(self.services['server'])
        self.assertLessEqual(set(flags), set(read_sources().flags))
        most = int(re.fullmatch(r'(\d+)g', self.services['server']['mem_limit'])[1]) * 1024
        self.assertLess(int(flags['memory_limit_mib']), most)
        pools = sum(int(flags[name]) for name in ('context_pool_mib', 'buffer_pool_mib'))
        self.assertLess(pools, 0.8 * int(flags['memory_limit_mib']))

    def test_all_are_neighbours_on_loopback(self) -> None:
        for name, service in self.services.items():
            if name != 'edge':
                self.assertEqual(service['network_mode'], 'service:edge', name)
        flags = flags_of(self.services['server'])
        [cluster, *_] = read('deploy/envoy/one_server.yaml')['resources']
        [locality] = cluster['load_assignment']['endpoints']
        [endpoint] = locality['lb_endpoints']
        address = endpoint['endpoint']['address']['socket_address']
        self.assertEqual(flags['listen_address'], f"{address['address']}:{address['port_value']}")
        prometheus = read('deploy/prometheus/prometheus.yml')
        [scrape] = [job for job in prometheus['scrape_configs'] if job['job_name'] == 'chorale']
        self.assertEqual(scrape['static_configs'], [{'targets': [flags['metrics_address']]}])
        [source] = read('deploy/grafana/provisioning/datasources/prometheus.yaml')['datasources']
        self.assertEqual(source['url'], 'http://127.0.0.1:9090')

    def test_only_this_machine_reaches_it(self) -> None:
        listener = (ROOT / 'deploy/envoy/envoy.yaml').read_text(encoding='utf-8')
        self.assertIn('port_value: 8443', listener)
        ports = [service['ports'] for service in self.services.values() if 'ports' in service]
        self.assertEqual(ports, [[f'127.0.0.1:{port}:{port}' for port in (8443, 9090, 3000)]])

    def test_every_dashboard_is_shown(self) -> None:
        mounts = mounts_of(self.services['grafana'])
        [provider] = read('deploy/grafana/provisioning/dashboards/chorale.yaml')['providers']
        shown = {place.rsplit('/', 1)[1] for place in mounts
                 if place.startswith(provider['options']['path'] + '/')}
        self.assertEqual(shown, {path.name for path in (ROOT / 'deploy/grafana').glob('*.json')})

    def test_nobody_is_ended_before_it_has_drained(self) -> None:
        flags = read_sources().flags
        drain = sum(seconds(re.sub(r'absl::Seconds\((\d+)\)', r'\1s', flags[name]))
                    for name in ('lame_duck', 'drain_timeout'))
        self.assertGreaterEqual(seconds(self.services['server']['stop_grace_period']), drain + 10)
        script = (ROOT / 'deploy/envoy/run.sh').read_text(encoding='utf-8')
        [edge_drain] = re.findall(r'^  drain=(\d+)$', script, re.MULTILINE)
        self.assertGreaterEqual(seconds(self.services['edge']['stop_grace_period']),
                                int(edge_drain) + 10)

    @unittest.skipUnless(shutil.which('docker-compose'), 'docker-compose is not installed')
    def test_docker_compose_takes_it(self) -> None:
        run = subprocess.run(['docker-compose', '--file', COMPOSE, 'config', '--quiet'], text=True,
                             stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
        self.assertEqual(run.returncode, 0, run.stdout)


if __name__ == '__main__':
    unittest.main()
