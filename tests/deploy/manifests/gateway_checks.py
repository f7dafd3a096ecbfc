"""Checks of Envoy, as a gateway and as a sidecar: its configuration against the objects around
it."""

from __future__ import annotations

from typing import Any, Iterator

from manifests.objects import (Build, Object, container, container_ports, load_yaml, mounted_files,
                               pod, quantity, replica_services)
from manifests.settings import Settings
from manifests.sources import Sources

CONTEXT_HEADER = 'chorale-context'
JSON_PATH_HEADER = 'x-envoy-original-path'
JSON_BODY_HEADER = 'x-envoy-chorale-context'
# Places on the ring for each replica, as deploy/move_contexts.py and deploy/envoy reckon.
PLACES = 1024
# What may differ from deploy/envoy/servers.yaml.
_DISCOVERY = {'type', 'dns_lookup_family', 'load_assignment'}


class Gateway:
    """An Envoy of a build, with its configuration taken apart."""

    def __init__(self, build: Build, workload: Object, envoy: Object) -> None:
        self.workload = workload
        self.container = envoy
        self.is_sidecar = workload is build.server()
        self.files = mounted_files(build, workload, envoy)
        args = envoy['args']
        self.folder = envoy['workingDir']
        self.general = self._load(args[args.index('--config-path') + 1])
        # Envoy appends its lists to those of the file, and takes its texts in their place.
        added = load_yaml(args[args.index('--config-yaml') + 1])
        own = self.general['static_resources']
        self.listeners = {listener['name']: listener for listener in
                          own['listeners'] + added['static_resources']['listeners']}
        self.clusters = {cluster['name']: cluster for cluster in
                         own.get('clusters', []) + added['static_resources']['clusters']}
        servers = added if 'dynamic_resources' in added else self.general
        self.servers = servers['dynamic_resources']['cds_config']['path_config_source']['path']
        self.clusters |= {cluster['name']: cluster
                          for cluster in self._load(self.servers)['resources']}
        self.contexts = self.clusters['contexts']

    def _load(self, path: str) -> dict[str, Any]:
        return load_yaml(self.text(path))

    def content(self, path: str) -> bytes:
        """The file that Envoy finds at a path, perhaps relative to its working folder."""
        return self.files[path if path.startswith('/') else
                          f'{self.folder}/{path.removeprefix("./")}']

    def text(self, path: str) -> str:
        return self.content(path).decode()

    def http(self, listener: str) -> dict[str, Any]:
        """The connection manager, the last of the listener's network filters."""
        (chain,) = self.listeners[listener]['filter_chains']
        return chain['filters'][-1]['typed_config']

    def routes(self, listener: str) -> list[dict[str, Any]]:
        (host,) = self.http(listener)['route_config']['virtual_hosts']
        return host['routes']

    def tls(self) -> dict[str, Any]:
        (chain,) = self.listeners['edge']['filter_chains']
        return chain['transport_socket']['typed_config']['common_tls_context']


def envoys(build: Build) -> Iterator[Gateway]:
    for workload, envoy in build.envoys():
        yield Gateway(build, workload, envoy)


def gateways(build: Build) -> Iterator[Gateway]:
    """The gateway, where there is one."""
    yield from (envoy for envoy in envoys(build) if not envoy.is_sidecar)


def _socket(thing: dict[str, Any]) -> tuple[str, int]:
    address = thing['address']['socket_address']
    return address['address'], address['port_value']


def listeners(build: Build, _: Sources) -> Iterator[str]:
    for gateway in envoys(build):
        if _socket(gateway.general['admin'])[0] != '127.0.0.1':
            yield 'the admin interface can be reached from other pods'
        (admin,) = gateway.clusters['admin']['load_assignment']['endpoints'][0]['lb_endpoints']
        if _socket(admin['endpoint']) != _socket(gateway.general['admin']):
            yield 'metrics are not asked of the admin interface'
        only = gateway.container
        for name, hook in (('preStop', only['lifecycle']['preStop']),
                           ('startupProbe', only.get('startupProbe', {}))):
            script = hook.get('exec', {}).get('command', [''])[-1]
            if '/dev/tcp/{}/{}\n'.format(*_socket(gateway.general['admin'])) not in script:
                yield f'{name} does not ask the admin interface'
        named = {port['name']: port['containerPort'] for port in only['ports']}
        for listener, port in (('edge', 'https'), ('metrics', 'envoy-metrics')):
            address, number = _socket(gateway.listeners[listener])
            if (address, number) != ('0.0.0.0', named.get(port)):
                yield f'{listener} is at {address}:{number}, the container has {named.get(port)}'


def answered_probes(build: Build, _: Sources) -> Iterator[str]:
    for gateway in envoys(build):
        checked = {header['string_match'].get('exact')
                   for named in gateway.http('edge')['http_filters']
                   for header in named['typed_config'].get('headers', [])}
        answered = {('HTTPS', 'https', path) for path in checked if path}
        answered |= {('HTTP', 'envoy-metrics', route['match']['path'])
                     for route in gateway.routes('metrics')}
        for probe in ('livenessProbe', 'readinessProbe'):
            get = gateway.container.get(probe, {}).get('httpGet', {})
            asked = (get.get('scheme', 'HTTP'), get.get('port'), get.get('path', '').split('?')[0])
            if asked not in answered:
                yield f'{probe} asks for {asked}, the gateway answers {sorted(answered)}'


def starts_with_the_whole_ring(build: Build, _: Sources) -> Iterator[str]:
    """Envoy itself is ready when it knows the first of the replicas."""
    for gateway in envoys(build):
        script = gateway.container.get('startupProbe', {}).get('exec', {}).get(
            'command', [''])[-1]
        file = gateway.servers.removeprefix('./')
        if ('contexts\\.membership_total' not in script or
                f'grep -c hostname: {file})' not in script):
            yield 'the startup probe does not wait until all replicas are on the ring'
        (locality,) = gateway.contexts['load_assignment']['endpoints']
        counted = sum('hostname:' in line for line in gateway.text(gateway.servers).splitlines())
        if counted != len(locality['lb_endpoints']):
            yield f'the startup probe waits for {counted} of {len(locality["lb_endpoints"])} replicas'


def routes(build: Build, sources: Sources) -> Iterator[str]:
    for gateway in envoys(build):
        found = gateway.routes('edge')
        hashed = set()
        for route in found:
            action = route.get('route', {})
            refused = 'cluster_not_found_response_code' in action
            if 'cluster' in action and action['cluster'] not in gateway.clusters and not refused:
                yield f'{route["match"]}: there is no cluster {action["cluster"]}'
            if action.get('cluster') != 'contexts':
                continue
            hashed.add(route['match'].get('prefix'))
            headers = [policy.get('header', {}).get('header_name')
                       for policy in action.get('hash_policy', [])]
            # A request from JSON has the id in its path, or, if it registers a table, in its body.
            matched = {header['name'] for header in route['match']['headers']}
            (expected,) = (matched & {JSON_PATH_HEADER, JSON_BODY_HEADER}) or {CONTEXT_HEADER}
            if headers != [expected]:
                yield f'{route["match"]} is hashed by {headers}, not by {expected}'
            if action.get('timeout') != '0s':
                yield f'{route["match"]} is cut off after {action.get("timeout", "15s")}'
        yield from (f'calls of {service} about a context have no route'
                    for service in sources.grpc_services if f'/{service}/' not in hashed)
        filters = [named['name'] for named in gateway.http('edge')['http_filters']]
        if 'envoy.filters.http.grpc_web' not in filters:
            yield 'the gateway does not translate gRPC-Web'


def json(build: Build, sources: Sources) -> Iterator[str]:
    """Envoy converts JSON to calls of each service, by the descriptor set of the sources."""
    for gateway in envoys(build):
        found = {named['name']: named for named in gateway.http('edge')['http_filters']}
        transcoder = found['envoy.filters.http.grpc_json_transcoder']['typed_config']
        if not sources.grpc_services <= set(transcoder['services']):
            yield f'JSON is converted for {transcoder["services"]} only'
        if gateway.content(transcoder['proto_descriptor']) != sources.descriptors:
            yield f'{transcoder["proto_descriptor"]} is not that of deploy/envoy'


def ring(build: Build, _: Sources) -> Iterator[str]:
    """Each replica that there may be has its own place, which depends on its name alone."""
    for gateway in gateways(build):
        if gateway.contexts['lb_policy'] != 'RING_HASH':
            yield 'contexts are not spread by a ring'
        hashing = gateway.contexts['common_lb_config'].get('consistent_hashing_lb_config', {})
        if hashing.get('use_hostname_for_hashing') is not True:
            yield "a replica's place depends on its address"
        services = sorted(service['metadata']['name'] for service in replica_services(build))
        for cluster in (gateway.contexts, gateway.clusters['any_server']):
            (locality,) = cluster['load_assignment']['endpoints']
            endpoints = [endpoint['endpoint'] for endpoint in locality['lb_endpoints']]
            names = sorted(_socket(endpoint)[0] for endpoint in endpoints)
            if names != services:
                yield f'{cluster["name"]} has {names}, the Services are {services}'
            if len(endpoints) != build.most_replicas():
                yield f'{len(endpoints)} servers, but {build.most_replicas()} replicas'
            for endpoint in endpoints:
                name, port = _socket(endpoint)
                if endpoint.get('hostname') != name:
                    yield f'{name} has the place of {endpoint.get("hostname")}'
                if port != container_ports(build.server())['grpc']:
                    yield f'the gateway calls {name} on port {port}'
        places = gateway.contexts['ring_hash_lb_config']['minimum_ring_size']
        if places != PLACES * build.most_replicas():
            yield f'{places} places are not {PLACES} for each of {build.most_replicas()} replicas'


def sidecar_calls_its_server(build: Build, sources: Sources) -> Iterator[str]:
    settings = Settings(build, sources)
    for envoy in envoys(build):
        for name in ('contexts', 'any_server') if envoy.is_sidecar else ():
            (locality,) = envoy.clusters[name]['load_assignment']['endpoints']
            called = ['{}:{}'.format(*_socket(endpoint['endpoint']))
                      for endpoint in locality['lb_endpoints']]
            if called != [settings.text('listen_address')]:
                yield f'{name} calls {called}, the server is at {settings.text("listen_address")}'
            most = sum(envoy.clusters[cluster]['circuit_breakers']['thresholds'][0][
                'max_connections'] for cluster in ('contexts', 'any_server'))
            if most >= settings.number('max_connections_per_peer'):
                yield f'{most} connections are more than the server takes of one peer'


def replicas_stay_on_the_ring(build: Build, _: Sources) -> Iterator[str]:
    """A restart takes no replica off the ring: calls would go to replicas without its contexts."""
    for gateway in gateways(build):
        if gateway.contexts.get('outlier_detection'):
            yield 'outlier detection takes replicas off the ring'
        checks = gateway.contexts.get('health_checks', [])
        if not build.all('ScaledObject'):
            if checks:
                yield 'health checks take replicas off the ring'
            continue
        # Names of replicas that do not exist are among the servers.
        if gateway.contexts['common_lb_config'].get('healthy_panic_threshold') != {'value': 0}:
            yield 'in a panic, replicas that do not exist are on the ring'
        if [check['grpc_health_check'].get('service_name') for check in checks] != ['liveness']:
            yield 'a replica that drains leaves the ring: health checks must ask for liveness'
            continue
        kept = checks[0]['unhealthy_threshold'] * float(checks[0]['interval'].removesuffix('s'))
        # From SIGTERM until the next process listens: the grace period, and a minute to be
        # scheduled and to load.
        if kept < pod(build.server())['terminationGracePeriodSeconds'] + 60:
            yield f'a replica that restarts leaves the ring after {kept:.0f} s'


def clusters_are_the_general_ones(build: Build, sources: Sources) -> Iterator[str]:
    """Apart from discovery and health checks, clusters are those of deploy/envoy/servers.yaml."""
    general = {cluster['name']: cluster for cluster in sources.envoy_servers['resources']}
    for gateway in gateways(build):
        for name, cluster in general.items():
            found = gateway.clusters.get(name, {})
            allowed = _DISCOVERY | {'health_checks', 'common_lb_config', 'ring_hash_lb_config'}
            yield from (f'{name}: {field} differs from deploy/envoy/servers.yaml'
                        for field in sorted((cluster.keys() | found.keys()) - allowed)
                        if cluster.get(field) != found.get(field))


def any_server_is_ready(build: Build, _: Sources) -> Iterator[str]:
    for gateway in gateways(build):
        services = [check.get('grpc_health_check', {}).get('service_name') for check in
                    gateway.clusters['any_server'].get('health_checks', [])]
        if services != ['readiness']:
            yield 'calls that any server can answer may go to one that is not ready'


def certificate(build: Build, _: Sources) -> Iterator[str]:
    """The files of the certificate are those of the Secret that is mounted."""
    for gateway in envoys(build):
        (source,) = gateway.tls()['tls_certificate_sds_secret_configs']
        if 'h2' not in gateway.tls()['alpn_protocols']:
            yield 'gRPC needs h2 in alpn_protocols'
        file = source['sds_config']['path_config_source']['path']
        (secret,) = load_yaml(gateway.text(file))['resources']
        if secret['name'] != source['name']:
            yield f'{file} has the secret {secret["name"]}, not {source["name"]}'
        secrets = {volume['name'] for volume in pod(gateway.workload)['volumes']
                   if 'secret' in volume}
        folders = {mount['mountPath'] for mount in gateway.container['volumeMounts']
                   if mount['name'] in secrets}
        for field, key in (('certificate_chain', 'tls.crt'), ('private_key', 'tls.key')):
            path = secret['tls_certificate'][field]['filename']
            if path not in {f'{folder}/{key}' for folder in folders}:
                yield f'{field}: {path} is not in the Secret'
        if secret['tls_certificate'].get('watched_directory', {}).get('path') not in folders:
            yield 'a renewed certificate is not noticed'


def heap(build: Build, _: Sources) -> Iterator[str]:
    for gateway in envoys(build):
        monitors = gateway.general['overload_manager']['resource_monitors']
        (size,) = [monitor['typed_config']['max_heap_size_bytes'] for monitor in monitors
                   if monitor['name'] == 'envoy.resource_monitors.fixed_heap']
        limit = quantity(gateway.container['resources']['limits']['memory'])
        if size > 0.8 * limit:
            yield f'the gateway is killed at {limit:.0f} bytes; it turns calls away at {size}'


CHECKS = (listeners, answered_probes, starts_with_the_whole_ring, routes, json, ring,
          sidecar_calls_its_server, replicas_stay_on_the_ring, clusters_are_the_general_ones,
          any_server_is_ready, certificate, heap)
