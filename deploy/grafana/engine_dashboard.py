"""The dashboard of the engine: its work, its contexts, its memory, and the process."""

from __future__ import annotations

from expressions import SCOPE, quantile, quantiles, rate, share
from panels import (GREEN, RED, YELLOW, Json, Panel, Query, Row, by_name, dashboard, label_values,
                    limit_line, stat, timeseries)

MODELS = f'{SCOPE},model=~"$model"'


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
    timeseries('Rows encoded by model, keys kept by policy', 'Rows of tables a second that were '
               'made into keys and values, and the keys a second that memory sets keep.',
               [Query(f'sum by (model) ({rate("chorale_encoded_rows_total", MODELS)})',
                      '{{model}}'),
                Query(f'sum by (policy) ({rate("chorale_memory_set_keys_total")}) > 0',
                      'kept, {{policy}}')], 'short', alerts=['ChoraleEvictionStorm']),
    timeseries('Appended rows', 'Rows a second that were appended to contexts, appends a second, '
               'and encodings anew of contexts with appended rows, by outcome.',
               [Query(f'sum({rate("chorale_appended_rows_total")})', 'rows'),
                Query(f'sum({rate("chorale_appends_total")})', 'appends'),
                Query(f'sum by (outcome) ({rate("chorale_encodings_anew_total")}) > 0',
                      'encoded anew, {{outcome}}')], 'short'),
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
