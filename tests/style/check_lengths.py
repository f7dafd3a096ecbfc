#!/usr/bin/env python3
"""Checks that no source file has more than LIMIT lines.

Usage: check_lengths.py [ROOT]
Prints a line for each file that is too long, and for each entry of LONGER that is out of date, and
ends with status 1 if there are any.
"""

from __future__ import annotations

import pathlib
import subprocess
import sys

LIMIT = 400
SUFFIXES = {'.cc', '.cu', '.cuh', '.h', '.py', '.sh'}
# Files that are longer, with the most lines that they may have. Lower the number when a file
# shrinks, and remove the entry when it fits; add no entry.
LONGER = {
    'models/research/training/prior/phase_column.py': 446,
    'tests/bench/baselines/torch_decode_cpu.py': 403,
    'tests/client/python/serving_test.py': 429,
    'tests/client/python/sklearn_test.py': 422,
    'tests/client/python/tables_test.py': 463,
    'tests/deploy/edge_processes.py': 421,
    'tests/deploy/edge_test.py': 823,
    'tests/deploy/manifests/mutations.py': 403,
    'tests/deploy/monitoring_test.py': 437,
    'tests/end_to_end/real_tables_test.cc': 425,
    'tests/end_to_end/security_test.cc': 422,
    'tests/engine/context/context_cache_files_test.cc': 429,
    'tests/engine/context/context_cache_test.cc': 631,
    'tests/engine/data/feature_transform_test.cc': 496,
    'tests/engine/data/season_test.cc': 532,
    'tests/engine/engine_contexts_test.cc': 410,
    'tests/engine/store/context_store_contract.cc': 416,
    'tests/models/research/training/prior_test.py': 492,
    'tests/run.sh': 686,
    'tests/server/app/program_test.cc': 662,
}


def problems(lengths: dict[str, int], longer: dict[str, int]) -> list[str]:
    """What is wrong with the lengths of files, by path."""
    wrong = []
    for path, lines in sorted(lengths.items()):
        most = longer.get(path, LIMIT)
        if lines > most:
            wrong.append(f'{path}: has {lines} lines; the limit is {most}')
    for path, most in sorted(longer.items()):
        lines = lengths.get(path, 0)
        if lines <= LIMIT:
            wrong.append(f'{path}: has {lines} lines; remove it from LONGER')
        elif lines < most:
            wrong.append(f'{path}: has {lines} lines; lower its limit of {most} in LONGER')
    return wrong


def lengths_of(root: pathlib.Path) -> dict[str, int]:
    """The lines of every tracked source file under `root`."""
    listed = subprocess.run(['git', 'ls-files', '-z'], cwd=root, stdout=subprocess.PIPE, check=True)
    lengths = {}
    for path in listed.stdout.decode().split('\0'):
        file = root / path
        if file.suffix in SUFFIXES and file.is_file():
            lengths[path] = file.read_bytes().count(b'\n')
    return lengths


def main(arguments: list[str]) -> int:
    root = pathlib.Path(arguments[0]) if arguments else pathlib.Path(__file__).resolve().parents[2]
    wrong = problems(lengths_of(root), LONGER)
    for line in wrong:
        print(line)
    return 1 if wrong else 0


if __name__ == '__main__':
    sys.exit(main(sys.argv[1:]))
