"""A server's /metrics without a server: all metrics, with values that move plausibly."""

from __future__ import annotations

import dataclasses
import http.server
import itertools
import math
import threading
import time
from collections.abc import Iterator, Mapping, Sequence

METHODS = ['RegisterContext', 'CreateContext', 'AppendRows', 'GetContext', 'ListContexts',
           'DeleteContext', 'WarmContext', 'Predict', 'Sample', 'LogDensity', 'GetModel',
           'ListModels', 'GetServerInfo']
CODES = ['OK', 'CANCELLED', 'UNKNOWN', 'INVALID_ARGUMENT', 'DEADLINE_EXCEEDED', 'NOT_FOUND',
         'RESOURCE_EXHAUSTED', 'INTERNAL', 'UNAVAILABLE', 'DATA_LOSS']
MODELS = ['default', 'large']
TENANTS = ['anna', 'bo', 'carl', 'other']
QUOTAS = ['max_contexts', 'max_values_per_second']
BOUNDS = [1e-5, 1e-4, 0.001, 0.01, 0.1, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300]


@dataclasses.dataclass(frozen=True)
class Metric:
    """`level` is the value of a gauge, the increase per second of a counter, and the usual
    observation of a histogram."""
    name: str
    kind: str
    level: float
    labels: Mapping[str, Sequence[str]] = dataclasses.field(default_factory=dict)


def _gauge(name: str, level: float, **labels: Sequence[str]) -> Metric:
    return Metric(name, 'gauge', level, labels)


def _counter(name: str, level: float, **labels: Sequence[str]) -> Metric:
    return Metric(name, 'counter', level, labels)


def _histogram(name: str, level: float, **labels: Sequence[str]) -> Metric:
    return Metric(name, 'histogram', level, labels)


METRICS = [
    _counter('chorale_requests_total', 20, method=METHODS, code=CODES),
    _counter('chorale_quota_refusals_total', 0.1, method=METHODS),
    _histogram('chorale_request_duration_seconds', 0.2, method=METHODS),
    _gauge('chorale_inflight_requests', 3, method=METHODS),
    _counter('chorale_rejected_total', 0.01, reason=['queue_full', 'queue_timeout', 'backlog',
                                                     'draining', 'backend_failed',
                                                     'registration_memory', 'blocking_queue_full',
                                                     'reply_memory', 'other']),
    _gauge('chorale_connections', 12), _gauge('chorale_max_connections', 4096),
    _counter('chorale_connections_refused_total', 0.001, reason=['max_connections',
                                                                 'max_connections_per_peer',
                                                                 'no_file_descriptor']),
    _counter('chorale_connections_ended_total', 0.001, reason=['memory', 'flood']),
    _gauge('chorale_memory_limit_bytes', 8e9),
    _gauge('chorale_memory_bytes', 3e8, part=['allocator_used', 'allocator_free', 'registering']),
    _gauge('chorale_streams_live', 4),
    _counter('chorale_stalled_streams_total', 0.002),
    _gauge('chorale_backlog_seconds', 6), _gauge('chorale_backlog_values', 60000),
    _histogram('chorale_queue_seconds', 0.01),
    _gauge('chorale_waiting_clients', 2), _gauge('chorale_largest_client_share', 0.4),
    _gauge('chorale_sessions', 5, state=['running', 'queued']),
    _counter('chorale_values_total', 8000, method=['Sample', 'LogDensity', 'Predict'],
             model=MODELS),
    _counter('chorale_encoded_rows_total', 700, model=MODELS),
    _counter('chorale_memory_set_keys_total', 20, policy=['merge', 'heavy', 'sample']),
    _counter('chorale_appends_total', 0.5), _counter('chorale_appended_rows_total', 8),
    _counter('chorale_encodings_anew_total', 0.01, outcome=['replaced', 'changed', 'failed']),
    _counter('chorale_flops_total', 3e10, work=['encode', 'rows', 'decode', 'density', 'predict']),
    _histogram('chorale_time_to_first_step_seconds', 0.3),
    _histogram('chorale_step_seconds', 0.003), _histogram('chorale_tick_seconds', 0.02),
    _histogram('chorale_tick_slices', 3),
    _gauge('chorale_last_tick_age_seconds', 0.02),
    _gauge('chorale_summary_queue', 2), _histogram('chorale_summary_seconds', 0.005),
    _gauge('chorale_contexts', 6, state=['waiting', 'reading', 'encoding', 'resident', 'saving',
                                         'saved', 'restoring']),
    _counter('chorale_context_lookups_total', 5, result=['hit', 'host_hit', 'disk_hit', 'miss']),
    _counter('chorale_evictions_total', 0.1, reason=['saved_to_host', 'dropped', 'host_pool_full',
                                                     'model_unloaded']),
    _histogram('chorale_encode_seconds', 0.8), _histogram('chorale_restore_seconds', 0.02),
    _gauge('chorale_registered_contexts', 40), _gauge('chorale_dataset_bytes', 9e6),
    _gauge('chorale_data_disk_free_bytes', 5e10), _gauge('chorale_data_disk_full', 0),
    _gauge('chorale_pool_bytes', 4e9, pool=['context', 'buffer', 'encode', 'host_context',
                                            'registration', 'kept_tables']),
    _gauge('chorale_pool_used_bytes', 1e9, pool=['context', 'buffer', 'encode', 'host_context',
                                                 'registration', 'kept_tables'],
           part=['pinned', 'unpinned']),
    _gauge('chorale_gpu_memory_bytes', 8e9, part=['context_pool', 'buffer_pool', 'encode_pool',
                                                  'weights', 'workspace', 'other']),
    _counter('process_cpu_seconds_total', 1.6), _gauge('process_resident_memory_bytes', 2e9),
    _gauge('process_virtual_memory_bytes', 8e9), _gauge('process_open_fds', 90),
    _gauge('process_max_fds', 65536), _gauge('process_start_time_seconds', 0),
    _gauge('process_threads', 24),
    _gauge('chorale_draining', 0), _gauge('chorale_ready', 1),
    _counter('chorale_log_lines_dropped_total', 0), _counter('chorale_spans_dropped_total', 0),
    _counter('chorale_config_reloads_total', 0, result=['ok', 'error']),
    _gauge('chorale_config_last_reload_successful', 1),
    _gauge('chorale_tls_certificate_expiry_seconds', 4e9),
    _gauge('chorale_build_info', 1, version=['0.1.0'], commit=['f4d3b57']),
    _gauge('chorale_backend_info', 1, backend=['cuda'], device=['NVIDIA H200'], threads=['16']),
    _gauge('chorale_model_info', 1, model=['default'], digest=['8a1f'], default=['true']),
    _gauge('chorale_model_skipped', 0, model=['large']),
    _counter('chorale_tenant_requests_total', 6, tenant=TENANTS, method=METHODS),
    _counter('chorale_tenant_values_total', 5000, tenant=TENANTS),
    _counter('chorale_tenant_engine_seconds_total', 0.2, tenant=TENANTS),
    _gauge('chorale_tenant_inflight_requests', 2, tenant=TENANTS),
    _counter('chorale_tenant_quota_refusals_total', 0.1, tenant=TENANTS, quota=QUOTAS),
]
NAMES = {metric.name for metric in METRICS}
# Of Envoy in front of the servers: those that the dashboards and rules use.
EDGE_METRICS = [
    _gauge('envoy_http_downstream_cx_active', 40, envoy_http_conn_manager_prefix=['edge']),
    _gauge('envoy_http_downstream_rq_active', 9, envoy_http_conn_manager_prefix=['edge']),
    _counter('envoy_http_local_rate_limit_rate_limited', 0.1),
    _counter('envoy_local_rate_limit_rate_limited', 0.1),
    _counter('envoy_listener_downstream_cx_overload_reject', 0.01),
    _gauge('envoy_overload_envoy_overload_actions_stop_accepting_requests_active', 0),
    _gauge('envoy_overload_envoy_resource_monitors_global_downstream_max_connections_pressure', 3),
    _gauge('envoy_server_days_until_first_cert_expiring', 60),
    _counter('envoy_cluster_manager_cds_update_rejected', 0),
    _counter('envoy_cluster_manager_cds_update_failure', 0),
    _counter('envoy_sds_update_rejected', 0),
    _counter('envoy_sds_key_rotation_failed', 0),
]
EDGE_NAMES = {metric.name for metric in EDGE_METRICS}
# As they are, without a wave on top.
_STEADY = ('_info', '_ready', '_draining', '_pool_bytes', '_max_fds', '_start_time_seconds')


def _label_sets(labels: Mapping[str, Sequence[str]]) -> Iterator[dict[str, str]]:
    for values in itertools.product(*labels.values()):
        yield dict(zip(labels, values))


def _text(labels: Mapping[str, str]) -> str:
    return '{' + ','.join(f'{key}="{value}"' for key, value in labels.items()) + '}'


def _weight(labels: Mapping[str, str]) -> float:
    """Series of one metric differ; failures are rare."""
    weight = 1.0 / (1 + sum(map(ord, ''.join(labels.values()))) % 7)
    return weight * {'OK': 1.0}.get(labels.get('code', 'OK'), 0.0004)


class Values:
    """`metrics` at the time since this was made, but for those whose names are in `without`."""

    def __init__(self, metrics: Sequence[Metric] = tuple(METRICS),
                 without: Sequence[str] = ()) -> None:
        self._start = time.time()
        self._metrics = [metric for metric in metrics if metric.name not in without]

    def text(self) -> str:
        age = time.time() - self._start
        lines: list[str] = []
        for metric in self._metrics:
            lines.append(f'# TYPE {metric.name} {metric.kind}')
            for labels in _label_sets(metric.labels):
                lines += self._series(metric, labels, age)
        return '\n'.join(lines) + '\n'

    def _series(self, metric: Metric, labels: dict[str, str], age: float) -> Iterator[str]:
        weight = _weight(labels)
        wave = 1 + 0.4 * math.sin(age / 20 + 9 * weight)
        total = age - 8 * (math.cos(age / 20 + 9 * weight) - math.cos(9 * weight))
        if metric.kind == 'counter':
            yield f'{metric.name}{_text(labels)} {metric.level * weight * total:.6g}'
        elif metric.name == 'process_start_time_seconds':
            yield f'{metric.name} {self._start:.3f}'
        elif metric.kind == 'gauge':
            steady = metric.name.endswith(_STEADY)
            yield f'{metric.name}{_text(labels)} {metric.level * (1 if steady else weight * wave)}'
        else:
            yield from self._histogram(metric, labels, 10 * total)

    def _histogram(self, metric: Metric, labels: dict[str, str], count: float) -> Iterator[str]:
        usual = metric.level * (0.5 + _weight(labels))
        for bound in [*BOUNDS, math.inf]:
            below = 1 - math.exp(-(bound / usual) ** 0.8)
            le = '+Inf' if math.isinf(bound) else f'{bound:g}'
            yield f'{metric.name}_bucket{_text(labels | {"le": le})} {count * below:.6g}'
        yield f'{metric.name}_sum{_text(labels)} {count * usual * 1.13:.6g}'
        yield f'{metric.name}_count{_text(labels)} {count:.6g}'


class FakeExporter:
    """Serves them on a free port until it is closed."""

    def __init__(self, metrics: Sequence[Metric] = tuple(METRICS),
                 without: Sequence[str] = ()) -> None:
        values = Values(metrics, without)

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self) -> None:  # pylint: disable=invalid-name
                body = values.text().encode()
                self.send_response(200)
                self.send_header('Content-Type', 'text/plain; version=0.0.4')
                self.send_header('Content-Length', str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                pass

        self._server = http.server.ThreadingHTTPServer(('127.0.0.1', 0), Handler)
        self.port = self._server.server_address[1]
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
