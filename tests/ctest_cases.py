#!/usr/bin/env python3
"""Counts the test cases of one CTest run and names those that failed.

Usage: ctest_cases.py CTEST_JUNIT_XML GTEST_XML_FOLDER

A GoogleTest program leaves NAME.xml in the folder (GTEST_OUTPUT), and its cases are counted one by
one. Any other program is one case. A program that CTest saw fail although none of its cases did
(a sanitizer report at exit, a crash, a time-out) counts as one more failed case.

Prints the failed cases, then, on the last line: PASSED FAILED SKIPPED.
"""

import dataclasses
import pathlib
import sys
import xml.etree.ElementTree as ElementTree


@dataclasses.dataclass
class Count:
    passed: int = 0
    skipped: int = 0
    failed: list = dataclasses.field(default_factory=list)  # names

    def __iadd__(self, other):
        self.passed += other.passed
        self.skipped += other.skipped
        self.failed += other.failed
        return self


def count_gtest(program, report):
    """The cases in one GoogleTest report."""
    count = Count()
    for case in ElementTree.parse(report).getroot().iter('testcase'):
        name = f'{program}: {case.get("classname")}.{case.get("name")}'
        if case.find('failure') is not None:
            count.failed.append(name)
        elif case.get('status') == 'notrun' or case.get('result') in ('skipped', 'suppressed'):
            count.skipped += 1
        else:
            count.passed += 1
    return count


def skipped_itself(case):
    """CTest also says 'skipped' of a program that it could not find; that is a failure."""
    skipped = case.find('skipped')
    return skipped is not None and skipped.get('message', '').startswith('SKIP_')


def count_program(case, reports):
    """The cases of one program that CTest ran."""
    program = case.get('name')
    status = case.get('status')
    if status == 'disabled' or skipped_itself(case):
        return Count(skipped=1)
    succeeded = status == 'run'
    report = reports / f'{program}.xml'
    if not report.is_file():
        return Count(passed=1) if succeeded else Count(failed=[f'{program} (ended abnormally)'])
    count = count_gtest(program, report)
    if not succeeded and not count.failed:
        count.failed.append(f'{program} (failed outside its cases)')
    return count


def count_run(junit, reports):
    total = Count()
    for case in ElementTree.parse(junit).getroot().iter('testcase'):
        total += count_program(case, reports)
    return total


def main():
    total = count_run(pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]))
    for name in total.failed:
        print(f'FAILED {name}')
    print(total.passed, len(total.failed), total.skipped)


if __name__ == '__main__':
    main()
