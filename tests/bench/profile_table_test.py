#!/usr/bin/env python3
import os
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import profile_table  # noqa: E402

HEADER = ['ID', 'Kernel Name', 'Block Size', 'Grid Size', 'gpu__time_duration.sum',
          'sm__inst_executed_pipe_tensor.avg.pct_of_peak_sustained_active',
          'sm__inst_executed_pipe_tensor_op_hmma.avg.pct_of_peak_sustained_active',
          'sm__inst_executed_pipe_xu.avg.pct_of_peak_sustained_active',
          'lts__throughput.avg.pct_of_peak_sustained_elapsed', 'launch__registers_per_thread',
          'smsp__average_warps_issue_stalled_barrier_per_issue_active.ratio',
          'smsp__average_warps_issue_stalled_wait_per_issue_active.ratio',
          'smsp__average_warps_issue_stalled_long_scoreboard_per_issue_active.ratio',
          'smsp__average_warps_issue_stalled_math_pipe_throttle_per_issue_active.ratio']
UNITS = ['', '', '', '', 'ns', '%', '%', '%', '%', 'register/thread', '', '', '', '']
LAUNCH = ['0', 'AttentionKernel(AttentionParams)', '(128, 1, 1)', '(4, 16, 1)', '12,345', '', '41.5',
          '63.25', '20', '168', '0.5', '1.25', '3', 'n/a']


def text(*rows):
    return [','.join(f'"{cell}"' for cell in row) + '\n' for row in rows]


class ProfileTableTest(unittest.TestCase):

    def test_numbers_of_a_launch(self):
        lines = ['==PROF== Connected to process 1\n', *text(HEADER, UNITS, LAUNCH)]
        self.assertEqual(profile_table.launches(lines), [{
            'kernel': 'AttentionKernel', 'grid': '(4, 16, 1)', 'block': '(128, 1, 1)', 'us': 12.35,
            'tensor_pct': 41.5, 'mufu_pct': 63.25, 'l2_pct': 20.0, 'registers': 168.0,
            'stalls': {'long_scoreboard': 3.0, 'wait': 1.25, 'barrier': 0.5}}])

    def test_no_table(self):
        self.assertEqual(profile_table.launches(['==ERROR== no permission\n']), [])


if __name__ == '__main__':
    unittest.main()
