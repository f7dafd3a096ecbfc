#!/usr/bin/env python3
"""Tests the form of the public API by buf, and that a change of it breaks no client.

Usage: api_test.py (in an environment with tests/client/python/stubs_requirements.txt)
       api_test.py --update   writes proto/chorale/v1/released.binpb, after a release with additions
"""

from __future__ import annotations

import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

PROTO = pathlib.Path(__file__).resolve().parents[2] / 'proto'
API = 'chorale/v1/chorale.proto'
# The messages and methods that are frozen, without comments. buf compares the API with them.
RELEASED = PROTO / 'chorale/v1/released.binpb'
BUF = pathlib.Path(sys.executable).parent / 'buf'


def buf(*arguments: str, proto: pathlib.Path = PROTO) -> subprocess.CompletedProcess[str]:
    """Runs buf in a folder of protos, without a network."""
    with tempfile.TemporaryDirectory() as home:
        environment = {**os.environ, 'HOME': home, 'XDG_CACHE_HOME': home, 'XDG_CONFIG_HOME': home}
        return subprocess.run([str(BUF), *arguments], cwd=proto, env=environment, text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)


class ApiTest(unittest.TestCase):
    def _with(self, old: str, new: str) -> pathlib.Path:
        """A copy of the protos in which a text of the API is another."""
        folder = pathlib.Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, folder)
        proto = folder / 'proto'
        shutil.copytree(PROTO, proto)
        text = (proto / API).read_text()
        self.assertIn(old, text)
        (proto / API).write_text(text.replace(old, new))
        return proto

    def test_follows_the_rules(self) -> None:
        result = buf('lint')
        self.assertEqual(result.returncode, 0, result.stdout)

    def test_breaks_no_client(self) -> None:
        result = buf('breaking', '--against', str(RELEASED))
        self.assertEqual(result.returncode, 0, result.stdout)

    def test_a_broken_rule_is_found(self) -> None:
        result = buf('lint', proto=self._with('STATE_RESIDENT = 3', 'RESIDENT = 3'))
        self.assertNotEqual(result.returncode, 0)
        self.assertIn('Enum value name "RESIDENT" should be prefixed with "STATE_"', result.stdout)

    def test_a_breaking_change_is_found(self) -> None:
        for old, new, found in (
                ('int64 path_count = 3', 'int32 path_count = 3', 'changed type'),
                ('  string digest = 2', '  string sha = 2', 'changed name'),
                ('rpc GetModel(', 'rpc ShowModel(', 'was deleted')):
            result = buf('breaking', '--against', str(RELEASED), proto=self._with(old, new))
            self.assertNotEqual(result.returncode, 0, old)
            self.assertIn(found, result.stdout)


def update() -> None:
    """Writes RELEASED."""
    result = buf('build', '--path', API, '--exclude-source-info', '-o', str(RELEASED))
    if result.returncode != 0:
        sys.exit(result.stdout)


if __name__ == '__main__':
    if sys.argv[1:] == ['--update']:
        update()
    else:
        unittest.main()
