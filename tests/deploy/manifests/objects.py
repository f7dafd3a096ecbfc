"""Kubernetes objects of one build: building them, finding them, and what their fields mean."""

from __future__ import annotations

import base64
import dataclasses
import functools
import json
import os
import pathlib
import re
import shutil
import subprocess
import tempfile
from typing import Any, Iterator

import yaml

Object = dict[str, Any]

ROOT = pathlib.Path(__file__).resolve().parents[3]
KUBERNETES = ROOT / 'deploy/kubernetes'
WORKLOADS = ('StatefulSet', 'Deployment')
_UNITS = {'': 1, 'm': 1e-3, 'k': 1e3, 'M': 1e6, 'G': 1e9, 'T': 1e12,
          'Ki': 2**10, 'Mi': 2**20, 'Gi': 2**30, 'Ti': 2**40}


# libyaml is ten times as fast, where it is.
_LOADER = getattr(yaml, 'CSafeLoader', yaml.SafeLoader)


class BuildError(Exception):
    """kubectl kustomize has refused a folder; the message is its own."""


@functools.cache
def load_yaml(text: str) -> Any:
    """The document in a text. Not to be changed: the next caller gets the same."""
    return yaml.load(text, Loader=_LOADER)


def quantity(text: str | int | float) -> float:
    """The number that a Kubernetes quantity such as 500m or 8Gi stands for."""
    match = re.fullmatch(r'([0-9.]+)([a-zA-Z]*)', str(text))
    if match is None or match[2] not in _UNITS:
        raise ValueError(f'"{text}" is not a quantity')
    return float(match[1]) * _UNITS[match[2]]


def name_of(thing: Object) -> str:
    return f'{thing["kind"]} {thing["metadata"]["name"]}'


def matches(selector: dict[str, str], labels: dict[str, str]) -> bool:
    return all(labels.get(key) == value for key, value in selector.items())


@dataclasses.dataclass(frozen=True)
class Build:
    """What one overlay, perhaps with components, is built to."""

    name: str
    objects: list[Object]

    def all(self, *kinds: str) -> list[Object]:
        return [thing for thing in self.objects if thing['kind'] in kinds]

    def find(self, kind: str, name: str) -> Object | None:
        for thing in self.all(kind):
            if thing['metadata']['name'] == name:
                return thing
        return None

    def server(self) -> Object:
        found = self.find('StatefulSet', 'chorale')
        if found is None:
            raise LookupError('there is no StatefulSet chorale')
        return found

    def gateway(self) -> Object | None:
        return self.find('Deployment', 'chorale-gateway')

    def envoys(self) -> list[tuple[Object, Object]]:
        """Each Envoy's workload and container: the gateway, or the server's sidecar."""
        gateway = self.gateway()
        found = [] if gateway is None else [(gateway, container(gateway))]
        return found + [(self.server(), one) for one in sidecars(self.server())]

    def workloads(self) -> list[Object]:
        return self.all(*WORKLOADS)

    def selected(self, selector: dict[str, str]) -> list[Object]:
        """The workloads that have a pod with these labels."""
        found = []
        for workload in self.workloads():
            for labels in self._labels_of_pods(workload):
                if matches(selector, labels):
                    found.append(workload)
                    break
        return found

    def most_replicas(self) -> int:
        """Pods of the server, when the autoscaler has added all that it may."""
        counts = [self.server()['spec'].get('replicas', 1)]
        counts += [scaler['spec']['maxReplicaCount'] for scaler in self.all('ScaledObject')]
        return max(counts)

    def _labels_of_pods(self, workload: Object) -> Iterator[dict[str, str]]:
        labels = pod_labels(workload)
        yield labels
        if workload['kind'] == 'StatefulSet':
            name = workload['metadata']['name']
            # An operator may add replicas by hand, up to as many as the gateway knows.
            for index in range(max(self.most_replicas(), len(replica_services(self)))):
                yield labels | {'statefulset.kubernetes.io/pod-name': f'{name}-{index}'}


def replica_services(build: Build) -> list[Object]:
    return [service for service in build.all('Service')
            if 'statefulset.kubernetes.io/pod-name' in service['spec']['selector']]


def pod(workload: Object) -> Object:
    return workload['spec']['template']['spec']


def pod_labels(workload: Object) -> dict[str, str]:
    return workload['spec']['template']['metadata']['labels']


def container(workload: Object) -> Object:
    """The only container of the workload's pods that is no sidecar."""
    (only,) = pod(workload)['containers']
    return only


def sidecars(workload: Object) -> list[Object]:
    return [one for one in pod(workload).get('initContainers', [])
            if one.get('restartPolicy') == 'Always']


def containers(workload: Object) -> list[Object]:
    return [container(workload), *sidecars(workload)]


def container_ports(workload: Object) -> dict[str, int]:
    """Of all containers: a pod has one address."""
    return {port['name']: port['containerPort']
            for one in containers(workload) for port in one['ports']}


def mounted_files(build: Build, workload: Object, seen_by: Object) -> dict[str, bytes]:
    """Paths and contents of the files that one of its containers sees of ConfigMaps."""
    volumes = {volume['name']: volume for volume in pod(workload).get('volumes', [])}
    files = {}
    for mount in seen_by['volumeMounts']:
        source = volumes.get(mount['name'], {}).get('configMap')
        config_map = source and build.find('ConfigMap', source['name'])
        for key, text in (config_map or {}).get('data', {}).items():
            files[f'{mount["mountPath"]}/{key}'] = text.encode()
        for key, text in (config_map or {}).get('binaryData', {}).items():
            files[f'{mount["mountPath"]}/{key}'] = base64.b64decode(text)
    return files


def pods_of_all(build: Build) -> Iterator[tuple[str, Object, Object]]:
    """Name of the workload, its pod and each of its containers."""
    for workload in build.workloads():
        for one in containers(workload):
            yield name_of(workload), pod(workload), one


# ---- Building ---------------------------------------------------------------------------------

# kustomize build, or kubectl kustomize.
Builder = tuple[str, ...]


def kustomize(builder: Builder, folder: pathlib.Path) -> list[Object]:
    run = subprocess.run([*builder, os.fspath(folder)],
                         capture_output=True, text=True, check=False, timeout=60)
    if run.returncode != 0:
        raise BuildError(run.stderr.strip())
    if run.stderr.strip():  # such as a field that is deprecated
        raise BuildError(f'a warning: {run.stderr.strip()}')
    return [thing for thing in yaml.load_all(run.stdout, Loader=_LOADER) if thing]


def build_folder(builder: Builder, folder: str) -> Build:
    return Build(folder, kustomize(builder, KUBERNETES / folder))


def build_combination(builder: Builder, overlay: str, components: list[str]) -> Build:
    """An overlay of an operator: one of ours and some of the components."""
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name).resolve()

        def relative(path: str) -> str:
            return os.path.relpath(KUBERNETES / path, folder)

        text = {'apiVersion': 'kustomize.config.k8s.io/v1beta1', 'kind': 'Kustomization',
                'resources': [relative(f'overlays/{overlay}')],
                'components': [relative(f'components/{component}') for component in components]}
        (folder / 'kustomization.yaml').write_text(json.dumps(text), encoding='utf-8')
        return Build('+'.join([overlay, *components]), kustomize(builder, folder))


def _knows_components(builder: Builder) -> bool:
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name).resolve()
        (folder / 'part').mkdir()
        (folder / 'part/kustomization.yaml').write_text(
            'apiVersion: kustomize.config.k8s.io/v1alpha1\nkind: Component\n'
            'configMapGenerator: [{name: a, literals: [b=c]}]\n', encoding='utf-8')
        (folder / 'kustomization.yaml').write_text('components: [part]\n', encoding='utf-8')
        try:
            return len(kustomize(builder, folder)) == 1
        except BuildError:
            return False


def find_builder() -> Builder | None:
    """A kustomize that knows components, which that of kubectl 1.20 (Debian 12) does not."""
    fetched = ROOT / 'build/deploy/kustomize'
    candidates: list[Builder] = [(program, command) for program, command in (
        ('kustomize', 'build'), ('kubectl', 'kustomize')) if shutil.which(program)]
    if fetched.is_file():
        candidates.append((os.fspath(fetched), 'build'))
    return next((builder for builder in candidates if _knows_components(builder)), None)
