#!/usr/bin/env python3
"""The record of a run on a GPU, as Markdown, from what run_gpu.sh left in its folders.

Usage: gpu_record.py FOLDER [FOLDER ...] > record.md

Stages may have run one by one, each with a folder of its own: results.jsonl of all of them are put
together.
"""

import json
import os
import re
import sys

ERROR_LINE = re.compile(r'.*(worst absolute error|worst error|error of the joint)')


def read(folders):
    """All lines of results.jsonl, and the lines of tests.log that tell of errors."""
    lines, errors = [], []
    for folder in folders:
        path = os.path.join(folder, 'results.jsonl')
        if os.path.exists(path):
            with open(path, encoding='utf-8') as file:
                lines += [json.loads(line) for line in file if line.strip()]
        path = os.path.join(folder, 'tests.log')
        if os.path.exists(path):
            with open(path, encoding='utf-8', errors='replace') as file:
                errors += [line.strip() for line in file if ERROR_LINE.match(line)]
    return lines, errors


def shown(value):
    if value is None:
        return '–'
    if isinstance(value, float):
        return f'{value:.3g}' if abs(value) < 100 else f'{value:,.0f}'
    if isinstance(value, int) and not isinstance(value, bool):
        return f'{value:,}'
    if isinstance(value, dict):
        return ', '.join(f'{name} {shown(of)}' for name, of in value.items())
    return str(value)


def table(title, columns, rows):
    """columns: heading -> function of a row. Nothing where there are no rows."""
    if not rows:
        return []
    cells = [[shown(get(row)) for get in columns.values()] for row in rows]
    return [f'## {title}', '', '| ' + ' | '.join(columns) + ' |', '|' + ' --- |' * len(columns),
            *('| ' + ' | '.join(row) + ' |' for row in cells), '']


def field(*names):
    """The value at a path of names, or None."""
    def get(row):
        for name in names:
            row = row.get(name) if isinstance(row, dict) else None
        return row
    return get


def scaled(get, factor):
    def result(row):
        value = get(row)
        return None if value is None else value * factor
    return result


TIMES = {
    'case': field('case'), 'B': field('B'), 'Nctx': field('Nctx'), 'T': field('T'),
    'µs': field('us'), 'PyTorch, µs': field('torch_us'),
    'its form': field('torch_form'), 'times faster': field('times_faster'),
    'floor, µs': lambda row: row.get('floor_us') or None, 'share of it': field('share_of_floor'),
    'mean error': field('mean_difference_from_cpu'),
    'worst': field('worst_difference_from_cpu'),
}
LOAD = {
    'sessions': field('sessions'), 'B': field('B'), 'Nctx': field('Nctx'), 'T': field('T'),
    'engine, values/s': field('engine', 'values_per_second'),
    'service, values/s': field('service', 'values_per_second'),
    'share': field('share_of_engine'),
    'first values, ms: engine': field('engine', 'first_values_ms'),
    'service': field('service', 'first_values_ms'),
    'service, p99': field('service', 'first_values_ms_p99'),
}
MEMORY = {
    'B': field('B'), 'Nctx': field('Nctx'), 'T': field('T'),
    'context, MiB': scaled(field('context_range_bytes'), 2.0 ** -20),
    'by formula': scaled(field('context_formula_bytes'), 2.0 ** -20),
    'buffers, MiB': scaled(field('buffer_range_bytes'), 2.0 ** -20),
    'by formula ': scaled(field('buffer_formula_bytes'), 2.0 ** -20),
    'device, with weights and workspace': scaled(field('device_bytes_after_decode'), 2.0 ** -20),
    'a context for each path': scaled(field('replicated_formula_bytes'), 2.0 ** -20),
    'shared / that': field('shared_over_replicated'),
}
PROFILE = {
    'case': field('profile'), 'kernel': field('kernel'), 'grid': field('grid'), 'µs': field('us'),
    'tensor %': field('tensor_pct'), 'MUFU %': field('mufu_pct'), 'FMA %': field('fma_pct'),
    'issue %': field('issue_pct'), 'DRAM %': field('dram_pct'), 'L2 %': field('l2_pct'),
    'shared %': field('shared_pct'), 'occupancy %': field('occupancy_pct'),
    'registers': field('registers'), 'stalls': field('stalls'),
}
CHECKS = {'check': field('check'), 'result': lambda row: 'ok' if row['ok'] else 'FAILED',
          's': field('seconds')}


def record(lines, errors):
    of = lambda key: [line for line in lines if key in line]
    measured = lambda *names: [line for line in lines
                               if line.get('measure') in names and 'us' in line]
    facts = {name: value for line in of('gpu') for name, value in line.items()}
    text = [f'# {facts.get("gpu", "No GPU")}, {facts.get("date", "no date")}', '',
            f'Commit {facts.get("commit", "unknown")}; driver {facts.get("driver", "unknown")}.', '']
    for line in of('copy_tb_per_s'):
        text += [f'A copy moves {line["copy_tb_per_s"]} TB/s, a product of bfloat16 matrices does '
                 f'{line["bf16_tflop_per_s"]} TFLOP/s.', '']
    text += table('Checks', CHECKS, of('check'))
    text += table('Decode, per step', TIMES, measured('decode'))
    text += table('In one pass: density and encoding', TIMES, measured('density', 'encode'))
    text += table('Service', LOAD, [line for line in lines if line.get('measure') == 'load'])
    text += table('Memory', MEMORY, [line for line in lines if line.get('measure') == 'memory'])
    text += table('Profile', PROFILE, of('profile'))
    if errors:
        text += ['## Errors against float64', '', *(f'- {line}' for line in errors), '']
    return '\n'.join(text)


def main():
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    print(record(*read(sys.argv[1:])))


if __name__ == '__main__':
    main()
