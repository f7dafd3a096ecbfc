#!/usr/bin/env python3
"""Decode on the CPU: Chorale beside a strong PyTorch implementation of the same step, in one run.

Usage: run_decode.py --bench build/release/tests/bench/decode_bench [--torch-python PYTHON]
                     [--threads N] [--rounds N] [--forms NAME ...]

At each point the two take turns, so that a machine whose speed drifts slows both: Chorale, PyTorch,
Chorale, PyTorch, ... Prints one line per point: median microseconds per step of each, the median of
the ratios of neighbouring runs, and Chorale's share of the measured multiply-add peak.
Run it on an otherwise idle machine.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys

POINTS = ((64, 442), (512, 1024), (64, 8192))
BASELINE = os.path.join(os.path.dirname(os.path.abspath(__file__)), 'baselines',
                        'torch_decode_cpu.py')


def last_json(command):
    lines = subprocess.run(command, check=True, text=True, stdout=subprocess.PIPE).stdout
    return json.loads(lines.strip().splitlines()[-1])


def measure(point, arguments):
    paths, rows = point
    ours, theirs = [], []
    for _ in range(arguments.rounds):
        ours.append(last_json([arguments.bench, f'--points={paths},{rows}', '--runs=5',
                               f'--threads={arguments.threads}']))
        command = [arguments.torch_python, BASELINE, '--points', f'{paths},{rows}', '--runs', '5',
                   '--threads', str(arguments.threads)]
        if arguments.forms:
            command += ['--forms', *arguments.forms]
        theirs.append(last_json(command))
    ratios = [b['us_per_step'] / a['us_per_step'] for a, b in zip(ours, theirs)]
    return {
        'B': paths, 'Nctx': rows, 'threads': arguments.threads, 'target': ours[0]['target'],
        'chorale_us': statistics.median(run['us_per_step'] for run in ours),
        'torch_us': statistics.median(run['us_per_step'] for run in theirs),
        'torch_form': theirs[-1]['form'], 'torch': theirs[-1]['torch'],
        'ratio': round(statistics.median(ratios), 2),
        'gflops': statistics.median(run['gflops'] for run in ours),
        'peak_gflops': statistics.median(run['peak_gflops'] for run in ours),
        'share_of_peak': statistics.median(run['share_of_peak'] for run in ours),
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('--bench', required=True)
    parser.add_argument('--torch-python', default=sys.executable)
    parser.add_argument('--threads', type=int, default=os.cpu_count())
    parser.add_argument('--rounds', type=int, default=3)
    parser.add_argument('--forms', nargs='*', default=[])
    arguments = parser.parse_args()
    for point in POINTS:
        print(json.dumps(measure(point, arguments)), flush=True)


if __name__ == '__main__':
    main()
