#!/usr/bin/env python3
"""Writes the dashboards beside this script. They are made here alone: change this file, run it, and
commit what it writes.

Usage: make_dashboards.py [FOLDER]
"""

from __future__ import annotations

import json
import pathlib
import sys

from panels import (GREEN, RED, YELLOW, Json, Panel, Query, Row, by_name, dashboard, label_values,
                    limit_line, stat, table, timeseries)

SCOPE = 'job=~"$job",instance=~"$instance"'
METHODS = f'{SCOPE},method=~"$method"'
MODELS = f'{SCOPE},model=~"$model"'
TENANTS = f'{SCOPE},tenant=~"$tenant"'
# Codes that count against the objective, as in deploy/prometheus/rules.yml.
FAILURES = 'UNKNOWN|DEADLINE_EXCEEDED|RESOURCE_EXHAUSTED|INTERNAL|UNAVAILABLE|DATA_LOSS'


def rate(metric: str, scope: str = SCOPE) -> str:
    return f'rate({metric}{{{scope}}}[$__rate_interval])'


def quantile(q: float, histogram: str, by: str = '', scope: str = SCOPE) -> str:
    labels = f'le, {by}' if by else 'le'
    return f'histogram_quantile({q}, sum by ({labels}) ({rate(histogram + "_bucket", scope)}))'


def quantiles(histogram: str, *which: float) -> list[Query]:
    return [Query(quantile(q, histogram), f'p{q * 100:g}') for q in which]


def share(part: str, whole: str) -> str:
    return f'{part} / {whole}'


# ---- Service --------------------------------------------------------------------------------

FAILED_CALLS = (rate('chorale_requests_total', f'{METHODS},code=~"{FAILURES}"') +
                ' or -' + rate('chorale_quota_refusals_total', METHODS))
CALLS = rate('chorale_requests_total', METHODS)

SERVICE_OVERVIEW = [
    stat('Replicas', 'Replicas that admit calls, and all that Prometheus knows.',
         [Query(f'sum(chorale_ready{{{SCOPE}}})', 'ready'),
          Query(f'count(up{{{SCOPE}}})', 'known')], 'none', base=RED,
         thresholds=[(1, GREEN)], alerts=['ChoraleNoneReady', 'ChoraleNotReady', 'ChoraleDown']),
    stat('Calls', 'Finished calls a second.',
         [Query(f'sum({CALLS})')], 'reqps'),
    stat('Failed calls', 'Share of calls that failed for a reason of the server\'s. The objective '
         'allows 0.1 % over 30 days.',
         [Query(share(f'sum({FAILED_CALLS})', f'sum({CALLS})'))], 'percentunit', decimals=2,
         thresholds=[(0.001, YELLOW), (0.0144, RED)], alerts=['ChoraleErrorBudgetBurnsFast']),
    stat('First values, p99', 'Of a hundred Sample calls, 99 have their first values within this '
         'time. The objective is 5 s.',
         [Query(quantile(0.99, 'chorale_time_to_first_step_seconds'))], 's',
         thresholds=[(2.5, YELLOW), (5, RED)], alerts=['ChoraleFirstValuesSlow']),
    stat('Backlog', 'Time that accepted work will take at the measured rate, on the replica that '
         'has most of it.', [Query(f'max(chorale_backlog_seconds{{{SCOPE}}})')], 's',
         thresholds=[(10, YELLOW), (30, RED)], alerts=['ChoraleBacklogHigh']),
    stat('Alerts', 'Alerts of these jobs that are firing, except those that only inform.',
         [Query('count(ALERTS{alertstate="firing",severity=~"critical|warning",job=~"$job"}) '
                'or vector(0)')], 'none', thresholds=[(1, RED)]),
]

REQUESTS = [
    timeseries('Calls by method', 'Finished calls a second.',
               [Query(f'sum by (method) ({CALLS})', '{{method}}')],
               'reqps'),
    timeseries('Failed calls by method', 'Share of calls with a code that counts against the '
               'objective: ' + FAILURES.replace('|', ', ') + '. The lines are the allowed 0.1 % '
               'and the share at which the budget burns fast.',
               [Query(share(f'sum by (method) ({FAILED_CALLS})', f'sum by (method) ({CALLS})'),
                      '{{method}}')], 'percentunit',
               thresholds=[(0.001, YELLOW), (0.0144, RED)],
               alerts=['ChoraleErrorBudgetBurnsFast', 'ChoraleErrorBudgetBurnsSlowly']),
    timeseries('Calls by code', 'Finished calls a second by gRPC status code.',
               [Query(f'sum by (code) ({CALLS}) > 0', '{{code}}')],
               'reqps', stack='normal'),
    timeseries('Duration by method, median', 'From arrival to end of a call, with all that its '
               'client takes to read the answer.',
               [Query(quantile(0.5, 'chorale_request_duration_seconds', 'method', METHODS),
                      '{{method}}')], 's'),
    timeseries('Duration by method, p99', 'Of a hundred calls, 99 take no longer.',
               [Query(quantile(0.99, 'chorale_request_duration_seconds', 'method', METHODS),
                      '{{method}}')], 's'),
    timeseries('Time to first values', 'From arrival of a Sample call to its first drawn values, '
               'including what its table takes to be encoded. The line is the objective for p99.',
               quantiles('chorale_time_to_first_step_seconds', 0.5, 0.9, 0.99), 's',
               thresholds=[(5, RED)], alerts=['ChoraleFirstValuesSlow']),
]

SATURATION = [
    timeseries('Backlog', 'Time that accepted work will take at the measured rate. At 10 s the '
               'autoscaler adds a replica, at 30 s an alert fires.',
               [Query(f'chorale_backlog_seconds{{{SCOPE}}}', '{{instance}}')], 's',
               thresholds=[(10, YELLOW), (30, RED)], alerts=['ChoraleBacklogHigh']),
    timeseries('Engine busy', 'Share of the time in which the engine computes.',
               [Query(rate('chorale_tick_seconds_sum'), '{{instance}}')],
               'percentunit', maximum=1, thresholds=[(0.95, YELLOW)],
               alerts=['ChoraleEngineBusy', 'ChoraleEngineStalled']),
    timeseries('Wait for admission', 'What calls wait for their turn and for memory, not for their '
               'table.', quantiles('chorale_queue_seconds', 0.5, 0.99), 's',
               alerts=['ChoraleBufferPoolFull']),
    timeseries('Calls in flight', 'Calls that have arrived and not ended.',
               [Query(f'sum by (method) (chorale_inflight_requests{{{METHODS}}})', '{{method}}')],
               'none', stack='normal'),
    timeseries('Sessions', 'Calls in the engine. Admitted ones share its time; queued ones wait '
               'for memory.',
               [Query(f'sum by (state) (chorale_sessions{{{SCOPE}}})', '{{state}}')], 'none',
               stack='normal', alerts=['ChoraleBufferPoolFull']),
    timeseries('Clients in the queue', 'Clients that have calls waiting for admission. With one, '
               'its own calls fill the queue; with several, they share what there is.',
               [Query(f'chorale_waiting_clients{{{SCOPE}}}', '{{instance}}')], 'none'),
    timeseries('Largest client', 'What the client that holds most has of the buffer pool or of the '
               'places of running calls. The log says who it is.',
               [Query(f'chorale_largest_client_share{{{SCOPE}}}', '{{instance}}')],
               'percentunit', maximum=1),
    timeseries('Rejected calls by reason', 'Calls a second that were refused because the server is '
               'full or cannot serve.',
               [Query(f'sum by (reason) ({rate("chorale_rejected_total")})', '{{reason}}')],
               'reqps', stack='normal', alerts=['ChoraleCallsRejected', 'ChoraleBackendFailed']),
]

REPLICAS = [
    timeseries('Calls by replica', 'Finished calls a second. A context is on one replica, so '
               'shares differ with what is asked about.',
               [Query(f'sum by (instance) ({CALLS})',
                      '{{instance}}')], 'reqps'),
    timeseries('Connections and streams', 'Open connections and how many there may be, and open '
               'streams of samples.',
               [Query(f'sum(chorale_connections{{{SCOPE}}})', 'connections'),
                Query(f'sum(chorale_streams_live{{{SCOPE}}})', 'streams'),
                Query(f'sum(chorale_max_connections{{{SCOPE}}})', 'limit')], 'none',
               overrides=[limit_line('limit'), by_name('limit', custom__axisPlacement='right')],
               alerts=['ChoraleConnectionsHigh']),
    timeseries('Refused and ended connections', 'Connections a second that were closed as soon as '
               'they came, by the limit in their way, and those that the server ended because '
               'they kept it busiest while memory was short, or flooded it.',
               [Query(f'sum by (reason) ({rate("chorale_connections_refused_total")})',
                      'refused: {{reason}}'),
                Query(f'sum by (reason) ({rate("chorale_connections_ended_total")})',
                      'ended: {{reason}}')], 'cps', alerts=['ChoraleConnectionsRefused']),
    timeseries('Stalled streams', 'Calls cancelled in the last 15 minutes because their client '
               'stopped reading or sending. Above the line an alert fires.',
               [Query(f'increase(chorale_stalled_streams_total{{{SCOPE}}}[15m])', '{{instance}}')],
               'none', thresholds=[(5, YELLOW)], alerts=['ChoraleStalledStreams']),
    table('Replicas', 'One line for each replica.', 'instance', [
        ('Ready', Query(f'max by (instance) (chorale_ready{{{SCOPE}}})'), 'bool_yes_no'),
        ('Draining', Query(f'max by (instance) (chorale_draining{{{SCOPE}}})'), 'bool_yes_no'),
        ('Running for', Query(f'time() - max by (instance) '
                              f'(process_start_time_seconds{{{SCOPE}}})'), 's'),
        ('Calls', Query(f'sum by (instance) ({rate("chorale_requests_total")})'), 'reqps'),
        ('Backlog', Query(f'max by (instance) (chorale_backlog_seconds{{{SCOPE}}})'), 's'),
        ('Engine busy', Query(f'max by (instance) ({rate("chorale_tick_seconds_sum")})'),
         'percentunit'),
        ('Resident contexts', Query('sum by (instance) '
                                    f'(chorale_contexts{{{SCOPE},state="resident"}})'), 'none'),
        ('Build info', Query('max by (instance, version, commit) '
                        f'(chorale_build_info{{{SCOPE}}})'), 'none'),
        ('Backend info', Query('max by (instance, backend, device, threads) '
                          f'(chorale_backend_info{{{SCOPE}}})'), 'none'),
    ], ['version', 'commit', 'backend', 'device', 'threads'],
          overrides=[by_name('Build info', custom__hidden=True),
                     by_name('Backend info', custom__hidden=True)],
          alerts=['ChoraleNotReady', 'ChoraleBuildMismatch', 'ChoraleModelMismatch',
                  'ChoraleModelLeftOut'], height=6),
]


EDGE_JOB = 'job="chorale-gateway"'
EDGE = f'{EDGE_JOB},envoy_http_conn_manager_prefix="edge"'


def edge_rate(metric: str) -> str:
    return f'rate({metric}{{{EDGE_JOB}}}[$__rate_interval])'


# Envoy's own metrics: in front of all servers, so that the variables of this page do not narrow them.
EDGE_PANELS = [
    timeseries('Edge: connections and calls', 'Open connections of clients to Envoy, and calls in '
               'flight.',
               [Query(f'sum(envoy_http_downstream_cx_active{{{EDGE}}})', 'connections'),
                Query(f'sum(envoy_http_downstream_rq_active{{{EDGE}}})', 'calls')], 'none',
               alerts=['ChoraleEdgeDown']),
    timeseries('Edge: turned away', 'Calls and connections a second that Envoy refuses: beyond its '
               'rates, or because its memory is used up.',
               [Query(f'sum({edge_rate("envoy_http_local_rate_limit_rate_limited")})',
                      'calls beyond the rate'),
                Query(f'sum({edge_rate("envoy_local_rate_limit_rate_limited")})',
                      'connections beyond the rate'),
                Query(f'sum({edge_rate("envoy_listener_downstream_cx_overload_reject")})',
                      'overload')], 'reqps', alerts=['ChoraleEdgeOverloaded']),
    timeseries('Edge: certificate', 'Full days until the first certificate of an Envoy expires; 0 '
               'in its last day, and after it.',
               [Query(f'min by (instance) (envoy_server_days_until_first_cert_expiring{{{EDGE_JOB}}})',
                      '{{instance}}')], 'd', thresholds=[(0, RED), (1, YELLOW), (7, GREEN)],
               alerts=['ChoraleEdgeCertificateExpires', 'ChoraleEdgeCertificateExpired']),
    timeseries('Edge: refused files', 'Lists of servers and certificates that Envoy has refused '
               'since it started, or could not read.',
               [Query(f'sum(envoy_cluster_manager_cds_update_rejected{{{EDGE_JOB}}})', 'servers'),
                Query(f'sum(envoy_cluster_manager_cds_update_failure{{{EDGE_JOB}}})', 'unreadable'),
                Query(f'sum(envoy_sds_update_rejected{{{EDGE_JOB}}})', 'certificate'),
                Query(f'sum(envoy_sds_key_rotation_failed{{{EDGE_JOB}}})', 'key')], 'none',
               alerts=['ChoraleEdgeUpdateRejected']),
]


def service() -> Json:
    return dashboard(
        'chorale-service', 'Chorale / Service',
        'What callers see: rate, failures and duration of calls, and how much room there is.',
        [label_values('job', 'chorale_build_info', 'job'),
         label_values('instance', 'chorale_build_info{job=~"$job"}', 'instance'),
         label_values('method', 'chorale_requests_total{job=~"$job"}', 'method')],
        [Row('', SERVICE_OVERVIEW), Row('Requests', REQUESTS), Row('Saturation', SATURATION),
         Row('Replicas and connections', REPLICAS), Row('Edge', EDGE_PANELS)])


# ---- Engine ---------------------------------------------------------------------------------


def used(pool: str) -> str:
    return share(f'max(sum by (instance) (chorale_pool_used_bytes{{{SCOPE},pool="{pool}"}})',
                 f'sum by (instance) (chorale_pool_bytes{{{SCOPE},pool="{pool}"}}))')


def pool(title: str, description: str, name: str, alerts: list[str]) -> Panel:
    return timeseries(title, description, [
        Query(f'sum by (part) (chorale_pool_used_bytes{{{SCOPE},pool="{name}"}})', '{{part}}'),
        Query(f'sum(chorale_pool_bytes{{{SCOPE},pool="{name}"}})', 'size')], 'bytes',
                      stack='normal', overrides=[limit_line('size')], alerts=alerts)


LOOKUPS = rate('chorale_context_lookups_total')

ENGINE_OVERVIEW = [
    stat('Engine busy', 'Share of the time in which the engine computes, of the busiest replica.',
         [Query(f'max({rate("chorale_tick_seconds_sum")})')], 'percentunit',
         thresholds=[(0.95, YELLOW)], alerts=['ChoraleEngineBusy']),
    stat('Age of the last tick', 'Time since the engine last advanced, of the slowest replica; 0 '
         'while there is nothing to do.',
         [Query(f'max(chorale_last_tick_age_seconds{{{SCOPE}}})')], 's',
         thresholds=[(5, YELLOW), (30, RED)], alerts=['ChoraleEngineStalled']),
    stat('Values', 'Values a second: drawn, with a density, or predicted.',
         [Query(f'sum({rate("chorale_values_total", MODELS)})')], 'short'),
    stat('Contexts found in the pool', 'Share of lookups that found their context resident.',
         [Query(share('sum(rate(chorale_context_lookups_total{' + SCOPE +
                      ',result="hit"}[$__rate_interval]))', f'sum({LOOKUPS})'))], 'percentunit',
         base=RED, thresholds=[(0.8, YELLOW), (0.95, GREEN)], alerts=['ChoraleContextMisses']),
    stat('Context pool used', 'Of the fullest replica. A full pool is a good cache; trouble begins '
         'where contexts in use fill it.', [Query(used('context'))], 'percentunit',
         base=GREEN, alerts=['ChoraleContextPoolPinned']),
    stat('Buffer pool used', 'Of the fullest replica.', [Query(used('buffer'))], 'percentunit',
         thresholds=[(0.8, YELLOW), (0.9, RED)], alerts=['ChoraleBufferPoolFull']),
]

WORK = [
    timeseries('Values by method and model', 'Values a second: drawn by Sample, with a density by '
               'LogDensity, rows by Predict.',
               [Query(f'sum by (method, model) ({rate("chorale_values_total", MODELS)})',
                      '{{method}}, {{model}}')], 'short'),
    timeseries('Operations by work', 'Floating-point operations a second, as the scheduler charges '
               'them.', [Query(f'sum by (work) ({rate("chorale_flops_total")})', '{{work}}')],
               'flops', stack='normal'),
    timeseries('Rows encoded by model', 'Rows of tables a second that were made into keys and '
               'values.',
               [Query(f'sum by (model) ({rate("chorale_encoded_rows_total", MODELS)})',
                      '{{model}}')], 'short', alerts=['ChoraleEvictionStorm']),
    timeseries('Duration of a tick', 'The engine answers to cancellations and deadlines between '
               'ticks.', quantiles('chorale_tick_seconds', 0.5, 0.99), 's',
               alerts=['ChoraleEngineStalled']),
    timeseries('Slices in a tick', 'Pieces of work that one tick advances together.',
               quantiles('chorale_tick_slices', 0.5, 0.99), 'short'),
    timeseries('Duration of a step', 'Engine time of one step of one tile of paths.',
               quantiles('chorale_step_seconds', 0.5, 0.99), 's'),
]

CONTEXTS = [
    timeseries('Contexts by state', 'Contexts that the engine knows, by where their keys and '
               'values are.',
               [Query(f'sum by (state) (chorale_contexts{{{SCOPE}}})', '{{state}}')], 'none',
               stack='normal'),
    timeseries('Lookups by result', 'Where calls found their context: in the pool, in host memory, '
               'on disk, or nowhere, so that it had to be encoded.',
               [Query(f'sum by (result) ({LOOKUPS})', '{{result}}')], 'ops', stack='normal',
               alerts=['ChoraleContextMisses']),
    timeseries('Evictions by reason', 'Contexts a second that had to leave the pool, and what '
               'became of them.',
               [Query(f'sum by (reason) ({rate("chorale_evictions_total")})', '{{reason}}')], 'ops',
               stack='normal', alerts=['ChoraleEvictionStorm', 'ChoraleHostContextPoolFull']),
    timeseries('Duration of encoding', 'One context, from start to resident.',
               quantiles('chorale_encode_seconds', 0.5, 0.99), 's'),
    timeseries('Duration of restoring', 'One context, copied back from host memory or read from '
               'disk.', quantiles('chorale_restore_seconds', 0.5, 0.99), 's'),
    timeseries('Registered tables', 'Registered contexts, the bytes of their tables, and what is '
               'left on the disk (right).',
               [Query(f'sum(chorale_registered_contexts{{{SCOPE}}})', 'contexts'),
                Query(f'sum(chorale_dataset_bytes{{{SCOPE}}})', 'bytes'),
                Query(f'min(chorale_data_disk_free_bytes{{{SCOPE}}})', 'free on disk')], 'none',
               overrides=[by_name('bytes', unit='bytes', custom__axisPlacement='right'),
                          by_name('free on disk', unit='bytes', custom__axisPlacement='right')],
               alerts=['ChoraleDataDiskLow', 'ChoraleDataDiskFull']),
]

MEMORY = [
    pool('Context pool', 'Keys and values of contexts. Pinned ones are in use and cannot make '
         'room.', 'context', ['ChoraleContextPoolPinned', 'ChoraleEvictionStorm']),
    pool('Buffer pool', 'What running calls hold.', 'buffer', ['ChoraleBufferPoolFull']),
    timeseries('Other pools', 'Share of each pool that is used: contexts while they are encoded, '
               'evicted contexts in host memory, tables on their way in, tables that await their '
               'first request. Pools of size 0 are left out.',
               [Query(share('sum by (pool) (chorale_pool_used_bytes{' + SCOPE +
                            ',pool=~"encode|host_context|registration|kept_tables"})',
                            'sum by (pool) (chorale_pool_bytes{' + SCOPE +
                            ',pool=~"encode|host_context|registration|kept_tables"} > 0)'), '{{pool}}')],
               'percentunit', maximum=1, thresholds=[(0.9, YELLOW)],
               alerts=['ChoraleRegistrationMemoryFull', 'ChoraleHostContextPoolFull']),
    timeseries('GPU memory', 'Device memory by what it is for. Empty on a CPU.',
               [Query(f'sum by (part) (chorale_gpu_memory_bytes{{{SCOPE}}})', '{{part}}')],
               'bytes', stack='normal'),
    timeseries('Process memory', 'Resident memory and its limit, if there is one; what the pools '
               'and the space beside them allow; and parts of it: what the allocator has given out '
               'or keeps, and tables that are being registered.',
               [Query(f'sum(process_resident_memory_bytes{{{SCOPE}}})', 'resident'),
                Query(f'sum(instance:chorale_memory_budget:bytes{{{SCOPE}}})', 'budget'),
                Query(f'sum(chorale_memory_limit_bytes{{{SCOPE}}} > 0)', 'limit'),
                Query(f'sum by (part) (chorale_memory_bytes{{{SCOPE}}})', '{{part}}')], 'bytes',
               overrides=[limit_line('budget'), limit_line('limit')],
               alerts=['ChoraleMemoryHigh']),
    timeseries('Quantiles of predictions', 'Parts of predictions that wait for the thread that '
               'computes quantiles, and how long one takes (right).',
               [Query(f'sum(chorale_summary_queue{{{SCOPE}}})', 'waiting'),
                Query(quantile(0.99, 'chorale_summary_seconds'), 'p99')], 'none',
               overrides=[by_name('p99', unit='s', custom__axisPlacement='right')],
               alerts=['ChoraleSummaryQueueLong']),
]

PROCESS = [
    timeseries('Processor', 'Cores that the process keeps busy.',
               [Query(rate('process_cpu_seconds_total'), '{{instance}}')], 'short'),
    timeseries('File descriptors and threads', 'Open descriptors, and how many may be opened.',
               [Query(f'sum(process_open_fds{{{SCOPE}}})', 'open'),
                Query(f'sum(process_max_fds{{{SCOPE}}})', 'limit'),
                Query(f'sum(process_threads{{{SCOPE}}})', 'threads')], 'none',
               overrides=[limit_line('limit'), by_name('limit', custom__axisPlacement='right')],
               alerts=['ChoraleFileDescriptorsHigh', 'ChoraleConnectionsHigh']),
    timeseries('Lost telemetry and refused configurations', 'Log lines and spans that were '
               'dropped, and reloads of the configuration that failed, in the last 10 minutes.',
               [Query(f'sum(increase(chorale_log_lines_dropped_total{{{SCOPE}}}[10m]))',
                      'log lines'),
                Query(f'sum(increase(chorale_spans_dropped_total{{{SCOPE}}}[10m]))', 'spans'),
                Query('sum(increase(chorale_config_reloads_total{' + SCOPE +
                      ',result="error"}[10m]))', 'failed reloads')], 'none',
               alerts=['ChoraleLogLinesDropped', 'ChoraleSpansDropped',
                       'ChoraleConfigReloadFailed']),
]


def engine() -> Json:
    return dashboard(
        'chorale-engine', 'Chorale / Engine',
        'What the engine does with its device, its memory and the contexts.',
        [label_values('job', 'chorale_build_info', 'job'),
         label_values('instance', 'chorale_build_info{job=~"$job"}', 'instance'),
         label_values('model', 'chorale_model_info{job=~"$job"}', 'model')],
        [Row('', ENGINE_OVERVIEW), Row('Work', WORK), Row('Contexts', CONTEXTS),
         Row('Memory', MEMORY), Row('Process', PROCESS)])


# ---- Tenants --------------------------------------------------------------------------------


def largest(metric: str) -> str:
    return f'topk(10, sum by (tenant) ({rate(metric, TENANTS)}))'


def in_range(metric: str) -> str:
    return f'sum by (tenant) (increase({metric}{{{TENANTS}}}[$__range]))'


TENANTS_OVERVIEW = [
    stat('Active tenants', 'Tenants with calls in the last minutes. Those beyond the first hundred '
         'count as one, "other".',
         [Query(f'count(sum by (tenant) ({rate("chorale_tenant_requests_total", TENANTS)}) > 0)')],
         'none', width=6),
    stat('Calls', 'Finished calls a second.',
         [Query(f'sum({rate("chorale_tenant_requests_total", TENANTS)})')], 'reqps', width=6),
    stat('Values', 'Values a second.',
         [Query(f'sum({rate("chorale_tenant_values_total", TENANTS)})')], 'short', width=6),
    stat('Largest share of the engine', 'Of all tenants\' engine time, what one tenant takes.',
         [Query(share(f'max(sum by (tenant) '
                      f'({rate("chorale_tenant_engine_seconds_total")}))',
                      f'sum({rate("chorale_tenant_engine_seconds_total")})'))], 'percentunit',
         width=6),
]

TENANTS_LOAD = [
    timeseries('Share of the engine by tenant', 'Engine time of each tenant, as a share of that of '
               'all; the ten largest.',
               [Query(largest('chorale_tenant_engine_seconds_total'), '{{tenant}}')], 's',
               stack='percent', width=12),
    timeseries('Calls by tenant', 'Finished calls a second of the ten largest.',
               [Query(largest('chorale_tenant_requests_total'), '{{tenant}}')], 'reqps', width=12),
    timeseries('Values by tenant', 'Values a second of the ten largest.',
               [Query(largest('chorale_tenant_values_total'), '{{tenant}}')], 'short', width=12),
    timeseries('Calls in flight by tenant', 'The ten largest.',
               [Query(f'topk(10, sum by (tenant) (chorale_tenant_inflight_requests{{{TENANTS}}}))',
                      '{{tenant}}')], 'none', stack='normal', width=12),
    timeseries('Calls by tenant and method', 'Finished calls a second, the ten largest. Choose a '
               'tenant above.',
               [Query('topk(10, sum by (tenant, method) '
                      f'({rate("chorale_tenant_requests_total", TENANTS)}))',
                      '{{tenant}}, {{method}}')], 'reqps', width=12),
    timeseries('Refusals by quota', 'Calls a second that were refused because a quota of their tenant '
               'was used up, the ten largest. Give the tenant more, or ask it for less.',
               [Query('topk(10, sum by (tenant, quota) '
                      f'({rate("chorale_tenant_quota_refusals_total", TENANTS)}) > 0)',
                      '{{tenant}}, {{quota}}')], 'reqps', width=24),
    table('Tenants', 'What each tenant did in the chosen time.', 'tenant', [
        ('Engine time', Query(in_range('chorale_tenant_engine_seconds_total')), 's'),
        ('Share', Query(share(in_range('chorale_tenant_engine_seconds_total'),
                              'ignoring (tenant) group_left () sum(increase('
                              f'chorale_tenant_engine_seconds_total{{{SCOPE}}}[$__range]))')),
         'percentunit'),
        ('Calls', Query(in_range('chorale_tenant_requests_total')), 'short'),
        ('Values', Query(in_range('chorale_tenant_values_total')), 'short'),
        ('In flight', Query(f'sum by (tenant) (chorale_tenant_inflight_requests{{{TENANTS}}})'),
         'none'),
    ], width=12),
]


def tenants() -> Json:
    return dashboard(
        'chorale-tenants', 'Chorale / Tenants', 'Who asks for how much, and who gets how much.',
        [label_values('job', 'chorale_build_info', 'job'),
         label_values('instance', 'chorale_build_info{job=~"$job"}', 'instance'),
         label_values('tenant', 'chorale_tenant_requests_total{job=~"$job"}', 'tenant')],
        [Row('', TENANTS_OVERVIEW), Row('Load', TENANTS_LOAD)])


DASHBOARDS = {'service.json': service, 'engine.json': engine, 'tenants.json': tenants}


def text_of(name: str) -> str:
    return json.dumps(DASHBOARDS[name](), indent=1) + '\n'


def main() -> None:
    folder = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else __file__).resolve()
    if folder.is_file():
        folder = folder.parent
    for name in DASHBOARDS:
        (folder / name).write_text(text_of(name), encoding='utf-8')


if __name__ == '__main__':
    main()
