#!/usr/bin/env python3
"""run_gpu.sh from end to end, with stubs for all programs: what it runs, keeps and reports."""

import json
import os
import stat
import subprocess
import sys
import tempfile
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.join(HERE, '..', '..')

NVIDIA_SMI = '''#!/bin/sh
case "$*" in
  *query-gpu=name*) echo "Stub Card" ;;
  *driver_version*) echo "1.2.3" ;;
  *) echo "345 MHz" ;;
esac
'''
PASSES = '''#!/bin/sh
echo "golden_tiny mean: worst absolute error 0.001"
echo "with $LD_LIBRARY_PATH, in $CHORALE_SOURCE_DIR"
'''
FAILS = '''#!/bin/sh
echo "a_test.cc:12: Failure"
exit 1
'''
SANITIZER = '''#!/bin/sh
echo "$*" >>"$TOOLS/sanitizer.txt"
'''
NCU = '''#!/bin/sh
echo "$*" >>"$TOOLS/ncu.txt"
echo "==PROF== Connected"
echo '"ID","Kernel Name","Grid Size","Block Size","gpu__time_duration.sum"'
echo '"","","","","ns"'
echo '"0","AttentionKernel(AttentionParams)","(4, 16, 1)","(128, 1, 1)","4500"'
'''
# gpu_bench: the memory line, or the protocol of compare_gpu.py.
GPU_BENCH = '''#!/bin/sh
case "$*" in
  *--measure=memory*) echo '{"measure": "memory", "B": 4096, "context_range_bytes": 1048576}' ;;
  *) echo '{"measure": "decode", "floor_us": 10}'
     while read -r line; do echo '{"us": 20}'; done ;;
esac
'''
LOAD_BENCH = '''#!/bin/sh
echo "backend $CHORALE_TEST_BACKEND, server $CHORALE_TEST_SERVER"
echo '{"measure": "load", "sessions": 8, "share_of_engine": 0.95}'
'''
# The interpreter, but the baseline does not need PyTorch.
PYTHON = '''#!/bin/sh
case "$1" in
  *torch_gpu.py) echo '{"torch": "2"}'
                 while read -r line; do echo '{"us": 60}'; done ;;
  *torch_ceilings.py) echo '{"copy_tb_per_s": 4, "bf16_tflop_per_s": 700}' ;;
  *) exec @PYTHON@ "$@" ;;
esac
'''


class RunGpuTest(unittest.TestCase):

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        self.out = os.path.join(self.folder, 'out')
        for name, text in (('nvidia-smi', NVIDIA_SMI), ('compute-sanitizer', SANITIZER),
                           ('ncu', NCU), ('python', PYTHON.replace('@PYTHON@', sys.executable))):
            self.script('tools', name, text)
        for name in ('cuda_kernels_test', 'cuda_backend_test', 'end_to_end_backend_test',
                     'end_to_end_determinism_test', 'end_to_end_golden_test',
                     'end_to_end_sampling_test'):
            self.script('programs/bin', name, PASSES)
        self.script('programs/bin', 'gpu_bench', GPU_BENCH)
        self.script('programs/bin', 'load_bench', LOAD_BENCH)
        self.write('programs', 'commit', 'abc123\n')

    def write(self, folder, name, text):
        path = os.path.join(self.folder, folder, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, 'w', encoding='utf-8') as file:
            file.write(text)
        return path

    def script(self, folder, name, text):
        os.chmod(self.write(folder, name, text), stat.S_IRWXU)

    def run_stages(self, *stages, programs='programs'):
        tools = os.path.join(self.folder, 'tools')
        environment = {**os.environ, 'PATH': f'{tools}:{os.environ["PATH"]}', 'TOOLS': tools,
                       'PYTHON': os.path.join(tools, 'python')}
        done = subprocess.run([os.path.join(HERE, 'run_gpu.sh'), os.path.join(self.folder, programs),
                               self.out, *stages], env=environment, text=True, timeout=120,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
        return done.returncode, done.stdout

    def read(self, name):
        with open(os.path.join(self.out, name), encoding='utf-8') as file:
            return file.read()

    def results(self):
        return [json.loads(line) for line in self.read('results.jsonl').splitlines()]

    def test_all_stages(self):
        status, shown = self.run_stages()
        self.assertEqual(status, 0, shown)
        record = self.read('record.md')
        self.assertIn('# Stub Card', record)
        self.assertIn('Commit abc123; driver 1.2.3.', record)
        self.assertIn('golden_tiny mean: worst absolute error 0.001', record)
        self.assertIn('A copy moves 4 TB/s', record)
        for stage in ('Decode', 'Service', 'Memory', 'Profile'):
            self.assertIn(f'## {stage}', record)
        self.assertTrue(shown.rstrip().endswith(record.rstrip()))
        self.assertLess(len(shown), 12000)
        self.assertIn(f'{self.folder}/programs/lib, in {os.path.realpath(ROOT)}',
                      self.read('tests.log'))
        self.assertLessEqual(len(os.listdir(self.out)), 8, os.listdir(self.out))

        lines = {line['case']: line for line in self.results() if 'case' in line}
        self.assertEqual(lines['decode_c']['times_faster'], 3)
        self.assertEqual(lines['decode_c']['share_of_floor'], 0.5)
        self.assertNotIn('torch_us', lines['encode_default_1024'])
        self.assertEqual([line['kernel'] for line in self.results() if 'profile' in line],
                         4 * ['AttentionKernel'])

    def test_an_archive_and_one_stage(self):
        archive = os.path.join(self.folder, 'programs.tar.gz')
        subprocess.run(['tar', '-C', os.path.join(self.folder, 'programs'), '-czf', archive, '.'],
                       check=True)
        status, shown = self.run_stages('service', programs='programs.tar.gz')
        self.assertEqual(status, 0, shown)
        self.assertIn('backend cuda, server /', self.read('service.log'))
        self.assertEqual([line['check'] for line in self.results() if 'check' in line],
                         ['load_bench'])

    def test_a_failure_is_shown_and_the_rest_is_run(self):
        self.script('programs/bin', 'cuda_kernels_test', FAILS)
        status, shown = self.run_stages('tests')
        self.assertEqual(status, 1)
        self.assertIn('FAIL  cuda_kernels_test', shown)
        self.assertIn('a_test.cc:12: Failure', shown)
        self.assertIn('ok    cuda_backend_test', shown)
        self.assertIn('| cuda_kernels_test | FAILED |', self.read('record.md'))

    def test_a_missing_program_and_an_unknown_stage(self):
        os.remove(os.path.join(self.folder, 'programs/bin/gpu_bench'))
        status, shown = self.run_stages('profile')
        self.assertEqual(status, 1)
        self.assertIn('gpu_bench: not among the programs', shown)
        self.assertEqual(self.run_stages('profil')[0], 2)


if __name__ == '__main__':
    unittest.main()
