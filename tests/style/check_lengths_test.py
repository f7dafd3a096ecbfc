#!/usr/bin/env python3
"""Tests of check_lengths.py."""

import unittest

import check_lengths


class CheckLengthsTest(unittest.TestCase):
    def test_a_file_may_have_as_many_lines_as_the_limit(self) -> None:
        self.assertEqual(check_lengths.problems({'a.cc': 400, 'b.py': 1}, {}), [])

    def test_a_longer_file_is_found(self) -> None:
        self.assertEqual(check_lengths.problems({'a.cc': 401}, {}),
                         ['a.cc: has 401 lines; the limit is 400'])

    def test_an_entry_permits_its_lines_and_no_more(self) -> None:
        self.assertEqual(check_lengths.problems({'a.cc': 450}, {'a.cc': 450}), [])
        self.assertEqual(check_lengths.problems({'a.cc': 451}, {'a.cc': 450}),
                         ['a.cc: has 451 lines; the limit is 450'])

    def test_entries_only_shrink(self) -> None:
        self.assertEqual(check_lengths.problems({'a.cc': 420}, {'a.cc': 450}),
                         ['a.cc: has 420 lines; lower its limit of 450 in LONGER'])
        self.assertEqual(check_lengths.problems({'a.cc': 400}, {'a.cc': 450, 'gone.cc': 500}),
                         ['a.cc: has 400 lines; remove it from LONGER',
                          'gone.cc: has 0 lines; remove it from LONGER'])

    def test_the_project_s_files_are_found(self) -> None:
        root = check_lengths.pathlib.Path(check_lengths.__file__).resolve().parents[2]
        lengths = check_lengths.lengths_of(root)
        self.assertLessEqual({'server/server.cc', 'tests/run.sh',
                              'tests/style/check_lengths.py'}, set(lengths))


if __name__ == '__main__':
    unittest.main()
