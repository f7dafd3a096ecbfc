"""gpu_bench beside PyTorch on the same GPU in the same minutes, case by case.

Both programs of a case get ready first, and say so; PyTorch compiles, which takes a minute, so all
of its programs do that at once, and nothing is timed until the last one is ready. Then the two take
turns, round by round, so that a GPU whose clocks drift slows both.
"""

import dataclasses
import json
import os
import pathlib
import select
import statistics
import subprocess
import time

DEFAULT_MODEL = str(pathlib.Path(__file__).resolve().parents[2] / 'models/default')
READY_S = 280
ROUND_S = 60
ALL_S = 460
ROUNDS = 7


@dataclasses.dataclass(frozen=True)
class Case:
    """Flags of both programs. `model`: a folder instead of the point's own model."""
    measure: str
    point: str
    paths: int
    rows: int
    baseline: bool = True
    model: str = ''
    overlap: bool = True  # of kernels with the ones before them

    def flags(self):
        runs = 1 if self.rows > 16384 else 3
        return [f'--measure={self.measure}', f'--paths={self.paths}', f'--runs={runs}', '--rounds=0']


# B and Nctx of each point. Those with _h32 have heads of 32, the others heads of 64.
SIZES = {'a': (512, 100), 'b': (512, 1024), 'c': (4096, 1024), 'd': (64, 8192), 'e': (64, 1024),
         'b_wide': (512, 1024), 'c_wide': (4096, 1024)}
POINTS = {**SIZES, **{f'{point}_h32': size for point, size in SIZES.items()},
          'b_768': (512, 1024), 'b_1024': (512, 1024)}
# Suffix of a point -> D, heads and Dff of its model.
SHAPES = {'_wide_h32': (256, 8, 1024), '_h32': (128, 4, 256), '_wide': (256, 4, 1024),
          '_768': (768, 12, 3072), '_1024': (1024, 16, 4096), '': (128, 2, 256)}
CONTEXTS = (1024, 8192, 65536)
CASES = {
    **{f'decode_{point}': Case('decode', point, *size) for point, size in POINTS.items()},
    **{f'density_{point}': Case('density', point, 512, 1024) for point in ('b', 'b_h32')},
    **{f'encode_{rows}{suffix}': Case('encode', f'b{suffix}', 32, rows)
       for suffix in ('', '_h32') for rows in CONTEXTS},
    **{f'encode_8192_{width}': Case('encode', f'b_{width}', 32, 8192) for width in (768, 1024)},
    **{f'decode_{point}_apart': Case('decode', point, *POINTS[point], baseline=False, overlap=False)
       for point in 'abc'},
    # The model that is shipped, whose rows are encoded with a look at the whole context.
    'decode_default_b': Case('decode', 'b', 512, 1024, baseline=False, model=DEFAULT_MODEL),
    **{f'encode_default_{rows}': Case('encode', 'b', 32, rows, baseline=False, model=DEFAULT_MODEL)
       for rows in CONTEXTS},
}


class Failure(Exception):
    pass


class Contender:
    """A program that prints a JSON line when it is ready, and one for each line that it reads."""

    def __init__(self, name, command, log, environment=()):
        self.name = name
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True, bufsize=1,
            env={**os.environ, **dict(environment)})

    def answer(self, seconds):
        if not select.select([self.process.stdout], [], [], max(0.1, seconds))[0]:
            raise Failure(f'{self.name}: nothing in {seconds:.0f} s')
        line = self.process.stdout.readline()
        if not line:
            raise Failure(f'{self.name}: ended with status {self.process.wait()}')
        try:
            return json.loads(line)
        except ValueError:
            raise Failure(f'{self.name}: said {line.strip()!r}') from None

    def round(self, seconds):
        try:
            self.process.stdin.write('\n')
        except OSError:
            raise Failure(f'{self.name}: ended') from None
        return self.answer(seconds)

    def close(self):
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()
        try:
            self.process.stdin.close()
        except OSError:
            pass  # the last line had no reader any more


def summary(name, facts, baseline_facts, ours, theirs):
    """One line per case: medians, and the median of the ratios of neighbouring rounds."""
    times = [line['us'] for line in ours]
    line = {'case': name, **facts, 'us': round(statistics.median(times), 2),
            'us_min': round(min(times), 2), 'us_max': round(max(times), 2)}
    if line.get('floor_us'):
        line['share_of_floor'] = round(line['floor_us'] / line['us'], 3)
    if theirs:
        line['torch_us'] = round(statistics.median(other['us'] for other in theirs), 2)
        line['times_faster'] = round(
            statistics.median(other['us'] / time for time, other in zip(times, theirs)), 3)
        line['torch_form'] = theirs[-1].get('form')
        line['torch_facts'] = baseline_facts
    return line


class Comparison:
    """bench, baseline: the commands, without flags. log: the file for their stderr."""

    def __init__(self, bench, baseline, log):
        self.bench, self.baseline, self.log = bench, baseline, log
        self.ours, self.theirs, self.lines = {}, {}, []
        self.start = time.monotonic()

    def left(self, seconds):
        return seconds - (time.monotonic() - self.start)

    def start_ours(self, case):
        return Contender('gpu_bench', [
            *self.bench, *case.flags(), f'--point={case.point}', f'--context_rows={case.rows}',
            f'--model={case.model}', f'--overlap={str(case.overlap).lower()}'], self.log)

    def start_theirs(self, case):
        # All of them compile at once, each with few threads.
        threads = {'TORCHINDUCTOR_COMPILE_THREADS': '2', 'OMP_NUM_THREADS': '2'}
        width, heads, hidden = next(
            shape for suffix, shape in SHAPES.items() if case.point.endswith(suffix))
        return Contender('torch_gpu', [
            *self.baseline, *case.flags(), f'--context-rows={case.rows}', f'--d-model={width}',
            f'--heads={heads}', f'--d-ff={hidden}'], self.log, threads)

    def add(self, line):
        print(json.dumps(line), flush=True)
        self.lines.append(line)

    def get_ready(self, name, contenders):
        """What contenders[name] says when it is ready; it is removed when it fails."""
        try:
            return contenders[name].answer(self.left(READY_S))
        except Failure as failure:
            contenders.pop(name).close()
            self.add({'case': name, 'failed': str(failure)})
            return None

    def measure(self, name, facts, baseline_facts):
        ours, theirs = [], []
        try:
            if 'skipped' in facts:
                raise Failure(facts['skipped'])
            for _ in range(ROUNDS):
                for contenders, said in ((self.ours, ours), (self.theirs, theirs)):
                    if name in contenders:
                        said.append(contenders[name].round(min(ROUND_S, self.left(ALL_S))))
            self.add(summary(name, facts, baseline_facts, ours, theirs))
        except Failure as failure:
            self.add({'case': name, 'failed': str(failure)})

    def run(self, cases):
        """Measures the cases; returns a line for each, and one with "failed" for each failure."""
        try:
            self.theirs = {name: self.start_theirs(CASES[name])
                           for name in cases if CASES[name].baseline}
            facts, baseline_facts = {}, {}
            for name in cases:  # one by one: each also runs the CPU backend
                self.ours[name] = self.start_ours(CASES[name])
                facts[name] = self.get_ready(name, self.ours)
            for name in list(self.theirs):
                baseline_facts[name] = self.get_ready(name, self.theirs)
            for name in list(self.ours):
                self.measure(name, facts[name], baseline_facts.get(name))
        finally:
            for contender in (*self.ours.values(), *self.theirs.values()):
                contender.close()
        return self.lines
