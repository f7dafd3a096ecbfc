"""The dashboard of the tenants' calls and their shares of the engine."""

from __future__ import annotations

from expressions import SCOPE, rate, share
from panels import Json, Query, Row, dashboard, label_values, stat, table, timeseries

TENANTS = f'{SCOPE},tenant=~"$tenant"'


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
