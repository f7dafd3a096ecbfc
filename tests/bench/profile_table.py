#!/usr/bin/env python3
"""What Nsight Compute saw, as one JSON line per launch with the numbers that are looked at first.

Usage: profile_table.py LABEL < profile.csv      (of ncu --csv --page raw --print-units base)

Which metrics a section collects, and how they are called, differs between chips and versions: each
number is taken from the first name here that the file has, or is the largest of those that match.
"""

import csv
import json
import re
import sys

ACTIVE = r'\.pct_of_peak_sustained_(active|elapsed)$'
METRICS = {
    'us': [r'gpu__time_duration\.sum$'],
    'tensor_pct': [r'sm__(inst_executed_)?pipe_tensor.*' + ACTIVE],
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


def number(text):
    try:
        return float(text.replace(',', ''))
    except ValueError:
        return None


def largest(row, pattern):
    values = [number(text) for name, text in row.items() if re.match(pattern, name)]
    return max((value for value in values if value is not None), default=None)


def launch(row):
    facts = {'kernel': re.sub(r'\(.*', '', row.get('Kernel Name', '?')),
             'grid': row.get('Grid Size'), 'block': row.get('Block Size')}
    for key, patterns in METRICS.items():
        value = next((v for v in (largest(row, p) for p in patterns) if v is not None), None)
        if value is not None:
            facts[key] = round(value / 1000 if key == 'us' else value, 2)
    # Both forms of a stall may be there; they differ in scale but not in order.
    stalls = {}
    for name, text in row.items():
        found = STALL.match(name)
        if found and not found.group(1).endswith('_not_issued') and number(text) is not None:
            stalls.setdefault(found.group(1), number(text))
    worst = sorted(stalls.items(), key=lambda stall: -stall[1])[:STALLS_SHOWN]
    facts['stalls'] = {name: round(value, 2) for name, value in worst}
    return facts


def launches(lines):
    """ncu's own messages and the program's output come before the table; units are its first row."""
    lines = list(lines)
    start = next((i for i, line in enumerate(lines) if line.startswith('"ID"')), None)
    if start is None:
        return []
    rows = list(csv.DictReader(lines[start:]))
    return [launch(row) for row in rows if row['ID']]


def main():
    found = launches(sys.stdin)
    if not found:
        sys.exit('no launch was profiled')
    for facts in found:
        print(json.dumps({'profile': sys.argv[1], **facts}))


if __name__ == '__main__':
    main()
