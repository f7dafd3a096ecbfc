"""Manifests with one mistake each, and what a check must say of it."""

from __future__ import annotations

import copy
import dataclasses
from typing import Any, Callable

from manifests.objects import Build, Object, name_of
from manifests.sources import Sources

REMOVED = object()
Change = Callable[[Build, Sources], tuple[Build, Sources]]


@dataclasses.dataclass(frozen=True)
class Mutation:
    check: str  # that must notice
    message: str  # a regular expression of what it says
    change: Change
    overlay: str = 'full'


def _named(build: Build, name: str) -> Object:
    """The object of that kind and name; the name of a ConfigMap may go on with a digest."""
    for thing in build.objects:
        if name_of(thing) == name or (thing['kind'] == 'ConfigMap'
                                      and name_of(thing).startswith(f'{name}-')):
            return thing
    raise LookupError(f'there is no {name}')


def put(name: str, path: str, value: Any) -> Change:
    """Puts a value, or REMOVED, at a path that exists; its last part may be new in a map."""

    def change(build: Build, sources: Sources) -> tuple[Build, Sources]:
        build = copy.deepcopy(build)
        place: Any = _named(build, name)
        *parents, last = [int(part) if part.isdigit() else part for part in path.split('|')]
        for part in parents:
            place = place[part]
        if value is REMOVED:
            del place[last]
        else:
            place[last] = value
        return build, sources

    return change


def text(name: str, key: str, old: str, new: str) -> Change:
    """Replaces a text in a file of a ConfigMap."""

    def change(build: Build, sources: Sources) -> tuple[Build, Sources]:
        build = copy.deepcopy(build)
        data = _named(build, name)['data']
        if old not in data[key]:
            raise LookupError(f'{key} has no "{old}"')
        data[key] = data[key].replace(old, new, 1)
        return build, sources

    return change


def without(name: str) -> Change:

    def change(build: Build, sources: Sources) -> tuple[Build, Sources]:
        gone = _named(build, name)
        return Build(build.name, [thing for thing in build.objects if thing is not gone]), sources

    return change


def source(**fields: Any) -> Change:
    """Sources that say something else."""

    def change(build: Build, sources: Sources) -> tuple[Build, Sources]:
        return build, dataclasses.replace(sources, **fields)

    return change


_SERVER, _GATEWAY = 'StatefulSet chorale', 'Deployment chorale-gateway'
_POD = 'spec|template|spec'
_ONLY = f'{_POD}|containers|0'
_CONFIG = ('ConfigMap chorale-config', 'config.yaml')
_ENVOY = ('ConfigMap chorale-gateway', 'envoy.yaml')
_SERVERS = ('ConfigMap chorale-gateway', 'servers.yaml')
_CERTIFICATE = ('ConfigMap chorale-gateway', 'certificate.yaml')
_BEHAVIOR = 'spec|advanced|horizontalPodAutoscalerConfig|behavior'

# Of the overlay with the sidecar.
_SIDECAR = f'{_POD}|initContainers|0'
_IN_POD = 'cpu+sidecar'

PODS = [
    Mutation('rights', 'runAsNonRoot', put(_SERVER, f'{_POD}|securityContext|runAsNonRoot', False)),
    Mutation('rights', 'runAsUser', put(_GATEWAY, f'{_POD}|securityContext|runAsUser', 0)),
    Mutation('rights', 'fsGroup', put(_SERVER, f'{_POD}|securityContext|fsGroup', REMOVED)),
    Mutation('rights', 'seccompProfile',
             put(_SERVER, f'{_POD}|securityContext|seccompProfile|type', 'Unconfined')),
    Mutation('rights', 'allowPrivilegeEscalation',
             put(_SERVER, f'{_ONLY}|securityContext|allowPrivilegeEscalation', REMOVED)),
    Mutation('rights', 'readOnlyRootFilesystem',
             put(_GATEWAY, f'{_ONLY}|securityContext|readOnlyRootFilesystem', False)),
    Mutation('rights', 'capabilities',
             put(_SERVER, f'{_ONLY}|securityContext|capabilities', {'drop': ['NET_RAW']})),
    Mutation('rights', 'automountServiceAccountToken',
             put(_SERVER, f'{_POD}|automountServiceAccountToken', REMOVED)),
    Mutation('rights', 'enableServiceLinks', put(_GATEWAY, f'{_POD}|enableServiceLinks', True)),
    Mutation('resources', 'requests no cpu',
             put(_SERVER, f'{_ONLY}|resources|requests|cpu', REMOVED)),
    Mutation('resources', 'no limit of memory',
             put(_GATEWAY, f'{_ONLY}|resources|limits', {'cpu': '1'})),
    Mutation('resources', 'requests more memory',
             put(_SERVER, f'{_ONLY}|resources|requests|memory', '24Gi')),
    Mutation('resources', 'memory limit 18432 MiB',
             put(_SERVER, f'{_ONLY}|resources|limits|memory', '18Gi')),
    Mutation('resources', 'memory limit 23552 MiB',
             put(_SERVER, f'{_ONLY}|args|2', '--host_context_pool_mib=22000')),
    Mutation('resources', 'memory_limit_mib is 0; it must lie below',
             put(_SERVER, f'{_ONLY}|args|4', '--memory_limit_mib=0')),
    Mutation('resources', 'memory_limit_mib is 24000; it must lie below the limit of 23552 MiB',
             put(_SERVER, f'{_ONLY}|args|4', '--memory_limit_mib=24000'), overlay='gpu'),
    Mutation('resources', "memory_limit_mib 20000 is too small for .*'host_context_pool_mib': 16384",
             put(_SERVER, f'{_ONLY}|args|4', '--memory_limit_mib=20000'), overlay='gpu+sidecar'),
    Mutation('resources', 'do not go together', put(_SERVER, f'{_ONLY}|args|1', '--backend=cpu')),
    Mutation('resources', '--threads=8, but 4 cores',
             put(_SERVER, f'{_ONLY}|args|2', '--threads=8'), overlay='cpu'),
    Mutation('resources', "memory limit 6144 MiB, but .*'context_pool_mib': 4096",
             put(_SERVER, f'{_ONLY}|resources|limits|memory', '6Gi'), overlay='cpu'),
    Mutation('probes', 'has no startupProbe', put(_SERVER, f'{_ONLY}|startupProbe', REMOVED)),
    Mutation('probes', 'readinessProbe asks a port',
             put(_GATEWAY, f'{_ONLY}|readinessProbe|httpGet|port', 'admin')),
    Mutation('probes', 'does not ask the port "metrics"',
             put(_SERVER, f'{_ONLY}|livenessProbe|httpGet|port', 'grpc')),
    Mutation('probes', 'does not answer /ready,',
             put(_SERVER, f'{_ONLY}|readinessProbe|httpGet|path', '/ready')),
    Mutation('probes', 'must ask /healthz',
             put(_SERVER, f'{_ONLY}|livenessProbe|httpGet|path', '/readyz')),
    Mutation('probes', 'allows less than 600 s',
             put(_SERVER, f'{_ONLY}|startupProbe|failureThreshold', 60)),
    Mutation('stopping', 'Seconds is 40, but .* 40 s',
             put(_SERVER, f'{_POD}|terminationGracePeriodSeconds', 40)),
    Mutation('stopping', 'take 65 s', text(*_CONFIG, 'drain_timeout: 25s', 'drain_timeout: 50s')),
    Mutation('stopping', 'take 60 s', text(*_CONFIG, 'lame_duck: 5s', 'lame_duck: 25s')),
    Mutation('stopping', 'take 70 s', source(forced_exit_margin=40.0)),
    Mutation('stopping', 'notice a lame duck',
             put(_SERVER, f'{_ONLY}|readinessProbe|failureThreshold', 3)),
    Mutation('stopping', 'wait out the 5 s',
             put(_GATEWAY, f'{_ONLY}|lifecycle|preStop|exec|command|2', 'sleep 20')),
    Mutation('stopping', 'before the 45 s',
             put(_GATEWAY, f'{_POD}|terminationGracePeriodSeconds', 45)),
    Mutation('rights', 'readOnlyRootFilesystem', put(
        _SERVER, f'{_SIDECAR}|securityContext|readOnlyRootFilesystem', False), overlay=_IN_POD),
    Mutation('resources', 'no limit of memory',
             put(_SERVER, f'{_SIDECAR}|resources|limits', {'cpu': '1'}), overlay=_IN_POD),
    Mutation('probes', 'has no startupProbe',
             put(_SERVER, f'{_SIDECAR}|startupProbe', REMOVED), overlay=_IN_POD),
    Mutation('stopping', 'wait out the 5 s', put(
        _SERVER, f'{_SIDECAR}|lifecycle|preStop|exec|command|2', 'sleep 20'), overlay=_IN_POD),
    Mutation('mounts', 'does not mount tls',
             put(_SERVER, f'{_SIDECAR}|volumeMounts|1', REMOVED), overlay=_IN_POD),
    Mutation('mounts', 'mounts tmp, which is no volume', put(_SERVER, f'{_POD}|volumes|1', {
        'name': 'scratch', 'emptyDir': {}})),
    Mutation('mounts', 'does not mount tmp', put(_SERVER, f'{_ONLY}|volumeMounts|2', REMOVED)),
    Mutation('mounts', 'no ServiceAccount other',
             put(_SERVER, f'{_POD}|serviceAccountName', 'other')),
    Mutation('mounts', 'no ConfigMap chorale-config',
             put(_SERVER, f'{_POD}|volumes|0|configMap|name', 'chorale-config')),
    Mutation('secrets', 'the Secret other-tls',
             put(_GATEWAY, f'{_POD}|volumes|1|secret|secretName', 'other-tls')),
    Mutation('storage', 'mounted as data_dir',
             put(_SERVER, f'{_ONLY}|volumeMounts|0|mountPath', '/data')),
    Mutation('storage', 'too little room',
             text(*_CONFIG, 'context_files_mib: 16384', 'context_files_mib: 30000')),
    Mutation('image_environment', 'the image sets models',
             source(image_environment={'cuda': {'models': '/opt/models/default'}})),
    Mutation('spread', 'not spread', put(_GATEWAY, f'{_POD}|topologySpreadConstraints|1', REMOVED)),
    Mutation('spread', 'not its own', put(
        _SERVER, f'{_POD}|topologySpreadConstraints|0|labelSelector|matchLabels', {'app': 'x'})),
    Mutation('claims_are_kept', 'lost', put(
        _SERVER, 'spec|persistentVolumeClaimRetentionPolicy|whenScaled', 'Delete')),
]

OBJECTS = [
    Mutation('schemas', "'replica' was unexpected", put(_SERVER, 'spec|replica', 3)),
    Mutation('schemas', "is not of type 'integer'", put(_GATEWAY, 'spec|replicas', 'two')),
    Mutation('schemas', 'find schema', put('Service chorale', 'apiVersion', 'v2')),
    Mutation('schemas', 'no field interval_', put(
        'ServiceMonitor chorale', 'spec|endpoints|0|interval_', '15s')),
    Mutation('schemas', '"15 s" is not a duration', put(
        'ServiceMonitor chorale', 'spec|endpoints|0|interval', '15 s')),
    Mutation('schemas', 'selects every Service',
             put('ServiceMonitor chorale', 'spec|selector', {})),
    Mutation('schemas', 'name of a port',
             put('ServiceMonitor chorale', 'spec|endpoints|0|port', 9464)),
    Mutation('schemas', 'spec.groups is missing', put('PrometheusRule chorale', 'spec|groups', [])),
    Mutation('schemas', 'an alert or a record', put(
        'PrometheusRule chorale', 'spec|groups|0|rules|0', {'expr': 'up'})),
    Mutation('schemas', 'name or rules', put('PrometheusRule chorale', 'spec|groups|0|name', '')),
    Mutation('schemas', 'no field sumary', put(
        'PrometheusRule chorale', 'spec|groups|0|rules|0|sumary', 'x')),
    Mutation('schemas', 'spec.triggers is missing',
             put('ScaledObject chorale', 'spec|triggers', [])),
    Mutation('schemas', 'spec.maxReplicas_', put('ScaledObject chorale', 'spec|maxReplicas_', 8)),
    Mutation('schemas', 'has no threshold', put(
        'ScaledObject chorale', 'spec|triggers|0|metadata|threshold', REMOVED)),
    Mutation('schemas', 'threshold of a trigger must be text', put(
        'ScaledObject chorale', 'spec|triggers|0|metadata|threshold', 10)),
    Mutation('schemas', 'type prometheus',
             put('ScaledObject chorale', 'spec|triggers|0|type', 'cpu')),
    Mutation('schemas', 'HorizontalPodAutoscaler.*windowSeconds', put(
        'ScaledObject chorale', f'{_BEHAVIOR}|scaleUp|windowSeconds', 300)),
    Mutation('labels', 'no label app.kubernetes.io/component', put(
        'PodDisruptionBudget chorale', 'metadata|labels|app.kubernetes.io/component', REMOVED)),
    Mutation('labels', 'says version 0.0.9', put(
        _SERVER, 'metadata|labels|app.kubernetes.io/version', '0.0.9')),
    Mutation('namespaces', 'in the namespace default', put(
        'NetworkPolicy chorale', 'metadata|namespace', 'default')),
    Mutation('images', 'has no version', put(_SERVER, f'{_ONLY}|image', 'chorale:latest')),
    Mutation('images', 'has no version', put(_GATEWAY, f'{_ONLY}|image', 'envoy')),
    Mutation('images', 'not of version 9.9.9', source(version='9.9.9')),
    Mutation('images', 'not of version', put(_SERVER, f'{_ONLY}|image', 'chorale:0.0.9-cuda')),
    Mutation('images', 'tests run Envoy 1.41.0', source(envoy_version='1.41.0')),
    Mutation('images', 'do not go together', put(_SERVER, f'{_ONLY}|resources|limits', {})),
]

NETWORK = [
    Mutation('ports', 'grpc is 50052', put(_SERVER, f'{_ONLY}|ports|0|containerPort', 50052)),
    Mutation('ports', 'metrics_address=0.0.0.0:9465', text(*_CONFIG, ':9464', ':9465')),
    Mutation('ports', 'cannot be reached', text(*_CONFIG, '0.0.0.0:50051', '127.0.0.1:50051')),
    Mutation('ports', 'beside its sidecar', put(
        _SERVER, f'{_ONLY}|ports|0', {'name': 'grpc', 'containerPort': 50051}), overlay=_IN_POD),
    Mutation('ports', 'beside its sidecar', put(
        _SERVER, f'{_ONLY}|args|7', '--listen_address=0.0.0.0:50051'), overlay=_IN_POD),
    Mutation('network_policies', "opens .'8443', '9464'.", put(
        'NetworkPolicy chorale', 'spec|ingress|1|ports|1', REMOVED), overlay=_IN_POD),
    Mutation('network_policies', 'may read envoy-metrics', put(
        'NetworkPolicy chorale', 'spec|ingress|1|from', []), overlay=_IN_POD),
    Mutation('encryption', 'either tls_certificate and tls_key, or insecure', text(
        *_CONFIG, 'insecure: true', 'insecure: false')),
    Mutation('services', 'pods of 0 workloads', put(
        'Service chorale', 'spec|selector|app.kubernetes.io/name', 'chorus')),
    Mutation('services', 'pods of 2 workloads', put('Service chorale', 'spec|selector', {
        'app.kubernetes.io/part-of': 'chorale'})),
    Mutation('services', 'http is not a port', put(
        'Service chorale-headless', 'spec|ports|1|targetPort', 'http')),
    Mutation('headless', 'no Service chorale-headless', without('Service chorale-headless')),
    Mutation('headless', 'is not headless',
             put('Service chorale-headless', 'spec|clusterIP', REMOVED)),
    Mutation('headless', 'hides pods', put(
        'Service chorale-headless', 'spec|publishNotReadyAddresses', False)),
    Mutation('one_replica_without_gateway', 'no gateway', without(_GATEWAY)),
    Mutation('network_policies', 'has 0 network policies', without('NetworkPolicy chorale')),
    Mutation('network_policies', 'both directions', put(
        'NetworkPolicy chorale', 'spec|policyTypes', ['Ingress'])),
    Mutation('network_policies', "opens .'50051', 'None'.", put(
        'NetworkPolicy chorale', 'spec|ingress|1|ports|0|port', 'http')),
    Mutation('network_policies', "opens .'9902'., the container has .8443, 9902.", put(
        'NetworkPolicy chorale-gateway', 'spec|ingress|0', REMOVED)),
    Mutation('network_policies', 'a rule for everything', put(
        'NetworkPolicy chorale', 'spec|egress|1|ports', [])),
    Mutation('network_policies', 'DNS cannot be asked', put(
        'NetworkPolicy chorale', 'spec|egress|0|ports|0', REMOVED)),
    Mutation('network_policies', 'anybody may call', put(
        'NetworkPolicy chorale', 'spec|ingress|0|from', [])),
    Mutation('network_policies', 'not those of the gateway', put(
        'NetworkPolicy chorale', 'spec|ingress|0|from|0|podSelector|matchLabels', {'a': 'b'})),
    Mutation('network_policies', 'may read metrics', put(
        'NetworkPolicy chorale', 'spec|ingress|1|from', [])),
    Mutation('network_policies', 'may read envoy-metrics', put(
        'NetworkPolicy chorale-gateway', 'spec|ingress|1|from|0|namespaceSelector', {})),
    Mutation('network_policies', 'may not call the server', put(
        'NetworkPolicy chorale-gateway', 'spec|egress|0|ports|0|port', 'metrics')),
    Mutation('disruption_budgets', 'StatefulSet chorale has not one', put(
        'PodDisruptionBudget chorale', 'spec|maxUnavailable', 2)),
    Mutation('disruption_budgets', 'selects no pods', put(
        'PodDisruptionBudget chorale-gateway', 'spec|selector|matchLabels', {'app': 'envoy'})),
    Mutation('replicas_have_services', 'chorale-7, but it has no', without('Service chorale-7')),
    Mutation('replicas_have_services', 'selects another pod', put(
        'Service chorale-2', 'spec|selector|statefulset.kubernetes.io/pod-name', 'chorale-1')),
    Mutation('replicas_have_services', 'refuses a pod that drains', put(
        'Service chorale-2', 'spec|publishNotReadyAddresses', False)),
]

GATEWAY = [
    Mutation('sidecar_calls_its_server', 'the server is at 127.0.0.1:50052', put(
        _SERVER, f'{_ONLY}|args|7', '--listen_address=127.0.0.1:50052'), overlay=_IN_POD),
    Mutation('sidecar_calls_its_server', '80 connections', text(
        *_CONFIG, 'lame_duck', 'max_connections_per_peer: 70\nlame_duck'), overlay=_IN_POD),
    Mutation('listeners', 'edge is at 0.0.0.0:8444', text(*_ENVOY, '8443', '8444'),
             overlay=_IN_POD),
    Mutation('certificate', 'cert.pem is not in',
             text(*_CERTIFICATE, 'tls.crt', 'cert.pem'), overlay=_IN_POD),
    Mutation('listeners', 'admin interface can be reached',
             text(*_ENVOY, '127.0.0.1, port_value: 9901', '0.0.0.0, port_value: 9901')),
    Mutation('listeners', 'preStop does not ask', text(*_ENVOY, '9901', '9999')),
    Mutation('listeners', 'startupProbe does not ask', text(*_ENVOY, '9901', '9999')),
    Mutation('listeners', 'metrics are not asked', text(*_ENVOY, '9901', '9999')),
    Mutation('listeners', 'edge is at 0.0.0.0:8444', text(*_ENVOY, '8443', '8444')),
    Mutation('answered_probes', 'readinessProbe asks for',
             put(_GATEWAY, f'{_ONLY}|readinessProbe|httpGet|path', '/healthz')),
    Mutation('answered_probes', 'readinessProbe asks for .*HTTP\'',
             put(_GATEWAY, f'{_ONLY}|readinessProbe|httpGet|scheme', 'HTTP')),
    Mutation('starts_with_the_whole_ring', 'does not wait until',
             put(_GATEWAY, f'{_ONLY}|startupProbe|exec|command|2', 'true')),
    Mutation('starts_with_the_whole_ring', 'waits for 9 of 8',
             text(*_SERVERS, 'resources:', '# Each hostname: a place.\nresources:')),
    Mutation('answered_probes', r"answers \[\('HTTP', 'envoy-metrics', '/stats/prometheus'\)\]",
             text(*_ENVOY, 'exact: /ready', 'prefix: /ready')),
    Mutation('routes', 'about a context have no route',
             source(grpc_services={'chorale.v2.Chorale'})),
    Mutation('routes', 'no cluster anywhere',
             text(*_ENVOY, 'cluster: any_server', 'cluster: anywhere')),
    Mutation('routes', 'hashed by',
             text(*_ENVOY, 'header_name: chorale-context', 'header_name: chorale-tenant')),
    Mutation('routes', 'cut off after 15s',
             text(*_ENVOY, 'cluster: contexts\n                  timeout: 0s',
                  'cluster: contexts')),
    Mutation('routes', 'gRPC-Web', text(*_ENVOY, 'envoy.filters.http.grpc_web', 'grpc_stats')),
    Mutation('json', 'is converted for', text(*_ENVOY, '[chorale.v1.Chorale, ', '[')),
    Mutation('json', 'is not that of deploy/envoy', source(descriptors=b'')),
    Mutation('ring', 'not spread by a ring', text(*_SERVERS, 'RING_HASH', 'ROUND_ROBIN')),
    Mutation('ring', 'depends on its address',
             text(*_SERVERS, 'use_hostname_for_hashing: true', 'use_hostname_for_hashing: false')),
    Mutation('ring', 'chorale-2 has the place of chorale-1',
             text(*_SERVERS, 'hostname: chorale-2', 'hostname: chorale-1')),
    Mutation('ring', 'chorale-3 on port 50052',
             text(*_SERVERS, 'address: chorale-3, port_value: 50051',
                  'address: chorale-3, port_value: 50052')),
    Mutation('ring', 'the Services are', text(*_SERVERS, 'address: chorale-3,', 'address: x-3,')),
    Mutation('ring', '8 servers, but 5 replicas',
             put('ScaledObject chorale', 'spec|maxReplicaCount', 5)),
    Mutation('ring', '3 servers, but 4 replicas', put(_SERVER, 'spec|replicas', 4),
             overlay='cpu+edge'),
    Mutation('ring', '3072 places are not 1024 for each of 8',
             text(*_SERVERS, 'minimum_ring_size: 8192', 'minimum_ring_size: 3072')),
    Mutation('replicas_stay_on_the_ring', 'must ask for liveness',
             text(*_SERVERS, 'service_name: liveness', 'service_name: readiness')),
    Mutation('replicas_stay_on_the_ring', 'leaves the ring after 15 s',
             text(*_SERVERS, 'unhealthy_threshold: 60', 'unhealthy_threshold: 3')),
    Mutation('replicas_stay_on_the_ring', 'leaves the ring after 300 s',
             put(_SERVER, f'{_POD}|terminationGracePeriodSeconds', 250)),
    Mutation('replicas_stay_on_the_ring', 'outlier detection',
             text(*_SERVERS, '  lb_policy: RING_HASH',
                  '  outlier_detection: {consecutive_5xx: 5}\n  lb_policy: RING_HASH')),
    Mutation('replicas_stay_on_the_ring', 'panic', text(*_SERVERS, '{value: 0}', '{value: 50}')),
    Mutation('replicas_stay_on_the_ring', 'health checks take',
             text(*_SERVERS, '  lb_policy: RING_HASH',
                  '  health_checks: [{grpc_health_check: {}}]\n  lb_policy: RING_HASH'),
             overlay='gpu+edge'),
    Mutation('clusters_are_the_general_ones', 'contexts: connect_timeout differs',
             text(*_SERVERS, 'connect_timeout: 1s', 'connect_timeout: 9s')),
    Mutation('clusters_are_the_general_ones', 'other: name differs',
             source(envoy_servers={'resources': [{'name': 'other'}]})),
    Mutation('any_server_is_ready', 'not ready',
             text(*_SERVERS, '{service_name: readiness}', '{}')),
    Mutation('certificate', 'needs h2', text(*_ENVOY, '[h2, http/1.1]', '[http/1.1]')),
    Mutation('certificate', 'has the secret edge',
             text(*_CERTIFICATE, 'name: certificate', 'name: edge')),
    Mutation('certificate', 'cert.pem is not in', text(*_CERTIFICATE, 'tls.crt', 'cert.pem')),
    Mutation('certificate', 'not noticed',
             text(*_CERTIFICATE, 'path: /etc/envoy-tls', 'path: /etc/envoy')),
    Mutation('heap', 'is killed at',
             put(_GATEWAY, f'{_ONLY}|resources|limits|memory', '1Gi')),
]

MONITORING = [
    Mutation('scraped_ports', '0 Services have a port http', put(
        'ServiceMonitor chorale', 'spec|endpoints|0|port', 'http')),
    Mutation('scraped_ports', '2 Services have a port metrics', put(
        'Service chorale', 'spec|ports|0|name', 'metrics')),
    Mutation('scraped_ports', 'names the jobs',
             put('ServiceMonitor chorale', 'spec|jobLabel', REMOVED)),
    Mutation('alerts', 'make_prometheusrule.sh', put(
        'PrometheusRule chorale', 'spec|groups|0|rules|0|expr', 'vector(1)')),
    Mutation('alerts', 'make_prometheusrule.sh', source(rule_groups=[])),
    Mutation('dashboards', 'list them', source(dashboards={'other.json': '{}'})),
    Mutation('dashboards', 'the label that Grafana looks for', put(
        'ConfigMap chorale-dashboard-service', 'metadata|labels|grafana_dashboard', REMOVED)),
    Mutation('dashboards', 'larger than', put(
        'ConfigMap chorale-dashboard-service', 'data|large.json', 'x' * 2**20)),
    Mutation('autoscaler', "'name': 'chorus'", put(
        'ScaledObject chorale', 'spec|scaleTargetRef|name', 'chorus')),
    Mutation('autoscaler', 'set replicas back', put(_SERVER, 'spec|replicas', 3)),
    Mutation('autoscaler', '3 to 9 replicas',
             put('ScaledObject chorale', 'spec|maxReplicaCount', 9)),
    Mutation('autoscaler', 'takes replicas away', put(
        'ScaledObject chorale', f'{_BEHAVIOR}|scaleDown|selectPolicy', 'Max')),
    Mutation('autoscaler', 'short peak', put(
        'ScaledObject chorale', f'{_BEHAVIOR}|scaleUp|stabilizationWindowSeconds', 0)),
    Mutation('autoscaler', 'no metric chorale_backlog$', put(
        'ScaledObject chorale', 'spec|triggers|0|metadata|query',
        'sum(chorale_backlog{namespace="chorale"})')),
    Mutation('autoscaler', 'asks for no metric', put(
        'ScaledObject chorale', 'spec|triggers|0|metadata|query', 'vector(1)')),
    Mutation('autoscaler', 'namespace "default"', put(
        'ScaledObject chorale', 'spec|triggers|0|metadata|query',
        'sum(chorale_backlog_seconds{namespace="default"})')),
]

MUTATIONS = PODS + OBJECTS + NETWORK + GATEWAY + MONITORING
