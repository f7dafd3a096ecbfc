#!/usr/bin/env python3
"""The GPU backend beside PyTorch on the same device in the same minutes, case by case.

Usage: compare_gpu.py --bench 'COMMAND' [--torch-python PYTHON] [--rounds N] [--cases NAME ...]
                      [--bench-flags 'FLAG ...'] [--torch-flags 'FLAG ...']
                      [--out results.jsonl] [--log FILE]

Both programs of a case get ready first, and say so; PyTorch compiles, which takes a minute, so all
of its programs do that at once, and nothing is timed until the last one is ready. Then the two take
turns, round by round, so that a device whose clocks drift slows both. Prints one line per case:
medians, the median of the ratios of neighbouring rounds, and the share reached of the physical
floor. Exit status 1 when a case failed; the others are measured nevertheless.
"""

import argparse
import dataclasses
import json
import os
import queue
import shlex
import statistics
import subprocess
import sys
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
BASELINE = os.path.join(HERE, 'baselines', 'torch_gpu.py')
DEFAULT_MODEL = os.path.join(HERE, '..', '..', 'models', 'default')
READY_S = 280
ROUND_S = 60


@dataclasses.dataclass(frozen=True)
class Case:
    """What both programs are told: a standard point, its sizes, and whether its model is wide."""
    measure: str
    point: str
    paths: int
    rows: int
    wide: bool = False
    baseline: bool = True
    model: str = ''  # a folder instead of the point's own; without a baseline
    overlap: bool = True  # of kernels with the one ahead

    @property
    def runs(self):
        return 1 if self.rows > 16384 else 3  # of a round


POINTS = {'a': (512, 100), 'b': (512, 1024), 'c': (4096, 1024), 'd': (64, 8192), 'e': (64, 1024),
          'b_wide': (512, 1024), 'c_wide': (4096, 1024)}
CASES = {
    **{f'decode_{name}': Case('decode', name, *size, wide=name.endswith('_wide'))
       for name, size in POINTS.items()},
    'density_b': Case('density', 'b', 512, 1024),
    **{f'encode_{rows}': Case('encode', 'b', 32, rows) for rows in (1024, 8192, 65536)},
    **{f'decode_{name}_apart': Case('decode', name, *POINTS[name], baseline=False, overlap=False)
       for name in ('a', 'b', 'c')},
    # The model that is shipped, whose rows are encoded with a look at the whole context.
    'decode_default_b': Case('decode', 'b', 512, 1024, baseline=False, model=DEFAULT_MODEL),
    **{f'encode_default_{rows}': Case('encode', 'b', 32, rows, baseline=False, model=DEFAULT_MODEL)
       for rows in (1024, 8192, 65536)},
}


class Failure(Exception):
    pass


class Contender:
    """A program that prints a JSON line when it is ready, and one for each line that it is given."""

    def __init__(self, name, command, log, environment=None):
        self.name = name
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        stderr=log, text=True,
                                        env={**os.environ, **(environment or {})})
        self.lines = queue.Queue()
        self.reader = threading.Thread(target=self._read, daemon=True)
        self.reader.start()

    def _read(self):
        for line in self.process.stdout:
            self.lines.put(line)
        self.lines.put(None)

    def answer(self, seconds):
        try:
            line = self.lines.get(timeout=max(0.1, seconds))
        except queue.Empty:
            raise Failure(f'{self.name}: nothing in {seconds:.0f} s') from None
        if line is None:
            raise Failure(f'{self.name}: ended with status {self.process.wait()}')
        try:
            return json.loads(line)
        except ValueError:
            raise Failure(f'{self.name}: said {line.strip()!r}') from None

    def round(self, seconds=ROUND_S):
        try:
            self.process.stdin.write('\n')
            self.process.stdin.flush()
        except OSError:
            raise Failure(f'{self.name}: ended') from None
        return self.answer(seconds)

    def close(self):
        self.process.kill()
        self.process.wait()
        self.reader.join()
        self.process.stdout.close()
        try:
            self.process.stdin.close()
        except OSError:
            pass  # what was written last had no reader any more


def start_ours(arguments, one, log):
    command = [*arguments.bench, f'--measure={one.measure}', f'--point={one.point}',
               f'--paths={one.paths}', f'--context_rows={one.rows}', f'--runs={one.runs}',
               '--rounds=0', f'--model={one.model}', f'--overlap={str(one.overlap).lower()}',
               *arguments.bench_flags]
    return Contender('gpu_bench', command, log)


def start_theirs(arguments, one, log):
    if not one.baseline:
        return None
    command = [arguments.torch_python, BASELINE, f'--measure={one.measure}', f'--paths={one.paths}',
               f'--context-rows={one.rows}', f'--runs={one.runs}', '--rounds=0',
               *arguments.torch_flags]
    if one.wide:
        command.append('--wide')
    # All of them compile at once, each with threads of its own.
    few_threads = {'TORCHINDUCTOR_COMPILE_THREADS': '2', 'OMP_NUM_THREADS': '2'}
    return Contender('torch_gpu', command, log, few_threads)


def take_turns(ours, theirs, rounds):
    """What `ours` and `theirs`, which may be None, said round by round."""
    said = [], []
    for _ in range(rounds):
        said[0].append(ours.round())
        if theirs is not None:
            said[1].append(theirs.round())
    return said


def summary(name, facts, baseline_facts, ours, theirs):
    ours_us, theirs_us = ([line['us'] for line in said] for said in (ours, theirs))
    line = {'case': name, **facts, 'us': round(statistics.median(ours_us), 2),
            'us_min': round(min(ours_us), 2), 'us_max': round(max(ours_us), 2)}
    if facts.get('floor_us'):
        line['share_of_floor'] = round(facts['floor_us'] / line['us'], 3)
    if theirs_us:
        ratios = [b / a for a, b in zip(ours_us, theirs_us)]
        line['torch_us'] = round(statistics.median(theirs_us), 2)
        line['times_faster'] = round(statistics.median(ratios), 3)
        line['torch_form'] = theirs[-1].get('form')
        line['torch_facts'] = baseline_facts
    return line


class Comparison:
    def __init__(self, arguments, log):
        self.arguments, self.log, self.failed = arguments, log, False
        self.ours, self.theirs, self.facts, self.baseline_facts = {}, {}, {}, {}

    def fail(self, name, why):
        self.failed = True
        print(json.dumps({'case': name, 'failed': str(why)}), flush=True)

    def prepare(self):
        """Starts all, and waits until all are ready. Those that fail are left out."""
        end = time.monotonic() + READY_S
        for name in self.arguments.cases:
            self.theirs[name] = start_theirs(self.arguments, CASES[name], self.log)
        for name in self.arguments.cases:  # one by one: each also runs the CPU backend
            ours = start_ours(self.arguments, CASES[name], self.log)
            try:
                self.facts[name] = ours.answer(end - time.monotonic())
                self.ours[name] = ours
            except Failure as failure:
                ours.close()
                self.fail(name, failure)
        for name, theirs in self.theirs.items():
            if theirs is None:
                continue
            try:
                self.baseline_facts[name] = theirs.answer(end - time.monotonic())
            except Failure as failure:
                theirs.close()
                self.theirs[name] = None
                self.fail(name, failure)

    def measure(self, out):
        for name, ours in self.ours.items():
            if 'skipped' in self.facts[name]:
                self.fail(name, Failure(self.facts[name]['skipped']))
                continue
            theirs = self.theirs[name]
            try:
                said = take_turns(ours, theirs, self.arguments.rounds)
            except Failure as failure:
                self.fail(name, failure)
                continue
            line = json.dumps(summary(name, self.facts[name], self.baseline_facts.get(name), *said))
            print(line, flush=True)
            if out is not None:
                out.write(line + '\n')
                out.flush()

    def close(self):
        for contender in (*self.ours.values(), *self.theirs.values()):
            if contender is not None:
                contender.close()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('--bench', type=shlex.split, required=True)
    parser.add_argument('--bench-flags', type=shlex.split, default=[])
    parser.add_argument('--torch-python', default=sys.executable)
    parser.add_argument('--torch-flags', type=shlex.split, default=[])
    parser.add_argument('--rounds', type=int, default=7)
    parser.add_argument('--cases', nargs='*', default=list(CASES), choices=list(CASES))
    parser.add_argument('--out', type=argparse.FileType('a'))
    parser.add_argument('--log', type=argparse.FileType('a'), default=sys.stderr)
    arguments = parser.parse_args()
    comparison = Comparison(arguments, arguments.log)
    try:
        comparison.prepare()
        comparison.measure(arguments.out)
    finally:
        comparison.close()
    sys.exit(1 if comparison.failed else 0)


if __name__ == '__main__':
    main()
