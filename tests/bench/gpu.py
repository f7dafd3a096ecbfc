#!/usr/bin/env python3
"""Runs on a GPU what can be shown only there.

Usage: tests/bench/gpu.py pack ARCHIVE
       tests/bench/gpu.py run ARCHIVE OUT [STAGE...] [--cases CASE...] [--append]
       tests/bench/gpu.py record OUT...

  pack     builds the programs (needs nvcc) and packs them with their shared libraries and the
           release bundle into a .tar.gz, for a machine with a GPU that cannot build. BUILD names
           another build folder than build/release, JOBS how many things are compiled at once
  run      from a checkout of the same commit: runs the stages (all by default) and leaves
           results.jsonl, record.md and a log per stage in OUT, a new or empty folder; with
           --append, adds to the results that are there. ARCHIVE may also be a folder that it was
           unpacked to. --cases selects cases of the stage bench; run --help lists them. PYTHON
           names the interpreter that has PyTorch, CUBLASLT and CUBLAS the files of libcublasLt and
           libcublas where the loader does not find them. Exit status 1 when anything failed; the
           rest is run nevertheless
  record   prints the record of several folders OUT as one

Stages, each of which ends within ten minutes:
  tests      the tests of the kernels and of the backend, the backend beside the float64 model on
             the GPU, and end-to-end tests
  bench      gpu_bench beside PyTorch, case by case (--cases)
  products   layers and their products beside cuBLASLt
  service    calls through the server beside calls of the engine
  sanitizer  compute-sanitizer: memcheck, racecheck, initcheck, synccheck
  profile    Nsight Compute
"""

import argparse
import contextlib
import datetime
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import textwrap
import time

import gpu_compare
import gpu_record

ROOT = pathlib.Path(__file__).resolve().parents[2]
BASELINES = ROOT / 'tests/bench/baselines'
END_TO_END = [f'end_to_end_{name}_test' for name in ('backend', 'determinism', 'golden', 'sampling')]
# And their seconds. They end with 0 when they find no GPU, and have shown nothing.
GPU_TESTS = {'cuda_kernels_test': 200, 'cuda_backend_test': 200, 'cuda_oracle_test': 300}
PROGRAMS = ['gpu_bench', 'load_bench', *GPU_TESTS, *END_TO_END]
PLUGIN = 'libchorale_cuda.so'
# The loader and the C library are the machine's own.
SYSTEM_LIBRARY = re.compile(r'(ld-linux.*|lib(c|m|dl|rt|pthread|resolv))\.so')
# Tests that skip themselves on a GPU: they need what the emulator has, or another form of a kernel.
NOT_ON_A_GPU = [
    'AttentionTest.AllFormsHaveTheSameBits/Mma', 'GemmTest.AnAlgorithmWithOtherBitsIsNotTaken',
    'GemmTest.BitsAreThoseOfTheAlgorithm', 'OpenCublasLtTest.SaysWhatIsWrong']
# The sanitizers slow kernels down by a factor of up to 100: one test of each kernel.
SANITIZED_TESTS = [
    'AttentionTest.BuffersOfDecodeAndDensity*', '*EncodeAttentionTest.AgreesWithTheReference*',
    '*EncodeAttentionTest.RowsOfBothSweepsInATile*',
    'LayerTest.EveryPart', 'LayerTest.Wgmma', 'LayerTest.Tile', 'LayersTest.SameBitsAsLayerByLayer',
    'WholePathsTest.InfiniteValueReachesLaterPositionsAlone', 'HeadTest.*', 'AdvanceTest.*',
    'EmbedTest.*',
    'CellColumnsTest.*', 'CellPoolTest.*', 'CellRowsTest.*', 'CellSummaryTest.*',
    'FeatureMeanTest.*', 'MeasuringTest.ImportanceAgreesWithReference', 'MergeKeysTest.*',
    'SpreadKeysTest.AgreesWithReference',
    'GemmTest.ScratchLimitsTheLargestLaunch', 'UnfusedRowsTest.*']
# racecheck does not know that a phase of an mbarrier orders accesses: it reports every exchange of
# the kernel of all layers, and the buffers in a ring.
NOT_RACECHECKED_TESTS = [
    'LayersTest.*', 'WholePathsTest.*', 'AttentionTest.BuffersOfDecodeAndDensity/Wgmma',
    'UnfusedRowsTest.AttentionOfOneBlockHasTheBitsOfSplitsThatAreCombined']
PROFILED_KERNELS = ['LayersKernel', 'AttentionKernel', 'MmaLayerKernel', 'WgmmaLayerKernel',
                    'TileLayerKernel']
PRODUCT_POINTS = ['b', 'b_wide', 'b_768', 'b_1024']


# ---- Packing --------------------------------------------------------------------------------

def output_of(*command, stderr=None):
    return subprocess.run(command, check=True, text=True, stdout=subprocess.PIPE,
                          stderr=stderr).stdout.strip()


def commit_of_checkout():
    """None without Git, or where the files were copied without their history."""
    try:
        commit = output_of('git', '-C', ROOT, 'rev-parse', '--short=12', 'HEAD',
                           stderr=subprocess.DEVNULL)
        changes = output_of('git', '-C', ROOT, 'status', '--porcelain', stderr=subprocess.DEVNULL)
    except (OSError, subprocess.CalledProcessError):
        return None
    return f'{commit} with changes' if changes else commit


def shared_libraries(files):
    """Name -> path of what `files` link, without what is part of every system."""
    libraries = {}
    for line in output_of('ldd', *files).splitlines():
        name, arrow, path, *_ = [*line.split(), '', '', '']
        if arrow == '=>' and path == 'not':
            sys.exit(f'not found: {name}')
        if arrow == '=>' and path.startswith('/') and not SYSTEM_LIBRARY.match(name):
            libraries[name] = path
    return libraries


def pack(archive):
    archive = pathlib.Path(archive).resolve()
    os.chdir(ROOT)
    build = pathlib.Path(os.environ.get('BUILD', 'build/release'))
    subprocess.run(['cmake', '--preset', 'release'], check=True, stdout=subprocess.DEVNULL)
    subprocess.run(['ninja', '-C', build, '-j', os.environ.get('JOBS', str(os.cpu_count())),
                    'bundle', 'chorale_cuda', *PROGRAMS], check=True)
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        stripped = [folder / 'lib' / PLUGIN, *(folder / 'bin' / program for program in PROGRAMS)]
        for file in stripped:
            file.parent.mkdir(exist_ok=True)
            (built,) = (path for path in (build / 'lib', build / 'tests')
                        for path in path.rglob(file.name) if path.is_file())
            subprocess.run(['strip', '-o', file, built], check=True)
        for library, path in shared_libraries(stripped).items():
            shutil.copy(path, folder / 'lib' / library)
        (bundle,) = build.glob('bundle/chorale-*.tar.gz')
        shutil.unpack_archive(bundle, folder / 'unpacked')
        (unpacked,) = (folder / 'unpacked').iterdir()
        unpacked.rename(folder / 'bundle')
        commit = commit_of_checkout()
        if commit is None:
            sys.exit('pack needs a Git checkout: the record names the commit')
        (folder / 'commit').write_text(commit + '\n', encoding='utf-8')
        archive.parent.mkdir(parents=True, exist_ok=True)
        subprocess.run(['tar', '-C', folder, '-czf', archive, 'bin', 'lib', 'bundle', 'commit'],
                       check=True)
    print(f'{archive}: {archive.stat().st_size >> 20} MiB, {commit}')


# ---- Running --------------------------------------------------------------------------------

def cuda_of_driver():
    """The newest version of CUDA that the driver supports, as nvidia-smi prints above its table."""
    with contextlib.suppress(OSError, subprocess.CalledProcessError):
        if found := re.search(r'CUDA[\w ]* Version *: *([\d.]+)', output_of('nvidia-smi')):
            return found[1]
    return None


class Run:
    """The programs, the folder of results, and whether anything has failed so far."""

    def __init__(self, programs, out, cases):
        self.programs, self.out, self.cases = programs, out, cases
        self.python = os.environ.get('PYTHON', sys.executable)
        self.log = None  # of the stage
        self.failed = False
        # Only for our programs: Python and NVIDIA's tools have libraries of their own.
        path = ':'.join(filter(None, (f'{programs}/lib', os.environ.get('LD_LIBRARY_PATH'))))
        self.environment = ['env', f'LD_LIBRARY_PATH={path}']
        self.bench_flags, self.test_libraries = [], []
        if cublaslt := os.environ.get('CUBLASLT'):
            self.bench_flags.append(f'--cublaslt={cublaslt}')
            self.test_libraries.append(f'CHORALE_CUBLASLT={cublaslt}')
        if cublas := os.environ.get('CUBLAS'):
            self.test_libraries.append(f'CHORALE_CUBLAS={cublas}')
        # The server of the bundle finds its libraries by itself.
        self.server = programs / 'server'
        self.server.write_text('#!/bin/sh\nunset LD_LIBRARY_PATH\n'
                               f'exec "{programs}/bundle/bin/chorale-server" "$@"\n',
                               encoding='utf-8')
        self.server.chmod(0o755)

    def ours(self, program, *arguments, server=False):
        """The command for one of the packed programs; with the server for those that start it."""
        service = ['CHORALE_TEST_BACKEND=cuda', f'CHORALE_TEST_SERVER={self.server}']
        return [*self.environment, *(service if server else self.test_libraries),
                f'{self.programs}/bin/{program}', *arguments]

    def bench(self, *flags):
        return self.ours('gpu_bench', *self.bench_flags, *flags)

    def add_result(self, line):
        with open(self.out / 'results.jsonl', 'a', encoding='utf-8') as results:
            results.write(json.dumps(line, ensure_ascii=False) + '\n')

    def add_check(self, name, ok, seconds, why=''):
        self.failed |= not ok
        print(f'{"ok  " if ok else "FAIL"}  {name} ({seconds} s{why})', flush=True)
        self.add_result({'check': name, 'ok': ok, 'seconds': seconds})

    def check(self, name, seconds, command):
        """Runs `command` for up to `seconds`; returns what it printed, or None when it failed."""
        start = time.monotonic()
        done = subprocess.run(['timeout', '--kill-after=10', str(seconds), *map(str, command)],
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, errors='replace', check=False)
        status = done.returncode
        if (re.search('|'.join(['gpu_bench', *GPU_TESTS]), ' '.join(map(str, command)))
                and re.search(r'^\[  SKIPPED|"skipped"', done.stdout, re.M)):
            status = status or 77
        self.log.write(f'==== {name}: {" ".join(map(str, command))}\n{done.stdout}')
        self.add_check(name, status == 0, round(time.monotonic() - start),
                       f', status {status}' if status else '')
        if status == 0:
            return done.stdout
        lines = done.stdout.splitlines()
        errors = [line for line in lines if re.search('Failure|FAILED|SKIPPED|"skipped"|[Ee]rror', line)]
        print('\n'.join(line[:300] for line in (*errors[:20], *lines[-8:])))
        return None

    def keep_json(self, output):
        for line in (output or '').splitlines():
            if line.startswith('{'):
                self.add_result(json.loads(line))

    def facts(self):
        def query(*fields):
            with contextlib.suppress(OSError, subprocess.CalledProcessError):
                return output_of('nvidia-smi', f'--query-gpu={",".join(fields)}',
                                 '--format=csv,noheader').splitlines()[0]
            return None
        gpu = query('name')
        if gpu is None:
            self.failed = True
            print('FAIL  there is no GPU; tests that need one are skipped')
        packed = self.programs / 'commit'
        commit = packed.read_text(encoding='utf-8').strip() if packed.exists() else 'unknown'
        if commit != (checkout := commit_of_checkout()):
            print(f'WARNING  the programs are of commit {commit}, the checkout, whose files tests '
                  f'read, of {checkout or "an unknown commit"}')
        facts = {'gpu': gpu or 'none', 'driver': query('driver_version') or 'none',
                 'cuda': cuda_of_driver(), 'commit': commit,
                 'date': str(datetime.datetime.now(datetime.timezone.utc).date())}
        self.add_result(facts)
        print(facts, query('clocks.sm', 'clocks.mem', 'temperature.gpu', 'power.draw', 'memory.used'))


def stage_tests(run):
    for test, seconds in GPU_TESTS.items():
        run.check(test, seconds, run.ours(test, '--gtest_filter=-' + ':'.join(NOT_ON_A_GPU)))
    for test in END_TO_END:
        run.check(test, 90, run.ours(test, server=True))


def stage_bench(run):
    run.keep_json(run.check('ceilings', 60, [run.python, BASELINES / 'torch_ceilings.py']))
    start = time.monotonic()
    with open(run.out / 'bench.err', 'a', encoding='utf-8') as log:
        comparison = gpu_compare.Comparison(
            run.bench(), [run.python, str(BASELINES / 'torch_gpu.py')], log)
        lines = comparison.run(run.cases)
    for line in lines:
        run.add_result(line)
    failed = [line['case'] for line in lines if 'failed' in line]
    run.add_check('compare', not failed, round(time.monotonic() - start), ''.join(
        f', {case} failed' for case in failed))
    run.keep_json(run.check('memory', 50, run.bench(
        '--measure=memory', '--point=c', '--weights_mib=16', '--workspace_mib=256')))


def stage_products(run):
    for point in PRODUCT_POINTS:
        run.keep_json(run.check(f'products_{point}', 120, run.bench(
            '--measure=products', f'--point={point}')))


def stage_service(run):
    run.keep_json(run.check('load_bench', 300, run.ours(
        'load_bench', '--model=models/default', '--duration=5s', '--context_pool_mib=4096',
        '--buffer_pool_mib=16384', server=True)))


def stage_sanitizer(run):
    for tool in ('memcheck', 'racecheck', 'initcheck', 'synccheck'):
        sanitizer = ['compute-sanitizer', '--target-processes', 'all', '--tool', tool,
                     '--error-exitcode', '1']
        tests = ':'.join(SANITIZED_TESTS)
        if tool == 'racecheck':
            tests += '-' + ':'.join(NOT_RACECHECKED_TESTS)
        run.check(f'{tool}_kernels', 110, [*sanitizer, *run.ours(
            'cuda_kernels_test', '--gtest_filter=' + tests)])
        run.check(f'{tool}_backend', 80, [*sanitizer, *run.bench(
            '--point=tiny', '--rounds=1', '--runs=1', '--workspace_mib=64')])


def stage_profile(run):
    """Four launches in the middle of a decode, where buffers are half full.

    A step has 25; at point c, a single one, which computes all layers.

    Caches are left as they are: from one step to the next, weights and contexts stay in L2.
    """
    ncu = ['ncu', '--target-processes', 'all', '--clock-control', 'none', '--cache-control', 'none',
           '--profile-from-start', 'off', '--set', 'full', '--csv', '--page', 'raw',
           '--print-units', 'base', '--kernel-name', 'regex:' + '|'.join(PROFILED_KERNELS),
           '--launch-count', '4']
    encode = ['--measure=encode', '--point=b', '--paths=32', '--context_rows=8192']
    for name, skip, flags in (*((f'decode_{point}', skip, ['--measure=decode', f'--point={point}'])
                                for point, skip in (('b', 402), ('c', 16), ('d', 402))),
                              ('encode_8192', 8, encode)):
        output = run.check(f'profile_{name}', 140, [
            *ncu, '--launch-skip', str(skip),
            *run.bench('--profile', '--overlap=false', *flags)])
        if output is None:
            continue
        launches = gpu_record.profiled_launches(output.splitlines(keepends=True))
        if not launches:
            run.add_check(f'profile_{name}', False, 0, ', no launch was profiled')
        for launch in launches:
            run.add_result({'profile': name, **launch})


STAGES = {'tests': stage_tests, 'bench': stage_bench, 'products': stage_products,
          'service': stage_service, 'sanitizer': stage_sanitizer, 'profile': stage_profile}


def unpacked(archive, stack):
    """The folder of the programs."""
    if archive.is_dir():
        return archive
    if not archive.exists():
        sys.exit(f'{archive}: no such file; gpu.py pack makes it where the programs are built')
    folder = stack.enter_context(tempfile.TemporaryDirectory())
    try:
        shutil.unpack_archive(archive, folder)
    except (shutil.ReadError, EOFError, OSError) as error:
        sys.exit(f'{archive}: not a whole archive of gpu.py pack: {error}')
    return pathlib.Path(folder)


def run_stages(arguments):
    out = pathlib.Path(arguments.out).resolve()
    if (out / 'results.jsonl').exists() and not arguments.append:
        sys.exit(f'{out}: has results of an earlier run; name an empty folder and merge the two '
                 'with gpu.py record, or add --append')
    archive = pathlib.Path(arguments.archive).resolve()
    os.chdir(ROOT)
    os.environ.update(CHORALE_SOURCE_DIR=str(ROOT), PYTHONUNBUFFERED='1',
                      PYTHONDONTWRITEBYTECODE='1')
    with contextlib.ExitStack() as stack:
        programs = unpacked(archive, stack)
        out.mkdir(parents=True, exist_ok=True)
        run = Run(programs, out, arguments.cases)
        run.facts()
        for stage in arguments.stages or STAGES:
            start = time.monotonic()
            with open(out / f'{stage}.log', 'a', encoding='utf-8') as run.log:
                STAGES[stage](run)
            print(f'== {stage}: {time.monotonic() - start:.0f} s', flush=True)
    record = gpu_record.record([out])
    (out / 'record.md').write_text(record + '\n', encoding='utf-8')
    print(record)
    return 1 if run.failed else 0


def main():
    parser = argparse.ArgumentParser(
        usage=argparse.SUPPRESS, description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter, add_help=False)
    parser.add_argument('-h', '--help', action='store_true')
    commands = parser.add_subparsers(dest='command', prog='tests/bench/gpu.py')
    commands.add_parser('pack').add_argument('archive', metavar='ARCHIVE')
    cases = textwrap.fill('cases: ' + ' '.join(gpu_compare.CASES), 96, break_on_hyphens=False)
    run = commands.add_parser(
        'run', epilog=f'stages: {" ".join(STAGES)}\n\n{cases}',
        formatter_class=argparse.RawDescriptionHelpFormatter)
    run.add_argument('archive', metavar='ARCHIVE', help='of pack, or a folder with its contents')
    run.add_argument('out', metavar='OUT', help='new or empty folder for results, logs and record')
    run.add_argument('stages', nargs='*', metavar='STAGE', help='default: all')
    run.add_argument('--cases', nargs='+', metavar='CASE', default=list(gpu_compare.CASES),
                     help='of the stage bench; default: all')
    run.add_argument('--append', action='store_true', help='add to the results in OUT')
    commands.add_parser('record').add_argument('folders', nargs='+', metavar='OUT')
    arguments = parser.parse_args()
    if arguments.command is None:
        print(__doc__.strip())
        return 0 if arguments.help else 2
    if arguments.command == 'pack':
        return pack(arguments.archive)
    if arguments.command == 'record':
        return print(gpu_record.record(arguments.folders))
    for stage in arguments.stages:
        if stage not in STAGES:
            parser.error(f'unknown stage: {stage} (one of: {" ".join(STAGES)})')
    for case in arguments.cases:
        if case not in gpu_compare.CASES:
            parser.error(f'unknown case: {case} (gpu.py run --help lists them)')
    return run_stages(arguments)


if __name__ == '__main__':
    sys.exit(main())
