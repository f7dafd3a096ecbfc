#!/usr/bin/env python3
"""Programs take turns, and one that fails takes no other with it."""

import argparse
import io
import json
import os
import stat
import sys
import tempfile
import unittest
from contextlib import redirect_stdout

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import compare_gpu  # noqa: E402

# Says that it is ready, then a time of its own for each line; ends early or says nothing when told.
STUB = '''#!{python}
import json, sys
arguments = ' '.join(sys.argv)
if 'context' in arguments and '{dies_at}' in arguments:
    sys.exit(3)
print(json.dumps({{"measure": "decode", "floor_us": 40, "arguments": arguments}}), flush=True)
for round, _ in enumerate(sys.stdin):
    print(json.dumps({{"us": {us} * (1 + round), "form": "best"}}), flush=True)
'''


class CompareGpuTest(unittest.TestCase):

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def stub(self, name, us, dies_at='never'):
        path = os.path.join(self.folder, name)
        with open(path, 'w', encoding='utf-8') as file:
            file.write(STUB.format(python=sys.executable, us=us, dies_at=dies_at))
        os.chmod(path, stat.S_IRWXU)
        return path

    def compare(self, ours, theirs, cases):
        arguments = argparse.Namespace(bench=[ours], bench_flags=['--more'], torch_python=theirs,
                                       torch_flags=[], rounds=3, cases=cases)
        with open(os.path.join(self.folder, 'log'), 'w', encoding='utf-8') as log:
            comparison = compare_gpu.Comparison(arguments, log)
            out = io.StringIO()
            try:
                with redirect_stdout(io.StringIO()) as printed:
                    comparison.prepare()
                    comparison.measure(out)
            finally:
                comparison.close()
        self.assertTrue(set(out.getvalue().splitlines()) <= set(printed.getvalue().splitlines()))
        return comparison.failed, [json.loads(line) for line in printed.getvalue().splitlines()]

    def test_turns(self):
        failed, (line,) = self.compare(self.stub('ours', 100), self.stub('theirs', 300),
                                       ['decode_b'])
        self.assertFalse(failed)
        self.assertEqual(line['us'], 200)  # the median of 100, 200, 300
        self.assertEqual((line['us_min'], line['us_max'], line['torch_us']), (100, 300, 600))
        self.assertEqual((line['times_faster'], line['torch_form']), (3, 'best'))
        self.assertEqual(line['share_of_floor'], 0.2)
        self.assertIn('--paths=512 --context_rows=1024 --runs=3 --rounds=0 --model= --overlap=true --more',
                      line['arguments'])
        self.assertNotIn('--wide', line['torch_facts']['arguments'])

    def test_a_model_without_a_baseline(self):
        failed, (line,) = self.compare(self.stub('ours', 1), '/nowhere', ['encode_default_1024'])
        self.assertFalse(failed)
        self.assertNotIn('torch_us', line)

    def test_the_baseline_fails(self):
        theirs = self.stub('theirs', 300, dies_at='--wide')
        failed, lines = self.compare(self.stub('ours', 100), theirs, ['decode_b_wide', 'decode_b'])
        self.assertTrue(failed)
        self.assertEqual(lines[0], {'case': 'decode_b_wide',
                                    'failed': 'torch_gpu: ended with status 3'})
        self.assertNotIn('torch_us', lines[1])
        self.assertEqual(lines[2]['torch_us'], 600)

    def test_ours_fails(self):
        ours = self.stub('ours', 100, dies_at='8192')
        failed, lines = self.compare(ours, self.stub('theirs', 300), ['decode_d', 'decode_e'])
        self.assertTrue(failed)
        self.assertEqual(lines[0], {'case': 'decode_d', 'failed': 'gpu_bench: ended with status 3'})
        self.assertEqual([line['case'] for line in lines], ['decode_d', 'decode_e'])


if __name__ == '__main__':
    unittest.main()
