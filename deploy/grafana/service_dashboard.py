"""The dashboard of what callers see: calls, saturation, replicas, and Envoy in front of them."""

from __future__ import annotations

from expressions import SCOPE, quantile, quantiles, rate, share
from panels import (GREEN, RED, YELLOW, Json, Query, Row, by_name, dashboard, label_values,
                    limit_line, stat, table, timeseries)

METHODS = f'{SCOPE},method=~"$method"'
# Codes that count against the objective, as in deploy/prometheus/rules.yml.
FAILURES = 'UNKNOWN|DEADLINE_EXCEEDED|RESOURCE_EXHAUSTED|INTERNAL|UNAVAILABLE|DATA_LOSS'

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
                  'ChoraleModelSkipped'], height=6),
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
