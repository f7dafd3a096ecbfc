"""The record of runs on a GPU as Markdown, and the numbers of Nsight Compute that go into it."""

import csv
import json
import pathlib
import re

import gpu_record_key

# ---- The record -----------------------------------------------------------------------------

# Tables: heading -> field of a line, 'a.b' for a field of a field. Bytes are shown in MiB.
CHECKS = {'check': 'check', 'result': 'ok', 's': 'seconds'}
TIMES = {
    'case': 'case', 'B': 'B', 'Nctx': 'Nctx', 'T': 'T', 'D': 'D', 'H': 'H', 'µs': 'us',
    'PyTorch, µs': 'torch_us',
    'its form': 'torch_form', 'times faster': 'times_faster', 'floor, µs': 'floor_us',
    'share of it': 'share_of_floor', 'mean error': 'mean_difference_from_cpu',
    'worst': 'worst_difference_from_cpu'}
LOAD = {
    'sessions': 'sessions', 'B': 'B', 'Nctx': 'Nctx', 'T': 'T',
    'engine, values/s': 'engine.values_per_second',
    'service, values/s': 'service.values_per_second', 'share': 'share_of_engine',
    'first values, ms: engine': 'engine.first_values_ms', 'service': 'service.first_values_ms',
    'service, p99': 'service.first_values_ms_p99'}
MEMORY = {
    'B': 'B', 'Nctx': 'Nctx', 'T': 'T', 'context, MiB': 'context_range_bytes',
    'by formula': 'context_formula_bytes', 'buffers, MiB': 'buffer_range_bytes',
    'by formula ': 'buffer_formula_bytes',
    'device, with weights and workspace': 'device_bytes_after_decode',
    'a context for each path': 'replicated_formula_bytes',
    'shared / that': 'shared_over_replicated'}
PRODUCTS = {
    'point': 'point', 'form': 'form', 'D': 'D', 'Dff': 'Dff', 'rows': 'rows', 'a launch': 'launch_rows',
    'fused layer, µs': 'fused_layer_us', 'wide layer, µs': 'wide_layer_us',
    **{f'{what}, {unit}': f'{field}.{key}' for what, field in (
        ('products', 'products'), ('output projection', 'output_projection'), ('MLP up', 'mlp_up'),
        ('MLP down', 'mlp_down'), ('feature attention', 'feature_attention'),
        ('QKV projection', 'qkv_projection'))
       for unit, key in (('µs', 'us'), ('TFLOP/s', 'tflop_per_s'))}}
PROFILE = {
    'case': 'profile', 'kernel': 'kernel', 'grid': 'grid', 'µs': 'us', 'tensor %': 'tensor_pct',
    'MUFU %': 'mufu_pct', 'FMA %': 'fma_pct', 'issue %': 'issue_pct', 'DRAM %': 'dram_pct',
    'L2 %': 'l2_pct', 'shared %': 'shared_pct', 'occupancy %': 'occupancy_pct',
    'registers': 'registers', 'stalls': 'stalls'}
ERROR_LINE = re.compile(r'.*(worst absolute error|worst error|error of the joint)')


def shown(value):
    if value is None:
        return '–'
    if isinstance(value, bool):
        return 'ok' if value else 'FAILED'
    if isinstance(value, float):
        return f'{value:.3g}' if abs(value) < 100 else f'{value:,.0f}'
    if isinstance(value, int):
        return f'{value:,}'
    if isinstance(value, dict):
        return ', '.join(f'{name} {shown(part)}' for name, part in value.items())
    return str(value)


def cell(line, field):
    value = line
    for name in field.split('.'):
        value = value.get(name) if isinstance(value, dict) else None
    if field == 'floor_us':
        value = value or None  # 0: there is none
    if '_bytes' in field and value is not None:
        value *= 2.0 ** -20
    return shown(value)


def table(title, columns, lines):
    """Nothing when there are no lines."""
    if not lines:
        return []
    rows = [[cell(line, field) for field in columns.values()] for line in lines]
    return [f'## {title}', '', '| ' + ' | '.join(columns) + ' |', '|' + ' --- |' * len(columns),
            *('| ' + ' | '.join(row) + ' |' for row in rows), '']


def record(folders):
    """Of the results.jsonl and tests.log in the folders: stages may have one each."""
    lines, errors = [], []
    for folder in map(pathlib.Path, folders):
        if (folder / 'results.jsonl').exists():
            text = (folder / 'results.jsonl').read_text(encoding='utf-8')
            lines += [json.loads(line) for line in text.splitlines()]
        if (folder / 'tests.log').exists():
            text = (folder / 'tests.log').read_text(encoding='utf-8', errors='replace')
            errors += [f'- {line.strip()}' for line in text.splitlines() if ERROR_LINE.match(line)]
    errors = list(dict.fromkeys(errors))  # a decode may print those of a density again

    def having(key):
        return [line for line in lines if key in line]

    def measured(*names):
        return [line for line in lines if line.get('measure') in names]

    facts = {name: value for line in having('gpu') for name, value in line.items()}
    text = [f'# {facts.get("gpu", "No GPU")}, {facts.get("date", "no date")}', '',
            f'Commit {facts.get("commit", "unknown")}; driver {facts.get("driver", "unknown")}' +
            (f', CUDA {facts["cuda"]}.' if facts.get('cuda') else '.'), '']
    for line in having('copy_tb_per_s'):
        text += [f'A copy moves {line["copy_tb_per_s"]} TB/s, a product of bfloat16 matrices does '
                 f'{line["bf16_tflop_per_s"]} TFLOP/s.', '']
    text += table('Checks', CHECKS, having('check'))
    text += table('Decode, per step', TIMES, measured('decode'))
    text += table('In one pass: density and encoding', TIMES, measured('density', 'encode'))
    text += table('Products beside cuBLASLt', PRODUCTS, measured('products'))
    text += table('Service', LOAD, measured('load'))
    text += table('Memory', MEMORY, measured('memory'))
    text += table('Profile', PROFILE, having('profile'))
    if errors:
        text += ['## Errors against float64', '', *errors, '']
    text += gpu_record_key.key(lines, errors)
    return '\n'.join(text)


# ---- Nsight Compute -------------------------------------------------------------------------

# Which metrics there are, and how they are called, differs between chips and versions: a number is
# the largest of those that match the first pattern that has any. All are averages of the units of
# the device; a maximum of few busy ones would be shown as a multiple of their share.
ACTIVE = r'\.pct_of_peak_sustained_(active|elapsed)$'
METRICS = {
    'us': [r'gpu__time_duration\.sum$'],
    'tensor_pct': [r'sm__(inst_executed_)?pipe_tensor\w*\.avg' + ACTIVE],
    'mufu_pct': [r'sm__(inst_executed_)?pipe_xu(_cycles_active)?\.avg' + ACTIVE],
    'fma_pct': [r'sm__(inst_executed_)?pipe_fma(_cycles_active)?\.avg' + ACTIVE],
    'issue_pct': [r'sm__inst_issued\.avg' + ACTIVE, r'sm__instruction_throughput\.avg' + ACTIVE],
    'dram_pct': [r'(gpu__)?dram__throughput\.avg' + ACTIVE, r'gpu__dram_throughput\.avg' + ACTIVE],
    'l2_pct': [r'lts__t_sectors\.avg' + ACTIVE, r'lts__throughput\.avg' + ACTIVE],
    'shared_pct': [r'l1tex__data_pipe_lsu_wavefronts_mem_shared\.avg' + ACTIVE,
                   r'l1tex__data_pipe_lsu_wavefronts\.avg' + ACTIVE],
    'l1_pct': [r'l1tex__throughput\.avg' + ACTIVE],
    'occupancy_pct': [r'sm__warps_active\.avg' + ACTIVE],
    'registers': [r'launch__registers_per_thread$'],
    'shared_bytes': [r'launch__shared_mem_per_block(_dynamic)?$'],
}
STALL = re.compile(r'smsp__average_warps?_(?:latency_)?issue_stalled_(\w+?)'
                   r'(?:_per_issue_active)?\.ratio$')
STALLS_SHOWN = 3


def numbers(row, pattern):
    """Values of the columns that match, by the match."""
    for name, text in row.items():
        found = re.match(pattern, name)
        try:
            if found:
                yield found, float(text.replace(',', ''))
        except ValueError:
            pass  # "n/a", or nothing


# What precedes a kernel's own name: "void unnamed>::Kernel<64>(Params)".
BEFORE_NAME = re.compile(r'(void )?([\w:<]*(unnamed>|\(anonymous namespace\))::)?')


def launch(row):
    name = row['Kernel Name']
    facts = {'kernel': name[BEFORE_NAME.match(name).end():].partition('(')[0],
             'grid': row.get('Grid Size'), 'block': row.get('Block Size')}
    for key, patterns in METRICS.items():
        for pattern in patterns:
            value = max((value for _, value in numbers(row, pattern)), default=None)
            if value is not None:
                facts[key] = round(value / 1000 if key == 'us' else value, 2)
                break
    # Both forms of a stall may be there; they differ in scale but not in order.
    stalls = {}
    for found, value in numbers(row, STALL):
        if not found.group(1).endswith('_not_issued'):
            stalls.setdefault(found.group(1), round(value, 2))
    worst = sorted(stalls.items(), key=lambda stall: -stall[1])[:STALLS_SHOWN]
    return {**facts, 'stalls': dict(worst)}


def profiled_launches(lines):
    """The launches in what `ncu --csv --page raw --print-units base` printed.

    Messages of ncu and of the program come before the table, whose first row has the units.
    """
    start = next((i for i, line in enumerate(lines) if line.startswith('"ID"')), len(lines))
    return [launch(row) for row in csv.DictReader(lines[start:]) if row['ID']]
