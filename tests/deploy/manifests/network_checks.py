"""Checks of what lies between pods: ports, Services, network policies, disruption budgets."""

from __future__ import annotations

from typing import Iterator

from manifests.objects import (Build, Object, container_ports, matches, name_of, pod_labels,
                               replica_services, sidecars)
from manifests.settings import Settings
from manifests.sources import Sources

_CLIENT = 'chorale-client'


def ports(build: Build, sources: Sources) -> Iterator[str]:
    """The container's ports are those that the server listens on, and not on loopback, unless only
    a sidecar is to call it."""
    settings = Settings(build, sources)
    given = container_ports(build.server())
    listens = {'grpc': 'listen_address', 'metrics': 'metrics_address'}
    if sidecars(build.server()):
        del listens['grpc']
        if 'grpc' in given or not settings.is_on_loopback():
            yield 'the server can be reached beside its sidecar'
    for name, flag in listens.items():
        if given.get(name) != settings.port(flag):
            yield f'the port {name} is {given.get(name)}, but --{flag}={settings.text(flag)}'
        if settings.text(flag).rsplit(':', 1)[0] not in ('0.0.0.0', '[::]'):
            yield f'--{flag}={settings.text(flag)} cannot be reached from other pods'


def encryption(build: Build, sources: Sources) -> Iterator[str]:
    """The server starts: it encrypts, or is told that something in front of it does."""
    settings = Settings(build, sources)
    tls = bool(settings.text('tls_certificate') and settings.text('tls_key'))
    insecure = settings.text('insecure').lower() == 'true'
    if tls == insecure:
        yield ('the server needs either tls_certificate and tls_key, or insecure: '
               f'{settings.text("tls_certificate") or "no certificate"}, insecure={insecure}')


def services(build: Build, _: Sources) -> Iterator[str]:
    for service in build.all('Service'):
        name = name_of(service)
        selected = build.selected(service['spec']['selector'])
        if len(selected) != 1:
            yield f'{name} selects the pods of {len(selected)} workloads'
            continue
        named = container_ports(selected[0])
        for port in service['spec']['ports']:
            if port['targetPort'] not in named:
                yield f'{name}: {port["targetPort"]} is not a port of {name_of(selected[0])}'


def headless(build: Build, _: Sources) -> Iterator[str]:
    name = build.server()['spec']['serviceName']
    service = build.find('Service', name)
    if service is None:
        yield f'serviceName: there is no Service {name}'
    elif service['spec'].get('clusterIP') != 'None':
        yield f'serviceName: {name} is not headless'
    elif service['spec'].get('publishNotReadyAddresses') is not True:
        yield f'{name} hides pods that are not ready from Prometheus'


def one_replica_without_gateway(build: Build, _: Sources) -> Iterator[str]:
    if build.gateway() is None and build.most_replicas() > 1:
        yield 'several replicas, but no gateway that finds the one with a context'


def _port(port: str | int, workload: Object) -> int | None:
    return port if isinstance(port, int) else container_ports(workload).get(port)


def network_policies(build: Build, _: Sources) -> Iterator[str]:
    for workload in build.workloads():
        name = name_of(workload)
        policies = [policy for policy in build.all('NetworkPolicy')
                    if matches(policy['spec']['podSelector'].get('matchLabels', {}),
                               pod_labels(workload))]
        if len(policies) != 1:
            yield f'{name} has {len(policies)} network policies'
            continue
        spec = policies[0]['spec']
        if sorted(spec.get('policyTypes', [])) != ['Egress', 'Ingress']:
            yield f'{name_of(policies[0])} does not restrict both directions'
        opened = {_port(port['port'], workload) for rule in spec.get('ingress', [])
                  for port in rule.get('ports', [{'port': 0}])}
        if opened != set(container_ports(workload).values()):
            yield (f'{name_of(policies[0])} opens {sorted(map(str, opened))}, the container has '
                   f'{sorted(container_ports(workload).values())}')
        yield from (f'{name_of(policies[0])}: a rule for everything' for rule in
                    spec.get('ingress', []) + spec.get('egress', []) if not rule.get('ports'))
        yield from _name_resolution(policies[0])
    yield from _callers(build)


def _name_resolution(policy: Object) -> Iterator[str]:
    opened = {(port['protocol'], port['port']) for rule in policy['spec'].get('egress', [])
              for port in rule.get('ports', [])}
    if not {('UDP', 53), ('TCP', 53)} <= opened:
        yield f'{name_of(policy)}: DNS cannot be asked'


def _rules_of_port(build: Build, policy: str, port: str) -> list[Object]:
    found = build.find('NetworkPolicy', policy)
    if found is None:
        return []
    return [rule for rule in found['spec']['ingress']
            if any(open_port['port'] == port for open_port in rule.get('ports', []))]


def _callers(build: Build) -> Iterator[str]:
    """Who may call: the gateway and labelled clients; who may read metrics: Prometheus."""
    for rule in _rules_of_port(build, 'chorale', 'grpc'):
        if not rule.get('from'):
            yield 'anybody may call the server'
        for peer in rule.get('from', []):
            wanted = peer.get('podSelector', {}).get('matchLabels', {})
            gateway = build.gateway()
            if _CLIENT in wanted:
                continue
            if gateway is not None and not matches(wanted, pod_labels(gateway)):
                yield f'pods with {wanted} may call, which are not those of the gateway'
    for policy, port in (('chorale', 'metrics'), ('chorale', 'envoy-metrics'),
                         ('chorale-gateway', 'envoy-metrics')):
        for rule in _rules_of_port(build, policy, port):
            sources = [peer.get('namespaceSelector', {}).get('matchLabels')
                       for peer in rule.get('from', [])]
            if sources != [{'kubernetes.io/metadata.name': 'monitoring'}]:
                yield f'not only Prometheus may read {port}'
    gateway_policy = build.find('NetworkPolicy', 'chorale-gateway')
    if gateway_policy is not None:
        reached = [_port(port['port'], build.server())
                   for rule in gateway_policy['spec']['egress'] for peer in rule['to']
                   if 'namespaceSelector' not in peer and 'podSelector' in peer
                   and matches(peer['podSelector']['matchLabels'], pod_labels(build.server()))
                   for port in rule['ports']]
        if reached != [container_ports(build.server())['grpc']]:
            yield 'the gateway may not call the server'


def disruption_budgets(build: Build, _: Sources) -> Iterator[str]:
    for workload in build.workloads():
        budgets = [budget for budget in build.all('PodDisruptionBudget')
                   if matches(budget['spec']['selector']['matchLabels'], pod_labels(workload))]
        if len(budgets) != 1 or budgets[0]['spec'].get('maxUnavailable') != 1:
            yield f'{name_of(workload)} has not one disruption budget that lets one pod go'
    for budget in build.all('PodDisruptionBudget'):
        if not build.selected(budget['spec']['selector']['matchLabels']):
            yield f'{name_of(budget)} selects no pods'


def replicas_have_services(build: Build, _: Sources) -> Iterator[str]:
    """Behind a gateway every replica that there may be has a Service, and its name is the pod's."""
    if build.gateway() is None:
        return
    names = {service['metadata']['name']: service for service in replica_services(build)}
    for index in range(build.most_replicas()):
        if f'chorale-{index}' not in names:
            yield f'there may be a pod chorale-{index}, but it has no Service'
    for name, service in names.items():
        if service['spec']['selector']['statefulset.kubernetes.io/pod-name'] != name:
            yield f'Service {name} selects another pod'
        if service['spec'].get('publishNotReadyAddresses') is not True:
            yield f'Service {name} refuses a pod that drains'


CHECKS = (ports, encryption, services, headless, one_replica_without_gateway, network_policies,
          disruption_budgets, replicas_have_services)
