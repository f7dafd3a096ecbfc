"""Checks of single objects: schemas, labels, namespaces, images."""

from __future__ import annotations

import functools
import json
import re
from typing import Any, Iterator

import kubernetes_validate

from manifests.objects import Build, Object, name_of, pods_of_all
from manifests.sources import Sources

# The oldest release that is supported, and the newest that there are schemas for.
KUBERNETES_RELEASES = ('1.32', '1.37')
_DURATION = re.compile(r'([0-9]+(ms|s|m|h|d|w|y))+')
_LABELS = ('app.kubernetes.io/name', 'app.kubernetes.io/component', 'app.kubernetes.io/part-of')
# Kinds of operators: for each, the fields of its spec, those that must be there first.
_CUSTOM = {
    ('monitoring.coreos.com/v1', 'ServiceMonitor'):
        (('endpoints', 'selector'), ('jobLabel', 'namespaceSelector', 'podTargetLabels',
                                     'targetLabels', 'sampleLimit')),
    ('monitoring.coreos.com/v1', 'PrometheusRule'): (('groups',), ()),
    ('keda.sh/v1alpha1', 'ScaledObject'):
        (('scaleTargetRef', 'triggers'), ('advanced', 'pollingInterval', 'minReplicaCount',
                                          'maxReplicaCount', 'cooldownPeriod', 'fallback')),
}


@functools.cache
def _schema_error(text: str, release: str) -> str:
    try:
        kubernetes_validate.validate(json.loads(text), release, strict=True)
    except kubernetes_validate.ValidationError as error:
        return f'{".".join(map(str, error.path))}: {error.message}'
    except kubernetes_validate.SchemaNotFoundError as error:
        return error.message
    return ''


def _schema_errors(thing: Object) -> Iterator[str]:
    for release in KUBERNETES_RELEASES:
        if error := _schema_error(json.dumps(thing, sort_keys=True), release):
            yield f'{name_of(thing)}, Kubernetes {release}: {error}'


def schemas(build: Build, _: Sources) -> Iterator[str]:
    for thing in build.objects:
        if (thing['apiVersion'], thing['kind']) in _CUSTOM:
            yield from _custom_errors(thing)
        else:
            yield from _schema_errors(thing)


def _custom_errors(thing: Object) -> Iterator[str]:
    name, spec = name_of(thing), thing['spec']
    required, others = _CUSTOM[thing['apiVersion'], thing['kind']]
    yield from (f'{name}: spec.{field} is missing' for field in required if not spec.get(field))
    yield from (f'{name}: there is no field spec.{field}'
                for field in sorted(spec.keys() - {*required, *others}))
    if thing['kind'] == 'ServiceMonitor':
        yield from _service_monitor_errors(thing)
    elif thing['kind'] == 'PrometheusRule':
        yield from _rule_errors(thing)
    else:
        yield from _scaled_object_errors(thing)


def _durations(name: str, fields: dict[str, Any], *which: str) -> Iterator[str]:
    for field in which:
        if field in fields and not _DURATION.fullmatch(str(fields[field])):
            yield f'{name}: {field} "{fields[field]}" is not a duration'


def _service_monitor_errors(thing: Object) -> Iterator[str]:
    name = name_of(thing)
    if not thing['spec'].get('selector', {}).get('matchLabels'):
        yield f'{name} selects every Service'
    for endpoint in thing['spec'].get('endpoints', []):
        unknown = endpoint.keys() - {'port', 'path', 'interval', 'scrapeTimeout', 'scheme',
                                     'honorLabels', 'relabelings', 'metricRelabelings'}
        yield from (f'{name}: an endpoint has no field {field}' for field in sorted(unknown))
        if not isinstance(endpoint.get('port'), str):
            yield f'{name}: port must be the name of a port of a Service'
        yield from _durations(name, endpoint, 'interval', 'scrapeTimeout')


def _rule_errors(thing: Object) -> Iterator[str]:
    for group in thing['spec'].get('groups') or []:
        name = f'{name_of(thing)}, group {group.get("name")}'
        if not group.get('name') or not group.get('rules'):
            yield f'{name}: name or rules are missing'
        yield from _durations(name, group, 'interval')
        for rule in group.get('rules', []):
            unknown = rule.keys() - {'alert', 'record', 'expr', 'for', 'keep_firing_for', 'labels',
                                     'annotations'}
            yield from (f'{name}: a rule has no field {field}' for field in sorted(unknown))
            if ('alert' in rule) == ('record' in rule) or not rule.get('expr'):
                yield f'{name}: a rule is an alert or a record, with an expr'
            yield from _durations(name, rule, 'for', 'keep_firing_for')


def _scaled_object_errors(thing: Object) -> Iterator[str]:
    name, spec = name_of(thing), thing['spec']
    if 'name' not in spec.get('scaleTargetRef', {}):
        yield f'{name}: scaleTargetRef has no name'
    for trigger in spec.get('triggers', []):
        metadata = trigger.get('metadata', {})
        if trigger.get('type') != 'prometheus':
            yield f'{name}: a trigger is not of the type prometheus'
        yield from (f'{name}: a trigger has no {field}'
                    for field in ('serverAddress', 'query', 'threshold') if not metadata.get(field))
        yield from (f'{name}: {field} of a trigger must be text'
                    for field, value in metadata.items() if not isinstance(value, str))
    # KEDA makes a HorizontalPodAutoscaler of it, whose schema is known.
    scaler = {'apiVersion': 'autoscaling/v2', 'kind': 'HorizontalPodAutoscaler',
              'metadata': {'name': thing['metadata']['name']},
              'spec': {'scaleTargetRef': {'kind': 'StatefulSet', **spec.get('scaleTargetRef', {})},
                       'minReplicas': spec.get('minReplicaCount'),
                       'maxReplicas': spec.get('maxReplicaCount'),
                       **spec.get('advanced', {}).get('horizontalPodAutoscalerConfig', {})}}
    yield from _schema_errors(scaler)


def labels(build: Build, sources: Sources) -> Iterator[str]:
    for thing in build.objects:
        found = thing['metadata'].get('labels', {})
        yield from (f'{name_of(thing)} has no label {label}' for label in _LABELS
                    if not found.get(label))
        version = found.get('app.kubernetes.io/version', sources.version)
        if version != sources.version:
            yield f'{name_of(thing)} says version {version}, the project is {sources.version}'


def namespaces(build: Build, _: Sources) -> Iterator[str]:
    expected = build.server()['metadata'].get('namespace')
    for thing in build.objects:
        found = thing['metadata'].get('namespace')
        if not found or found != expected:
            yield f'{name_of(thing)} is in the namespace {found}, the server in {expected}'


def images(build: Build, sources: Sources) -> Iterator[str]:
    for name, _, only in pods_of_all(build):
        image, _, tag = only['image'].rpartition('/')[2].partition(':')
        if not re.fullmatch(r'v?[0-9]+\.[0-9]+\.[0-9]+(-[a-z]+)?', tag):
            yield f'{name}: the image {only["image"]} has no version'
        elif image == 'envoy' and tag != f'v{sources.envoy_version}':
            yield f'{name}: the tag is {tag}, the tests run Envoy {sources.envoy_version}'
        elif image == 'chorale' and tag not in (f'{sources.version}-cpu',
                                                f'{sources.version}-cuda'):
            yield f'{name}: the tag {tag} is not of version {sources.version}'
        elif image == 'chorale' and tag.endswith('-cuda') != (
                'nvidia.com/gpu' in only['resources']['limits']):
            yield f'{name}: the image {only["image"]} and nvidia.com/gpu do not go together'


CHECKS = (schemas, labels, namespaces, images)
