#!/usr/bin/env python3
"""gpu.py from end to end, with stubs for all programs: what it runs, keeps and reports."""

import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import gpu  # noqa: E402
import gpu_compare  # noqa: E402
import gpu_record  # noqa: E402

TOOLS = {
    'nvidia-smi': 'case "$*" in *driver_version*) echo 1.2.3 ;; *--query*) echo "Stub Card" ;;'
                  ' *) echo "| Driver Version: 1.2.3   CUDA Version: 13.1 |" ;; esac',
    'compute-sanitizer': 'echo "$*"',
    'ncu': '''
echo "==PROF== Connected"
echo '"ID","Kernel Name","Grid Size","Block Size","gpu__time_duration.sum"'
echo '"","","","","ns"'
echo '"0","void unnamed>::AttentionKernel<64>(unnamed>::Params)","(4, 16, 1)","(128, 1, 1)","4500"' ''',
    # The interpreter, but the baselines do not need PyTorch. One is killed while it gets ready.
    'python': f'''
case "$*" in
  *torch_ceilings.py) echo '{{"copy_tb_per_s": 4, "bf16_tflop_per_s": 700}}' ;;
  *torch_gpu.py*--paths=64*--context-rows=1024*) exit 3 ;;
  *torch_gpu.py*) echo '{{"torch": "2", "told": "'"$*"'"}}'
                  while read -r line; do echo '{{"us": 60, "form": "best"}}'; done ;;
  *) exec {sys.executable} "$@" ;;
esac''',
}
PASSES = '''
echo "golden_tiny mean: worst absolute error 0.001"
echo "golden_tiny mean: worst absolute error 0.001"
echo "with $LD_LIBRARY_PATH, in $CHORALE_SOURCE_DIR, server $CHORALE_TEST_SERVER"
echo "libraries $CHORALE_CUBLASLT $CHORALE_CUBLAS" '''
PROGRAMS = {
    **{name: PASSES for name in gpu.PROGRAMS},
    # Rounds of 10, 20, 30, ... microseconds.
    'gpu_bench': '''
case "$*" in
  *--measure=memory*) echo '{"measure": "memory", "B": 4096, "context_range_bytes": 1048576}' ;;
  *--measure=products*) echo '{"measure": "products", "rows": 8192, "wide_layer_us": 50,' \\
                             '"mlp_up": {"us": 20, "tflop_per_s": 600.25}, "told": "'"$*"'"}' ;;
  *) echo '{"measure": "decode", "B": 4096, "floor_us": 10, "told": "'"$*"'"}'
     us=0; while read -r line; do us=$((us + 10)); echo "{\\"us\\": $us}"; done ;;
esac''',
    'load_bench': '''
echo "backend $CHORALE_TEST_BACKEND"
echo '{"measure": "load", "sessions": 8, "engine": {"values_per_second": 1e6}}' ''',
}


class GpuTest(unittest.TestCase):

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name).resolve()
        self.out = self.folder / 'out'
        self.write('programs/bin', PROGRAMS)
        self.write('tools', TOOLS)
        (self.folder / 'programs/commit').write_text('abc123\n', encoding='utf-8')

    def write(self, folder, scripts):
        (self.folder / folder).mkdir(parents=True, exist_ok=True)
        for name, text in scripts.items():
            (self.folder / folder / name).write_text(f'#!/bin/sh\n{text}\n', encoding='utf-8')
            (self.folder / folder / name).chmod(0o700)

    def run_stages(self, *arguments, programs='programs', environment=()):
        tools = self.folder / 'tools'
        done = subprocess.run(
            [sys.executable, gpu.__file__, 'run', self.folder / programs, self.out, *arguments],
            env={**os.environ, 'PATH': f'{tools}:{os.environ["PATH"]}',
                 'PYTHON': str(tools / 'python'), **dict(environment)},
            text=True, timeout=120, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
        return done.returncode, done.stdout

    def read(self, name):
        return (self.out / name).read_text(encoding='utf-8')

    def results(self, key):
        lines = map(json.loads, self.read('results.jsonl').splitlines())
        return {line[key]: line for line in lines if key in line}

    def test_all_stages(self):
        cases = ('decode_c', 'decode_b_wide', 'encode_default_1024')
        status, printed = self.run_stages(*gpu.STAGES, '--cases', *cases)
        self.assertEqual(status, 0, printed)
        record = self.read('record.md')
        for text in ('# Stub Card', 'Commit abc123; driver 1.2.3, CUDA 13.1.',
                     'A copy moves 4 TB/s',
                     '| decode_c | 4,096 | – | – | – | – | 40 | 60 | best | 1.5 | 10 | 0.25 | – | – |',
                     '| 8 | – | – | – | 1,000,000 | – | – | – | – | – |',
                     '| 4,096 | – | – | 1 | – |', '| racecheck_kernels | ok |',
                     '| decode_b | AttentionKernel<64> | (4, 16, 1) | 4.5 |',
                     '- golden_tiny mean: worst absolute error 0.001'):
            self.assertIn(text, record)
        self.assertEqual(record.count('- golden_tiny mean'), 1)
        for name in ('case', 'mean error, worst', 'Service', 'Memory', 'Products', 'stalls',
                     'Errors against float64'):
            self.assertIn(f'- **{name}**', record.partition('## Key\n')[2])
        self.assertLess(max(map(len, record.partition('## Key\n')[2].splitlines())), 141)
        self.assertTrue(printed.rstrip().endswith(record.rstrip()))
        tests = self.read('tests.log')
        self.assertIn(f'{self.folder}/programs/lib, in {gpu.ROOT}, server \n', tests)
        self.assertIn(f'server {self.folder}/programs/server', tests)
        self.assertIn('backend cuda', self.read('service.log'))

        lines = self.results('case')
        self.assertEqual(list(lines), list(cases))
        self.assertEqual([lines['decode_c'][name] for name in ('us_min', 'us', 'us_max')],
                         [10, 40, 70])
        self.assertIn('--measure=decode --paths=4096 --runs=3 --rounds=0 --point=c '
                      '--context_rows=1024 --model= --overlap=true', lines['decode_c']['told'])
        self.assertNotIn('torch_us', lines['encode_default_1024'])

    def test_wide_models_and_the_libraries_that_they_need(self):
        status, printed = self.run_stages(
            'tests', 'bench', 'products', '--cases', 'decode_b_768', 'encode_8192_1024',
            environment={'CUBLASLT': '/a/lt.so', 'CUBLAS': '/a/blas.so'})
        self.assertEqual(status, 0, printed)
        lines = self.results('case')
        self.assertIn('--d-model=768 --heads=12 --d-ff=3072',
                      lines['decode_b_768']['torch_facts']['told'])
        self.assertIn('--context-rows=8192 --d-model=1024 --heads=16 --d-ff=4096',
                      lines['encode_8192_1024']['torch_facts']['told'])
        self.assertIn('--cublaslt=/a/lt.so --measure=encode --paths=32',
                      lines['encode_8192_1024']['told'])
        self.assertIn('--point=b_1024 --context_rows=8192', lines['encode_8192_1024']['told'])
        self.assertEqual('--cublaslt=/a/lt.so --measure=products --point=b_1024',
                         self.results('measure')['products']['told'])
        for text in ('| – | – | – | – | 8,192 | – | – | 50 | – | – | – | – | 20 | 600 | – |',
                     '| products_b | ok |'):
            self.assertIn(text, self.read('record.md'))
        # The server takes a variable that begins like this for a flag of its own.
        self.assertEqual(self.read('tests.log').count('libraries /a/lt.so /a/blas.so\n'),
                         len(gpu.GPU_TESTS))

    def test_a_case_whose_baseline_fails(self):
        status, printed = self.run_stages('bench', '--cases', 'decode_e', 'decode_b')
        self.assertEqual(status, 1, printed)
        self.assertIn('torch_gpu: ended with status 3', printed)
        lines = self.results('case')
        self.assertNotIn('torch_us', lines['decode_e'])
        self.assertEqual(lines['decode_b']['torch_us'], 60)
        self.assertIn('| compare | FAILED |', self.read('record.md'))

    def test_a_case_whose_program_fails(self):
        self.write('programs/bin', {'gpu_bench': 'case "$*" in *--point=b*) exit 4 ;; esac\n' +
                                                 PROGRAMS['gpu_bench']})
        status, printed = self.run_stages('bench', '--cases', 'decode_b', 'decode_c')
        self.assertEqual(status, 1)
        self.assertIn('gpu_bench: ended with status 4', printed)
        self.assertEqual(self.results('case')['decode_c']['torch_us'], 60)

    def test_pack(self):
        build, tools = self.folder / 'build', self.folder / 'tools'
        for path in ('lib/' + gpu.PLUGIN, *(f'tests/some/folder/{name}' for name in gpu.PROGRAMS)):
            (build / path).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(shutil.which('bash'), build / path)
        (self.folder / 'chorale-1/bin').mkdir(parents=True)
        shutil.make_archive(build / 'bundle/chorale-1', 'gztar', self.folder, 'chorale-1')
        self.write('tools', {'cmake': '', 'ninja': f'echo "$*" >{tools}/built'})
        subprocess.run([sys.executable, gpu.__file__, 'pack', self.folder / 'new/packed.tar.gz'],
                       env={**os.environ, 'PATH': f'{tools}:{os.environ["PATH"]}',
                            'BUILD': str(build)}, check=True, stdout=subprocess.DEVNULL)
        self.assertIn('bundle chorale_cuda gpu_bench', (tools / 'built').read_text())
        shutil.unpack_archive(self.folder / 'new/packed.tar.gz', self.folder / 'packed')
        names = {str(path.relative_to(self.folder / 'packed'))
                 for path in (self.folder / 'packed').rglob('*')}
        self.assertLessEqual({'commit', 'bundle/bin', 'lib/' + gpu.PLUGIN,
                              *(f'bin/{name}' for name in gpu.PROGRAMS)}, names)
        self.assertTrue([name for name in names if name.startswith('lib/libtinfo.so')])
        self.assertNotIn('lib/libc.so.6', names)

    def test_an_archive_and_one_stage(self):
        archive = self.folder / 'programs.tar.gz'
        subprocess.run(['tar', '-C', self.folder / 'programs', '-czf', archive, '.'], check=True)
        status, printed = self.run_stages('service', programs='programs.tar.gz')
        self.assertEqual(status, 0, printed)
        self.assertEqual(list(self.results('check')), ['load_bench'])
        self.assertIn('**Service**', self.read('record.md'))
        self.assertNotIn('**stalls**', self.read('record.md'))

    def test_an_archive_that_is_missing_or_damaged(self):
        for archive, message in (('none.tar.gz', 'no such file'),
                                 ('tools/ncu', 'not a whole archive')):
            status, printed = self.run_stages('service', programs=archive)
            self.assertEqual(status, 1)
            self.assertIn(message, printed)
            self.assertNotIn('Traceback', printed)
            self.assertFalse(self.out.exists())

    def test_results_of_an_earlier_run(self):
        self.run_stages('service')
        before = self.read('results.jsonl')
        status, printed = self.run_stages('service')
        self.assertEqual(status, 1)
        self.assertIn('has results of an earlier run', printed)
        self.assertEqual(self.read('results.jsonl'), before)
        status, printed = self.run_stages('service', '--append')
        self.assertEqual(status, 0, printed)
        self.assertEqual(self.read('record.md').count('| load_bench | ok |'), 2)

    def test_programs_of_another_commit(self):
        status, printed = self.run_stages('service')
        self.assertEqual(status, 0, printed)
        self.assertIn('WARNING  the programs are of commit abc123, the checkout', printed)
        if commit := gpu.commit_of_checkout():
            (self.folder / 'programs/commit').write_text(commit + '\n', encoding='utf-8')
            status, printed = self.run_stages('service', '--append')
            self.assertNotIn('WARNING', printed)

    def test_help(self):
        done = subprocess.run([sys.executable, gpu.__file__, 'run', '--help'], check=True,
                              text=True, stdout=subprocess.PIPE, env={**os.environ, 'COLUMNS': '100'})
        self.assertTrue(done.stdout.startswith('usage: tests/bench/gpu.py run '))
        self.assertLess(max(map(len, done.stdout.splitlines())), 101)
        self.assertTrue(set(gpu_compare.CASES) <= set(done.stdout.split()))

    def test_a_failure_is_shown_and_the_rest_is_run(self):
        (self.folder / 'programs/bin/end_to_end_golden_test').unlink()
        self.write('programs/bin', {'cuda_kernels_test': 'echo "a_test.cc:12: Failure"; exit 1',
                                    'cuda_backend_test': 'echo "[  SKIPPED ] no GPU"'})
        status, printed = self.run_stages('tests')
        self.assertEqual(status, 1)
        for text in ('a_test.cc:12: Failure', 'FAIL  cuda_backend_test (0 s, status 77)',
                     'FAIL  end_to_end_golden_test', 'ok    end_to_end_sampling_test'):
            self.assertIn(text, printed)
        self.assertIn('| cuda_kernels_test | FAILED |', self.read('record.md'))

    def test_an_unknown_stage(self):
        status, printed = self.run_stages('profil')
        self.assertEqual(status, 2)
        self.assertIn('unknown stage: profil', printed)
        status, printed = self.run_stages('bench', '--cases', 'decode_x')
        self.assertEqual(status, 2)
        self.assertIn('unknown case: decode_x', printed)

    def test_numbers_of_a_launch(self):
        columns = {
            'ID': '0', 'Kernel Name': 'AttentionKernel(AttentionParams)', 'Grid Size': '(4, 16, 1)',
            'Block Size': '(128, 1, 1)', 'gpu__time_duration.sum': '12,345',
            'sm__inst_executed_pipe_tensor.avg.pct_of_peak_sustained_active': '',
            'sm__inst_executed_pipe_tensor_op_hmma.avg.pct_of_peak_sustained_active': '41.5',
            'sm__inst_executed_pipe_tensor_op_hmma.max.pct_of_peak_sustained_active': '83',
            'lts__throughput.avg.pct_of_peak_sustained_elapsed': '20',
            'smsp__average_warps_issue_stalled_barrier_per_issue_active.ratio': '0.5',
            'smsp__average_warps_issue_stalled_wait_per_issue_active.ratio': '1.25',
            'smsp__average_warps_issue_stalled_long_scoreboard_per_issue_active.ratio': '3',
            'smsp__average_warps_issue_stalled_math_pipe_throttle_per_issue_active.ratio': 'n/a'}
        table = [','.join(f'"{text}"' for text in row) + '\n' for row in (
            columns, [''] * len(columns), columns.values())]
        self.assertEqual(gpu_record.profiled_launches(['==PROF== Connected\n', *table]), [{
            'kernel': 'AttentionKernel', 'grid': '(4, 16, 1)', 'block': '(128, 1, 1)', 'us': 12.35,
            'tensor_pct': 41.5, 'l2_pct': 20.0,
            'stalls': {'long_scoreboard': 3.0, 'wait': 1.25, 'barrier': 0.5}}])
        self.assertEqual(gpu_record.profiled_launches(['==ERROR== no permission\n']), [])

    def test_names_of_kernels(self):
        for name, kernel in (('void unnamed>::WgmmaLayerKernel<1, 1>(P)', 'WgmmaLayerKernel<1, 1>'),
                             ('void chorale::(anonymous namespace)::K<2>(int)', 'K<2>'),
                             ('AttentionKernel(unnamed>::P)', 'AttentionKernel')):
            self.assertEqual(gpu_record.launch({'Kernel Name': name})['kernel'], kernel)

    def test_names_of_tests_and_kernels_are_those_of_the_sources(self):
        def text(folder, pattern):
            return '\n'.join(path.read_text(encoding='utf-8')
                             for path in (gpu.ROOT / folder).rglob(pattern))
        tests = re.findall(r'^TEST(?:_P|_F)?\((\w+), (\w+)\)', text('tests/kernels/cuda', '*.cc'), re.M)
        for suite, _, name in (pattern.partition('.') for pattern in gpu.SANITIZED_TESTS):
            self.assertTrue([test for test in tests if test[0] == suite.lstrip('*')
                             and name.rstrip('*') in ('', test[1])], f'{suite}.{name}')
        kernels = text('kernels/cuda', '*.cu')
        for kernel in gpu.PROFILED_KERNELS:
            self.assertIn(f' {kernel}(', kernels)


if __name__ == '__main__':
    unittest.main()
