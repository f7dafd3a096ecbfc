"""Tests ctest_cases.py on reports of the form that CTest and GoogleTest write."""

import pathlib
import tempfile
import unittest

import ctest_cases

CTEST = """<?xml version="1.0"?>
<testsuite name="t" tests="6">
  <testcase name="good_test" status="run"/>
  <testcase name="bad_test" status="fail"><failure message=""/></testcase>
  <testcase name="leaky_test" status="fail"><failure message=""/></testcase>
  <testcase name="crashed_test" status="fail"><failure message="SEGFAULT"/></testcase>
  <testcase name="script" status="run"/>
  <testcase name="unbuilt_test" status="notrun">
    <skipped message="Unable to find executable: unbuilt_test"/></testcase>
  <testcase name="optional_test" status="notrun">
    <skipped message="SKIP_RETURN_CODE=77"/></testcase>
</testsuite>
"""

GOOD = """<?xml version="1.0"?>
<testsuites tests="3" failures="0" disabled="1">
  <testsuite name="A">
    <testcase name="One" status="run" result="completed" classname="A"/>
    <testcase name="Two" status="run" result="completed" classname="A"/>
    <testcase name="Three" status="run" result="skipped" classname="A"><skipped/></testcase>
    <testcase name="DISABLED_Four" status="notrun" result="suppressed" classname="A"/>
  </testsuite>
</testsuites>
"""

BAD = """<?xml version="1.0"?>
<testsuites tests="2" failures="1" disabled="0">
  <testsuite name="B">
    <testcase name="One" status="run" result="completed" classname="B"/>
    <testcase name="Two" status="run" result="completed" classname="B">
      <failure message="no"/></testcase>
  </testsuite>
</testsuites>
"""


class CtestCasesTest(unittest.TestCase):

    def test_every_kind_of_end_is_counted(self):
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            (folder / 'ctest.xml').write_text(CTEST)
            (folder / 'good_test.xml').write_text(GOOD)
            (folder / 'bad_test.xml').write_text(BAD)
            (folder / 'leaky_test.xml').write_text(GOOD)
            count = ctest_cases.count_run(folder / 'ctest.xml', folder)
        self.assertEqual(count.passed, 2 + 1 + 2 + 1)  # good, bad, leaky, script
        self.assertEqual(count.skipped, 2 + 2 + 1)  # good, leaky, optional
        self.assertEqual(count.failed, [
            'bad_test: B.Two', 'leaky_test (failed outside its cases)',
            'crashed_test (ended abnormally)', 'unbuilt_test (ended abnormally)'])


if __name__ == '__main__':
    unittest.main()
