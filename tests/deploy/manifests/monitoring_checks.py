"""Checks of metrics, alerts, dashboards and of the autoscaler that lives on them."""

from __future__ import annotations

import json
import re
from typing import Iterator

from manifests.objects import Build, matches, name_of, replica_services
from manifests.sources import Sources

_LARGEST_CONFIG_MAP = 1 << 20


def scraped_ports(build: Build, _: Sources) -> Iterator[str]:
    for monitor in build.all('ServiceMonitor'):
        selected = [service for service in build.all('Service') if matches(
            monitor['spec']['selector']['matchLabels'], service['metadata']['labels'])]
        named = [port['name'] for service in selected for port in service['spec']['ports']]
        for endpoint in monitor['spec']['endpoints']:
            # That of Envoy finds nothing where there is none.
            if not build.envoys() and endpoint['port'].startswith('envoy-'):
                continue
            if named.count(endpoint['port']) != 1:
                yield (f'{name_of(monitor)}: {named.count(endpoint["port"])} Services have a port '
                       f'{endpoint["port"]}')
        jobs = {service['metadata']['labels'].get(monitor['spec'].get('jobLabel'))
                for service in selected}
        if not jobs <= {'chorale', 'chorale-gateway'}:
            yield f'{name_of(monitor)} names the jobs {jobs}'


def alerts(build: Build, sources: Sources) -> Iterator[str]:
    for rule in build.all('PrometheusRule'):
        if rule['spec']['groups'] != sources.rule_groups:
            yield (f'{name_of(rule)} differs from deploy/prometheus/rules.yml: run '
                   'deploy/kubernetes/components/monitoring/make_prometheusrule.sh')


def dashboards(build: Build, sources: Sources) -> Iterator[str]:
    """Each dashboard of deploy/grafana is in one ConfigMap with the label of Grafana's sidecar."""
    maps = [thing for thing in build.all('ConfigMap')
            if thing['metadata']['labels'].get('app.kubernetes.io/component') == 'dashboards']
    found: dict[str, str] = {}
    for thing in maps:
        if thing['metadata']['labels'].get('grafana_dashboard') != '1':
            yield f'{name_of(thing)} has not the label that Grafana looks for'
        if len(json.dumps(thing)) > _LARGEST_CONFIG_MAP:
            yield f'{name_of(thing)} is larger than a ConfigMap may be'
        found |= thing['data']
    if build.all('ServiceMonitor') and found != sources.dashboards:
        yield (f'the ConfigMaps have {sorted(found)}, or other texts; deploy/grafana has '
               f'{sorted(sources.dashboards)}: list them in its kustomization.yaml')


def autoscaler(build: Build, sources: Sources) -> Iterator[str]:
    for scaler in build.all('ScaledObject'):
        spec, name = scaler['spec'], name_of(scaler)
        reference = spec['scaleTargetRef']
        target = build.find(reference.get('kind', 'Deployment'), reference['name'])
        if target is None or target['apiVersion'] != reference.get('apiVersion', 'apps/v1'):
            yield f'{name}: there is no {reference}'
            continue
        if 'replicas' in target['spec']:
            yield f'{name}: each kubectl apply would set replicas back'
        if not spec['minReplicaCount'] < spec['maxReplicaCount'] <= len(replica_services(build)):
            yield (f'{name}: {spec["minReplicaCount"]} to {spec["maxReplicaCount"]} replicas, but '
                   f'the gateway knows {len(replica_services(build))}')
        behavior = spec['advanced']['horizontalPodAutoscalerConfig']['behavior']
        if behavior.get('scaleDown', {}).get('selectPolicy') != 'Disabled':
            yield f'{name} takes replicas away, and contexts with them'
        if behavior.get('scaleUp', {}).get('stabilizationWindowSeconds', 0) < 120:
            yield f'{name} adds a replica for a short peak'
        for trigger in spec['triggers']:
            yield from _query_errors(name, trigger['metadata']['query'], build, sources)


def _query_errors(name: str, query: str, build: Build, sources: Sources) -> Iterator[str]:
    metrics = re.findall(r'\b(\w+)\{', query)
    if not metrics:
        yield f'{name}: "{query}" asks for no metric with labels'
    yield from (f'{name}: the server has no metric {metric}' for metric in metrics
                if metric not in sources.metrics)
    for namespace in re.findall(r'namespace="([^"]*)"', query) or ['']:
        if namespace != build.server()['metadata']['namespace']:
            yield f'{name} asks for the metrics of the namespace "{namespace}"'


CHECKS = (scraped_ports, alerts, dashboards, autoscaler)
