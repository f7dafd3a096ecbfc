"""Checks of pods: rights, resources, probes, the time to stop, what they mount."""

from __future__ import annotations

import math
import re
from typing import Iterator

from manifests.objects import (Build, container, containers, name_of, pod, pod_labels,
                               pods_of_all, quantity)
from manifests.settings import Settings, arguments, config
from manifests.sources import Sources

_PROBES = ('startupProbe', 'livenessProbe', 'readinessProbe')
# Memory beside the pools: weights, messages while they are parsed, replies.
_BESIDE_POOLS_MIB = 1536
# How much of --memory_limit_mib the server lets pools take (kPlannedMemoryShare).
_PLANNED_SHARE = 0.8
# The least that the startup probe must allow for contexts to be encoded.
_STARTUP_SECONDS = 600


def rights(build: Build, _: Sources) -> Iterator[str]:
    """What the "restricted" pod security standard asks for, and a read-only root."""
    for name, spec, only in pods_of_all(build):
        outer, inner = spec.get('securityContext', {}), only.get('securityContext', {})
        wanted = {
            'runAsNonRoot': outer.get('runAsNonRoot') is True,
            'runAsUser': outer.get('runAsUser') == 65532,
            'fsGroup': outer.get('fsGroup') == 65532,
            'seccompProfile': outer.get('seccompProfile') == {'type': 'RuntimeDefault'},
            'allowPrivilegeEscalation': inner.get('allowPrivilegeEscalation') is False,
            'readOnlyRootFilesystem': inner.get('readOnlyRootFilesystem') is True,
            'capabilities': inner.get('capabilities') == {'drop': ['ALL']},
            'automountServiceAccountToken': spec.get('automountServiceAccountToken') is False,
            'enableServiceLinks': spec.get('enableServiceLinks') is False,
        }
        yield from (f'{name}: {field}' for field, right in wanted.items() if not right)


def resources(build: Build, sources: Sources) -> Iterator[str]:
    for name, _, only in pods_of_all(build):
        requests = only.get('resources', {}).get('requests', {})
        limits = only.get('resources', {}).get('limits', {})
        for what in ('cpu', 'memory'):
            if what not in requests:
                yield f'{name} requests no {what}'
        if 'memory' not in limits:
            yield f'{name} has no limit of memory'
        for what in requests.keys() & limits.keys():
            if quantity(requests[what]) > quantity(limits[what]):
                yield f'{name} requests more {what} than its limit'
    yield from _server_memory(build, Settings(build, sources))


def _server_memory(build: Build, settings: Settings) -> Iterator[str]:
    given = container(build.server())['resources']
    limit = quantity(given['limits']['memory']) / 2**20
    needed = sum(settings.host_pools_mib().values()) + _BESIDE_POOLS_MIB
    if limit < needed:
        yield (f'memory limit {limit:.0f} MiB, but {settings.host_pools_mib()} and '
               f'{_BESIDE_POOLS_MIB} MiB beside them are {needed}')
    shed_at = settings.number('memory_limit_mib')
    if not 0 < shed_at < limit:
        yield f'memory_limit_mib is {shed_at}; it must lie below the limit of {limit:.0f} MiB'
    elif sum(settings.host_pools_mib().values()) > _PLANNED_SHARE * shed_at:
        yield f'memory_limit_mib {shed_at} is too small for {settings.host_pools_mib()}'
    has_gpu = 'nvidia.com/gpu' in given['limits']
    if (settings.text('backend') == 'cuda') != has_gpu:
        yield f'--backend={settings.text("backend")} and nvidia.com/gpu do not go together'
    threads = settings.number('threads')
    if not has_gpu and threads != math.ceil(quantity(given['requests']['cpu'])):
        yield f'--threads={threads}, but {given["requests"]["cpu"]} cores are requested'


def probes(build: Build, sources: Sources) -> Iterator[str]:
    for name, _, only in pods_of_all(build):
        for probe in _PROBES:
            if probe not in only:
                yield f'{name} has no {probe}'
            elif 'exec' in only[probe]:
                continue
            elif only[probe]['httpGet']['port'] not in {port['name'] for port in only['ports']}:
                yield f'{name}: {probe} asks a port that the container does not name'
    server = container(build.server())
    for probe in _PROBES:
        get = server.get(probe, {}).get('httpGet', {})
        if get.get('port') != 'metrics':
            yield f'{probe} of the server does not ask the port "metrics"'
        if get.get('path') not in sources.http_paths:
            yield f'the server does not answer {get.get("path")}, which its {probe} asks for'
    if server.get('livenessProbe', {}).get('httpGet', {}).get('path') != '/healthz':
        yield 'the liveness probe must ask /healthz: /readyz fails while the server drains'
    startup = server.get('startupProbe', {})
    if startup.get('periodSeconds', 10) * startup.get('failureThreshold', 3) < _STARTUP_SECONDS:
        yield f'the startup probe allows less than {_STARTUP_SECONDS} s'


def stopping(build: Build, sources: Sources) -> Iterator[str]:
    """Every grace period is longer than what happens in it."""
    settings = Settings(build, sources)
    lame_duck = settings.seconds('lame_duck')
    needed = lame_duck + settings.seconds('drain_timeout') + sources.forced_exit_margin
    given = pod(build.server())['terminationGracePeriodSeconds']
    if given <= needed:
        yield (f'terminationGracePeriodSeconds is {given}, but lame duck, drain and forced exit '
               f'take {needed:.0f} s')
    ready = container(build.server()).get('readinessProbe', {})
    if ready.get('periodSeconds', 10) * ready.get('failureThreshold', 3) > lame_duck:
        yield 'the readiness probe does not notice a lame duck while it still serves'
    for workload, envoy in build.envoys():
        script = envoy['lifecycle']['preStop']['exec']['command'][-1]
        before = sum(int(time) for time in re.findall(r'^sleep (\d+)', script, re.MULTILINE))
        calls = sum(int(count) for count in re.findall(r'i < (\d+)', script))  # a second each
        drain = int(envoy['args'][envoy['args'].index('--drain-time-s') + 1])
        if not before or calls <= drain:
            yield f'preStop does not wait out the {drain} s of --drain-time-s'
        if pod(workload)['terminationGracePeriodSeconds'] <= before + calls:
            yield f'Envoy is killed before the {before + calls} s of preStop are over'


def mounts(build: Build, _: Sources) -> Iterator[str]:
    """Volumes and mounts pair up, and what they refer to exists."""
    for workload in build.workloads():
        name = name_of(workload)
        volumes = {volume['name'] for volume in pod(workload).get('volumes', [])}
        volumes |= {claim['metadata']['name']
                    for claim in workload['spec'].get('volumeClaimTemplates', [])}
        mounted = {mount['name'] for one in containers(workload) for mount in one['volumeMounts']}
        yield from (f'{name} mounts {missing}, which is no volume' for missing in mounted - volumes)
        yield from (f'{name} does not mount {unused}' for unused in volumes - mounted)
        account = pod(workload).get('serviceAccountName', 'default')
        if build.find('ServiceAccount', account) is None:
            yield f'{name}: there is no ServiceAccount {account}'
        for volume in pod(workload).get('volumes', []):
            referred = volume.get('configMap', {}).get('name')
            if referred and build.find('ConfigMap', referred) is None:
                yield f'{name}: there is no ConfigMap {referred}'


def secrets(build: Build, sources: Sources) -> Iterator[str]:
    """Secrets are the operator's to make: README says how to make each."""
    for name, spec, _ in pods_of_all(build):
        for volume in spec.get('volumes', []):
            secret = volume.get('secret', {}).get('secretName')
            if secret and build.find('Secret', secret) is None and not re.search(
                    rf'create secret (tls|generic) {re.escape(secret)}\s', sources.readme):
                yield f'{name}: README does not say how to make the Secret {secret}'


def storage(build: Build, sources: Sources) -> Iterator[str]:
    """The data folder is on a claimed volume that has room for the files of contexts."""
    settings = Settings(build, sources)
    server = build.server()
    claims = {claim['metadata']['name']: claim['spec']['resources']['requests']['storage']
              for claim in server['spec'].get('volumeClaimTemplates', [])}
    sizes = [quantity(claims[mount['name']]) / 2**20 for mount in
             container(server)['volumeMounts']
             if mount['name'] in claims and mount['mountPath'] == settings.text('data_dir')]
    if not sizes:
        yield f'no claimed volume is mounted as data_dir, {settings.text("data_dir")}'
    elif sizes[0] < 1.25 * settings.number('context_files_mib'):
        yield f'a volume of {sizes[0]:.0f} MiB has too little room beside context_files_mib'


def image_environment(build: Build, sources: Sources) -> Iterator[str]:
    """What the image sets in its environment has precedence over the file, so it must agree."""
    backend = Settings(build, sources).text('backend')
    image = sources.image_environment.get('cuda' if backend == 'cuda' else 'cpu', {})
    for flag, value in config(build).items():
        given = ','.join(value) if isinstance(value, list) else str(value)
        if flag in image and image[flag] != given and flag not in arguments(build):
            yield f'the image sets {flag} to {image[flag]}, so {given} in config.yaml has no effect'


def spread(build: Build, _: Sources) -> Iterator[str]:
    for workload in build.workloads():
        constraints = pod(workload).get('topologySpreadConstraints', [])
        keys = {constraint['topologyKey'] for constraint in constraints}
        if keys != {'kubernetes.io/hostname', 'topology.kubernetes.io/zone'}:
            yield f'{name_of(workload)} is not spread over nodes and zones'
        for constraint in constraints:
            labels = constraint['labelSelector']['matchLabels']
            if not labels.items() <= pod_labels(workload).items():
                yield f'{name_of(workload)} spreads pods that are not its own'


def claims_are_kept(build: Build, _: Sources) -> Iterator[str]:
    policy = build.server()['spec'].get('persistentVolumeClaimRetentionPolicy', {})
    if policy != {'whenDeleted': 'Retain', 'whenScaled': 'Retain'}:
        yield 'registered tables are lost with the StatefulSet or with a replica'


CHECKS = (rights, resources, probes, stopping, mounts, secrets, storage, image_environment, spread,
          claims_are_kept)
