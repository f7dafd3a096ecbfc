#!/usr/bin/env python3
import os
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import gpu_record  # noqa: E402

RESULTS = '''{"gpu": "Card", "driver": "1.2", "commit": "abc", "date": "2026-01-02"}
{"copy_tb_per_s": 4.3, "bf16_tflop_per_s": 790.0}
{"check": "kernels", "ok": false, "seconds": 7}
{"case": "decode_b", "measure": "decode", "B": 512, "Nctx": 1024, "T": 32, "us": 160.5, "floor_us": 0.0, "torch_us": 886.0, "times_faster": 5.52, "torch_form": "compiled"}
{"measure": "load", "sessions": 8, "engine": {"values_per_second": 1e6}, "share_of_engine": 0.93}
{"profile": "decode_b", "kernel": "AttentionKernel", "us": 4.5, "stalls": {"wait": 1.5}}
'''


class GpuRecordTest(unittest.TestCase):

    def test_tables(self):
        with tempfile.TemporaryDirectory() as first, tempfile.TemporaryDirectory() as second:
            with open(os.path.join(first, 'results.jsonl'), 'w', encoding='utf-8') as file:
                file.write(RESULTS)
            with open(os.path.join(second, 'tests.log'), 'w', encoding='utf-8') as file:
                file.write('[ OK ] something\ngolden_tiny mean: worst absolute error 0.1\n')
            text = gpu_record.record(*gpu_record.read([first, second]))
        self.assertIn('# Card, 2026-01-02', text)
        self.assertIn('Commit abc; driver 1.2.', text)
        self.assertIn('A copy moves 4.3 TB/s', text)
        self.assertIn('| kernels | FAILED | 7 |', text)
        self.assertIn('| decode_b | 512 | 1,024 | 32 | 160 | 886 | compiled | 5.52 | – | – | – | – |', text)
        self.assertIn('| 8 | – | – | – | 1,000,000 | – | 0.93 | – | – | – |', text)
        self.assertIn('| wait 1.5 |', text)
        self.assertIn('- golden_tiny mean: worst absolute error 0.1', text)
        self.assertNotIn('something', text)
        self.assertNotIn('## Memory', text)


if __name__ == '__main__':
    unittest.main()
