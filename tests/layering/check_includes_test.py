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

    def write(self, path, *lines):
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text('\n'.join(lines) + '\n', encoding='utf-8')

    def check(self):
        return check_includes.check_tree(self.root)

    def test_a_clean_tree_has_no_violations(self):
        self.write('kernels/ops/linear.h', '#include <cstdint>', '#include "absl/status/status.h"')
        self.write('base/mutex.h', '#include <mutex>')
        self.write('engine/backend/backend.h', '#include "base/mutex.h"',
                   '#include "kernels/ops/linear.h"')
        self.write('engine/engine.h', '#include "engine/backend/backend.h"')
        self.write('server/codec.h', '#include "engine/engine.h"', '#include <grpcpp/grpcpp.h>',
                   '#include "chorale/v1/chorale.pb.h"')
        self.write('client/cpp/client.h', '#include "chorale/v1/chorale.grpc.pb.h"')
        self.assertEqual(self.check(), [])

    def test_every_forbidden_edge_is_found(self):
        edges = {
            'kernels/a.cc': ('engine/x.h', 'grpcpp/grpcpp.h', 'google/protobuf/message.h',
                             'prometheus/counter.h', 'absl/container/flat_hash_map.h', 'fcntl.h'),
            'engine/a.cc': ('server/x.h', 'grpcpp/grpcpp.h', 'google/protobuf/message.h',
                            'prometheus/counter.h', 'chorale/v1/chorale.pb.h', 'client/x.h'),
            'engine/data/a.cc': ('engine/model/x.h', 'engine/x.h', 'engine/store/x.h',
                                 'kernels/x.h'),
            'engine/model/a.cc': ('engine/data/x.h', 'engine/backend/x.h', 'sqlite3.h'),
            'engine/store/a.cc': ('engine/model/x.h', 'engine/backend/x.h', 'kernels/x.h'),
            'engine/backend/a.cc': ('engine/store/x.h', 'engine/x.h'),
            'server/a.cc': ('client/x.h', 'kernels/x.h', 'CLI/CLI.hpp'),
            'client/a.cc': ('server/x.h', 'engine/x.h', 'kernels/x.h', 'prometheus/counter.h'),
        }
        for folder in ('kernels', 'engine', 'engine/data', 'engine/model', 'engine/store',
                       'engine/backend', 'server', 'client'):
            self.write(f'{folder}/x.h')
        for path, includes in edges.items():
            self.write(path, *(f'#include "{include}"' for include in includes))
        found = {tuple(violation.split(':')[:2]) for violation in self.check()}
        expected = {(path, str(number)) for path, includes in edges.items()
                    for number in range(1, len(includes) + 1)}
        self.assertEqual(found, expected)

    def test_angle_brackets_and_spaces_do_not_hide_an_edge(self):
        self.write('engine/x.h')
        self.write('kernels/a.cc', '  #  include <engine/x.h>')
        self.assertEqual(self.check(), ['kernels/a.cc:1: must not include "engine/x.h"'])

    def test_a_header_that_does_not_exist_is_named(self):
        self.write('server/a.cc', '#include "engine/gone.h"')
        self.assertEqual(self.check(),
                         ['server/a.cc:1: includes "engine/gone.h", which does not exist'])

    def test_tests_may_include_everything(self):
        self.write('tests/a_test.cc', '#include "kernels/x.h"', '#include "server/x.h"')
        self.assertEqual(self.check(), [])

    def test_exit_code(self):
        script = check_includes.__file__
        self.write('engine/x.h')
        self.assertEqual(subprocess.run([sys.executable, script, self.root]).returncode, 0)
        self.write('kernels/a.cc', '#include "engine/x.h"')
        run = subprocess.run([sys.executable, script, self.root], capture_output=True, text=True)
        self.assertEqual(run.returncode, 1)
        self.assertIn('kernels/a.cc:1', run.stdout)


if __name__ == '__main__':
    unittest.main()
