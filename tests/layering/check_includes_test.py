"""Tests check_includes.py on small trees with known violations."""

import pathlib
import subprocess
import sys
import tempfile
import unittest

import check_includes


class CheckIncludesTest(unittest.TestCase):

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name)

    def write(self, path, *includes):
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(''.join(f'#include {include}\n' for include in includes), encoding='utf-8')

    def check(self):
        return check_includes.check_tree(self.root)

    def test_a_clean_tree_has_no_violations(self):
        self.write('base/mutex.h', '<mutex>', '"absl/time/time.h"')
        self.write('kernels/ops/linear.h', '<cstdint>', '"absl/status/status.h"', '"base/mutex.h"')
        self.write('engine/backend/backend.h', '"base/mutex.h"')
        self.write('engine/api/engine.h', '"engine/backend/backend.h"')
        self.write('engine/api/call.h')
        self.write('engine/session/a.h', '"engine/api/call.h"', '"kernels/ops/linear.h"')
        self.write('engine/session/b.h', '"engine/session/a.h"')
        self.write('server/codec/a.h', '"engine/api/engine.h"', '<grpcpp/grpcpp.h>',
                   '"chorale/v1/chorale.pb.h"')
        self.write('client/cpp/client.h', '"chorale/v1/chorale.grpc.pb.h"')
        self.assertEqual(self.check(), [])

    def test_every_forbidden_edge_is_found(self):
        edges = {
            'base/a.cc': ('engine/api/x.h', 'kernels/ops/x.h', 'spdlog/spdlog.h', 'fcntl.h'),
            'kernels/cpu/a.cc': ('engine/api/x.h', 'kernels/cuda/ptx/x.h', 'grpcpp/grpcpp.h',
                                 'absl/container/flat_hash_map.h', 'Random123/philox.h'),
            'kernels/cuda/ptx/a.cuh': ('kernels/cuda/layer/x.h', 'kernels/ops/x.h',
                                       'cuda_runtime_api.h'),
            'engine/api/a.cc': ('server/x.h', 'engine/session/x.h', 'engine/backend/x.h',
                            'grpcpp/grpcpp.h', 'google/protobuf/message.h', 'sqlite3.h',
                            'prometheus/counter.h', 'chorale/v1/chorale.pb.h', 'tests/x.h'),
            'engine/data/a.cc': ('engine/model/x.h', 'engine/api/x.h', 'engine/store/x.h'),
            'engine/session/a.cc': ('engine/api/x.h', 'engine/composition/x.h', 'engine/scheduling/x.h',
                                    'engine/store/x.h'),
            'engine/backend/cpu/a.cc': ('engine/backend/cuda/x.h', 'kernels/cpu/x.h'),
            'engine/backend/a.cc': ('engine/backend/cpu/x.h', 'engine/store/x.h', 'engine/api/x.h'),
            'server/rpc/a.cc': ('client/cpp/x.h', 'kernels/ops/x.h', 'server/x.h', 'CLI/CLI.hpp'),
            'client/cpp/a.cc': ('client/cli/x.h', 'engine/api/x.h', 'prometheus/counter.h'),
        }
        for includes in edges.values():
            for include in includes:
                if include.endswith('/x.h'):
                    self.write(include)
        for path, includes in edges.items():
            self.write(path, *(f'"{include}"' for include in includes))
        found = {tuple(violation.split(':')[:2]) for violation in self.check()}
        expected = {(path, str(number)) for path, includes in edges.items()
                    for number in range(1, len(includes) + 1)}
        self.assertEqual({edge for edge in found if edge[0] != 'cycle'}, expected)

    def test_an_entry_for_a_folder_does_not_count_for_folders_in_it(self):
        self.write('engine/backend/cuda/x.h')
        self.write('engine/backend/row_encoder/a.cc', '"engine/backend/cuda/x.h"')
        self.assertEqual(
            self.check(),
            ['engine/backend/row_encoder/a.cc:1: must not include "engine/backend/cuda/x.h"'])

    def test_a_single_header_may_be_allowed(self):
        self.write('engine/model/model_config.h')
        self.write('engine/data/a.cc', '"engine/model/model_config.h"')
        self.assertEqual(self.check(), [])

    def test_the_engine_s_interface_is_not_included_below_it(self):
        self.write('engine/api/engine.h')
        for folder in ('engine/context', 'engine/session', 'engine/scheduling'):
            self.write(f'{folder}/a.h', '"engine/api/engine.h"')
            self.assertIn(f'{folder}/a.h:1: must not include "engine/api/engine.h"', self.check())
        self.write('engine/composition/a.h', '"engine/api/engine.h"')
        self.assertFalse(any(line.startswith('engine/composition') for line in self.check()))

    def test_angle_brackets_and_spaces_do_not_hide_an_edge(self):
        self.write('engine/api/x.h')
        self.write('base/a.cc')
        (self.root / 'base/a.cc').write_text('  #  include <engine/api/x.h>\n', encoding='utf-8')
        self.assertEqual(self.check(), ['base/a.cc:1: must not include "engine/api/x.h"'])

    def test_a_header_that_does_not_exist_is_named(self):
        self.write('server/a.cc', '"engine/gone.h"')
        self.assertEqual(self.check(),
                         ['server/a.cc:1: includes "engine/gone.h", which does not exist'])

    def test_a_folder_without_an_entry_is_named(self):
        self.write('engine/new/a.cc', '<vector>')
        self.assertEqual(
            self.check(),
            ['engine/new/a.cc:1: FOLDERS of check_includes.py has no entry for engine/new'])

    def test_a_cycle_of_folders_is_printed(self):
        # No file includes itself, not even by way of others: only the folders form a cycle.
        self.write('engine/store/x.h')
        self.write('engine/data/x.h', '"engine/store/x.h"')
        self.write('engine/store/y.h', '"engine/data/y.h"')
        self.write('engine/data/y.h')
        self.write('engine/api/engine.h', '"engine/store/y.h"')
        self.assertEqual(self.check(),
                         ['engine/data/x.h:1: must not include "engine/store/x.h"',
                          'cycle: engine/store -> engine/data -> engine/store'])

    def test_longer_cycles(self):
        edges = {'a': {'b', 'd'}, 'b': {'c'}, 'c': {'d'}, 'd': set()}
        self.assertIsNone(check_includes.find_cycle(edges))
        edges['d'] = {'b'}
        self.assertEqual(check_includes.find_cycle(edges), ['b', 'c', 'd', 'b'])

    def test_tests_may_include_everything(self):
        self.write('tests/a_test.cc', '"kernels/x.h"', '"server/x.h"')
        self.assertEqual(self.check(), [])

    def test_every_folder_named_is_there(self):
        root = pathlib.Path(__file__).resolve().parents[2]
        for folder, allowed in check_includes.FOLDERS.items():
            for name in (folder, *allowed.split()):
                self.assertTrue((root / name).exists(), f'{name} in the entry of {folder}')

    def test_exit_code(self):
        script = check_includes.__file__
        self.write('engine/api/x.h')
        self.assertEqual(subprocess.run([sys.executable, script, self.root]).returncode, 0)
        self.write('base/a.cc', '"engine/api/x.h"')
        run = subprocess.run([sys.executable, script, self.root], capture_output=True, text=True)
        self.assertEqual(run.returncode, 1)
        self.assertIn('base/a.cc:1', run.stdout)


if __name__ == '__main__':
    unittest.main()
